package policy

import (
	"testing"

	"github.com/combsched/comb/internal/sched"
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
	e := &experiment{}
	for _, at := range [][]int64{{50}, {40}, {30, 9}, {20, 8}, {60}} {
		e.trials = append(e.trials, &trial{at: at})
	}
	e.trials = append(e.trials, &trial{})
	for i, want := range []bool{true, true, true, false, true, false} {
		// Of five at the first rung two go on, of two at the second one.
		if got := p.cut(e, nil, e.trials[i]); got != want {
			t.Errorf("trial %v is cut: %v, want %v", e.trials[i].at, got, want)
		}
	}
	if !p.cut(e, [][]int64{{1, 1}}, e.trials[3]) {
		t.Error("a better one that ended does not count")
	}
	if p.cut(&experiment{trials: e.trials[:1]}, nil, e.trials[0]) {
		t.Error("who comes to a rung first is cut")
	}
}

// What a trial recorded is kept when it ends, and no more than so many.
func TestHyperschedRemembers(t *testing.T) {
	p := &hypersched{rf: 4, rungs: 3}
	g := sched.GangView{Hints: &sched.Hints{App: "x"}, Progress: &sched.TaskProgress{Step: 40, Total: 640, Loss: "0.5"}}
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
	if past := readEnded(all)["x"]; len(past) != keptTrials || len(past[0]) != 2 {
		t.Errorf("it remembers %d trials", len(past))
	}
	if p.Learn(nil, &sched.GangView{Hints: &sched.Hints{App: "x"}}) != nil {
		t.Error("a trial that came to no rung is remembered")
	}
}

// A resize must bring so much more by the deadline as it costs: twice the GPUs for 100
// seconds of which 30 are lost bring 1.4 times as much, for 60 seconds nothing.
func TestResizeMustPay(t *testing.T) {
	p := &hypersched{gain: 1100, restart: 30 * sched.Second}
	one := &trial{target: 2, g: sched.GangView{Leaves: 1, Hints: &sched.Hints{}, Sizes: sched.Sizes{Least: 1, Most: 4, Usual: 1, Now: 1, Each: 1}}}
	if !p.pays(one, int64(100*sched.Second)) || p.pays(one, int64(60*sched.Second)) {
		t.Error("it is resized for 60 seconds, or not for 100")
	}
	one.g.Speeds = []sched.Throughput{{Model: "m", GPUs: 1, Rate: 100}, {Model: "m", GPUs: 4, Rate: 115}} // 105 on two
	if p.pays(one, int64(10*sched.Hour)) {
		t.Error("it is resized to be a twentieth faster")
	}
}
