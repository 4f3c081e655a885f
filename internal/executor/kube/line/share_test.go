package line

import (
	"io"
	"net"
	"testing"
	"time"
)

// One address has its share of the connections, and again what it gives back; another address is let in meanwhile.
func TestNoAddressGetsAllConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := share(l, 2)
	defer s.Close()
	in := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			in <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	next := func(what string) net.Conn {
		t.Helper()
		select {
		case c := <-in:
			return c
		case <-time.After(10 * time.Second):
			t.Fatal("not let in: " + what)
			return nil
		}
	}
	dial("127.0.0.1")
	dial("127.0.0.1")
	first, _ := next("the first"), next("the second")
	third := dial("127.0.0.1")
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Fatalf("a third connection of one address is not closed: %v", err)
	}
	dial("127.0.0.2")
	if from := next("another address").RemoteAddr().(*net.TCPAddr).IP.String(); from != "127.0.0.2" {
		t.Fatalf("%s was let in", from)
	}
	first.Close()
	first.Close() // counts once
	dial("127.0.0.1")
	next("one in the place of the first")
	fourth := dial("127.0.0.1")
	_ = fourth.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(fourth, make([]byte, 1)); err == nil || isTimeout(err) {
		t.Fatalf("one closed connection made room for two: %v", err)
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}
