package policy

import "testing"

// Each root is the largest number whose square is not above the one before.
func TestRoots(t *testing.T) {
	last := uint64(1) << (logBits - 1)
	for i, r := range roots() {
		if n := last << logBits; r*r > n || (r+1 < 1<<logBits && (r+1)*(r+1) <= n) {
			t.Errorf("root %d is %d, which is not that of %d", i, r, last)
		}
		last = r
	}
}
