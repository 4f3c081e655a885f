package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DepotOptions are the limits of a depot. A zero value is the default in brackets.
type DepotOptions struct {
	Limits Limits        // of one upload [Default]
	Quota  int64         // bytes of all uploads of one subject [10 GiB]
	Unused time.Duration // how long an upload that no job uses is kept [1 h]
	Room   func() error  // says why the disk should take no more; nil where it may
	Log    *slog.Logger
}

// Each subject sends one upload at a time, and the server receives at most mostAtOnce: so no
// subject holds up all others.
const mostAtOnce = 32

// The errors of Put and Link.
var (
	ErrNoUpload = errors.New("there is no such upload")
	ErrDigest   = errors.New("what was sent is something else")
	ErrQuota    = errors.New("there is no room for another upload")
	ErrBusy     = errors.New("uploads are under way")
	ErrFull     = errors.New("the disk takes no more")
)

// Depot keeps uploads. Its methods may be called from many goroutines.
type Depot struct {
	dir string
	o   DepotOptions

	mu      sync.Mutex      // of coming; also held while uploads are linked or erased
	sending map[string]bool // folders of subjects that are sending

	hashing  sync.Mutex
	verified map[string]version // the version in which each upload was last found intact, by its path
}

// version is what the file system tells of a file. It changes when the file does.
type version struct {
	inode   uint64
	size    int64
	changed time.Time
}

// minFileAge is the least age of a file's last change at which a later change is sure to show in
// its version.
const minFileAge = time.Second

const (
	suffix = ".tar"
	fresh  = ".new" // suffix of an upload that is not complete
)

// OpenDepot opens a depot, and makes its folder. It removes uploads that are not complete.
func OpenDepot(dir string, o DepotOptions) (*Depot, error) {
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = Default.Bytes
	}
	if o.Limits.Files <= 0 {
		o.Limits.Files = Default.Files
	}
	if o.Quota <= 0 {
		o.Quota = 10 << 30
	}
	if o.Unused <= 0 {
		o.Unused = time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of uploads: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"+fresh))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove an upload that did not come in full: %w", err)
		}
	}
	return &Depot{dir: dir, o: o, sending: map[string]bool{}}, nil
}

// Limits are the limits of one upload, and the bytes of all uploads of a subject.
func (d *Depot) Limits() (Limits, int64) { return d.o.Limits, d.o.Quota }

// DepotKey names an upload among those of all subjects, as Sweep expects it.
func DepotKey(subject, digest string) string {
	return filepath.Join(folder(subject), strings.TrimPrefix(digest, "sha256:")+suffix)
}

// folder is the name of a subject's folder: a hash, since a subject may have any characters.
func folder(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(sum[:16])
}

// Upload is one upload that is kept.
type Upload struct {
	Digest string
	Size   int64
	Used   time.Time // when it was last sent, or named by a job
	Jobs   int       // how many jobs have it linked beside their files
}

