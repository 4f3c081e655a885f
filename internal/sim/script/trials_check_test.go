package script_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// Experiments under hypersched: trials come and go, report losses, are cut, paused, grow and
// shrink, with faults and other configurations.
func TestTrialSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/5)
	found := newFailures(trials, seeds.Unit/5)
	found.tryAll(t, from, to)
	if !t.Failed() && to-from+1 >= seeds.Unit/5 && found.met.pauses < 5 {
		t.Errorf("%d trials were paused", found.met.pauses)
	}
	if !t.Failed() && seeds.Modest() && found.met.lates == 0 { // rare: not each slice meets it
		t.Error("no trial was ended after its deadline")
	}
	t.Logf("%d trials were paused, %d ended after their deadline", found.met.pauses, found.met.lates)
}

// searching is hypersched with parameters.
func searching(g *generator) string {
	return g.pick("hypersched", "hypersched:rf=2,rungs=8,round=10,restart=0", "hypersched:rf=2,rungs=6,round=10,share=top,restart=1,gain=1",
		"hypersched:rf=3,rungs=6,round=30,restart=5", "hypersched:rf=2,round=20,end", "hypersched:rf=2,rungs=6,round=10,restart=1,end")
}

// oneTrial is a trial of one of two experiments, now and then another job.
func (g *generator) oneTrial(name string) string {
	least := 1 + g.IntN(2)*g.IntN(2)
	line := fmt.Sprintf("submit %s vc=%s prio=%s runs=%ds grace=%ds key=k%d r0=%d..%dx1", name, g.pick("a", "a", "a", "a", "b"),
		g.pick("test", "test", "test", "test", "test", "test", "prod", "oppo"), 60+g.IntN(900), g.IntN(40), g.next, least, least+g.IntN(4))
	for _, o := range []struct {
		percent int
		text    string
	}{{90, "checkpoint"}, {90, "app=" + g.pick("m", "m", "n")}, {50, fmt.Sprintf("deadline=%ds", 1+g.IntN(1800))}, {20, "model=m"}, {20, "stop=never"}, {5, "exit=1"}} {
		if g.chance(o.percent) {
			line += " " + o.text
		}
	}
	return line
}

// resizing is what decisions of one batch stop in a VC because jobs are to have fewer members.
type resizing struct {
	room  int64                 // leaves that others of the VC could use at its beginning
	freed map[model.JobID]int64 // by job
}

// resized checks an attempt that stops because its job is to have fewer members: who is
// paused has run for a round, and for the minimum run time; no more stop at once than make
// room for what others could use, and one job more.
func (c *checker) resized(r model.Record, e model.StopSent, a *attempt) {
	j := c.jobs[e.Attempt.Job]
	i := slices.IndexFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == j.VC })
	if i < 0 {
		c.fail("event %d resizes a job of VC %s, which is no more", r.Seq, j.VC)
		return
	}
	v := c.state.Config().VCs[i]
	least := v.MinRun
	if !j.Gangs[e.Attempt.Gang].Extra {
		c.met.pauses++
		if v.Policy == "hypersched" {
			least = max(least, seconds(v, "round", 60))
		}
	}
	paused := c.live[model.AttemptID{Job: e.Attempt.Job, N: c.last[gangKey{e.Attempt.Job, 0}]}]
	if ends := paused != nil && paused.stop && e.Attempt.Gang != 0; !ends && least > 0 && (a.started == 0 || a.started.Add(least) > r.Time) {
		c.fail("I6: event %d: attempt %v is stopped for a size before it has run for %d s", r.Seq, e.Attempt, least/model.Second)
	}
	n := c.room[j.VC]
	if n == nil {
		n = &resizing{room: c.usable(j.VC) + c.leaves(e.Attempt), freed: map[model.JobID]int64{}}
		c.room[j.VC] = n
	}
	n.freed[e.Attempt.Job] += c.leaves(e.Attempt)
	var all, most int64
	for _, x := range n.freed {
		all, most = all+x, max(most, x)
	}
	if all-most > n.room {
		c.fail("I6: event %d: jobs of %s give %d leaves back at once, and others could use %d", r.Seq, j.VC, all, n.room)
	}
}

// leaves is how many an attempt holds.
func (c *checker) leaves(id model.AttemptID) int64 {
	return int64(c.leavesTimes(gangKey{id.Job, id.Gang}, 1))
}

// usable counts the leaves of all gangs of a VC that do not run.
func (c *checker) usable(vc cell.VCName) int64 {
	held := map[gangKey]bool{}
	for id := range c.live {
		held[gangKey{id.Job, id.Gang}] = true
	}
	var n int64
	for id, j := range c.jobs {
		for g := range j.Gangs {
			if key := (gangKey{id, int32(g)}); j.VC == vc && !c.over[id] && !held[key] {
				n += int64(c.leavesTimes(key, 1))
			}
		}
	}
	return n
}

// late reports whether a trial is ended because its experiment's deadline has passed.
func (c *checker) late(r model.Record, id model.JobID) bool {
	j := c.jobs[id]
	for _, v := range c.state.Config().VCs {
		if n := len(j.Hints.Deadlines); v.Name == j.VC && v.Policy == "hypersched" && parameter(v, "end") == "true" && n > 0 {
			return r.Time > c.submitted[id].Add(j.Hints.Deadlines[n-1].After)
		}
	}
	return false
}
