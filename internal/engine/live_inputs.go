package engine

import (
	"context"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

const (
	// maxCommands bounds the commands that wait for the loop.
	maxCommands = 16384
	// maxRound bounds the inputs of one round, and so one transaction.
	maxRound = 4096
	// maxSleep bounds one sleep, so that a jump of the wall clock is noticed.
	maxSleep = time.Minute
)

// LiveInputs is the Inputs of a real server: commands and facts from any goroutine, wall time from
// the given clock. Commands are refused when the queue is full; facts are never refused or dropped.
type LiveInputs struct {
	now  func() model.Time
	more chan struct{} // holds one token when the queue may have grown

	mu       sync.Mutex
	floor    model.Time // the latest time that was returned
	floorAt  time.Time  // when that was, by the monotonic clock
	queue    []Input
	commands int   // their number in queue
	closed   error // set when nothing more is taken
}

// NewLiveInputs returns an empty LiveInputs. now gives the wall time.
func NewLiveInputs(now func() model.Time) *LiveInputs {
	return &LiveInputs{now: now, more: make(chan struct{}, 1)}
}

// Do submits a command and waits for its durable outcome. A full queue refuses it with kind Busy
// at once. When ctx ends first, the caller does not know the command's fate, and may repeat it
// with the same idempotency key.
func (l *LiveInputs) Do(ctx context.Context, c model.Command, secrets map[string]string) Reply {
	return l.Give(ctx, Input{Command: c, Secrets: secrets})
}

// Give is Do for a whole Input; it sets the Input's Reply.
func (l *LiveInputs) Give(ctx context.Context, in Input) Reply {
	answer := make(chan Reply, 1)
	in.Reply = func(r Reply) { answer <- r }
	if r, ok := l.enqueueCommand(in); !ok {
		return r
	}
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return Reply{Err: ctx.Err()}
	}
}

func (l *LiveInputs) enqueueCommand(in Input) (Reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return Reply{Err: l.closed}, false
	}
	if l.commands >= maxCommands {
		return Reply{Refusal: &model.Refusal{Kind: model.Busy,
			Message: "the server has too many commands waiting; try again in a moment"}}, false
	}
	l.commands++
	l.push(in)
	return Reply{}, true
}

// Tell submits a fact. It never waits. A fact that comes after the loop has ended is not kept:
// the executor tells it again after the restart.
func (l *LiveInputs) Tell(f model.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.push(Input{Fact: f})
	}
}

// push adds to the queue and wakes Next; the lock is held.
func (l *LiveInputs) push(in Input) {
	l.queue = append(l.queue, in)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// Next implements Inputs. It returns all that waits, up to the size of one round. When ctx is
// done it accepts nothing new, returns what waits, and then the error of ctx.
func (l *LiveInputs) Next(ctx context.Context, wake model.Time) (model.Time, []Input, error) {
	for {
		if ctx.Err() != nil {
			l.refuseNew(ErrClosed)
		}
		now, in := l.time(), l.take()
		switch {
		case len(in) > 0:
			return now, in, nil
		case ctx.Err() != nil:
			return now, nil, ctx.Err()
		case wake != 0 && now >= wake:
			return now, nil, nil
		}
		l.sleep(ctx, wake, now)
	}
}

// NotBefore says that time t was reached already. The engine calls it with the time of the last
// event. So after a wall clock was set back, time goes on from there at its usual speed, and no
// limit or back-off waits for hours.
func (l *LiveInputs) NotBefore(t model.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t > l.floor {
		l.floor, l.floorAt = t, time.Now()
	}
}

// time is the wall time, but no earlier than the latest returned time plus what has passed since.
func (l *LiveInputs) time() model.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	wall := l.now()
	if !l.floorAt.IsZero() {
		if t := l.floor.Add(model.Duration(time.Since(l.floorAt).Microseconds())); t > wall {
			return t
		}
	}
	l.floor, l.floorAt = wall, time.Now()
	return wall
}

// sleep waits for an input, for wake or for ctx, whichever comes first.
func (l *LiveInputs) sleep(ctx context.Context, wake, now model.Time) {
	delay := maxSleep
	if wake != 0 {
		delay = min(delay, time.Duration(min(wake-now, model.Time(maxSleep/time.Microsecond)))*time.Microsecond)
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-l.more:
	case <-t.C:
	case <-ctx.Done():
	}
}

// take removes up to one round of inputs from the head of the queue.
func (l *LiveInputs) take() []Input {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), maxRound)
	if n == 0 {
		return nil
	}
	in := l.queue[:n:n]
	l.queue = l.queue[n:]
	for i := range in {
		if in[i].Command != nil {
			l.commands--
		}
	}
	if len(l.queue) == 0 {
		l.queue = nil // so that the array can be freed
	}
	return in
}

func (l *LiveInputs) refuseNew(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = why
	}
}

// Close ends LiveInputs: waiting and later commands are answered with err (nil: ErrClosed). The
// engine calls it when its loop ends.
func (l *LiveInputs) Close(err error) {
	if err == nil {
		err = ErrClosed
	}
	l.mu.Lock()
	l.closed = err
	rest := l.queue
	l.queue, l.commands = nil, 0
	l.mu.Unlock()
	for i := range rest {
		if rest[i].Reply != nil {
			rest[i].Reply(Reply{Err: err})
		}
	}
}
