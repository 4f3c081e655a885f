package line

import (
	"net"
	"sync"
)

// maxEach is how many connections one address may have: a pod has two or three, and where a node's pods share its address they all count.
const maxEach = 512

// sharing is a listener of which no address gets all connections: what is beyond its share is closed unheard. A pod that only connects
// cannot keep the others out so.
type sharing struct {
	net.Listener
	each int

	mu sync.Mutex
	of map[string]int // connections, by address
}

func share(l net.Listener, each int) net.Listener {
	return &sharing{Listener: l, each: each, of: map[string]int{}}
}

// Accept implements net.Listener.
func (s *sharing) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			from = c.RemoteAddr().String()
		}
		if s.enter(from) {
			return &shared{Conn: c, left: sync.OnceFunc(func() { s.leave(from) })}, nil
		}
		c.Close()
	}
}

func (s *sharing) enter(from string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[from] >= s.each {
		return false
	}
	s.of[from]++
	return true
}

func (s *sharing) leave(from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[from]--; s.of[from] == 0 {
		delete(s.of, from)
	}
}

// shared is a connection that counts until it is closed.
type shared struct {
	net.Conn
	left func()
}

// Close implements net.Conn.
func (c *shared) Close() error {
	defer c.left()
	return c.Conn.Close()
}
