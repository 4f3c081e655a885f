package containers

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// machineDevices waits until no test of another process changes the devices of this machine, or with LOCK_EX until none depends on them:
// half of the tests run beside the others.
func machineDevices(t *testing.T, how int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "comb-test-devices"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		t.Fatal(err)
	}
}
