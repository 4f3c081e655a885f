package index

import (
	"math"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// drains ranks by what is left until an instant, at a rate.
type drains struct {
	model.LinearKeyed
	zero model.Time
	rate int64
}

func (e drains) Falls(*model.GangView) (model.Time, int64) { return e.zero, e.rate }

// A rank stands by the time at which it would be 0 only while it is exactly what falls to
// that: not of who takes turns, of whom a microsecond is left, or whose rank is as large as
// can be told; then it is made anew at each instant, or holds for good.
func TestFalls(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		about string
		zero  model.Time
		rate  int64
		rank  int64
		share int32
		falls int64
		until model.Time
		by    int64 // the rank by which it stands
	}{
		{"it falls", now + 50, 4, 200, 0, 4, 0, now + 50},
		{"it does not", 0, 0, 77, 0, 0, 0, 77},
		{"a microsecond is left", now + 1, 4, 4, 0, 0, 0, 4},
		{"it is late", now - 9, 4, 4, 0, 0, 0, 4},
		{"two are left", now + 2, 4, 8, 0, 4, 0, now + 2},
		{"it takes turns", now + 50, 4, 200, 1, 0, now + 1, 200},
		{"it is too large", now + math.MaxInt64/4, 8, math.MaxInt64, 0, 0, now + 1, math.MaxInt64},
		{"it is the largest", now + math.MaxInt64/7, 7, math.MaxInt64, 0, 0, now + 1, math.MaxInt64},
		{"it is another", now + 50, 4, 199, 0, 0, now + 1, 199},
	} {
		s, a := &Index{}, &tables.Attempt{Rank: model.Key{Rank: c.rank}, Share: c.share}
		s.Now = now
		if rate, until := s.falls(drains{zero: c.zero, rate: c.rate}, a, nil); rate != c.falls || until != c.until || a.Rank.Rank != c.by {
			t.Errorf("%s: it falls by %d, holds until %d and stands by %d; want %d, %d and %d", c.about, rate, until, a.Rank.Rank, c.falls, c.until, c.by)
		}
	}
}
