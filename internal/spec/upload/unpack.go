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
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// openFlags refuse to open a link, and never wait.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// ErrArchive says that bytes are not a valid upload: the sender must make them again.
var ErrArchive = errors.New("the archive cannot be used")

// mostNames bounds all names of an archive, in bytes. They are held in memory while it is
// read.
const mostNames = 16 << 20

// Contents says what an archive holds.
type Contents struct {
	Digest string
	Size   int64 // of the archive, in bytes
	Files  int
}

// Check reads an archive to its end and writes it nowhere. An entry that Unpack would refuse
// is ErrArchive.
func Check(r io.Reader, limits Limits) (Contents, error) {
	return each(r, limits, func(*tar.Header, io.Reader) error { return nil })
}

// Unpack makes the folders, files and links of an archive in an empty folder, and returns
// what it held. Whatever the archive says, nothing is written outside of the folder, and
// never more than the archive's own size.
func Unpack(r io.Reader, dir string, limits Limits) (Contents, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Contents{}, err
	}
	defer root.Close()
	var folders []*tar.Header // their modes are set after their contents
	held, err := each(r, limits, func(h *tar.Header, content io.Reader) error {
		switch h.Typeflag {
		case tar.TypeDir:
			folders = append(folders, h)
			return root.Mkdir(h.Name, 0o700)
		case tar.TypeSymlink:
			return root.Symlink(h.Linkname, h.Name)
		}
		return create(root, h, content)
	})
	for i := len(folders) - 1; i >= 0 && err == nil; i-- {
		err = root.Chmod(folders[i].Name, fs.FileMode(folders[i].Mode)&permissions)
	}
	return held, err
}

// create makes one file.
func create(root *os.Root, h *tar.Header, content io.Reader) error {
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode) & permissions)
	}
	return errors.Join(err, f.Close())
}

// each reads an archive, and calls do with its entries under clean names, in order.
func each(r io.Reader, limits Limits, do func(*tar.Header, io.Reader) error) (Contents, error) {
	sum, size := sha256.New(), counter(0)
	r = io.TeeReader(io.LimitReader(r, limits.Bytes+1), io.MultiWriter(sum, &size))
	files, err := entries(r, limits.Files, do)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if int64(size) > limits.Bytes {
		err = fmt.Errorf("%w: it has more than %s", ErrArchive, Size(limits.Bytes))
	}
	return Contents{Digest: fmt.Sprintf("sha256:%x", sum.Sum(nil)), Size: int64(size), Files: files}, err
}

// entries reads an archive up to its end.
func entries(r io.Reader, most int, do func(*tar.Header, io.Reader) error) (files int, err error) {
	archive, seen, letters := tar.NewReader(r), map[string]bool{"": true}, 0
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return files, broken(err)
		}
		if h.Name = strings.TrimPrefix(h.Name, "./"); h.Typeflag == tar.TypeDir && (h.Name == "" || h.Name == ".") {
			continue // the folder itself, which tar lists
		}
		files++
		letters += len(h.Name)
		if files > most || letters > mostNames {
			return files, fmt.Errorf("%w: it has more than %d files, folders and links, or more than %s of names", ErrArchive, most, Size(mostNames))
		}
		if why := checkEntry(h, seen); why != "" {
			return files, fmt.Errorf("%w: its entry %.200q %s", ErrArchive, h.Name, why)
		}
		content := &part{Reader: archive, left: h.Size}
		if err := do(h, content); err != nil {
			return files, broken(err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return files, broken(err)
		}
	}
}

// part is the content of one file. It turns the end of an archive inside it into an error.
type part struct {
	io.Reader
	left int64
}

func (p *part) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.left -= int64(n)
	if err == io.EOF && p.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// broken marks an error of a corrupt archive as ErrArchive. Others stay as they are.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return err
}

// checkEntry says what is wrong with an entry, and cleans its name; "" is nothing wrong. Each
// name comes once, after the folder that it is in, so no name can lead through a link.
func checkEntry(h *tar.Header, folders map[string]bool) string {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if why := checkName(name); why != "" {
		return why
	}
	above := path.Dir(name)
	if above == "." {
		above = ""
	}
	_, twice := folders[name]
	switch {
	case twice:
		return "comes twice"
	case !folders[above]:
		return "comes before its folder"
	}
	folders[name] = h.Typeflag == tar.TypeDir
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse") {
			return "has holes: write it as it is"
		}
	}
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeReg:
	case tar.TypeSymlink:
		if strings.ContainsFunc(h.Linkname, unicode.IsControl) {
			return fmt.Sprintf("is a link to %.200q, which has a control character in its name", h.Linkname)
		}
		if !staysInside(name, h.Linkname) {
			return fmt.Sprintf("is a link to %.200q, which may lead out of the folder", h.Linkname)
		}
	default:
		return "is neither a file nor a folder nor a symbolic link"
	}
	if h.Size > 0 && h.Typeflag != tar.TypeReg {
		return "has a size, and is no file"
	}
	h.Name = name
	return ""
}
