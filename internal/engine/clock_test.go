package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// TestClockSetBack: with a wall clock that is hours behind the last event, what
// is due in a moment comes in a moment.
func TestClockSetBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	behind := func() model.Time { return model.Time(time.Now().Add(-3 * time.Hour).UnixMicro()) }
	last := model.Time(time.Now().UnixMicro())
	l := engine.NewLiveInputs(behind)
	l.NotBefore(last)
	wake := last.Add(50 * model.Millisecond)
	now, _, err := l.Next(ctx, wake)
	if err != nil {
		t.Fatal(err)
	}
	if now < wake || now > wake.Add(5*model.Second) {
		t.Errorf("woken at %d microseconds from the time that was asked for", now-wake)
	}
}

// TestClockSetBackWhileRunning: the same for a clock that is set back under a
// running server.
func TestClockSetBackWhileRunning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	behind := time.Duration(0)
	l := engine.NewLiveInputs(func() model.Time { return model.Time(time.Now().Add(-behind).UnixMicro()) })
	before, _, err := l.Next(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	behind = 3 * time.Hour
	now, _, err := l.Next(ctx, before.Add(50*model.Millisecond))
	if err != nil || now < before.Add(50*model.Millisecond) {
		t.Errorf("now %d after %d: %v", now, before, err)
	}
}
