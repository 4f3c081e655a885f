package script_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// What the platform stops never waits behind a later equal: it stands at its old place from the
// instant at which its stop is decided. The check asks the core itself about another world: had
// the tasks of what is being stopped been dead already, or its time come, when a later gang of its
// VC and priority was given cells, would it have got its own? If so it must still.

// returning reports whether the platform stops for this cause what waits again then.
func returning(c model.EndCause) bool {
	switch c {
	case model.EndDrained, model.EndRequeued, model.EndPlatform, model.EndPreempted, model.EndRefused:
		return true
	}
	return false
}

// ends notes how an attempt ended.
func (c *checker) ends(e model.AttemptEnded) {
	c.causes[gangKey{e.Attempt.Job, e.Attempt.Gang}] = e.Cause
}

// tryAt notes when a gang is tried again whose attempt the platform ended.
func (c *checker) tryAt(e model.TaskRetried) {
	key := gangKey{e.Job, e.Gang}
	delete(c.waitsFor, key)
	if c.causes[key] == model.EndPlatform {
		c.waitsFor[key] = e.After
	}
}

// waitsOut reports whether a gang waits for its next try after the platform ended its attempt.
func (c *checker) waitsOut(now model.Time, id model.AttemptID) bool {
	return c.waitsFor[gangKey{id.Job, id.Gang}] > now
}

// keeper is a gang that must keep its place, in the world before a later one was given cells.
type keeper struct {
	key gangKey
	at  model.Time // when it would be placed
}

// keepsPlace reports whether the check holds of a VC: where the order is that of submission, and
// one that waits blocks those behind it, or is booked before them. Other policies may have asked
// for the later gang first. With backfill, one that may stop others does so only once it waits, and
// its promise is made before: there the two worlds differ.
func (c *checker) keepsPlace(vc cell.VCName) bool {
	for _, v := range c.state.Config().VCs {
		if v.Name == vc {
			return (v.Policy == "" || v.Policy == "fifo") && (v.Backfill == "" || len(v.Params) == 0)
		}
	}
	return false
}

// beforePlace returns, when a gang is given cells, those of its VC and priority that were
// submitted before, stand still at their old place, and would be placed if nothing of them lived
// any more.
func (c *checker) beforePlace(r model.Record) []keeper {
	id, fresh := gets(r.Event)
	of := c.jobs[id.Job]
	if c.blind || !fresh || c.live[id] != nil || of == nil || of.Priority < cell.MinGuaranteed || !c.keepsPlace(of.VC) {
		return nil
	}
	var out []keeper
	for _, k := range c.returners(r.Time, id) {
		if c.wouldStart(c.state, r.Time, k) {
			out = append(out, k)
		}
	}
	return out
}

// gets returns the attempt that an event gives cells.
func gets(e model.Event) (id model.AttemptID, is bool) {
	switch e := e.(type) {
	case model.Placed:
		return e.Attempt, true
	case model.Reserved:
		return e.Attempt, true
	}
	return id, false
}

// returners lists those that must keep their place before a gang, and have no promise.
func (c *checker) returners(now model.Time, id model.AttemptID) []keeper {
	of := c.jobs[id.Job]
	equal := func(j model.JobID, gang int32) bool {
		o := c.jobs[j]
		return o != nil && !c.over[j] && j < id.Job && o.VC == of.VC && o.Priority == of.Priority &&
			!o.Gangs[gang].Extra && !of.Gangs[id.Gang].Extra
	}
	promised := func(k gangKey) bool {
		for other, a := range c.live {
			if other.Job == k.job && other.Gang == k.gang && !a.placed {
				return true
			}
		}
		return false
	}
	var out []keeper
	for other, a := range c.live {
		k := gangKey{other.Job, other.Gang}
		if !a.placed || !a.stop || !a.returns || !equal(k.job, k.gang) || c.unknown(other) {
			continue // it keeps the cells that it has, and no others, for as long as it is unknown
		}
		if c.met.keeps++; !promised(k) {
			out = append(out, keeper{key: k, at: now})
		}
	}
	for k, at := range c.waitsFor {
		if at > now && equal(k.job, k.gang) && !promised(k) {
			out = append(out, keeper{key: k, at: at})
		}
	}
	slices.SortFunc(out, func(a, b keeper) int {
		if a.key.job != b.key.job {
			return int(a.key.job - b.key.job)
		}
		return int(a.key.gang - b.key.gang)
	})
	return out
}

