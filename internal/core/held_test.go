package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// hold tells that others hold all GPUs of a node, or that something else is the matter with them.
func (w *world) hold(node string, held bool, why string) {
	for d := range int32(4) {
		w.tell(model.LeafHealth{Node: cell.NodeName(node), SKU: "G", Device: d, HeldByOthers: held, Reason: why})
	}
}

func (w *world) release(node string) {
	for d := range int32(4) {
		w.tell(model.LeafHealth{Node: cell.NodeName(node), SKU: "G", Device: d, Good: true})
	}
}

// TestHeldByOthers: GPUs that others hold are said to be that, and not bad, in all that counts
// them; a job that waits for them says who has them.
func TestHeldByOthers(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	w.hold("n0", true, "4 GPUs held by tenant/thief")
	w.submit(gangJob("runs", "a", 10, 1, 4))
	waits := w.submit(gangJob("waits", "a", 10, 1, 4))
	r := w.explain(waits).Gangs[0]
	if want := "it would fit if others held no devices of n0 (n0: 4 GPUs held by tenant/thief)"; r.Reason.Code != model.HeldByOthers || r.Reason.Message != want {
		t.Errorf("it waits for %s: %s", r.Reason.Code, r.Reason.Message)
	}
	if l := r.Levels[0]; l.HeldByOthers != 1 || l.Bad != 0 {
		t.Errorf("of its cells are counted %+v", l)
	}
	wantKinds(t, "waits", w.proven(waits), model.AfterJobs, model.HardwareFixed)
	fixed := false
	for _, sug := range w.explain(waits).Gangs[0].Suggestions {
		fixed = fixed || sug.Message == "it would start if others held no devices of n0"
	}
	if !fixed {
		t.Errorf("no suggestion is that others leave: %+v", r.Suggestions)
	}
	n := w.s.Nodes()[0].SKUs[0]
	if n.HeldByOthers != 4 || n.Bad != 0 || n.Holders != "4 GPUs held by tenant/thief" || n.Fault != "" {
		t.Errorf("of the node is counted %+v", n)
	}
	if v := w.s.VCs()[0]; v.HeldByOthers != 4 || v.Bad != 0 {
		t.Errorf("of the VC are counted %d held and %d bad", v.HeldByOthers, v.Bad)
	}

	w.hold("n1", true, "0 GPUs held by tenant/none")
	runs := w.s.Nodes()[1].SKUs[0]
	if v := w.s.VCs()[0]; v.HeldByOthers != 4 || runs.HeldByOthers != 4 || runs.Used != 4 {
		t.Errorf("with GPUs in use on a held node %d are counted, and there %+v", v.HeldByOthers, runs)
	}
	w.release("n1")

	// One of them is broken as well, with the same words: that is news.
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 1, Reason: "4 GPUs held by tenant/thief"})
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 1, Reason: "Xid 79"})
	n = w.s.Nodes()[0].SKUs[0]
	if n.HeldByOthers != 3 || n.Bad != 1 || n.Fault != "Xid 79" || n.Holders == "" {
		t.Errorf("of the node is counted %+v", n)
	}
	if r := w.explain(waits).Gangs[0]; r.Reason.Code != model.BadHardware || r.Levels[0].Bad != 1 || r.Levels[0].HeldByOthers != 0 {
		t.Errorf("it waits for %s: %s; %+v", r.Reason.Code, r.Reason.Message, r.Levels[0])
	}
	w.release("n0")
	if e, waiting := w.s.Why(waits); waiting && len(e.Gangs) > 0 && e.Gangs[0].Reason.Code != "" {
		t.Errorf("it waits, with all GPUs free: %+v", e.Gangs)
	}
}

// TestHeldAndDown: of a node that is down as well the word is not that others hold it.
func TestHeldAndDown(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 4}))
	w.hold("n0", true, "4 GPUs held by tenant/thief")
	w.tell(model.LeafHealth{Node: "n1", SKU: "G", Device: 0, Reason: "Xid 79"})
	w.tell(model.NodeHealth{Node: "n2", Reason: "no news"})
	waits := w.submit(gangJob("waits", "a", 10, 4, 4))
	r := w.explain(waits).Gangs[0].Reason
	if r.Code != model.BadHardware || !strings.Contains(r.Message, "the bad hardware on n1 were repaired and others held no devices of n0 and n2 (down) were in service") {
		t.Errorf("it waits for %s: %s", r.Code, r.Message)
	}
	w.hold("n2", true, "4 GPUs held by tenant/thief")
	if v := w.s.VCs()[0]; v.Bad != 5 || v.HeldByOthers != 4 {
		t.Errorf("of the VC are counted %d held and %d bad", v.HeldByOthers, v.Bad)
	}
}

// TestHeldIsDecidedAsBad: what others hold changes no decision: it is the same as with bad GPUs,
// event by event.
func TestHeldIsDecidedAsBad(t *testing.T) {
	run := func(held bool) []string {
		w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
		for i := range 6 {
			w.submit(gangJob(fmt.Sprint("one", i), []cell.VCName{"a", "b"}[i%2], cell.Priority(10*(i%3)-1), 1, int32(1+i%4)))
		}
		w.hold("n1", held, "why")
		w.hold("n2", held, "why")
		for i := range 6 {
			w.submit(gangJob(fmt.Sprint("two", i), []cell.VCName{"a", "b"}[i%2], 10, 1, int32(4-i%4)))
		}
		w.release("n1")
		var out []string
		for _, r := range w.log {
			if _, fact := r.Event.(model.LeafHealth); !fact {
				kind, _, data, err := model.EncodeEvent(r.Event)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprintf("%d %d %s %s", r.Seq, r.Time, kind, data))
			}
		}
		return out
	}
	if bad, held := run(false), run(true); !slices.Equal(bad, held) || len(bad) < 20 {
		t.Errorf("with bad GPUs:\n%s\nwith held ones:\n%s", strings.Join(bad, "\n"), strings.Join(held, "\n"))
	}
}

