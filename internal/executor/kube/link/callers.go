package link

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
	"time"
)

// limits bounds the connections that are open at the same time.
type limits struct {
	unknown int           // from one address, before a token was shown: pods may share an address
	all     int           // from all addresses, before a token was shown
	pod     int           // of one pod: a task has one for each request under way
	many    int           // of all pods: beyond it each ends with its answer, so that others get in
	header  time.Duration // time for the first request, and for each that follows
}

var usual = limits{unknown: 256, all: 2048, pod: 8, many: maxConns * 3 / 4, header: headerTime}

// tokenListener is a listener that knows which connections have shown a pod's token. When too many
// have shown none, the oldest of these is closed for a new one: it had its time. So a client that
// only connects keeps none out for long, not even behind its own address.
type tokenListener struct {
	net.Listener
	limits
	log *slog.Logger

	mu              sync.Mutex
	waiting         *list.List // callers that have shown no token, the oldest first
	unknown         tally      // by address
	allWithoutToken tally      // of all addresses
	pods            tally
	ofPods          int       // connections that have shown a token
	said            time.Time // when a warning was logged last
}

func newCallers(l net.Listener, log *slog.Logger, n limits) *tokenListener {
	return &tokenListener{Listener: l, limits: n, log: log, waiting: list.New(), pods: newTally(n.pod),
		unknown: newTally(n.unknown), allWithoutToken: newTally(n.all)}
}

// caller is a connection.
type caller struct {
	net.Conn
	of   *tokenListener
	from string
	// Under of.mu. A connection with neither was put out or closed.
	place *list.Element // its place in the waiting list
	pod   string        // the pod that it counts for
}

// Accept implements net.Listener.
func (s *tokenListener) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		from = conn.RemoteAddr().String()
	}
	c := &caller{Conn: conn, of: s, from: from}
	if out := s.enter(c); out != nil {
		go out.Conn.Close() // TLS says good-bye first; its reader closes it once more, by its own Close
	}
	return c, nil
}

// enter lets a connection in, and returns the one that is closed for it.
func (s *tokenListener) enter(c *caller) (out *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.unknown.full(c.from):
		s.warn(s.unknown, c.from, "an address has all the connections without a token that it may have: the oldest is closed for each new one", "address", c.from)
		for e := s.waiting.Front(); out == nil; e = e.Next() {
			if older := e.Value.(*caller); older.from == c.from {
				out = older
			}
		}
	case s.allWithoutToken.full(""):
		s.warn(s.allWithoutToken, "", "there are as many connections without a token as there may be: the oldest is closed for each new one", "address", c.from)
		out = s.waiting.Front().Value.(*caller)
	}
	c.place = s.waiting.PushBack(c)
	s.unknown.add(c.from)
	s.allWithoutToken.add("")
	if out != nil {
		out.leave()
	}
	return out
}

// shows notes that a pod has shown its token, and reports whether it may have one more
// connection. A connection counts for the first pod that used it.
func (c *caller) shows(pod string) bool {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place == nil {
		return c.pod != ""
	}
	if s.pods.full(pod) {
		s.warn(s.pods, pod, "a pod has all the connections that it may have: a further one is refused", "pod", pod)
		return false
	}
	c.leave()
	c.pod = pod
	s.pods.add(pod)
	s.ofPods++
	return true
}

// proven reports whether the connection counts for a pod: it has shown that pod's token.
func (c *caller) proven(pod string) bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return pod != "" && c.pod == pod
}

// crowded reports whether there are so many connections that each should end with its answer. Pods
// keep theirs from one request to the next, and there may be more pods than connections.
func (s *tokenListener) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ofPods+s.waiting.Len() > s.many
}

// Close implements net.Conn.
func (c *caller) Close() error {
	c.of.mu.Lock()
	c.leave()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leave frees what a connection counts for.
func (c *caller) leave() {
	switch {
	case c.place != nil:
		c.of.waiting.Remove(c.place)
		c.of.unknown.less(c.from)
		c.of.allWithoutToken.less("")
	case c.pod != "":
		c.of.pods.less(c.pod)
		c.of.ofPods--
	}
	c.place, c.pod = nil, ""
}

// warn logs that something is at its bound: once until it is well below again, and at most one
// such line a second.
func (s *tokenListener) warn(t tally, key, words string, of ...any) {
	now := time.Now()
	if t.told[key] || now.Sub(s.said) < time.Second {
		return
	}
	s.said, t.told[key] = now, true
	s.log.Warn(words, append(of, "connections", t.most)...)
}

// tally counts connections.
type tally struct {
	most int
	of   map[string]int
	told map[string]bool // keys already warned about
}

func newTally(most int) tally { return tally{most, map[string]int{}, map[string]bool{}} }

func (t tally) full(key string) bool { return t.of[key] >= t.most }

func (t tally) add(key string) { t.of[key]++ }

func (t tally) less(key string) {
	if t.of[key]--; t.of[key] <= t.most/2 {
		delete(t.told, key)
	}
	if t.of[key] == 0 {
		delete(t.of, key)
	}
}
