package state

import "testing"

const (
	second = 1_000_000
	hour   = 3_600 * second
)

// Half of it after a half-life, a quarter after two, 0.7071 after half of one, nothing
// after 32; a time before does not count.
func TestDecay(t *testing.T) {
	for _, c := range []struct {
		t    int64
		want Decay
	}{{0, 1 << 32}, {hour, 1 << 31}, {2 * hour, 1 << 30}, {hour / 2, 3_037_000_499}, {31 * hour, 2}, {32 * hour, 0}, {1 << 61, 0}} {
		if got := DecayAfter(c.t, hour); got != c.want {
			t.Errorf("after %d s %d, want %d", c.t/second, got, c.want)
		}
	}
	last := NoDecay
	for d := int64(1); d < 10*hour; d += 17 * second {
		now := DecayAfter(d, hour)
		if now > last {
			t.Fatalf("after %d us it grows", d)
		}
		last = now
	}
	// The longest half-life and time.
	if got := DecayAfter(1<<62, 1<<62+1); got < 1<<31 || got > 1<<31+128 {
		t.Errorf("almost a half-life of 2^62: %d", got)
	}
}

// Each root is the largest number whose square is not above the one before.
func TestHalfRoots(t *testing.T) {
	last := uint64(1) << (digits - 1)
	for i, r := range halfRoots() {
		if n := last << digits; r*r > n || (r+1 < 1<<digits && (r+1)*(r+1) <= n) {
			t.Errorf("root %d is %d, which is not that of %d", i, r, last)
		}
		last = r
	}
}