// List returns the uploads of a subject, in order of their digests.
func (d *Depot) List(subject string) (list []Upload, err error) {
	found, err := os.ReadDir(filepath.Join(d.dir, folder(subject)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, one := range found {
		name, whole := strings.CutSuffix(one.Name(), suffix)
		st, statErr := one.Info()
		if !whole || statErr != nil {
			continue
		}
		list = append(list, Upload{"sha256:" + name, st.Size(), st.ModTime(), links(st) - 1})
	}
	return list, err
}

func links(st fs.FileInfo) int {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(s.Nlink)
	}
	return 1
}

// Has returns the size in bytes of a subject's upload, and marks it as used now.
func (d *Depot) Has(subject, digest string) (size int64, ok bool) {
	if !ValidDigest(digest) {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	path := filepath.Join(d.dir, DepotKey(subject, digest))
	st, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	now := time.Now()
	return st.Size(), os.Chtimes(path, now, now) == nil
}

// Size is the size in bytes of a subject's upload; 0 where there is none.
func (d *Depot) Size(subject, digest string) int64 {
	if st, err := os.Lstat(filepath.Join(d.dir, DepotKey(subject, digest))); err == nil && ValidDigest(digest) {
		return st.Size()
	}
	return 0
}

// Put receives an upload. If it is there already nothing is read. Errors are those above,
// ErrArchive, and those of r and of the disk.
func (d *Depot) Put(subject, digest string, r io.Reader) (size int64, err error) {
	if size, ok := d.Has(subject, digest); ok {
		return size, nil
	}
	if !ValidDigest(digest) {
		return 0, fmt.Errorf("%w: %.100q is no digest: want sha256: and 64 hexadecimal digits", ErrDigest, digest)
	}
	name := folder(subject)
	if err := d.begin(name); err != nil {
		return 0, err
	}
	defer d.end(name)
	room, err := d.room(subject)
	if err != nil {
		return 0, err
	}
	path := filepath.Join(d.dir, DepotKey(subject, digest))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, disk(err)
	}
	size, err = d.receive(path+fresh, digest, room, r)
	if err == nil {
		err = os.Rename(path+fresh, path)
	}
	if err != nil {
		return 0, errors.Join(disk(err), removed(path+fresh))
	}
	return size, disk(syncFolders(filepath.Dir(path), d.dir))
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// disk marks an error of a full disk.
func disk(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// begin marks that a subject sends.
func (d *Depot) begin(name string) error {
	if d.o.Room != nil {
		if err := d.o.Room(); err != nil {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.sending[name]:
		return fmt.Errorf("%w: another one of the same user; try again when it is over", ErrBusy)
	case len(d.sending) >= mostAtOnce:
		return fmt.Errorf("%w: %d, the most that this server takes at a time; try again", ErrBusy, mostAtOnce)
	}
	d.sending[name] = true
	return nil
}

func (d *Depot) end(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sending, name)
}

// room is how many bytes a subject may still send.
func (d *Depot) room(subject string) (int64, error) {
	list, err := d.List(subject)
	if err != nil {
		return 0, err
	}
	left := d.o.Quota
	for _, one := range list {
		left -= one.Size
	}
	if left <= 0 {
		return 0, d.overQuota()
	}
	return left, nil
}

func (d *Depot) overQuota() error {
	return fmt.Errorf("%w: all uploads of a user may have %s; those that no job uses are erased after %v, and an administrator can remove the files of old jobs, or give more with comb serve --upload-quota",
		ErrQuota, Size(d.o.Quota), d.o.Unused)
}

// receive writes an upload into a file and checks it.
func (d *Depot) receive(path, digest string, room int64, r io.Reader) (int64, error) {
	if err := removed(path); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	limits := d.o.Limits
	limits.Bytes = min(limits.Bytes, room)
	held, err := Check(io.TeeReader(r, f), limits)
	switch {
	case err != nil && held.Size > room:
		return 0, d.overQuota()
	case err != nil:
		return 0, err
	case held.Digest != digest:
		return 0, fmt.Errorf("%w: it has the digest %s, and was sent as %s", ErrDigest, held.Digest, digest)
	}
	// Tasks of any user of an image read it; only the server can enter the folders above.
	return held.Size, errors.Join(f.Chmod(0o444), f.Sync())
}

func syncFolders(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ErrDamaged says that an upload is no longer what was sent.
var ErrDamaged = errors.New("the upload is damaged and was removed: submit the job again, so that the folder is sent again")

// Read opens an upload, at its beginning. A task that runs as the server's user could have
// changed it. Then it is removed, so that it can be sent again, and the error is ErrDamaged.
func (d *Depot) Read(subject, digest string) (*os.File, error) {
	if !ValidDigest(digest) {
		return nil, ErrNoUpload
	}
	path := filepath.Join(d.dir, DepotKey(subject, digest))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoUpload
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, f); err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil && fmt.Sprintf("sha256:%x", sum.Sum(nil)) == digest {
			return f, nil
		} else if err == nil {
			err = errors.Join(ErrDamaged, removed(path))
		}
	}
	return nil, errors.Join(err, f.Close())
}

// ReadAgain is Read for readers that check the digest themselves. An upload that was read
// once is not read as a whole again until the file system shows a change.
func (d *Depot) ReadAgain(subject, digest string) (*os.File, error) {
	if !ValidDigest(digest) {
		return nil, ErrNoUpload
	}
	d.hashing.Lock()
	defer d.hashing.Unlock()
	path := filepath.Join(d.dir, DepotKey(subject, digest))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(d.verified, path)
		return nil, ErrNoUpload
	}
	if err != nil {
		return nil, err
	}
	before := versionOf(f)
	if before != nil && d.verified[path] == *before {
		return f, nil
	}
	f.Close()
	if f, err = d.Read(subject, digest); err != nil {
		delete(d.verified, path)
		return nil, err
	}
	if now := versionOf(f); now != nil && before != nil && *now == *before && time.Since(now.changed) > minFileAge {
		if d.verified == nil {
			d.verified = map[string]version{}
		}
		d.verified[path] = *now
	}
	return f, nil
}

// versionOf is the version of an open file; nil where it is unknown.
func versionOf(f *os.File) *version {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return nil
	}
	return &version{st.Ino, st.Size, time.Unix(st.Ctim.Unix())}
}

// Link links an upload beside a job's files. It stays as long as these do, and takes no more
// space. An existing link stays as it is. Errors are those of Read.
func (d *Depot) Link(subject, digest, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	f, err := d.Read(subject, digest)
	if err != nil {
		return err
	}
	defer f.Close()
	d.mu.Lock()
	err = os.Link(f.Name(), path)
	d.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoUpload
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EMLINK):
		return disk(copyUpload(f, path))
	}
	return err
}

// copyUpload copies an upload where a link is impossible: on another file system, or beyond
// the limit of links to one file. A copy takes space of its own, and List does not count its
// job.
func copyUpload(f *os.File, path string) error {
	to, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+fresh)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	if err = errors.Join(err, to.Chmod(0o444), to.Close()); err == nil {
		err = os.Rename(to.Name(), path)
	}
	if err != nil {
		return errors.Join(err, removed(to.Name()))
	}
	return nil
}

// tidyEvery is the interval of Tidy.
const tidyEvery = 10 * time.Minute

// Tidy sweeps from time to time, until ctx is done. used returns the uploads in use, by
// DepotKey.
func (d *Depot) Tidy(ctx context.Context, used func(context.Context) (map[string]bool, error)) {
	for {
		in, err := used(ctx)
		if err == nil {
			_, err = d.Sweep(in)
		}
		if err != nil && ctx.Err() == nil {
			d.o.Log.Warn("erase uploads that no job uses; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tidyEvery):
		}
	}
}

// Sweep erases uploads that no job has linked, that are not in used (by DepotKey), and that
// were not used for DepotOptions.Unused. It returns how many it erased.
func (d *Depot) Sweep(used map[string]bool) (erased int, err error) {
	d.hashing.Lock()
	clear(d.verified) // also of the uploads that are erased
	d.hashing.Unlock()
	found, err := filepath.Glob(filepath.Join(d.dir, "*", "*"+suffix))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, path := range found {
		key, relErr := filepath.Rel(d.dir, path)
		st, statErr := os.Lstat(path)
		if relErr != nil || statErr != nil || used[key] || links(st) > 1 || time.Since(st.ModTime()) < d.o.Unused {
			continue
		}
		if rmErr := os.Remove(path); rmErr != nil {
			err = errors.Join(err, rmErr)
			continue
		}
		erased++
	}
	return erased, err
}
