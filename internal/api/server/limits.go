package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core/model"
)

// Commands are left a processor, or half of the only two.
const (
	maxLane   = 4                // reads of one lane at a time, however many processors there are
	maxWaits  = 64               // waiting requests of one user,
	allWaits  = 2048             // and in all
	turnWait  = 20 * time.Second // for a turn
	maxPlans  = 1                // cluster files that are planned at a time: a small one may describe a million devices
	onePacker = 2                // archives of logs of one user that are sent at a time
	// Packers is how many archives of all users are sent at a time.
	Packers = 8
)

// readLimits are the lanes of turns. Requests that look at the state never wait for those
// that compute on a copy of it.
type readLimits struct {
	Look, Think limiter.Limiter
	Plan        limiter.Limiter // cluster files
	Pack        limiter.Limiter // archives of logs, which think while they pack; a slow reader may keep one for long
}

// newReadLimits returns the lanes of a server, for the number of processors.
func newReadLimits() *readLimits {
	lane := func(n int) limiter.Limiter {
		return limiter.Limiter{All: n, One: n, Line: maxWaits, Lines: allWaits, What: "reads"}
	}
	n := min(max(1, runtime.GOMAXPROCS(0)/2), maxLane)
	l := &readLimits{Look: lane(n), Think: lane(n), Plan: lane(maxPlans), Pack: lane(Packers)}
	l.Pack.One, l.Pack.Line = onePacker, 2*onePacker
	return l
}

// costlyRoutes are the routes whose requests take turns, by method and path. True are those
// that compute on a copy of the state, false those that look at it. Other requests, such as
// commands, take no turn or have places of their own.
var costlyRoutes = map[string]bool{
	"GET " + rest.Prefix + "/jobs":               false,
	"GET " + rest.Prefix + "/jobs/{ref}":         false,
	"GET " + rest.Prefix + "/vcs":                false,
	"GET " + rest.Prefix + "/vcs/{name}":         false,
	"GET " + rest.Prefix + "/nodes":              false,
	"GET " + rest.Prefix + "/nodes/{name}":       false,
	"GET " + rest.Prefix + "/cells":              false,
	"GET " + rest.Prefix + "/events":             false,
	"GET " + rest.Prefix + "/jobs/{ref}/events":  false,
	"GET " + rest.Prefix + "/jobs/{ref}/explain": true,
	"GET " + rest.Prefix + "/starts":             true,
	"POST " + rest.Prefix + "/jobs:validate":     true,

	"POST " + rest.Prefix + "/nodes/{name}/drain:plan": true,
}

// Of is the lane of a request to a route; nil is none.
func (l *readLimits) Of(r *http.Request, route string) *limiter.Limiter {
	thinks, dear := costlyRoutes[route]
	switch {
	case !dear, strings.HasSuffix(route, "/events") && follows(r): // a stream has a place of its own
		return nil
	case thinks:
		return &l.Think
	}
	return &l.Look
}

func follows(r *http.Request) bool {
	follow, _ := strconv.ParseBool(r.URL.Query().Get("follow"))
	return follow
}

// awaitTurn waits for a user's turn in a lane.
func awaitTurn(ctx context.Context, lane *limiter.Limiter, by model.Subject) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	leave, err = lane.Wait(ctx, string(by))
	var full *limiter.Full
	if errors.As(err, &full) {
		return nil, lineBusy(full.Error())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		p := rest.NewProblem(http.StatusServiceUnavailable, rest.CodeUnavailable,
			fmt.Sprintf("the turn of %s did not come within %v; try again", by, turnWait))
		p.Seconds = 2
		return nil, p
	}
	return leave, err
}

func lineBusy(detail string) *rest.Problem {
	p := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, detail)
	p.Seconds = 1
	return p
}

// askedSeq is the event that a read must show; 0 where it names none, or an invalid one.
func askedSeq(r *http.Request) uint64 {
	header, _ := strconv.ParseUint(r.Header.Get(rest.HeaderAfterSeq), 10, 63)
	query, _ := strconv.ParseUint(r.URL.Query().Get("after_seq"), 10, 63)
	return max(header, query)
}

// turnWriter ends a turn when its answer begins.
type turnWriter struct {
	http.ResponseWriter
	Leave func()
}

// Write implements io.Writer.
func (t *turnWriter) Write(b []byte) (int, error) {
	t.Leave()
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *turnWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// packInTurn writes an archive for a user. It has a turn while it packs, and none while its
// reader takes a piece.
func packInTurn(ctx context.Context, lane *limiter.Limiter, by model.Subject, w io.Writer,
	pack func(io.Writer) error) error {
	p := &packed{w: w, turn: func() (func(), error) { return lane.Wait(ctx, string(by)) }}
	var err error
	if p.leave, err = p.turn(); err != nil {
		return err
	}
	defer func() { p.leave() }()
	out := bufio.NewWriterSize(p, packPiece)
	if err := pack(out); err != nil {
		return err
	}
	return out.Flush()
}

// packPiece is how many bytes of an archive are packed in one turn.
const packPiece = 256 << 10

type packed struct {
	w     io.Writer
	turn  func() (func(), error)
	leave func()
}

// Write implements io.Writer.
func (p *packed) Write(b []byte) (int, error) {
	p.leave()
	n, err := p.w.Write(b)
	if err != nil {
		return n, err
	}
	next, err := p.turn()
	if err == nil {
		p.leave = next
	}
	return n, err
}
