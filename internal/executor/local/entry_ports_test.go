package local

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/test/testkit"
)

// full listens at an address and takes nothing any more, so that the kernel drops what else comes:
// as a firewall does.
func full(t *testing.T, address [4]byte, port int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: address}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port = at.(*unix.SockaddrInet4).Port
	for {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(net.IP(address[:]).String(), strconv.Itoa(port)), time.Second)
		if err != nil {
			return port
		}
		t.Cleanup(func() { c.Close() })
	}
}

// TestDropped: a port that drops packets at every address takes the time of one; one that answers
// somewhere is reached at once.
func TestDropped(t *testing.T) {
	t.Parallel()
	const within = 4 * time.Second
	port := full(t, [4]byte{127, 0, 0, 1}, 0)
	full(t, [4]byte{127, 0, 0, 2}, port)
	began, failed := time.Now(), make(chan error, 1)
	go func() {
		_, err := (EntryHost{Address: "127.0.0.2"}).dialOwn(uint16(port), within)
		failed <- err
	}()
	testkit.Wait(t, "both addresses are asked at a time", func() bool { return askingDoor(t, port) == 2 })
	if err := <-failed; err == nil {
		t.Error("it was reached")
	}
	if d := time.Since(began); d < within/2 { // a busy machine only adds to it
		t.Errorf("a port that drops packets at two addresses took %v, and one may take %v", d, within)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.3", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan error, 1)
	go func() {
		c, err := (EntryHost{Address: "127.0.0.3"}).dialOwn(uint16(port), 2*testkit.Patience)
		if err == nil {
			c.Close()
		}
		reached <- err
	}()
	select {
	case err := <-reached:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testkit.Patience):
		t.Error("a port that answers waits for the address that drops packets")
	}
}

// askingDoor is at how many addresses somebody asks for a connection to a port, and has no answer
// yet.
func askingDoor(t *testing.T, port int) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const sent = "02" // SYN_SENT
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", port)) && f[3] == sent {
			n++
		}
	}
	return n
}
