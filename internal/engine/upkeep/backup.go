package upkeep

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/engine/store"
)

// BackupFormat is the version of the file's layout: a gzip stream of a tar. It has backup.json
// first, then files of the data directory, then sums, with a line "SHA-256 size name" for each
// entry before it.
const BackupFormat = 1

const (
	headName = "backup.json"
	sumsName = "sums"
	maxHead  = 64 << 10
	maxSums  = 256 << 20
	maxFiles = 4 << 20
)

// BackupHead describes a backup: it is its first entry.
type BackupHead struct {
	Format  int    `json:"format"`
	Program string `json:"program"` // the version that made it
	Cluster string `json:"cluster"`
	Created string `json:"created"` // RFC 3339
	Event   uint64 `json:"event"`   // the last event
	Job     int64  `json:"job"`     // the last job
	Logs    bool   `json:"logs"`    // it contains the logs of jobs
}

// BackupReport describes what was made, checked or restored.
type BackupReport struct {
	BackupHead
	Directory string `json:"directory,omitempty"` // of which it was made; only of a new backup
	Path      string `json:"path"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"` // of the files in it
}

// BackupOptions say what else goes into a backup.
type BackupOptions struct {
	Logs    bool   // of jobs, without their work and checkpoints
	Program string // this program's version
	Now     time.Time
}

// What a backup may hold besides the database's files, by names within the data directory.
var (
	uploadFile = regexp.MustCompile(`^uploads/([A-Za-z0-9._=~-]+)/[0-9a-f]{64}[a-z.]{0,16}$`)
	logFile    = regexp.MustCompile(`^jobs/([1-9][0-9]{0,18})/[0-9]{1,10}\.[0-9]{1,10}/[0-9]{1,10}/std(out|err)[0-9.]{0,32}$`)
)

// longestSubject bounds the name of the folder of an upload, in bytes.
const longestSubject = 200

// podFiles are those by which a server on Kubernetes knows its pods: they run on while it is
// restored.
var podFiles = []string{"pod-key", "pod-namespaces", "pod-forgotten", "pod-fenced"}

// kept reports whether a file of the data directory is part of backups.
func kept(name string, logs bool) bool {
	upload := uploadFile.FindStringSubmatch(name)
	return slices.Contains(store.CopyFiles, name) || slices.Contains(podFiles, name) ||
		upload != nil && len(upload[1]) <= longestSubject || logs && logFile.MatchString(name)
}

// CreateBackup writes a backup of a data directory to a new file, which is complete or absent.
func CreateBackup(ctx context.Context, data, file string, o BackupOptions) (r BackupReport, err error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s is there already: give another name", file)
	}
	work, done, err := workFolder(filepath.Dir(file), ".comb-backup-"+filepath.Base(file))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, done()) }()
	// Logs are listed before the database is copied, so that none belongs to a job or attempt
	// that the copy does not know. An upload that is gone when it is read belongs to no waiting
	// job.
	var beside []string
	if o.Logs {
		if beside, err = find(data, "jobs/*/*/*/std*", o); err != nil {
			return r, err
		}
	}
	copied, err := store.Copy(ctx, data, filepath.Join(work, "data"))
	if err != nil {
		return r, err
	}
	pods, err := find(data, "pod-*", o)
	if err != nil {
		return r, err
	}
	beside = append(beside, pods...)
	uploads, err := find(data, "uploads/*/*", o)
	if err != nil {
		return r, err
	}
	r = BackupReport{Directory: data, Path: file, BackupHead: BackupHead{Format: BackupFormat, Program: o.Program, Cluster: copied.Cluster, Created: o.Now.UTC().Format(time.RFC3339),
		Event: copied.Event, Job: int64(copied.Job), Logs: o.Logs}}
	out, err := os.OpenFile(filepath.Join(work, "new"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return r, err
	}
	err = r.write(ctx, out, filepath.Join(work, "data"), data, append(uploads, beside...))
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return r, fmt.Errorf("cannot write the backup: %w", err)
	}
	if err = os.Link(out.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) { // no links here; with them no file is replaced
		err = os.Rename(out.Name(), file)
	}
	if err == nil {
		err = syncDir(filepath.Dir(file))
	}
	return r, err
}

