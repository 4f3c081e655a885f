package rest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a client of the socket sends goes to a process of its own user only. The
// path may be longer than the kernel takes.
func TestSocketOfAnotherUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), strings.Repeat("longer", 20))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SocketName)
	if _, err := dialLocal(context.Background(), path, os.Geteuid()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("nobody listens, and it says %v", err)
	}
	short, release, err := SocketAddress(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", short)
	release()
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	defer l.Close()
	for _, other := range []int{os.Geteuid() + 1, os.Geteuid()} {
		c, err := dialLocal(context.Background(), path, other)
		if own := other == os.Geteuid(); own != (err == nil) {
			t.Errorf("user %d, who is the listener: %v; %v", other, own, err)
		}
		if c != nil {
			c.Close()
		}
	}
}