// unknown reports whether nothing says if an attempt still lives.
func (c *checker) unknown(id model.AttemptID) bool {
	j, _ := c.state.Job(id.Job)
	return slices.ContainsFunc(j.Attempts, func(a model.AttemptStatus) bool {
		return a.ID == id && a.State == model.AttemptUnknown
	})
}

// wouldStart asks the core whether a gang would be given cells once nothing of it lives, and its
// time has come.
func (c *checker) wouldStart(st *core.State, now model.Time, k keeper) bool {
	w := st.Clone()
	for id, a := range c.live {
		if id.Job != k.key.job || !a.placed || !a.stop {
			continue
		}
		for _, o := range c.jobs[id.Job].Gangs[id.Gang].Tasks {
			for _, e := range w.Accept(model.TaskExited{Attempt: id, Task: o, Exit: model.Exit{Code: 143}}) {
				w.Apply(model.Record{Seq: w.Seq() + 1, Time: now, Event: e})
			}
		}
	}
	for _, r := range w.Settle(max(now, k.at)) {
		if id, is := gets(r.Event); is && id.Job == k.key.job && id.Gang == k.key.gang {
			return true
		}
	}
	return false
}

// keptPlaces checks that those still would be, now that a later one was given cells.
func (c *checker) keptPlaces(r model.Record, before []keeper) {
	for _, k := range before {
		if !c.wouldStart(c.state, r.Time, k) {
			id, _ := gets(r.Event)
			c.fail("P1: event %d gives attempt %v of %s the cells of gang %d of job %d, which came before and the platform stops",
				r.Seq, id, c.jobs[id.Job].VC, k.key.gang, k.key.job)
		}
	}
}

// stoppedUnit is how many seeds TestStoppedSeeds has in go test.
const stoppedUnit = seeds.Unit / 2

// Random runs in which little happens but what makes the platform stop something: on four small
// machines every gang is in another's way.
func TestStoppedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, stoppedUnit)
	kept := 0
	for seed := from; seed <= to; seed++ {
		lines, sc := stopped(seed)
		kept += sc.check.met.keeps
		if sc.err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, sc.err, strings.Join(lines, "\n"))
		}
	}
	if to-from+1 >= stoppedUnit && kept == 0 {
		t.Error("no later gang was given cells while the platform stopped one before it")
	}
	t.Logf("%d times a later gang was given cells beside one that was stopped", kept)
}

// stopped gives the steps of one such run.
func stopped(seed uint64) (lines []string, sc *scenario) {
	r := rand.New(rand.NewPCG(seed, 41))
	sc = begin(plain)
	defer sc.s.Close()
	do := func(format string, a ...any) {
		lines = append(lines, fmt.Sprintf(format, a...))
		sc.do(step{line: lines[len(lines)-1]})
	}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	do("set start=%s stop=%s", pick("0s", "2s"), pick("1s", "20s"))
	policy := pick("a:fifo", "a:fifo", "a:fifo backfill=easy", "a:fifo backfill=conservative", "a:fifo:preempt")
	do("cluster nodes=4 gpus=2 vcs=a:4 policy=%s", policy)
	var names []string
	for range 60 {
		node := fmt.Sprintf("n%d", 1+r.IntN(4))
		switch n := r.IntN(100); {
		case n < 40 || len(names) == 0:
			names = append(names, fmt.Sprintf("j%d", len(names)+1))
			do("submit %s vc=a prio=%s w=%s%dx%d duration=%ds grace=30s", names[len(names)-1],
				pick("test", "test", "test", "prod"), pick("", "", "", "1.."), 1+r.IntN(3), 1+r.IntN(2), 60+r.IntN(2000))
		case n < 50:
			do("requeue %s", names[r.IntN(len(names))])
		case n < 60:
			do("node %s drain", node)
		case n < 72:
			do("node %s uncordon", node)
		case n < 80:
			do("node %s reboot", node)
		default:
			do("wait %ds", 1+r.IntN(60))
		}
	}
	for i := range 4 {
		do("node n%d uncordon", i+1)
	}
	do("wait 1h")
	do("verify")
	return lines, sc
}