// workFolder makes an empty folder of a fixed name: it removes what a killed run left in it. done
// removes the folder, unless it was renamed.
func workFolder(in, name string) (path string, done func() error, err error) {
	path = filepath.Join(in, name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		return "", nil, fmt.Errorf("%s is in the way, and no folder: move it away", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", nil, errors.Join(fmt.Errorf("another command writes in %s: wait for it", path), f.Close())
	}
	if err := ours(f, path); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
	}
	if err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return path, func() error { return errors.Join(os.RemoveAll(path), f.Close()) }, nil
}

// ours refuses a folder that another user made, can write to, or has replaced meanwhile: its name
// can be guessed.
func ours(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || !os.SameFile(info, now) || int(s.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is in the way, and open to other users: remove it, or write elsewhere", path)
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// find returns the regular files of a data directory that match a pattern and are part of backups.
func find(data, pattern string, o BackupOptions) ([]string, error) {
	found, err := fs.Glob(os.DirFS(data), pattern)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(name string) bool { return !kept(name, o.Logs) }), nil
}

// packer writes entries and remembers their sums.
type packer struct {
	tar  *tar.Writer
	sums bytes.Buffer
	at   time.Time
}

func (r *BackupReport) write(ctx context.Context, to io.Writer, copied, data string, beside []string) error {
	buffered := bufio.NewWriterSize(to, 1<<20)
	zip, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	at, _ := time.Parse(time.RFC3339, r.Created)
	p := packer{tar: tar.NewWriter(zip), at: at}
	head, err := json.MarshalIndent(r.BackupHead, "", "  ")
	if err != nil {
		return err
	}
	if err := p.add(headName, bytes.NewReader(head), int64(len(head))); err != nil {
		return err
	}
	add := func(dir, name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.addFile(dir, name)
		if err == nil {
			r.Files++
			r.Bytes += n
		}
		return err
	}
	for _, name := range store.CopyFiles {
		if err := add(copied, name); err != nil {
			return err
		}
	}
	for _, name := range beside {
		if err := add(data, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	sums := p.sums.Bytes()
	if err := p.add(sumsName, bytes.NewReader(sums), int64(len(sums))); err != nil {
		return err
	}
	return errors.Join(p.tar.Close(), zip.Close(), buffered.Flush())
}

// addFile adds a regular file as it is now, without what is appended meanwhile.
func (p *packer) addFile(dir, name string) (int64, error) {
	root, err := os.OpenRoot(dir) // tasks write beside these files: no link may lead outside
	if err != nil {
		return 0, err
	}
	defer root.Close()
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, fs.ErrNotExist)
	}
	f, err := root.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, fs.ErrNotExist)
	}
	return info.Size(), p.add(name, f, info.Size())
}

func (p *packer) add(name string, from io.Reader, size int64) error {
	if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: p.at, Format: tar.FormatPAX}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyN(io.MultiWriter(p.tar, sum), from, size)
	if err != nil {
		return fmt.Errorf("%s became shorter while it was read (%d of %d bytes): try again (%w)", name, n, size, err)
	}
	fmt.Fprintf(&p.sums, "%s %d %s\n", hex.EncodeToString(sum.Sum(nil)), size, name)
	return nil
}

// ErrBackupDamaged says that a file is not a complete backup.
var ErrBackupDamaged = errors.New("it is no backup, or not a whole one")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBackupDamaged, fmt.Sprintf(format, args...))
}

// unpacker reads entries and compares them with the sums at the end.
type unpacker struct {
	report BackupReport
	into   *os.Root
	sums   bytes.Buffer
	seen   map[string]bool
	made   map[string]bool
}

// ExtractBackup extracts a backup into an empty folder, and returns its description. Every entry
// is compared with its sum.
func ExtractBackup(ctx context.Context, file, into string) (BackupReport, error) {
	root, err := os.OpenRoot(into)
	if err != nil {
		return BackupReport{}, err
	}
	defer root.Close()
	f, err := os.Open(file)
	if err != nil {
		return BackupReport{}, err
	}
	defer f.Close()
	u := unpacker{report: BackupReport{Path: file}, into: root, seen: map[string]bool{}, made: map[string]bool{}}
	if err := u.read(ctx, bufio.NewReaderSize(f, 1<<20)); err != nil {
		return u.report, fmt.Errorf("%s: %w", file, err)
	}
	return u.report, nil
}

