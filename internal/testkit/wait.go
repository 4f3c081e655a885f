// Package testkit is what tests of several packages share: waiting for a condition, the programs
// under test, and which worlds this run of the tests has. It is for tests only; no other code
// imports it.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is far more than a busy machine needs:
// a test that passes never waits for it.
const Patience = 2 * time.Minute

// pause is the time between two looks at a condition.
const pause = 5 * time.Millisecond

// Wait waits until a condition holds, and fails the test with what it waited for when Patience is
// over. The condition is asked in the goroutine of the test, so it may fail the test itself.
func Wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Within(Patience, holds) {
		t.Fatalf("waited %v for this, in vain: %s", Patience, what)
	}
}

// Within says whether a condition comes to hold within a time: for what has a time of its own, or
// where a test goes on without it.
func Within(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(pause) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
