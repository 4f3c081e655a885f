package state

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const minute = model.Duration(60_000_000)

// Until enough have ended nothing is said; then by the nearest key that has enough.
func TestNearestKey(t *testing.T) {
	var all RunTimes
	ann := RunTimeWork{VC: "a", User: "ann"}
	for i := range minParts {
		if _, ok := all.Of(ann, OfLimit, 0, 10*minute); ok {
			t.Fatalf("%d say something", i)
		}
		all.Add(ann, OfLimit, 5*minute, 10*minute, true)
	}
	for range minParts {
		all.Add(RunTimeWork{VC: "a", User: "bob"}, OfLimit, 9*minute, 10*minute, true)
	}
	for _, c := range []struct {
		w    RunTimeWork
		want model.Duration
		n    int
	}{{ann, 5 * minute, minParts}, {RunTimeWork{VC: "a", User: "bob"}, 9 * minute, minParts}} {
		u, ok := all.Of(c.w, OfLimit, 0, 10*minute)
		if got := u.Takes(10*minute, 1, 3); !ok || got != c.want || u.N != c.n {
			t.Errorf("%v: %v of %d, %t", c.w, got, u.N, ok)
		}
	}
	if u, ok := all.Of(RunTimeWork{VC: "b", User: "eve"}, OfLimit, 0, 10*minute); !ok || u.N != 2*minParts {
		t.Errorf("all say: %+v, %t", u, ok)
	}
	if u, ok := all.Of(ann, OfDuration, 0, 10*minute); !ok || u.N != 2*minParts {
		t.Errorf("of a duration all say something, where no duration does: %+v, %t", u, ok)
	}
	all.Add(ann, OfDuration, minute, minute, false)
	if u, _ := all.Of(RunTimeWork{}, OfLimit, 0, 10*minute); u.N != 2*minParts {
		t.Errorf("of a limit, a duration says something: %+v", u)
	}
}

// What runs on past some parts ends at the larger ones, and past all at any time until all is
// taken.
func TestWhatIsPast(t *testing.T) {
	var all RunTimes
	for i := range 10 {
		all.Add(RunTimeWork{}, OfLimit, model.Duration(i+1)*minute, 10*minute, true)
	}
	for _, past := range []model.Duration{0, 5 * minute, 9 * minute} {
		u, ok := all.Of(RunTimeWork{}, OfLimit, past, 10*minute)
		if !ok {
			t.Fatalf("nothing is said of what took %v", past)
		}
		last := past - 1
		for k := range int32(11) {
			got := u.Takes(10*minute, k, 11)
			if got < past || got < last {
				t.Errorf("after %v, place %d: %v after %v", past, k, got, last)
			}
			last = got
		}
	}
	for range partsPerKey {
		all.Add(RunTimeWork{}, OfLimit, 2*minute, 10*minute, true)
	}
	u, ok := all.Of(RunTimeWork{}, OfLimit, 6*minute, 10*minute)
	if got := u.Takes(10*minute, 1, 3); !ok || got != 8*minute {
		t.Errorf("past all it takes %v, %t", got, ok)
	}
	if _, ok := all.Of(RunTimeWork{}, OfLimit, 11*minute, 10*minute); ok {
		t.Error("something is said of what took more than all")
	}
}

// A table stays as large as it may be; what was added to last stays. Copies do not change with it.
func TestBounds(t *testing.T) {
	var all RunTimes
	all.Add(RunTimeWork{VC: "old"}, OfLimit, minute, minute, true)
	was := all.Clone()
	for i := range 3 * maxKeys {
		w := RunTimeWork{VC: cell.VCName(fmt.Sprint(i % 7)), User: model.Subject(fmt.Sprint(i)), Model: fmt.Sprint(i % 3)}
		all.Add(w, OfLimit, minute, 2*minute, true)
	}
	if len(all.rows) != maxKeys || len(was.rows) != 4 {
		t.Errorf("%d rows, a copy has %d", len(all.rows), len(was.rows))
	}
	if _, found := all.find(runTimeKey{RunTimeWork: RunTimeWork{VC: "old"}, Of: OfLimit}); found {
		t.Error("the oldest is still there")
	}
	if i, found := all.find(runTimeKey{RunTimeWork: RunTimeWork{}, Of: OfLimit}); !found || len(all.rows[i].Parts) != partsPerKey {
		t.Error("what is added to each time is not there, or too long")
	}
	if again := ReadRunTimes(all.Rows()); again.at != all.at || len(again.rows) != maxKeys {
		t.Errorf("read again: %d rows at %d", len(again.rows), again.at)
	}
}

// In all draws a gang takes each place once, and two gangs seldom the same ones.
func TestPlaces(t *testing.T) {
	alike := 0
	var first [11]int32
	for work := range int64(100) {
		var seen, at [11]int32
		for k := range int32(11) {
			at[k] = RunTimeDraw{K: k, Of: 11}.Place(work, 0)
			seen[at[k]]++
		}
		for p, n := range seen {
			if n != 1 {
				t.Fatalf("work %d takes place %d %d times", work, p, n)
			}
		}
		if work == 0 {
			first = at
		} else if at == first {
			alike++
		}
	}
	if alike > 5 {
		t.Errorf("%d of 99 take the same places", alike)
	}
}
