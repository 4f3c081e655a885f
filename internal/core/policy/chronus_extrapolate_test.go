package policy_test

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// twoTypes is a board with 8 GPUs of a and 8 of b, which is half as fast.
func twoTypes() *pooled {
	return &pooled{chronusBoard(16), []model.Pool{{SKU: "a", Leaves: 8, PerNode: 8}, {SKU: "b", Leaves: 8, PerNode: 8}}}
}

// ofModel gives the gang that came last the model of rates.
func (p *pooled) ofModel() *model.GangView {
	g := &p.waiting[len(p.waiting)-1]
	g.Speeds, g.Hints.Model = rates(), "m"
	return g
}

// An hour on 4 of a is two on 4 of b. With starts and the margin of safety it needs 4 or 8
// leases: the slow type where that is in time, else the fast one, and neither where it is too
// late for that, or the fast one is promised.
func TestChronusTypes(t *testing.T) {
	p := twoTypes()
	for _, deadline := range []model.Duration{9, 8, 4, 5, 9} {
		p.dated(4, 60*minutes, deadline*lease)
		p.ofModel()
	}
	slow := "takes 7200s on 4 b: 2.000 of 3600s on 4 a (declared), by the throughputs of its model; promised 0 b"
	want := "(1 " + slow + "), (2 promised 0 a), (3 demoted), (4 promised 0 a), (5 " + slow + "), 3!, 4@a!, 1@b!, 5@b!"
	is(t, "promises", p.lookAt(p, make1(t, "chronus", "")), want)
}

// A soft job gets the first of its deadlines that any type allows, be it on the fast one.
func TestChronusTypesSoft(t *testing.T) {
	p := twoTypes()
	p.dated(4, 60*minutes, 5*lease, 20*lease)
	p.ofModel()
	is(t, "promises", p.lookAt(p, make1(t, "chronus", "")), "(1 promised 0 a), 1@a!")
}

// Measured on 4 of a it takes 6000 s; of its 2 minutes there each counts two on b. Without a
// checkpoint it stays where it is. Of a model of which nothing is known either type is taken to
// be as fast.
func TestChronusMeasuredElsewhere(t *testing.T) {
	for _, c := range []struct {
		checkpoint, known bool
		sku, want         string
	}{
		{true, true, "a", "(1 measured 6000s on 4 a; takes 12000s on 4 b: 2.000 of 6000s on 4 a (measured), by the throughputs of its model; did 240s of that by 120s, then on 4 GPUs; promised 0 b), 1=-1, 2@a!, (2 profiles a)"},
		{false, true, "a", "(1 measured 6000s on 4 a; promised 0 a), 2@a!, (2 profiles a)"},
		{true, false, "a", "(1 measured 6000s on 4 a; promised 0 a), 2@a!, (2 profiles a)"},
	} {
		p := twoTypes()
		p.pools[0].Leaves, p.pools[1].Leaves = 16, 16
		p.free, p.total = 32, 32
		of := make1(t, "chronus", "profiler=1")
		p.dated(4, 60*minutes, 40*lease)
		if g := p.ofModel(); !c.known {
			g.Speeds = nil
		}
		p.waiting[0].Hints.Checkpoint = c.checkpoint
		is(t, "begin", p.lookAt(p, of), "1@a!, (1 profiles a)")
		p.dated(4, 60*minutes)
		p.running[0].Progress = &model.TaskProgress{At: p.now + model.Time(110*model.Second), StepAt: p.now + model.Time(60*model.Second), Step: 10, Total: 1000}
		p.now += model.Time(120 * model.Second)
		p.running[0].Ran = 120 * model.Second
		is(t, "end", p.lookAt(p, of), c.want)
	}
}

// An elastic job of which nothing is known is measured at its usual size where the pool has that,
// and else speed is taken to be linear, which its note says.
func TestChronusUnknownModel(t *testing.T) {
	p := &pooled{chronusBoard(16), []model.Pool{{SKU: "a", Leaves: 16, PerNode: 8}}}
	of := make1(t, "chronus", "profiler=1")
	p.dated(2, 60*minutes, 40*lease)
	p.waiting[0].Sizes, p.waiting[0].Gangs = model.Sizes{Least: 1, Most: 8, Usual: 8, Now: 8, MemberLeaves: 2}, 8
	is(t, "begin", p.lookAt(p, of), "1=4!, (1 profiles a)")
	p.dated(1, 60*minutes)
	g := &p.running[0]
	g.Sizes.Now, g.Sizes.Live, g.Sizes.Runs, g.Ran = 4, 4, 4, 120*model.Second
	g.Progress = &model.TaskProgress{At: p.now + model.Time(110*model.Second), StepAt: p.now + model.Time(60*model.Second), Step: 10, Total: 1000}
	p.now += model.Time(120 * model.Second)
	want := "(1 measured 6000s on 8 a; takes 3000s on 16 a: 0.500 of 6000s on 8 a (measured), speed taken to be linear in GPUs, as nothing is known of its model; did 60s of that by 120s, then on 16 GPUs; demoted), 1=8, 2!, (2 profiles a)"
	is(t, "end", p.lookAt(p, of), want)
}

// What a job of an unknown model is measured with is not free for others while it is there.
func TestChronusPoolIsFull(t *testing.T) {
	p := &pooled{chronusBoard(16), []model.Pool{{SKU: "a", Leaves: 16, PerNode: 8}}}
	of := make1(t, "chronus", "profiler=1")
	p.dated(1, 60*minutes)
	p.waiting[0].Sizes, p.waiting[0].Gangs = model.Sizes{Least: 1, Most: 8, Usual: 8, Now: 8, MemberLeaves: 1}, 8
	is(t, "begin", p.lookAt(p, of), "1=8!, (1 profiles a)")
	p.running[0].Sizes.Live, p.running[0].Sizes.Runs = 8, 8
	p.dated(4, 60*minutes)
	p.waiting[0].User = "another"
	p.now += model.Time(10 * model.Second)
	is(t, "the pool is full", p.lookAt(p, of), "")
}
