// Package smalldisk gives a test a small file system of its own to fill. It is for tests only; no
// other code imports it, and it must not touch a disk that others use.
package smalldisk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	inside  = "COMB_OWN_MOUNTS" // set: what this process mounts no other process sees
	refused = "cannot mount a file system"
)

// Alone runs the calling test, a whole one and no part of another, once more in a process whose
// mounts end with it. It is true in that process, where the test goes on, and false in the first
// one, which has its result then. Where the user may mount nothing the test says what it did not
// show; with CI set it fails.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	var denied []error
	for _, flags := range []uintptr{syscall.CLONE_NEWNS, syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()))
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			t.Logf("%s", out)
			return false
		case errors.As(err, &exit) && !bytes.Contains(out, []byte(refused)):
			t.Fatalf("%v:\n%s", err, out)
		}
		denied = append(denied, fmt.Errorf("%w: %s", err, out))
	}
	why := fmt.Sprintf("NOT SHOWN here: %s fills a small file system of its own, and may mount none: run it as root, or where user namespaces are allowed (%v)", t.Name(), errors.Join(denied...))
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	fmt.Fprintln(os.Stderr, why)
	return false
}

// Mount mounts an empty file system of some bytes on a new folder, until the test ends. Only a
// process in which Alone is true may.
func Mount(t *testing.T, dir string, bytes int64) {
	t.Helper()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	}
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes))
	}
	if err != nil {
		t.Fatalf("%s: %v", refused, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

const page = 4096

// Fill takes all of a file system but some pages, and takes again what is given back, as a
// program does that writes without end, until free is called: then there is room again.
func Fill(t *testing.T, dir string, pages int64) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "greedy"))
	if err != nil {
		t.Fatal(err)
	}
	take := func() {
		for err == nil {
			_, err = f.Write(make([]byte, page))
		}
		err = nil
	}
	take()
	if st, err := f.Stat(); err != nil || f.Truncate(max(0, st.Size()/page-pages)*page) != nil {
		t.Fatal("the small file system cannot be filled")
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if pages == 0 {
				take()
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			t.Error(err)
		}
	}
}