func (u *unpacker) read(ctx context.Context, from io.Reader) error {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return damaged("%v", err)
	}
	zip.Multistream(false)
	r := tar.NewReader(zip)
	if err := u.head(r); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := r.Next()
		if err != nil {
			return damaged("it ends before its sums: %v", err)
		}
		if h.Name == sumsName {
			break
		}
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
	told, err := io.ReadAll(io.LimitReader(r, maxSums))
	if err != nil {
		return damaged("its sums: %v", err)
	}
	if !bytes.Equal(told, u.sums.Bytes()) {
		return damaged("%s", firstDifference(u.sums.String(), string(told)))
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return damaged("something stands behind its sums")
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // its own checksum is at its end
		return damaged("%v", err)
	}
	for _, name := range store.CopyFiles {
		if !u.seen[name] {
			return damaged("%s is missing", name)
		}
	}
	return nil
}

func (u *unpacker) head(r *tar.Reader) error {
	h, err := r.Next()
	if err != nil || h.Name != headName || h.Size > maxHead {
		return damaged("it does not begin with %s", headName)
	}
	var text bytes.Buffer
	if err := u.sum(headName, h.Size, io.TeeReader(r, &text), nil); err != nil {
		return err
	}
	if err := json.Unmarshal(text.Bytes(), &u.report.BackupHead); err != nil {
		return damaged("%s: %v", headName, err)
	}
	if u.report.Format != BackupFormat {
		return fmt.Errorf("it has format %d, and this program reads format %d: use the version that made it, %.80q", u.report.Format, BackupFormat, u.report.Program)
	}
	return nil
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	switch {
	case h.Typeflag != tar.TypeReg || !kept(h.Name, true):
		return damaged("%.200q is nothing that a backup has", h.Name)
	case u.seen[h.Name]:
		return damaged("%.200q is there twice", h.Name)
	case len(u.seen) >= maxFiles:
		return damaged("it has more than %d files", maxFiles)
	}
	u.seen[h.Name] = true
	if dir := filepath.Dir(h.Name); !u.made[dir] {
		if err := u.into.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		u.made[dir] = true
	}
	f, err := u.into.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = u.sum(h.Name, h.Size, r, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	u.report.Files++
	u.report.Bytes += h.Size
	return nil
}

// sum copies an entry and notes its sum.
func (u *unpacker) sum(name string, size int64, from io.Reader, to io.Writer) error {
	var sum hash.Hash = sha256.New()
	if to == nil {
		to = io.Discard
	}
	if n, err := io.Copy(io.MultiWriter(to, sum), from); err != nil || n != size {
		if errors.Is(err, io.ErrUnexpectedEOF) || err == nil || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
			return damaged("%s ends after %d of %d bytes", name, n, size)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(&u.sums, "%s %d %s\n", hex.EncodeToString(sum.Sum(nil)), size, name)
	return nil
}

// firstDifference names the first entry that differs from the sums.
func firstDifference(is, told string) string {
	want := strings.Split(told, "\n")
	for i, line := range strings.Split(is, "\n") {
		if i >= len(want) || line != want[i] {
			_, rest, _ := strings.Cut(line, " ")
			size, name, _ := strings.Cut(rest, " ")
			if _, err := strconv.Atoi(size); err != nil {
				break
			}
			return name + " is not what its sum says"
		}
	}
	return "entries are missing that its sums name"
}

// RestoreBackup makes a data directory from a backup, in a folder that is missing or empty. check
// inspects it before it gets its name.
func RestoreBackup(ctx context.Context, file, data string, check func(dir string) error) (r BackupReport, err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return r, err
	}
	if entries, err := os.ReadDir(data); err == nil && len(entries) > 0 {
		return r, fmt.Errorf("%s is not empty: nothing was changed; move what is there away first, and end its server", data)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		return r, err
	}
	work, done, err := workFolder(filepath.Dir(data), ".comb-restore-"+filepath.Base(data))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, done()) }()
	if r, err = ExtractBackup(ctx, file, work); err != nil {
		return r, err
	}
	if err := check(work); err != nil {
		return r, err
	}
	if err := syncTree(work); err != nil {
		return r, err
	}
	return r, errors.Join(os.Rename(work, data), syncDir(filepath.Dir(data))) // an empty folder is replaced; one that was filled meanwhile is not
}

// syncTree makes the names in a folder and its subfolders durable. The contents of the files are
// durable already.
func syncTree(path string) error {
	return filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(at)
	})
}
