package task

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// OrderName is the file that says in which order the two streams of a task were printed. It has
// records of RecordBytes. Each is a big-endian number: its highest bit is the stream, and the
// others are how far that stream was when the other went on.
const (
	OrderName   = "order"
	RecordBytes = 8
	SecondBit   = 1 << 63
)

// MaxOrder bounds the file, in bytes. A task that changes streams more often loses the order of
// the oldest output.
const MaxOrder = 1 << 20

// Order records the order in which the streams of a task were printed. It only helps readers:
// where its file cannot be written, the streams are read one after the other.
type Order struct {
	mu      sync.Mutex
	dir     string
	file    *os.File
	size    int64
	last    int      // the stream that was written last
	reached [2]int64 // how far each stream is
}

// NewOrder returns the order of two captures, to be kept in dir.
func NewOrder(dir string) *Order { return &Order{dir: dir} }

// Join makes a capture one of the two streams, 0 or 1, before it runs.
func (o *Order) Join(c *Capture, stream int) { c.order, c.number = o, stream }

// begin notes that a stream goes on, before its bytes are in its log: so a reader that reads the
// lengths of the logs first, and then the order, knows where each byte belongs. end must follow.
func (o *Order) begin(stream int) {
	o.mu.Lock()
	if o.last == stream {
		return
	}
	if at := o.reached[o.last]; at > 0 {
		o.note(uint64(at) | uint64(o.last)*SecondBit)
	}
	o.last = stream
}

func (o *Order) end(stream int, offset int64) {
	o.reached[stream] = offset
	o.mu.Unlock()
}

// note appends a record. A record that cannot be written is lost; the file only holds whole
// records.
func (o *Order) note(record uint64) {
	if o.size >= MaxOrder && !o.shorten() {
		return
	}
	if o.file == nil {
		f, err := os.OpenFile(filepath.Join(o.dir, OrderName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return
		}
		o.file = f
	}
	if _, err := o.file.WriteAt(binary.BigEndian.AppendUint64(nil, record), o.size); err == nil {
		o.size += RecordBytes
	}
}

// shorten keeps the later half of the records. The new file replaces the old one at once.
func (o *Order) shorten() bool {
	half := o.size / 2 / RecordBytes * RecordBytes
	later := make([]byte, o.size-half)
	if _, err := o.file.ReadAt(later, half); err != nil {
		return false
	}
	next := filepath.Join(o.dir, OrderName+".next")
	_ = os.Remove(next)
	f, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	if _, err = f.Write(later); err == nil {
		err = os.Rename(next, filepath.Join(o.dir, OrderName))
	}
	if err != nil {
		f.Close()
		return false
	}
	o.file.Close()
	o.file, o.size = f, int64(len(later))
	return true
}

// Close ends the order.
func (o *Order) Close() {
	if o.file != nil {
		o.file.Close()
	}
}
