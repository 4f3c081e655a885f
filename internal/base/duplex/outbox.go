package duplex

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Sizes in bytes.
const (
	window  = 64 << 10       // bytes in an outbox at which writers begin to wait
	answers = window + 4<<10 // bytes at which pings are not answered any more
	most    = 2 << 20        // bytes that can ever wait: a message of the largest size, and pings
)

const (
	lingers = time.Minute     // how long a closed connection is kept for a side that reads slowly
	flushes = 5 * time.Second // for what was written right before the end
)

var errFull = errors.New("the other side takes nothing")

// outbox is a connection on which a write never waits: one goroutine sends what was written. So a
// long message does not delay the answer to a ping.
type outbox struct {
	io.ReadWriteCloser
	closed  chan struct{}
	some    chan struct{} // wakes that goroutine
	reading sync.Mutex    // held during a read

	mu     sync.Mutex
	buf    []byte
	inHand int           // bytes that are being written
	err    error         // why nothing more can be written
	over   bool          // it was closed
	stays  bool          // at the end the other side gets time to read
	taken  chan struct{} // closed, and made anew, when bytes were taken
	heard  time.Time     // when something last came
}

// timed is a connection on which a server's reads and writes can have deadlines.
type timed interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	CloseWrite() error
}

func newOutbox(c io.ReadWriteCloser) *outbox {
	o := &outbox{ReadWriteCloser: c, closed: make(chan struct{}), taken: make(chan struct{}), some: make(chan struct{}, 1), heard: time.Now()}
	go o.carry()
	return o
}

// carry sends what waits, until the end.
func (o *outbox) carry() {
	for open := true; open; {
		select {
		case <-o.some:
		case <-o.closed:
			open = false // what was written before is still sent
		}
		if o.flush() != nil {
			o.Close()
			open = false
		}
	}
	o.end()
}

func (o *outbox) flush() error {
	o.mu.Lock()
	next := o.buf
	o.buf, o.inHand = nil, len(next)
	o.mu.Unlock()
	var err error
	if len(next) > 0 {
		_, err = o.ReadWriteCloser.Write(next)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inHand = 0
	if o.err == nil {
		o.err = err
	}
	close(o.taken)
	o.taken = make(chan struct{})
	return err
}

// end closes the connection after the last byte was sent. If unread bytes had come, a plain close
// would make the kernel drop what the other side has not taken yet.
func (o *outbox) end() {
	o.mu.Lock()
	stays := o.stays
	o.mu.Unlock()
	if t, ok := o.ReadWriteCloser.(timed); ok && stays {
		o.reading.Lock() // until a read under way has ended
		defer o.reading.Unlock()
		if t.CloseWrite() == nil && t.SetReadDeadline(time.Now().Add(lingers)) == nil {
			_, _ = io.CopyN(io.Discard, o.ReadWriteCloser, most)
		}
	}
	o.ReadWriteCloser.Close()
}

// Write implements io.Writer, without waiting for the other side.
func (o *outbox) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && len(o.buf)+o.inHand+len(p) > most {
		o.err = errFull
	}
	if o.err != nil {
		return 0, o.err
	}
	o.buf = append(o.buf, p...)
	tell(o.some)
	return len(p), nil
}

// Read implements io.Reader, and notes that something came.
func (o *outbox) Read(p []byte) (int, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	select {
	case <-o.closed:
		return 0, net.ErrClosed
	default:
	}
	n, err := o.ReadWriteCloser.Read(p)
	if n > 0 {
		o.mu.Lock()
		o.heard = time.Now()
		o.mu.Unlock()
	}
	return n, err
}

func (o *outbox) heardAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard
}

// size is how many bytes the other side has not taken.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) + o.inHand
}

// answers reports whether to answer a ping: a side that pings without reading gets no answers.
func (o *outbox) answers() bool { return o.size() < answers }

// wait waits until fewer than less bytes are left.
func (o *outbox) wait(ctx context.Context, less int) error {
	for {
		o.mu.Lock()
		size, err, taken := len(o.buf)+o.inHand, o.err, o.taken
		o.mu.Unlock()
		if err != nil {
			return err
		}
		if size < less {
			return nil
		}
		select {
		case <-taken:
		case <-o.closed:
			return net.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// linger makes the end leave the other side time to read.
func (o *outbox) linger() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stays = true
}

// Close implements io.Closer. A read under way ends; what was written is still sent, if possible.
func (o *outbox) Close() error {
	o.mu.Lock()
	over := o.over
	o.over = true
	if o.err == nil {
		o.err = net.ErrClosed
	}
	o.mu.Unlock()
	if over {
		return net.ErrClosed
	}
	close(o.closed)
	t, ok := o.ReadWriteCloser.(timed)
	if !ok {
		return o.ReadWriteCloser.Close()
	}
	_ = t.SetWriteDeadline(time.Now().Add(flushes))
	return t.SetReadDeadline(time.Unix(1, 0))
}
