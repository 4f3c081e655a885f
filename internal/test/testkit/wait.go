// Package testkit is what tests of several packages share: waiting for a condition, the programs
// under test, what they say, and which worlds this run of the tests has. It is for tests only; no
// other code imports it.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is far more than a busy machine needs:
// a test that passes never waits for it.
const Patience = 2 * time.Minute

// The time between two looks at a condition grows with the wait: what comes at once is seen at
// once, and what takes seconds is not asked for hundreds of times by command or request.
const (
	shortPause = 5 * time.Millisecond
	longPause  = 50 * time.Millisecond
)

// Wait waits until a condition holds, and fails the test with what it waited for when Patience is
// over. The condition is asked in the goroutine of the test, so it may fail the test itself.
func Wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	WaitFor(t, func() string { return what }, holds)
}

// WaitFor is Wait for a condition that has something to show: what is asked for the message when
// Patience is over, and may say what was seen last.
func WaitFor(t testing.TB, what func() string, holds func() bool) {
	t.Helper()
	if !Within(Patience, holds) {
		t.Fatalf("waited %v for this, in vain: %s", Patience, what())
	}
}

// Within says whether a condition comes to hold within a time: for what has a time of its own, or
// where a test goes on without it. It looks at least once after the time is over.
func Within(limit time.Duration, holds func() bool) bool {
	for began := time.Now(); ; {
		over := time.Since(began) > limit
		if holds() {
			return true
		}
		if over {
			return false
		}
		time.Sleep(min(shortPause+time.Since(began)/20, longPause))
	}
}
