package podinit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/task"
)

const (
	tellEvery = time.Second
	// lastTold is how long the end of a pod may wait until its last progress is sent.
	lastTold = 10 * time.Second
	maxTell  = 32 << 10 // bytes in a request
)

// teller sends what the task writes into its progress file. It sends the same lines again until
// the server has taken them. What the task wrote meanwhile follows in bounded pieces.
type teller struct {
	server *link.Client
	file   string
	at     int64
	inode  uint64
}

// begin sends from now on. The function that it returns sends the rest, and ends it.
func (t *teller) begin(ctx context.Context) (end func()) {
	if t.file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				t.rest(ctx)
				return
			case <-time.After(tellEvery):
				_, _ = t.tell(ctx)
			}
		}
	}()
	return func() {
		close(over)
		select {
		case <-done:
		case <-time.After(lastTold):
		}
		cancel()
	}
}

// rest sends all that is left, at the pace at which the server takes it.
func (t *teller) rest(ctx context.Context) {
	for {
		more, err := t.tell(ctx)
		if err == nil && !more || errors.Is(err, link.ErrNoTask) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellEvery):
		}
	}
}

// tell sends the next lines. more says that there may be others.
func (t *teller) tell(ctx context.Context) (more bool, err error) {
	lines, size, left, err := t.next()
	if err != nil || size == 0 {
		return false, err
	}
	if len(lines) > 0 {
		if err := t.server.Tell(ctx, lines); err != nil {
			return true, err
		}
	}
	t.at += size
	return left, nil
}

// next reads whole lines. It returns how many bytes of the file they are, and whether more is
// left. A line that is too long is skipped.
func (t *teller) next() (lines []byte, size int64, left bool, err error) {
	f, err := os.OpenFile(t.file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, false, err
	}
	if st.Size < t.at || t.inode != 0 && st.Ino != t.inode {
		t.at = 0 // the file was begun anew
	}
	t.inode = st.Ino
	part := make([]byte, min(st.Size-t.at, maxTell))
	n, err := f.ReadAt(part, t.at)
	if err != nil && err != io.EOF {
		return nil, 0, false, err
	}
	part = part[:n]
	if end := bytes.LastIndexByte(part, '\n'); end >= 0 {
		return part[:end+1], int64(end + 1), t.at+int64(end)+1 < st.Size && n == maxTell, nil
	}
	if n > task.LongestProgress {
		return nil, int64(n), true, nil // the rest of such a line is no JSON either
	}
	return nil, 0, false, nil
}
