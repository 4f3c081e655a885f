package upload

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
)

// longestIgnore bounds an ignore file, in bytes.
const longestIgnore = 1 << 20

// ErrChanged says that a folder was changed while it was read.
var ErrChanged = errors.New("the folder was changed while it was read: try again when nothing writes there")

// Folder is a listed folder. Its files are read when it is packed.
type Folder struct {
	root    *os.Root
	entries []entry
	Digest  string   // of the archive
	Size    int64    // of the archive, in bytes
	Files   int      // files, folders and links
	LeftOut []string // what no ignore file leaves out but an archive cannot hold, with the reason
}

// entry is one file, folder or link.
type entry struct {
	name   string
	mode   fs.FileMode
	size   int64
	target string // of a link
}

// Open lists a folder. It leaves out what its ignore files say, and what is no file, folder
// or link. It refuses a folder beyond the limits and names what is largest in it. The caller
// must close the result.
func Open(dir string, limits Limits) (*Folder, error) {
	return open(dir, &walker{limits: limits})
}

func open(dir string, w *walker) (f *Folder, err error) {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: errors.New("it is no folder")}
	}
	if err != nil {
		return nil, refused(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refused(dir, err)
	}
	w.f, w.sizes = &Folder{root: root}, map[string]int64{}
	defer func() {
		if err != nil {
			root.Close()
		}
	}()
	if err := w.folder("", nil); err != nil {
		return nil, refused(dir, err)
	}
	if err := w.checkLimits(dir); err != nil {
		return nil, err
	}
	sum, size := sha256.New(), counter(0)
	if err := w.f.Write(io.MultiWriter(sum, &size)); err != nil {
		return nil, refused(dir, err)
	}
	w.f.Digest, w.f.Size = fmt.Sprintf("sha256:%x", sum.Sum(nil)), int64(size)
	if w.bytes = w.f.Size; w.bytes > w.limits.Bytes {
		return nil, w.checkLimits(dir)
	}
	return w.f, nil
}

// refused names the folder and the cause, without the names of system calls.
func refused(dir string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		if at.Path != dir && at.Path != "." {
			return fmt.Errorf("the folder %s cannot be uploaded: %s: %w", dir, at.Path, at.Err)
		}
		err = at.Err
	}
	return fmt.Errorf("the folder %s cannot be uploaded: %w", dir, err)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// walker lists a folder.
type walker struct {
	f      *Folder
	limits Limits
	bytes  int64
	count  int
	sizes  map[string]int64 // of files and folders at the top, with their contents
	counts map[string]int
	// context is set for a build context. It is nil for a folder that has ignore files at
	// every depth.
	context *buildContext
}

