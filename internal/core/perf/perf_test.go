package perf

import (
	"math"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

func TestTime(t *testing.T) {
	for _, c := range []struct {
		rate  Rate
		steps int64
		want  model.Duration
	}{
		{PerSecond, 10, 10 * model.Second},
		{4 * PerSecond, 1, model.Second / 4},
		{3 * PerSecond, 1, 333_334}, // rounded up
		{PerSecond / 2, 3, 6 * model.Second},
		{7, 0, 0},
		{1, 9_223, 9_223_000_000_000_000_000},
		{1, 9_224, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64},
		{0, 1, math.MaxInt64},
		{-1, 1, math.MaxInt64},
		{PerSecond, -1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 1_000_000_000_000_000},
	} {
		if got := c.rate.Time(c.steps); got != c.want {
			t.Errorf("%d steps at %d take %d, want %d", c.steps, c.rate, got, c.want)
		}
	}
}

// TestFirstEntryStays checks that tables are sorted and hold one entry for a thing.
func TestFirstEntryStays(t *testing.T) {
	a, b := Work{"a", 1}, Work{"a", 2}
	table := NewThroughputs([]Alone{{"w", b, 1}, {"v", b, 2}, {"w", a, 3}, {"w", b, 4}},
		[]Pair{{"w", b, a, 1, 2}, {"w", a, b, 3, 4}, {"w", b, a, 5, 6}})
	if r, ok := table.Rate("w", b); !ok || r != 1 || len(table.Alone) != 3 || table.Alone[0].Worker != "v" {
		t.Errorf("%+v", table.Alone)
	}
	if x, y, ok := table.Together("w", b, a); !ok || x != 1 || y != 2 || len(table.Pairs) != 2 {
		t.Errorf("%+v", table.Pairs)
	}
	spreads := NewSpreads([]Spread{{"m", 4, 2, 5}, {"l", 4, 2, 6}, {"m", 4, 2, 7}, {"m", 2, 2, 8}})
	if s, ok := spreads.Speed("m", 4, 2); !ok || s != 5 || len(spreads.List) != 3 {
		t.Errorf("%+v", spreads.List)
	}
}
