package local

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// portWithin is how long a port may take to answer, at all addresses together.
const portWithin = 5 * time.Second

// dial connects to a port on which the task listens.
func (h EntryHost) dial(port uint16) (net.Conn, error) {
	if h.Members == nil {
		return h.dialOwn(port, portWithin)
	}
	to, err := h.listener(port)
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", to.String(), portWithin)
	if err != nil {
		return nil, nothing(port, err)
	}
	// The listener may have ended meanwhile, and another process may have taken the port.
	if again, err := h.listener(port); err != nil || again != to {
		c.Close()
		return nil, nothing(port, unix.ECONNREFUSED)
	}
	return c, nil
}

// dialOwn connects within a network that only the task has, at whichever address answers first:
// an address that drops packets would never answer.
func (h EntryHost) dialOwn(port uint16, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	type answer struct {
		c   net.Conn
		err error
	}
	answers, asked := make(chan answer), 0
	for _, host := range []string{"127.0.0.1", "::1", h.Address} {
		if host == "" {
			continue
		}
		asked++
		go func() {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
			answers <- answer{c, err}
		}()
	}
	var found net.Conn
	var failed error
	for range asked {
		a := <-answers
		switch {
		case a.err == nil && found == nil:
			found = a.c
			cancel() // the other tries are given up
		case a.err == nil:
			a.c.Close()
		case failed == nil || !errors.Is(a.err, unix.ECONNREFUSED):
			failed = a.err
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, nothing(port, failed)
}

func nothing(port uint16, err error) error {
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("nothing of the task listens on port %d", port)
	}
	return fmt.Errorf("port %d of the task does not answer: %w", port, err)
}

// listener finds the address at which only processes of the task listen on a port.
func (h EntryHost) listener(port uint16) (netip.AddrPort, error) {
	var all []listening
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return netip.AddrPort{}, err
		}
		all = append(all, parseListening(string(data), port)...)
	}
	own := map[string]bool{}
	for pid := range h.Members() {
		addSockets(own, pid)
	}
	foreign := false
	for _, l := range all {
		if !own[l.inode] {
			continue
		}
		if shared(l, all, own) {
			foreign = true
			continue
		}
		at := l.at
		switch {
		case at == netip.IPv4Unspecified():
			at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case at == netip.IPv6Unspecified():
			at = netip.IPv6Loopback()
		}
		return netip.AddrPortFrom(at, port), nil
	}
	if foreign {
		return netip.AddrPort{}, fmt.Errorf("port %d is also listened on by a process that is not the task's", port)
	}
	return netip.AddrPort{}, fmt.Errorf("nothing of the task listens on port %d", port)
}

// shared reports whether a process outside the task may get what is sent to a listener.
func shared(l listening, all []listening, own map[string]bool) bool {
	for _, o := range all {
		if !own[o.inode] && (o.at == l.at || o.at.IsUnspecified() || l.at.IsUnspecified()) {
			return true
		}
	}
	return false
}

// listening is a listening socket.
type listening struct {
	at    netip.Addr
	inode string
}

// parseListening finds those of a port in the kernel's list of TCP sockets.
func parseListening(text string, port uint16) (list []listening) {
	const listens = "0A"
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listens {
			continue
		}
		host, number, _ := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(number, 16, 16)
		if err != nil || uint16(n) != port {
			continue
		}
		if at, ok := parseAddress(host); ok {
			list = append(list, listening{at, f[9]})
		}
	}
	return list
}

// parseAddress reads an address, of which the kernel prints each 32 bits as a number.
func parseAddress(text string) (netip.Addr, bool) {
	words, err := hex.DecodeString(text)
	if err != nil || len(words)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	at, ok := netip.AddrFromSlice(words)
	return at.Unmap(), ok
}

// addSockets adds the sockets of a process.
func addSockets(to map[string]bool, pid int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it ended, or may not be looked into
	}
	for _, e := range entries {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); err == nil && ok {
			to[strings.TrimSuffix(inode, "]")] = true
		}
	}
}
