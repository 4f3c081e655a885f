package podinit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

const (
	// turnEvery is how often a task that takes turns reports to the server; turnSeldom is that of
	// a task that may come to take turns.
	turnEvery  = time.Second
	turnSeldom = 2 * time.Second
	// turnSoon is how often a task asks while it waits for others.
	turnSoon = 50 * time.Millisecond
)

// turnReporter reports to the server how far a task is with its turns, and receives the rotation.
// It has one request under way at a time.
type turnReporter struct {
	server *link.Client
	says   chan link.TurnAnswer
	wake   chan struct{}

	mu    sync.Mutex
	state link.TurnReport
	why   string        // what the task failed to do in time; reported until its end
	heard time.Time     // when the last answered request was sent
	enter time.Time     // when the last request was sent whose answer let the task run
	guard time.Duration // how long tasks of another turn may take to leave
	turns bool
}

func newTurnLine(server *link.Client) *turnReporter {
	return &turnReporter{server: server, says: make(chan link.TurnAnswer, 1), wake: make(chan struct{}, 1), guard: firstGuard, heard: time.Now()} // it had no time to answer yet
}

// tell sets what is reported. News is sent at once.
func (l *turnReporter) tell(now link.TurnReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now.Why = l.why
	if news := now != l.state; news {
		l.state = now
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// give sets why the task is stopped.
func (l *turnReporter) give(why string) {
	l.mu.Lock()
	l.why = why
	now := l.state
	l.mu.Unlock()
	l.tell(now)
}

// entered reports whether a request sent after since was answered with leave to run.
func (l *turnReporter) entered(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter.After(since)
}

// serverAway reports whether the server is away and the tasks of the turn that ended at since must
// be suspended by now, going by the clock. most bounds how much of a turn is spent on waiting.
func (l *turnReporter) serverAway(since time.Time, most time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard) > away && time.Since(since) > min(l.guard, most)
}

// run asks until ctx is done.
func (l *turnReporter) run(ctx context.Context) {
	has := ""
	for ctx.Err() == nil {
		l.mu.Lock()
		ask, asked := l.state, time.Now()
		l.mu.Unlock()
		ask.Has = has
		says, err := l.server.Turn(ctx, ask)
		switch {
		case err == nil:
			has = says.Is
			l.hear(ctx, says, asked)
		case errors.Is(err, link.ErrSoon):
			l.refused(ctx, asked)
			continue
		}
		l.pause(ctx, ask.Wants)
	}
}

// refused waits where this pod asks too often. A server that says so is not away, so the task
// must not go by the clock.
func (l *turnReporter) refused(ctx context.Context, asked time.Time) {
	l.mu.Lock()
	l.heard = asked
	l.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(turnEvery):
	}
}

func (l *turnReporter) hear(ctx context.Context, says link.TurnAnswer, asked time.Time) {
	l.mu.Lock()
	l.heard, l.guard = asked, max(firstGuard, time.Duration(says.Guard)*time.Microsecond)
	if says.Enter {
		l.enter = asked
	}
	if says.Rotation != nil {
		l.turns = len(says.Rotation.Turns) > 1
	}
	l.mu.Unlock()
	if says.Rotation != nil || says.Enter {
		select {
		case l.says <- says:
		case <-ctx.Done():
		}
	}
}

// pause waits until there is something to report or to ask.
func (l *turnReporter) pause(ctx context.Context, wants bool) {
	l.mu.Lock()
	every := turnSeldom
	if l.turns {
		every = turnEvery
	}
	l.mu.Unlock()
	if wants {
		every = turnSoon
	}
	select {
	case <-ctx.Done():
	case <-l.wake:
		time.Sleep(freezePause) // even if its state changes often
	case <-time.After(every):
	}
}

// last reports, for some seconds, why a task was stopped.
func (l *turnReporter) last() {
	l.mu.Lock()
	ask := l.state
	ask.Why = l.why
	l.mu.Unlock()
	if ask.Why == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTold)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := l.server.Turn(ctx, ask); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(turnEvery):
		}
	}
}
