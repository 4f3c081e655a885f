package policy

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Rungs of 640 steps are at 10, 40 and 160 of them; what is not whole is rounded up.
func TestRungs(t *testing.T) {
	p := &hypersched{rf: 4, rungs: 3}
	for _, c := range []struct {
		step, total int64
		want        int
	}{{9, 640, 0}, {10, 640, 1}, {39, 640, 1}, {40, 640, 2}, {159, 640, 2}, {160, 640, 3}, {640, 640, 3}, {1, 3, 3}, {1, 100, 0}, {2, 100, 1}} {
		if got := p.reached(c.step, c.total); got != c.want {
			t.Errorf("%d of %d steps: rung %d, want %d", c.step, c.total, got, c.want)
		}
	}
}

// One in four goes on from a rung, rounded up, whoever of them has ended; at a higher rung
// only those count that came there.
func TestCutsOfARung(t *testing.T) {
	p := &hypersched{rf: 4, rungs: 3}
	e := &experiment{waits: &waitingTrials{}}
	trials := []*trial{{at: []int64{50}}, {at: []int64{40}}, {at: []int64{30, 9}}, {at: []int64{20, 8}}, {at: []int64{60}}, {}}
	for i, o := range trials {
		if i%2 == 0 { // some run, some wait
			e.rungs.add(o.at)
		} else {
			e.waits.rungs.add(o.at)
		}
	}
	e.compare(p)
	for i, want := range []bool{true, true, true, false, true, false} {
		// Of five at the first rung two go on, of two at the second one.
		if got := e.cut(trials[i]); got != want {
			t.Errorf("trial %v is cut: %v, want %v", trials[i].at, got, want)
		}
	}
	e.past.add([]int64{1, 1})
	if e.compare(p); !e.cut(trials[3]) {
		t.Error("a better one that ended does not count")
	}
	alone := &experiment{waits: &waitingTrials{}}
	alone.rungs.add(trials[0].at)
	if alone.compare(p); alone.cut(trials[0]) {
		t.Error("who comes to a rung first is cut")
	}
}

// What a trial recorded is kept when it ends, and no more than so many.
func TestHyperschedRemembers(t *testing.T) {
	p := &hypersched{rf: 4, rungs: 3}
	g := model.GangView{Hints: &model.Hints{App: "x"}, Progress: &model.TaskProgress{Step: 40, Total: 640, Loss: "0.5"}}
	note, _ := p.Watch(&g)
	if g.Note = note; string(note) != "[500000000,500000000]" {
		t.Fatalf("it notes %s", note)
	}
	if again, _ := p.Watch(&g); again != nil {
		t.Errorf("it notes %s again", again)
	}
	var all []byte
	for range keptTrials + 7 {
		all = p.Learn(all, &g)
	}
	if past := readEnded(all)["x"]; len(past) != 2 || len(past[0]) != keptTrials {
		t.Errorf("it remembers %v", past)
	}
	if p.Learn(nil, &model.GangView{Hints: &model.Hints{App: "x"}}) != nil {
		t.Error("a trial that came to no rung is remembered")
	}
}

// A resize must bring so much more by the deadline as it costs: twice the GPUs for 100
// seconds of which 30 are lost bring 1.4 times as much, for 60 seconds nothing.
func TestResizeMustPay(t *testing.T) {
	p := &hypersched{gain: 1100, restart: 30 * model.Second}
	one := &trial{target: 2, g: model.GangView{Leaves: 1, Hints: &model.Hints{}, Sizes: model.Sizes{Least: 1, Most: 4, Usual: 1, Now: 1, MemberLeaves: 1}}}
	if !p.pays(one, int64(100*model.Second)) || p.pays(one, int64(60*model.Second)) {
		t.Error("it is resized for 60 seconds, or not for 100")
	}
	one.g.Speeds = []model.Throughput{{Model: "m", GPUs: 1, Rate: 100}, {Model: "m", GPUs: 4, Rate: 115}} // 105 on two
	if p.pays(one, int64(10*model.Hour)) {
		t.Error("it is resized to be a twentieth faster")
	}
}

// What is kept of trials that come and go is what it would be of those that are there, and
// the middle of two lists that of both.
func TestKeptTrials(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var gangs []model.GangView
	p := &hypersched{}
	have := p.NewWaitIndex().(*kept)
	for n := range 2000 {
		if len(gangs) > 0 && rnd.IntN(2) == 0 {
			i := rnd.IntN(len(gangs))
			have.Drop(gangs[i].Ref)
			gangs = slices.Delete(gangs, i, i+1)
			continue
		}
		g := model.GangView{Ref: model.GangRef{Job: model.JobID(n)}, Order: int64(n), Leaves: 1 + rnd.Int32N(2), Hints: &model.Hints{App: string("xy"[rnd.IntN(2)])}}
		g.Hints.Duration, g.Ran = model.Duration(rnd.IntN(3)), model.Duration(rnd.IntN(9))
		for range rnd.IntN(3) {
			g.Hints.Deadlines = []model.Deadline{{After: model.Duration(1 + rnd.IntN(9))}}
			g.Note = encodeNote(append(readRungs(g.Note), rnd.Int64N(5)))
		}
		have.Add(&g)
		gangs = append(gangs, g)
	}
	want := p.NewWaitIndex().(*kept)
	for i := range gangs {
		want.Add(&gangs[i])
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("of %d trials it keeps something else", len(gangs))
	}
	for range 1000 {
		var a, b []int64
		for range 1 + rnd.IntN(4) {
			insertSorted(&a, rnd.Int64N(5))
		}
		for range rnd.IntN(6) {
			insertSorted(&b, rnd.Int64N(5))
		}
		all := slices.Sorted(slices.Values(slices.Concat(a, b)))
		for k, n := range all {
			if got := kth(k, a, b); got != n {
				t.Fatalf("of %v and %v number %d is %d, not %d", a, b, k, n, got)
			}
		}
	}
}
