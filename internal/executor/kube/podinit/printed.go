package podinit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/link"
)

const (
	// sendEvery is how often a task that prints all the time sends it. What comes after a silence
	// is sent at once, but for gather.
	sendEvery = time.Second
	gather    = 50 * time.Millisecond
	// awayPause and longestAway are between tries while the server takes nothing.
	awayPause, longestAway = 500 * time.Millisecond, 15 * time.Second
	// lastAway is how long an end waits for a server that does not answer: what it does not take
	// it reads of the kubelet.
	lastAway = 3 * time.Second
	// ownMemory is how much this program may take beside what it keeps, in bytes, before it
	// collects its garbage all the time: it is memory of the task.
	ownMemory = 16 << 20
	// mostLeft is how much of what stands in the pipe at the end of a task is read: processes that
	// it leaves may print for ever.
	mostLeft = 1 << 20
)

// logServer takes what a task prints. It is a *link.Client.
type logServer interface {
	Log(context.Context, link.LogBlock) (kept int64, err error)
}

// printed takes what the task and this program print. It passes it on to the log of the container,
// and sends it to the server. It keeps what the server has not acknowledged, up to a bound: beyond
// it the oldest is dropped. The task never waits for the server.
type printed struct {
	server logServer
	keep   int      // bytes
	in     *os.File // what is printed
	out    *os.File // the log of the container

	drained, sent chan struct{} // closed when all was read, and when the sending has ended
	news, over    chan struct{}

	mu    sync.Mutex
	parts []printedPart // what is not acknowledged
	from  int64         // where it begins in all that was printed
	end   int64
}

// printedPart is some of what was printed, and when its last byte was.
type printedPart struct {
	text []byte
	at   time.Time
}

func newPrinted(server logServer, keep int, in, out *os.File) *printed {
	return &printed{server: server, keep: keep, in: in, out: out,
		drained: make(chan struct{}), sent: make(chan struct{}),
		news: make(chan struct{}, 1), over: make(chan struct{})}
}

func (p *printed) begin(ctx context.Context) {
	go p.read()
	go p.send(ctx)
}

// SendPrinted does with what comes from a pipe what process 1 does with what its task prints: it
// passes it on to out, and sends it to the server. Of what the server does not take it keeps so
// many bytes. finish ends it: it sends the rest, for some seconds.
func SendPrinted(ctx context.Context, server *link.Client, keep int, in, out *os.File) (finish func()) {
	p := newPrinted(server, keep, in, out)
	p.begin(ctx)
	return p.finish
}

// capturePrinted makes this program's standard output and error, which the task inherits, one pipe,
// and begins to read it.
func capturePrinted(ctx context.Context, server logServer, keep int) (*printed, error) {
	out, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("take over the output of the task: %w", err)
	}
	log := os.NewFile(uintptr(out), "log")
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("take over the output of the task: %w", err)
	}
	debug.SetMemoryLimit(int64(keep) + ownMemory)
	_ = debug.SetCrashOutput(log, debug.CrashOptions{}) // else a crash of this program is told to itself
	for _, fd := range []int{unix.Stdout, unix.Stderr} {
		if err := unix.Dup3(ends[1], fd, 0); err != nil { // it blocks, as programs expect
			return nil, fmt.Errorf("take over the output of the task: %w", err)
		}
	}
	unix.Close(ends[1])
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, fmt.Errorf("take over the output of the task: %w", err)
	}
	p := newPrinted(server, keep, os.NewFile(uintptr(ends[0]), "printed"), log)
	p.begin(ctx)
	return p, nil
}

// read reads until finish says that the task has ended, and then what is left in the pipe.
func (p *printed) read() {
	defer close(p.drained)
	buf := make([]byte, 64<<10)
	for {
		n, err := p.in.Read(buf)
		p.take(buf[:n])
		if err != nil {
			break // its deadline is over
		}
	}
	_ = p.in.SetReadDeadline(time.Time{})
	raw, err := p.in.SyscallConn()
	if err != nil {
		return
	}
	for left := mostLeft; left > 0; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf)
			return true // it does not wait for more
		})
		if err != nil || n <= 0 {
			return
		}
		p.take(buf[:n])
		left -= n
	}
}

