// Package task is what runs a task on every executor, close to its program: it unpacks the job's
// code, starts the program in its control groups and with its own rights alone, tells the
// containers of a gang each other's addresses, writes output into a bounded log, and reads the
// progress that tasks report. It must not know jobs beyond what a task is given, nor servers.
package task

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// LogCaps bound one stream of one task.
type LogCaps struct {
	FileBytes int64 `json:"file_bytes"` // size of one file
	Files     int   `json:"files"`      // how many are kept
	Rate      int64 `json:"rate"`       // bytes a second that are read from the task
}

// LogName names a file of a stream by the offset in the stream of its first
// byte, so that rotation renames nothing and a reader's offset stays true.
func LogName(stream string, base int64) string { return fmt.Sprintf("%s.%020d", stream, base) }

// Capture copies one stream of a task into its log. A task that writes faster than the rate is
// slowed down by its full pipe. What the disk does not take is dropped and counted in a line of
// its own, so a full disk never blocks a task.
type Capture struct {
	dir    string
	stream string
	caps   LogCaps
	pipe   *os.File
	hurry  chan struct{} // closed when the task is gone: no more throttling
	done   chan struct{} // closed when the log is complete

	file    *os.File
	size    int64   // of file
	offset  int64   // of the next byte in the stream
	kept    []int64 // bases of the files
	headed  bool    // the first of them is cut to the first lines, and stays
	allowed int64   // bytes that may be read now
	filled  time.Time
	lost    int64 // bytes dropped
	lines   int64 // and the newlines in them
	retryAt time.Time

	order  *Order // order of both streams; nil: it is not kept
	number int    // of this stream in order
}

// NewCapture returns a capture of a stream, to be logged in dir, and the end of its pipe that the
// task gets.
func NewCapture(dir, stream string, caps LogCaps) (*Capture, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c := &Capture{dir: dir, stream: stream, caps: caps, pipe: r,
		hurry: make(chan struct{}), done: make(chan struct{}), filled: time.Now(), allowed: caps.Rate}
	return c, w, nil
}

// Run copies until the pipe ends.
func (c *Capture) Run() {
	defer close(c.done)
	buf := make([]byte, 64<<10)
	for {
		c.throttle(int64(len(buf)))
		n, err := c.pipe.Read(buf)
		c.allowed -= int64(n)
		c.write(buf[:n])
		if err != nil {
			break
		}
	}
	c.retryAt = time.Time{}
	c.write(nil)
	if c.file != nil {
		c.file.Close()
	}
	c.pipe.Close()
}

// Finish lets the rest of the pipe through and waits for it, for a moment only: a process outside
// the task may hold the other end.
func (c *Capture) Finish() {
	close(c.hurry)
	_ = c.pipe.SetReadDeadline(time.Now().Add(time.Second)) // this pipe always takes a deadline
	<-c.done
}

// throttle waits until n bytes may be read.
func (c *Capture) throttle(n int64) {
	now := time.Now()
	c.allowed = min(c.caps.Rate, c.allowed+int64(now.Sub(c.filled).Seconds()*float64(c.caps.Rate)))
	c.filled = now
	if short := min(n, c.caps.Rate) - c.allowed; short > 0 {
		select {
		case <-time.After(time.Duration(float64(short) / float64(c.caps.Rate) * float64(time.Second))):
		case <-c.hurry:
		}
	}
}

// write appends to the log, or counts what it could not append.
func (c *Capture) write(p []byte) {
	if c.order != nil && len(p)+int(c.lost) > 0 {
		c.order.begin(c.number)
		defer func() { c.order.end(c.number, c.offset) }()
	}
	if c.lost > 0 {
		if time.Now().Before(c.retryAt) || !c.mark() {
			c.drop(p)
			return
		}
	}
	if n, err := c.put(p); err != nil {
		c.drop(p[n:])
	}
}

// mark writes the line that says what was dropped.
func (c *Capture) mark() bool {
	text := fmt.Sprintf("\n[comb: %d lines, %d bytes of output dropped: the log could not be written]\n", c.lines, c.lost)
	if _, err := c.put([]byte(text)); err != nil {
		c.retryAt = time.Now().Add(time.Second)
		return false
	}
	c.lost, c.lines = 0, 0
	return true
}

func (c *Capture) drop(p []byte) {
	if c.lost == 0 {
		c.retryAt = time.Now().Add(time.Second)
	}
	c.lost += int64(len(p))
	c.lines += int64(bytes.Count(p, []byte{'\n'}))
}

// put writes p across as many files as it needs and returns what it wrote.
func (c *Capture) put(p []byte) (n int, err error) {
	for len(p) > 0 {
		if c.file == nil || c.size >= c.caps.FileBytes {
			if err := c.Rotate(); err != nil {
				return n, err
			}
		}
		part := p[:min(int64(len(p)), c.caps.FileBytes-c.size)]
		wrote, err := c.file.Write(part)
		n, p = n+wrote, p[wrote:]
		c.size += int64(wrote)
		c.offset += int64(wrote)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// headBytes bounds the first lines of a log, which stay when later ones are removed: they say how
// a run was configured.
const headBytes = 64 << 10

// Rotate begins the next file and removes what is too old, except the first lines. It removes
// first, so that a full disk gets some room.
func (c *Capture) Rotate() error {
	for len(c.kept) >= c.caps.Files {
		oldest := 0
		if c.caps.Files > 2 { // with fewer, the first lines would leave little room for the latest
			c.headed = c.headed || c.kept[0] == 0 && c.cutHead()
		}
		if c.headed {
			oldest = 1
		}
		err := os.Remove(filepath.Join(c.dir, LogName(c.stream, c.kept[oldest])))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		c.kept = slices.Delete(c.kept, oldest, oldest+1)
	}
	f, err := os.OpenFile(filepath.Join(c.dir, LogName(c.stream, c.offset)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if c.file != nil {
		c.file.Close()
	}
	c.file, c.size = f, 0
	c.kept = append(c.kept, c.offset)
	return nil
}

// cutHead shortens the first file to its first lines. If a task has put something else in its
// place, that is not followed, and is removed like any old file.
func (c *Capture) cutHead() bool {
	f, err := os.OpenFile(filepath.Join(c.dir, LogName(c.stream, 0)), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	head := make([]byte, min(headBytes, c.caps.FileBytes/2))
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return false
	}
	if lines := bytes.LastIndexByte(head[:n], '\n') + 1; lines > 0 {
		n = lines
	}
	return f.Truncate(int64(n)) == nil
}
