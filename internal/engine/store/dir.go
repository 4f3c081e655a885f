package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names inside a data directory.
const (
	databaseFile  = "comb.db"
	logFile       = databaseFile + "-wal"
	keyFile       = "key"
	lockFile      = "lock"
	clusterIDFile = "cluster-id"
	reserveFile   = "reserve"
	jobsDir       = "jobs"
)

// Begun reports whether a directory may have a store already.
func Begun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, databaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// prepareDir makes sure that the directory exists, on a file system that keeps what it has
// confirmed.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	// A user that may write here can put another key or database in place of ours.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 {
		return &Refused{dir, fmt.Sprintf("everyone may write there (mode %04o)", info.Mode().Perm()), "run: chmod 700 " + dir + ", or name a folder in it"}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("cannot look at the file system of %s: %w", dir, err)
	}
	if name := networkFS(int64(st.Type)); name != "" {
		return &Refused{dir, "it is on " + name + ", where locks and durable writes cannot be relied on",
			"use a directory on a local disk"}
	}
	return nil
}

// networkFS names a file system, by its statfs magic number, on which SQLite's locks, shared
// memory or fsync are known to fail; "" for all others.
func networkFS(magic int64) string {
	switch uint32(magic) {
	case 0x6969:
		return "NFS"
	case 0x517B, 0xFF534D42, 0xFE534D42:
		return "SMB"
	case 0x01021997:
		return "9P"
	case 0x65735546:
		return "FUSE or virtiofs"
	case 0x6A656A63:
		return "FAKEOWNER, a shared folder of a virtual machine"
	case 0x786F4256:
		return "a VirtualBox shared folder"
	case 0xBACBACBC:
		return "a VMware shared folder"
	case 0x00C36400:
		return "Ceph"
	case 0x5346414F, 0x6B414653:
		return "AFS"
	case 0x73757245:
		return "Coda"
	case 0x0BD00BD0:
		return "Lustre"
	case 0x01161970:
		return "GFS2"
	case 0x7461636F:
		return "OCFS2"
	}
	return ""
}

// lockDir locks the directory for this process, for as long as the file is open: the kernel frees
// the lock when the process dies.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock file: %w", err)
	}
	// A program that the last owner was starting has its files until it is executed.
	for range 20 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner := "another process"
		if b, _ := io.ReadAll(io.LimitReader(f, 32)); len(strings.TrimSpace(string(b))) > 0 {
			owner = "process " + strings.TrimSpace(string(b))
		}
		f.Close()
		return nil, &Refused{dir, "it is in use by " + owner, "stop that server first, or use another directory"}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
	}
	// The pid only helps readers of the message: on a full disk it may be missing.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}

// contents is what a data directory holds.
type contents struct {
	id       string // from the cluster-id file, "" if there is none
	database bool
	key      bool
}

// survey tells a data directory of ours from an empty one and from a foreign one.
func survey(dir string) (contents, error) {
	var c contents
	entries, err := os.ReadDir(dir)
	if err != nil {
		return c, fmt.Errorf("cannot read the data directory: %w", err)
	}
	var foreign []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == databaseFile:
			c.database = true
		case name == keyFile:
			c.key = true
		case !ours(name):
			foreign = append(foreign, name)
		}
	}
	id, err := os.ReadFile(filepath.Join(dir, clusterIDFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("cannot read the cluster id: %w", err)
	}
	c.id = strings.TrimSpace(string(id))
	switch {
	case c.id == "" && c.database && !c.key && size(filepath.Join(dir, databaseFile)) > 0:
		// An initialisation makes the key first.
		return c, &Refused{dir, "it holds the file " + databaseFile + " of a data directory, without key and cluster-id",
			"copy the whole directory of a server that is stopped: that file alone lacks what " + logFile + " holds"}
	case c.id == "" && len(foreign) > 0:
		return c, &Refused{dir, fmt.Sprintf("it is not empty and not a data directory of Comb (it holds %s)", some(foreign)),
			"give an empty directory to begin a new one"}
	case c.id != "" && !validID(c.id):
		return c, &Refused{dir, "its file cluster-id is damaged", "restore the directory from a backup"}
	case c.id != "" && !c.database:
		return c, &Refused{dir, "it belongs to cluster " + c.id + ", but its database " + databaseFile + " is gone",
			"mount or restore it; nothing is started empty in its place"}
	case c.id != "" && !c.key:
		return c, &Refused{dir, "its file key is gone, without which secrets cannot be read", "restore it from a backup"}
	}
	return c, nil
}

// ours reports whether an unfinished initialisation may have left such a file.
func ours(name string) bool {
	return strings.HasPrefix(name, databaseFile+"-") || strings.HasSuffix(name, ".new") ||
		slices.Contains([]string{lockFile, clusterIDFile, reserveFile, sealFile, jobsDir, "lost+found"}, name)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ")
}

func newID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func validID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == 16
}

// writeFile writes a small file durably: it exists in full or not at all.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