// take passes on what was printed, and keeps it for the server.
func (p *printed) take(text []byte) {
	if len(text) == 0 {
		return
	}
	now := time.Now() // no later than the kubelet's time of it
	_, _ = p.out.Write(text)
	p.mu.Lock()
	for len(text) > 0 {
		if n := len(p.parts); n == 0 {
			p.parts = append(p.parts, printedPart{})
		} else if len(p.parts[n-1].text) >= link.LongestLog { // the next is likely to be as long
			p.parts = append(p.parts, printedPart{text: make([]byte, 0, link.LongestLog)})
		}
		last := &p.parts[len(p.parts)-1]
		n := min(len(text), link.LongestLog-len(last.text))
		last.text, last.at = append(last.text, text[:n]...), now
		text = text[n:]
		p.end += int64(n)
	}
	for len(p.parts) > 1 && p.end-p.from > int64(p.keep) {
		p.from += int64(len(p.parts[0].text))
		p.drop()
	}
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// next is what is to be sent next. full says that more waits behind it.
func (p *printed) next(over bool) (b link.LogBlock, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = link.LogBlock{From: p.from, At: time.Now(), Last: over && len(p.parts) <= 1}
	if len(p.parts) > 0 {
		b.Text, b.At = p.parts[0].text, p.parts[0].at
	}
	return b, len(p.parts) > 1
}

// acknowledged drops what the server has.
func (p *printed) acknowledged(kept int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.parts) > 0 && p.from < kept {
		n := min(kept-p.from, int64(len(p.parts[0].text)))
		p.from += n
		if p.parts[0].text = p.parts[0].text[n:]; len(p.parts[0].text) == 0 {
			p.drop()
		}
	}
}

// drop forgets the oldest part, and gives its memory back. p.mu is held.
func (p *printed) drop() {
	p.parts[0] = printedPart{}
	p.parts = p.parts[1:]
}

// send sends what is printed until it is over and all is sent.
func (p *printed) send(ctx context.Context) {
	defer close(p.sent)
	over, away, heard := false, awayPause, time.Now()
	for news := false; ; {
		if !news && !over {
			select {
			case <-ctx.Done():
				return
			case <-p.over:
			case <-p.news:
				p.pause(ctx, gather)
			}
		}
		select {
		case <-p.over:
			if !over {
				over, away, heard = true, awayPause, time.Now()
			}
		default:
		}
		b, full := p.next(over)
		kept, err := p.server.Log(ctx, b)
		if err == nil {
			p.acknowledged(kept)
			if b.Last {
				return
			}
			news, away, heard = full, awayPause, time.Now()
			if !full {
				p.pause(ctx, sendEvery)
			}
			continue
		}
		if link.Answered(err) {
			heard = time.Now()
		}
		if ctx.Err() != nil || over && time.Since(heard) > lastAway {
			return
		}
		news = true
		p.pause(ctx, away/2+rand.N(away)) // so that the tasks of a server that comes back take turns
		if away = min(2*away, longestAway); over {
			away = awayPause
		}
	}
}

// pause waits, unless the task ends meanwhile.
func (p *printed) pause(ctx context.Context, d time.Duration) {
	over := p.over
	select {
	case <-over: // known already
		over = nil
	default:
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-time.After(d):
	}
}

// finish reads what the task printed before its end, and sends the rest, for some seconds.
func (p *printed) finish() {
	within := time.After(lastTold)
	_ = p.in.SetReadDeadline(time.Now())
	select {
	case <-p.drained:
	case <-within: // the log of the container takes nothing
		return
	}
	close(p.over)
	select {
	case <-p.sent:
	case <-within:
	}
}