// folder lists a folder, with the rules of the folders above it.
func (w *walker) folder(name string, rules []rule) error {
	at := name
	if at == "" {
		at = "."
	}
	rules, err := w.rules(name, rules)
	if err != nil {
		return err
	}
	dir, err := w.f.root.Open(at)
	if err != nil {
		return err
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, one := range found {
		full := path.Join(name, one.Name())
		var err error
		switch {
		case one.Name() == ".git":
		case w.context != nil && w.context.leavesOut(full):
			if one.IsDir() && w.context.mayContain(full) {
				err = w.folder(full, nil)
			}
		case w.context == nil && ignored(rules, full, one.IsDir()):
		default:
			err = w.addEntry(full, one, rules)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rules are the rules of the folders above, and of one folder's ignore files.
func (w *walker) rules(name string, above []rule) ([]rule, error) {
	if w.context != nil {
		if name != "" {
			return nil, nil
		}
		text, err := w.read(dockerIgnore)
		w.context.rules, w.context.keeps = readDockerRules(text)
		return nil, err
	}
	for _, file := range ignoreFiles {
		text, err := w.read(path.Join(name, file))
		if err != nil {
			return nil, err
		}
		above = append(slices.Clip(above), parseRules(name, text)...)
	}
	return above, nil
}

// read reads an ignore file; a missing one is empty.
func (w *walker) read(name string) ([]byte, error) {
	st, err := w.f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if st.Size() > longestIgnore {
		return nil, fmt.Errorf("%s has %s, more than %s", name, Size(st.Size()), Size(longestIgnore))
	}
	return w.f.root.ReadFile(name)
}

// addEntry takes one file, folder or link.
func (w *walker) addEntry(name string, found fs.DirEntry, rules []rule) error {
	st, err := found.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	if why := checkName(name); why != "" {
		return fmt.Errorf("%s %s: leave it out in .combignore, or move it", shown(name), why)
	}
	e := entry{name: name, mode: st.Mode()}
	switch st.Mode().Type() {
	case 0:
		e.size = st.Size()
	case fs.ModeDir:
	case fs.ModeSymlink:
		if e.target, err = w.f.root.Readlink(name); err != nil {
			return err
		}
		if strings.ContainsFunc(e.target, unicode.IsControl) {
			w.leaveOut(name, "a link to a name with a control character")
			return nil
		}
		if !staysInside(name, e.target) {
			w.leaveOut(name, "a link that leads out of the folder")
			return nil
		}
	default:
		w.leaveOut(name, "no file, folder or link")
		return nil
	}
	if w.context == nil {
		w.take(e)
	} else if err := w.takeContext(e); err != nil {
		return err
	}
	if st.IsDir() {
		return w.folder(name, rules)
	}
	return nil
}

// shown is a name that is safe to print on a terminal.
func shown(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

func (w *walker) leaveOut(name, why string) {
	const most = 100
	if len(w.f.LeftOut) < most {
		w.f.LeftOut = append(w.f.LeftOut, fmt.Sprintf("%s is left out: it is %s", name, why))
	}
}

// take counts an entry, and keeps it while the limits hold.
func (w *walker) take(e entry) {
	w.count++
	w.bytes += e.size
	top, _, _ := strings.Cut(e.name, "/")
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.sizes[top] += e.size
	w.counts[top]++
	if w.count <= w.limits.Files {
		w.f.entries = append(w.f.entries, e)
		w.f.Files = w.count
	}
}

// checkLimits refuses a folder beyond the limits.
func (w *walker) checkLimits(dir string) error {
	advice := "leave out what the job does not need in .combignore, which is written as .gitignore is; data belongs in a storage"
	if w.context != nil {
		advice = "leave out what the build does not need in " + dockerIgnore
	}
	switch {
	case w.count > w.limits.Files:
		return fmt.Errorf("the folder %s has %d files, folders and links, more than the %d of an upload; most are in %s: %s",
			dir, w.count, w.limits.Files, largest(w.counts, func(n int) string { return fmt.Sprint(n) }), advice)
	case w.bytes > w.limits.Bytes:
		return fmt.Errorf("the folder %s has %s, more than the %s of an upload; the largest are %s: %s",
			dir, Size(w.bytes), Size(w.limits.Bytes), largest(w.sizes, Size), advice)
	}
	return nil
}

// largest names the five names with the highest numbers.
func largest[N int | int64](of map[string]N, text func(N) string) string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if of[a] != of[b] {
			return int(max(min(of[b]-of[a], 1), -1))
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, name := range names[:min(len(names), 5)] {
		out = append(out, fmt.Sprintf("%s (%s)", name, text(of[name])))
	}
	return strings.Join(out, ", ")
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Write writes the archive. It is the same bytes each time, else the error is ErrChanged.
func (f *Folder) Write(to io.Writer) error {
	w := tar.NewWriter(to)
	for _, e := range f.entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode & permissions), Typeflag: tar.TypeReg, Size: e.size}
		switch e.mode.Type() {
		case fs.ModeDir:
			h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		case fs.ModeSymlink:
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.target, permissions
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := f.copy(w, &e); err != nil {
			return err
		}
	}
	return w.Close()
}

// copy writes the content of a file.
func (f *Folder) copy(to io.Writer, e *entry) error {
	file, err := f.root.OpenFile(e.name, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() != e.size {
		return ErrChanged
	}
	n, err := io.Copy(to, io.LimitReader(file, e.size))
	if err == nil && n != e.size {
		err = ErrChanged
	}
	return err
}
