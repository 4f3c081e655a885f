package server

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// connection is a client's, with a clock of its own: each read takes a while, or until the
// deadline.
type connection struct {
	http.ResponseWriter
	now      time.Time
	deadline time.Time
	takes    time.Duration // of a read
}

// SetReadDeadline is what http.ResponseController looks for.
func (c *connection) SetReadDeadline(t time.Time) error { c.deadline = t; return nil }

func (c *connection) Read(b []byte) (int, error) {
	if c.now = c.now.Add(c.takes); c.now.After(c.deadline) {
		c.now = c.deadline
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// A client must keep the pace, whatever the time that the server takes to write what came to its
// disk.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		what       string
		read, disk time.Duration // for each 64 KiB
		slow       bool
	}{
		{"a slow disk", 100 * time.Millisecond, time.Minute, false},
		{"a pause", 9 * time.Second, 0, true}, // the first goes, two are too many
		{"a client at the pace", time.Second, 0, false},
		{"a client below it", 2 * time.Second, 0, true},
		{"both are slow", 2 * time.Second, time.Minute, true},
	} {
		line := &connection{now: time.Unix(1_700_000_000, 0), takes: c.read}
		p := &paced{from: line, rc: http.NewResponseController(line), now: func() time.Time { return line.now }}
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			_, err = p.Read(make([]byte, rate))
			line.now = line.now.Add(c.disk)
		}
		if slow := errors.Is(err, os.ErrDeadlineExceeded); slow != c.slow || err != nil && !slow {
			t.Errorf("%s: %v behind %d bytes", c.what, err, p.n)
		}
		if told := p.problem(err); c.slow && (told == nil || !strings.Contains(told.Error(), "the upload came too slowly")) {
			t.Errorf("%s: %v", c.what, told)
		}
	}
}
