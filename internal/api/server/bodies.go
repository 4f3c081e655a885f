package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// A body is read as it comes, and stays in memory. Bodies that come quickly may be many. One
// that takes longer is slow, and needs places, which are few for each caller and in all.
const (
	readTimeout = 30 * time.Second // of a request whose body is not read, and between a body and the answer
	bodyGrace   = 10 * time.Second // for a body to begin, and for pauses; after that it must keep bodyRate
	bodyRate    = 64 << 10         // bytes a second at least
	slowAfter   = time.Second      // after which a body is slow
	bodyPiece   = 64 << 10         // size of the pieces in which a body is kept
	slowUnit    = 1 << 20          // a slow body takes one place for each MiB that it may have
	slowCaller  = 16               // places of one caller
	slowAll     = 64               // and of all
	maxHeld     = 96 << 20         // bytes of bodies whose requests are not answered yet
)

// bodies counts the memory of request bodies.
type bodies struct {
	mu   sync.Mutex
	held int64
	slow map[model.Subject]int // places by caller
	all  int
}

// add counts n more bytes; false says that there is no room for them.
func (b *bodies) add(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += n
	return b.held <= maxHeld
}

// take takes places for a slow body, or says why there are none.
func (b *bodies) take(caller model.Subject, places int) *rest.Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	whose := "this server"
	switch {
	case b.slow[caller]+places > slowCaller:
		whose = "one caller"
	case b.all+places <= slowAll:
		b.slow[caller] += places
		b.all += places
		return nil
	}
	return busy(5, fmt.Sprintf("the body has not come within %v, and as many as %s may have are coming slowly already; send it at once, or later",
		slowAfter, whose))
}

// free gives bytes and places back.
func (b *bodies) free(caller model.Subject, places int, held int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= held
	b.all -= places
	if b.slow[caller] -= places; b.slow[caller] <= 0 {
		delete(b.slow, caller)
	}
}

func busy(seconds int, detail string) *rest.Problem {
	p := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, detail)
	p.Seconds = seconds
	return p
}

// bodyReader is a request's body while it is received.
type bodyReader struct {
	io.Reader
	of     *bodies
	caller model.Subject
	rc     *http.ResponseController
	begun  time.Time

	mu     sync.Mutex
	places int   // that it needs when it is slow
	taken  int   // that it has
	held   int64 // bytes received so far
	over   bool
	failed *rest.Problem
}

// receive reads a body of at most limit bytes, before the request gets a lock or a turn. The
// caller must call free once the request is answered: until then the bytes count.
func (b *bodies) receive(w http.ResponseWriter, r *http.Request, caller model.Subject, limit int64) (free func(), p *rest.Problem) {
	if r.ContentLength == 0 {
		return func() {}, nil
	}
	size := limit
	if r.ContentLength > 0 {
		size = min(size, r.ContentLength)
	}
	in := &bodyReader{Reader: http.MaxBytesReader(w, r.Body, limit), of: b, caller: caller,
		rc: http.NewResponseController(w), begun: time.Now(), places: int((size + slowUnit - 1) / slowUnit)}
	timer := time.AfterFunc(slowAfter, in.late)
	defer timer.Stop()
	text, err := pieces(in, size)
	if p := in.end(err, limit); p != nil {
		b.free("", 0, in.held)
		return nil, p
	}
	r.Body = io.NopCloser(&text)
	return func() { b.free("", 0, in.held) }, nil
}

// pieces reads a body. Received bytes are never copied, since a growing buffer would need
// more than twice what is counted.
func pieces(r io.Reader, size int64) (all net.Buffers, err error) {
	for err == nil {
		piece, got := make([]byte, min(size+1, bodyPiece)), 0 // one byte more finds the end
		for got < len(piece) && err == nil {
			var n int
			n, err = r.Read(piece[got:])
			got += n
		}
		if got > 0 {
			all = append(all, piece[:got])
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// late turns the body into a slow one, or ends it.
func (b *bodyReader) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	if p := b.of.take(b.caller, b.places); p != nil {
		b.fail(p)
		return
	}
	b.taken = b.places
}

// fail ends the body. The mutex is held.
func (b *bodyReader) fail(p *rest.Problem) {
	b.failed = p
	_ = b.rc.SetReadDeadline(time.Now())
}

// Read implements io.Reader.
func (b *bodyReader) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.failed == nil {
		most := b.begun.Add(bodyGrace + time.Duration(b.held)*time.Second/bodyRate)
		if pause := time.Now().Add(bodyGrace); pause.Before(most) {
			most = pause
		}
		_ = b.rc.SetReadDeadline(most)
	}
	b.mu.Unlock()
	n, err := b.Reader.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += int64(n)
	if !b.of.add(int64(n)) && b.failed == nil {
		b.fail(busy(1, fmt.Sprintf("requests that are under way hold %d MiB, the most that this server allows; try again", maxHeld>>20)))
	}
	if b.failed != nil {
		return n, b.failed
	}
	return n, err
}

// end returns what was wrong with the body, if anything. It gives its places back, but not
// its bytes.
func (b *bodyReader) end(err error, limit int64) *rest.Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.of.free(b.caller, b.taken, 0)
	var long *http.MaxBytesError
	var network net.Error
	switch {
	case b.failed != nil || err == nil:
	case errors.As(err, &long):
		b.fail(rest.NewProblem(http.StatusRequestEntityTooLarge, rest.CodeTooLarge,
			fmt.Sprintf("the body is too large: it may have %d MiB", limit>>20)))
	case errors.As(err, &network) && network.Timeout():
		b.fail(rest.NewProblem(http.StatusRequestTimeout, rest.CodeInvalid, fmt.Sprintf(
			"the body came too slowly: %d bytes within %v; after the first %v it must come with %d KiB a second, without a pause of %v",
			b.held, time.Since(b.begun).Round(time.Second), bodyGrace, bodyRate>>10, bodyGrace)))
	default:
		b.fail(rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "the body cannot be read: "+err.Error()))
	}
	if b.failed == nil {
		_ = b.rc.SetReadDeadline(time.Now().Add(readTimeout))
	}
	return b.failed
}