// TestHoldFreesCharges: while a job of VC b waits in its back-off for the last healthy node, bad
// hardware is not charged to b in place of a. Once that job is held, or waits with a lower
// priority than is guaranteed, it is, and the job of a starts in the same decision. It starts, too,
// when another node comes up.
func TestHoldFreesCharges(t *testing.T) {
	low := cell.Priority(cell.Opportunistic)
	for name, leaves := range map[string]func(w *world, b model.JobID){
		"held":     func(w *world, b model.JobID) { w.do(model.Hold{Job: b, On: true}) },
		"lent":     func(w *world, b model.JobID) { w.do(model.Update{Job: b, Priority: &low}) },
		"comes up": func(w *world, b model.JobID) { w.tell(model.NodeHealth{Node: "n0", Up: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
			for _, n := range []cell.NodeName{"n0", "n1", "n2"} {
				w.tell(model.NodeHealth{Node: n, Up: false})
			}
			b := gangJob("b", "b", 10, 1, 4)
			b.Retries = 3
			id := w.submit(b)
			w.start(id)
			w.exit(id, 1)
			a := w.submit(gangJob("a", "a", 10, 1, 4))
			if j, _ := w.s.Job(a); j.Phase == model.Active {
				t.Fatal("the job of a took the node that the job of b waits for")
			}
			leaves(w, id)
			if j, _ := w.s.Job(a); j.Phase != model.Active {
				t.Error("the job of a does not start")
			}
		})
	}
}

// TestCordonedElsewhere: a node that was cordoned outside of Comb is told as cordoned, and nothing
// of it as bad, in all that counts its leaves. What runs there goes on.
func TestCordonedElsewhere(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	runs := w.submit(gangJob("runs", "a", 10, 1, 4))
	w.start(runs)
	const why = "it is cordoned in Kubernetes, until kubectl uncordon n0"
	cordon := func(node cell.NodeName, on bool) {
		for d := range int32(4) {
			w.tell(model.LeafHealth{Node: node, SKU: "G", Device: d, Good: !on, Cordoned: on, Reason: why})
		}
	}
	cordon("n0", true)
	cordon("n1", true)
	waits := w.submit(gangJob("waits", "a", 10, 1, 4))
	r := w.explain(waits).Gangs[0]
	if r.Reason.Code != model.Cordoned || !strings.Contains(r.Reason.Message, "(cordoned)") || !strings.Contains(r.Reason.Message, why) {
		t.Errorf("it waits for %s: %s", r.Reason.Code, r.Reason.Message)
	}
	if l := r.Levels[0]; l.Cordoned != 1 || l.Bad != 0 {
		t.Errorf("of its cells are counted %+v", l)
	}
	for _, n := range w.s.Nodes() {
		if !n.Cordoned || n.By != "" || n.Reason != why || n.SKUs[0].Bad != 0 || n.SKUs[0].Fault != "" {
			t.Errorf("the node is told as %+v", n)
		}
	}
	if v := w.s.VCs()[0]; v.Bad != 0 || v.Used != 4 {
		t.Errorf("of the VC are counted %d bad and %d used", v.Bad, v.Used)
	}

	// A cordon in Comb besides is one of its own: both must go.
	w.do(model.Cordon{Node: "n0", On: true, Reason: "a new fan"})
	if n := w.s.Nodes()[0]; n.Reason != "a new fan; "+why {
		t.Errorf("with both the reason is %q", n.Reason)
	}
	if m := w.explain(waits).Gangs[0].Reason.Message; strings.Contains(m, "cordoned and cordoned") {
		t.Error(m)
	}
	cordon("n0", false)
	if n := w.s.Nodes()[0]; !n.Cordoned || n.Reason != "a new fan" {
		t.Errorf("with its own alone it is told as %+v", n)
	}
	cordon("n1", false)
	if e, waiting := w.s.Why(waits); waiting && len(e.Gangs) > 0 && e.Gangs[0].Reason.Code != "" {
		t.Errorf("it waits, with a node free: %+v", e.Gangs)
	}
}

// TestKeptFromStarting: where a quota or the like kept an attempt from starting, no start is
// promised for the end of the back-off.
func TestKeptFromStarting(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	id := w.submit(gangJob("waits", "a", 10, 1, 4))
	w.tell(model.TaskExited{Attempt: w.attempt(id, 0), Exit: model.Exit{Cause: model.NeverStarted, Message: "exceeded quota: small"}})
	g := w.explain(id).Gangs[0]
	if g.Reason.Code != model.BackOff {
		t.Fatalf("it waits for %s: %s", g.Reason.Code, g.Reason.Message)
	}
	tried := false
	for _, s := range g.Suggestions {
		tried = tried || strings.Contains(s.Message, "it is tried again in at most") && strings.Contains(s.Message, "is over")
		if strings.HasPrefix(s.Message, "it starts in at most") {
			t.Errorf("a start is promised: %s", s.Message)
		}
	}
	if !tried {
		t.Errorf("it is not said that it is tried again: %+v", g.Suggestions)
	}
}
