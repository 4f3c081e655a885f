package sched

import "testing"

// Half of it after a half-life, a quarter after two, 0.7071 after half of one, nothing
// after 32; a time before does not count.
func TestDecay(t *testing.T) {
	for _, c := range []struct {
		t    Duration
		want uint64
	}{{0, 1 << 32}, {Hour, 1 << 31}, {2 * Hour, 1 << 30}, {Hour / 2, 3_037_000_499}, {31 * Hour, 2}, {32 * Hour, 0}, {1 << 61, 0}} {
		if got := decay(c.t, Hour); got != c.want {
			t.Errorf("after %d s %d, want %d", c.t/Second, got, c.want)
		}
	}
	last := uint64(1 << 32)
	for d := Duration(1); d < 10*Hour; d += 17 * Second {
		now := decay(d, Hour)
		if now > last {
			t.Fatalf("after %d us it grows", d)
		}
		last = now
	}
	// The longest half-life and time.
	if got := decay(1<<62, 1<<62+1); got < 1<<31 || got > 1<<31+128 {
		t.Errorf("almost a half-life of 2^62: %d", got)
	}
}

// Each root is the largest number whose square is not above the one before.
func TestHalfRoots(t *testing.T) {
	last := uint64(1) << (decayBits - 1)
	for i, r := range halfRoots() {
		if n := last << decayBits; r*r > n || (r+1 < 1<<decayBits && (r+1)*(r+1) <= n) {
			t.Errorf("root %d is %d, which is not that of %d", i, r, last)
		}
		last = r
	}
}
