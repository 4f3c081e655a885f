package enter

import (
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// full listens at an address and takes nothing any more, so that the kernel drops what else comes: as a firewall does.
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

// TestDropped: a port that drops packets at every address takes the time of one; one that answers somewhere is reached at once.
func TestDropped(t *testing.T) {
	t.Parallel()
	const within, most = 8 * time.Second, 15 * time.Second // one behind the other would take twice as long
	port := full(t, [4]byte{127, 0, 0, 1}, 0)
	full(t, [4]byte{127, 0, 0, 2}, port)
	began := time.Now()
	if _, err := (Host{Address: "127.0.0.2"}).dialOwn(uint16(port), within); err == nil {
		t.Error("it was reached")
	}
	if d := time.Since(began); d < within/2 || d > most {
		t.Errorf("a port that drops packets at two addresses took %v, and one may take %v", d, within)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.3", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began = time.Now()
	c, err := (Host{Address: "127.0.0.3"}).dialOwn(uint16(port), within)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if d := time.Since(began); d >= within {
		t.Errorf("a port that answers took %v, as one that drops packets", d)
	}
}
