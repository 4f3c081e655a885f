package perf

import (
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// However often the speed changes, work that Takes says is done at an instant is done
// then, and not one microsecond before.
func TestPaceIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		work := 1 + model.Duration(rng.Int64N(1_000_000))
		start := model.Duration(rng.Int64N(3)) * 1000
		p := NewPace(5, start, Speed(1+rng.Int64N(int64(FullSpeed))))
		now := model.Time(5)
		for range rng.IntN(20) {
			now = min(now+model.Time(rng.Int64N(20_000)), p.from.Add(p.Takes(work)))
			p.Change(now, Speed(1+rng.Int64N(int64(FullSpeed))))
		}
		end := p.from.Add(p.Takes(work))
		if end > now && p.Done(end-1) >= work || p.Done(end) != work {
			t.Fatalf("%d of work: at %d %d are done, one before %d; %+v", work, end, p.Done(end), p.Done(end-1), p)
		}
	}
}
