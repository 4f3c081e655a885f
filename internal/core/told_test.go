package core_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// startTold is what a program reads of when a job starts: the JSON of its estimate and of its
// explanation, and no text of them.
type startTold struct {
	Job        model.JobID
	Earliest   model.Time
	Latest     model.Time
	Confidence int32
	AtLatest   model.Time `json:"at_latest"`
	Basis      string     // for the report of a failure
	Gangs      []struct {
		ReservedAt model.Time `json:"reserved_at"`
		Bound      string
	}
}

// toldOf reads values by their JSON.
func toldOf(t *testing.T, from ...any) (p startTold) {
	t.Helper()
	for _, v := range from {
		text, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// promises counts what was told.
type promises struct{ estimates, drawn, reserved, listed int }

// In random histories of all kinds, where all jobs end as they declare and what is stopped takes
// its whole grace, each job starts by the time that its explanation, its estimate and the list of
// all starts name as the latest: all of them.
func TestToldStartsAreKept(t *testing.T) {
	var n promises
	for seed := range seeds.Of(t, 16) {
		for kind, ends := range []func(*model.Job) model.Duration{toLimits, forDurations} {
			r := rand.New(rand.NewPCG(seed, 44))
			var w *world
			if seed%4 == 0 { // what such jobs took is known
				w = experienced(t, r, ends)
			} else {
				w = variedEnding(t, r, ends)
			}
			for i := range 3 {
				w.keepsStarts(fmt.Sprintf("seed %d, kind %d, look %d", seed, kind, i), &n)
				if i < 2 {
					w.runTo(w.now.Add(model.Duration(1+r.IntN(20))*model.Minute), nil)
					w.arrives(r, 40+i)
				}
			}
		}
	}
	t.Logf("%+v", n)
	if seeds.Modest() && (n.estimates < 200 || n.drawn < 20 || n.reserved == 0 || n.listed < 200) {
		t.Errorf("too little was tried: %+v", n)
	}
}

// keepsStarts checks all times by which jobs start at the latest.
func (w *world) keepsStarts(when string, n *promises) {
	w.s = w.s.At(w.now)
	list := map[model.JobID]model.Time{}
	for _, e := range w.s.Starts(nil) {
		p := toldOf(w.t, e)
		list[p.Job] = p.Latest
	}
	for _, j := range w.s.Jobs() {
		if j.Phase != model.Waiting || j.Stopping {
			continue
		}
		estimate, _ := w.s.Estimate(j.ID, nil)
		explanation, _ := w.s.Explain(j.ID)
		p := toldOf(w.t, explanation, estimate)
		by := map[string]model.Time{"the list": list[j.ID], "the estimate": p.Latest}
		if p.Confidence > 0 {
			by["the estimate"] = p.AtLatest
		}
		if len(p.Gangs) > 0 {
			by["its reservation"] = p.Gangs[0].ReservedAt
		}
		count := func(n *int, at model.Time) {
			if at > 0 {
				*n++
			}
		}
		count(&n.estimates, by["the estimate"])
		count(&n.drawn, model.Time(p.Confidence))
		count(&n.reserved, by["its reservation"])
		count(&n.listed, by["the list"])
		c := w.copyOf()
		c.runTo(max(by["the list"], by["the estimate"], by["its reservation"]).Add(slack), nil)
		started := c.placedAt(j.ID)
		for what, at := range by {
			if at > 0 && (started == 0 || started > at.Add(slack)) {
				why, _ := c.s.Why(j.ID)
				w.t.Errorf("%s: at %d %s says that %s (%d) starts by %d (%s); it starts at %d: %+v", when, w.now, what, j.Name, j.ID, at, p.Basis, started, why.Gangs)
			}
		}
	}
}

// slack is how much later than told something may start, since decisions follow each other.
const slack = model.Millisecond

// experienced is a cluster on which jobs came and went for a while.
func experienced(t *testing.T, r *rand.Rand, ends func(*model.Job) model.Duration) *world {
	cfg := cluster(4, map[cell.VCName]int32{"a": 2, "b": 1})
	withPolicies(r, []*model.Config{cfg})
	w := newWorld(t, cfg)
	w.once, w.ends = true, ends
	for i := range 50 {
		w.arrives(r, 100+i)
		w.runTo(w.now.Add(model.Duration(r.IntN(8))*model.Minute), nil)
	}
	for i := range 6 {
		w.arrives(r, i)
	}
	w.s = w.s.At(w.now)
	return w
}

// toLimits lets a job run to its limit, which the core keeps; one without a limit for its duration.
func toLimits(j *model.Job) model.Duration {
	if j.TimeLimit > 0 {
		return 0
	}
	return j.Hints.Duration
}

// forDurations lets a job run for its declared duration, if that is shorter than its limit.
func forDurations(j *model.Job) model.Duration { return j.Hints.Duration }
