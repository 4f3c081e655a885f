package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// lentBy says what VCs use, borrow and lend.
func (w *world) lentBy() (out string) {
	for _, v := range w.s.VCs() {
		out += fmt.Sprintf("%s:%d/%d/%d ", v.Name, v.Used, v.Opportunistic, v.Lent)
	}
	return out
}

// What a VC does not use is bound to no cell, and opportunistic work stands there: it is lent, as
// explain says.
func TestUnboundCellsAreLent(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"robots": 1, "speech": 1, "vision": 2}))
	w.start(w.submit(gangJob("low", "vision", -1, 1, 4)))
	want(t, "while others are idle", w.lentBy(), "robots:0/0/0 speech:0/0/0 vision:0/4/0 ")
	w.start(w.submit(gangJob("own", "speech", 10, 1, 4)))
	w.start(w.submit(gangJob("two", "vision", 10, 2, 4)))
	want(t, "when nothing is idle", w.lentBy(), "robots:0/0/4 speech:4/0/0 vision:8/4/0 ")
	e := w.explain(w.submit(gangJob("waits", "vision", 10, 1, 4)))
	gpus := e.Gangs[0].Levels[len(e.Gangs[0].Levels)-1]
	want(t, "GPUs that opportunistic work has, as explain says", fmt.Sprint(gpus.Type, gpus.Lent, gpus.Free), "G4 0")
	rita := gangJob("rita", "robots", 10, 1, 4)
	if dry, refusal := w.s.DryRun(rita, nil); refusal != nil || len(dry.Preempts) != 1 {
		t.Errorf("a job of robots starts by preemption alone: %v %+v", refusal, dry)
	}
	w.submit(rita)
	want(t, "what was promised is used", w.lentBy(), "robots:4/0/0 speech:4/0/0 vision:8/4/0 ")
}

// Idle leaves are set against what VCs do not use in order of name, each once; what is left over
// is lent.
func TestIdleLeavesAreNoLoan(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 1, "b": 1, "c": 1}))
	w.start(w.submit(gangJob("low", "a", -1, 2, 4)))
	want(t, "a borrows its own node and one that no VC is guaranteed", w.lentBy(), "a:0/8/0 b:0/0/0 c:0/0/0 ")
	w.start(w.submit(gangJob("more", "a", -1, 1, 4)))
	want(t, "one of 2 is idle", w.lentBy(), "a:0/12/0 b:0/0/0 c:0/0/4 ")
	w.start(w.submit(gangJob("most", "a", -1, 1, 2)))
	want(t, "half of one", w.lentBy(), "a:0/14/0 b:0/0/2 c:0/0/4 ")
	w.do(model.Cordon{Node: w.free(), On: true})
	want(t, "what is cordoned is idle for no VC", w.lentBy(), "a:0/14/0 b:0/0/4 c:0/0/4 ")
}

// free is a node of which a part is idle.
func (w *world) free() cell.NodeName {
	for _, n := range w.s.Nodes() {
		if n.SKUs[0].Used < n.SKUs[0].Total {
			return n.Name
		}
	}
	w.t.Fatal("no node has idle leaves")
	return ""
}

// In a VC that others divide, what is inside its cells is theirs.
func TestLoansInsideContainers(t *testing.T) {
	cfg := cluster(4, map[cell.VCName]int32{"b": 1, "c": 2, "c.x": 1, "c.y": 1, "d": 1})
	for i, v := range cfg.Cluster.VCs {
		if v.Name == "c" {
			cfg.Cluster.VCs[i].Quota = []cell.QuotaSpec{{Chain: "RACK", Level: 4, Number: 1}}
		} else if len(v.Name) > 1 {
			cfg.Cluster.VCs[i].Parent = "c"
		}
	}
	w := newWorld(t, cfg)
	w.start(w.submit(gangJob("low", "b", -1, 4, 4)))
	want(t, "all is lent but to b itself", w.lentBy(), "b:0/16/0 c:0/0/0 c.x:0/0/4 c.y:0/0/4 d:0/0/4 ")
	w = newWorld(t, cfg)
	w.start(w.submit(gangJob("high", "c.x", 10, 1, 4))) // in c's rack: the rest is c.y's
	w.start(w.submit(gangJob("low", "c.x", -1, 2, 4)))
	want(t, "one node outside or inside is idle", w.lentBy(), w.expectInside())
}

// expectInside is what is lent beside the node of c.x, by where the idle node lies.
func (w *world) expectInside() string {
	node := w.free()
	if (node < "n2") == (w.where(1) < "n2") { // in c's rack
		return "b:0/0/4 c:0/0/0 c.x:4/8/0 c.y:0/0/0 d:0/0/4 "
	}
	return "b:0/0/0 c:0/0/0 c.x:4/8/0 c.y:0/0/4 d:0/0/4 "
}

// What is idle was kept for a VC that lends nothing: others lend, whatever their names.
func TestNoLoanOfAVCThatLendsNothing(t *testing.T) {
	cfg := cluster(4, map[cell.VCName]int32{"a": 1, "b": 1, "c": 1, "d": 1})
	cfg.VCs[2].Lending = model.LendNothing
	w := newWorld(t, cfg)
	w.start(w.submit(gangJob("low", "d", -1, 3, 4)))
	want(t, "c has what is idle", w.lentBy(), "a:0/0/4 b:0/0/4 c:0/0/0 d:0/12/0 ")
}

// What VCs lend is told in work that grows with them and with their containers, and not with the
// product of both.
func TestLoansOfManyContainers(t *testing.T) {
	work := func(containers int) float64 {
		counts := map[cell.VCName]int32{}
		for i := range containers {
			outer := cell.VCName(fmt.Sprintf("c%03d", i))
			counts[outer], counts[outer+".x"], counts[outer+".y"] = 2, 1, 1
		}
		cfg := cluster(2*containers, counts)
		for i, v := range cfg.Cluster.VCs {
			if outer, _, inside := strings.Cut(string(v.Name), "."); inside {
				cfg.Cluster.VCs[i].Parent = cell.VCName(outer)
			} else {
				cfg.Cluster.VCs[i].Quota = []cell.QuotaSpec{{Chain: "RACK", Level: 4, Number: 1}}
			}
		}
		w := newWorld(t, cfg)
		w.start(w.submit(gangJob("low", "c001.x", -1, 4, 4)))
		lent := int32(0)
		for _, v := range w.s.VCs() {
			lent += v.Lent
		}
		want(t, "lent, but by the borrower", lent, 12)
		return testing.AllocsPerRun(1, func() { w.s.VCs() })
	}
	if few, many := work(25), work(100); many > 5*few {
		t.Errorf("four times the containers: %v allocations, and %v before", many, few)
	}
}
