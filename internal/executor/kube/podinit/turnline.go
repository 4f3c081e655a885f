package podinit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

const (
	// turnEvery is how often the server is told how far a task is that takes turns, and turnSeldom
	// one that may.
	turnEvery  = time.Second
	turnSeldom = 2 * time.Second
	// turnSoon is how often it is asked by one that waits for others.
	turnSoon = 50 * time.Millisecond
)

// turnLine tells the server how far a task is, and hears which turns there are. It asks one
// question at a time.
type turnLine struct {
	server *link.Client
	says   chan link.TurnSays
	wake   chan struct{}

	mu    sync.Mutex
	state link.TurnAsk
	why   string        // what the task did not do in time; it is told until its end
	heard time.Time     // when the server answered last: when it was asked
	enter time.Time     // when it was asked to which it said that the task may run
	guard time.Duration // how long those of another turn may take to leave
	turns bool
}

func newTurnLine(server *link.Client) *turnLine {
	return &turnLine{server: server, says: make(chan link.TurnSays, 1), wake: make(chan struct{}, 1), guard: firstGuard, heard: time.Now()} // which is not away before it had time to answer
}

// tell says how far the task is. What is news is told at once.
func (l *turnLine) tell(now link.TurnAsk) {
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

// give says why the task is stopped.
func (l *turnLine) give(why string) {
	l.mu.Lock()
	l.why = why
	now := l.state
	l.mu.Unlock()
	l.tell(now)
}

// entered reports whether the server said, to a question asked since some moment, that the task may
// run.
func (l *turnLine) entered(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter.After(since)
}

// silent reports whether the server is away, and those of the turn that ended at some moment must
// be still by now, going by the clock. So much of a turn is waited for that at most.
func (l *turnLine) silent(since time.Time, most time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard) > away && time.Since(since) > min(l.guard, most)
}

// run asks until ctx is done.
func (l *turnLine) run(ctx context.Context) {
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

// refused waits where this pod asks too often. The server that says so is not away: nothing is done
// without it.
func (l *turnLine) refused(ctx context.Context, asked time.Time) {
	l.mu.Lock()
	l.heard = asked
	l.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(turnEvery):
	}
}

func (l *turnLine) hear(ctx context.Context, says link.TurnSays, asked time.Time) {
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

// pause waits until there is something to be told or asked.
func (l *turnLine) pause(ctx context.Context, wants bool) {
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
		time.Sleep(freezePause) // however often its state changes
	case <-time.After(every):
	}
}

// last tells, for some seconds, why a task was stopped.
func (l *turnLine) last() {
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
