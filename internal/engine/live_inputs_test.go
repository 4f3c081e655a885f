package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// clock is the wall clock in microseconds.
func clock() model.Time { return model.Time(time.Now().UnixMicro()) }

func TestLiveKeepsOrderAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := engine.NewLiveInputs(clock)
		begin := clock()
		wake := begin.Add(3 * model.Hour)
		now, in, err := l.Next(ctx, wake)
		if now != wake || len(in) != 0 || err != nil {
			t.Errorf("slept until %d, want %d: %v %v", now, wake, in, err)
		}
		if now, _, err := l.Next(ctx, begin); now != wake || err != nil {
			t.Errorf("a wake in the past: %d %v", now, err)
		}
		go func() {
			time.Sleep(time.Second) // of the bubble's clock
			for i := range int64(5000) {
				l.Tell(model.Progress{Step: i})
			}
		}()
		want := int64(0)
		for want < 5000 {
			_, in, err := l.Next(ctx, 0)
			if err != nil || len(in) == 0 || len(in) > 4096 {
				t.Fatalf("%d inputs, %v", len(in), err)
			}
			for _, i := range in {
				if i.Fact.(model.Progress).Step != want {
					t.Fatalf("fact %d comes as %+v", want, i.Fact)
				}
				want++
			}
		}
	})
}

func TestLiveRefusesTooManyCommandsButNoFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := engine.NewLiveInputs(clock)
		done, cancel := context.WithCancel(ctx)
		var busy, cut atomic.Int32
		for range 20_000 {
			go func() {
				switch r := l.Do(done, model.Stop{}, nil); {
				case r.Refusal != nil && r.Refusal.Kind == model.Busy:
					busy.Add(1)
				case errors.Is(r.Err, context.Canceled):
					cut.Add(1)
				}
			}()
		}
		synctest.Wait()
		if busy.Load() != 20_000-16_384 {
			t.Errorf("%d commands are refused", busy.Load())
		}
		l.Tell(model.Notice{})
		n := 0
		for n < 16_385 {
			_, in, err := l.Next(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			n += len(in)
		}
		cancel()
		synctest.Wait()
		if cut.Load() != 16_384 {
			t.Errorf("%d callers got their context's error", cut.Load())
		}
	})
}

// TestLiveEnds: what waits when the end comes is still done, what comes later is
// answered.
func TestLiveEnds(t *testing.T) {
	l := engine.NewLiveInputs(clock)
	done, cancel := context.WithCancel(ctx)
	l.Tell(model.Notice{Message: "last"})
	cancel()
	if _, in, err := l.Next(done, 0); len(in) != 1 || err != nil {
		t.Errorf("%v %v", in, err)
	}
	if r := l.Do(ctx, model.Stop{}, nil); !errors.Is(r.Err, engine.ErrClosed) {
		t.Errorf("a command at the end: %+v", r)
	}
	if _, in, err := l.Next(done, 0); len(in) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", in, err)
	}
	l.Close(nil)

	broken := errors.New("disk on fire")
	l = engine.NewLiveInputs(clock)
	var waiting sync.WaitGroup
	answer := make(chan engine.Reply, 1)
	waiting.Go(func() { answer <- l.Do(ctx, model.Stop{}, nil) })
	for waited := false; !waited; {
		select {
		case r := <-answer:
			answer <- r
			waited = true
		default:
			l.Close(broken)
		}
	}
	waiting.Wait()
	if r := <-answer; !errors.Is(r.Err, broken) {
		t.Errorf("a waiting command: %+v", r)
	}
}
