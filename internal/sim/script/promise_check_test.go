package script_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What chronus promises, by the checker's own reading of its notes.

// promise is what chronus said last about a job.
type promise struct {
	word    string // demoted, promised, planned, holds, profiles, or "" before
	told    bool   // it was in the profiler's pool
	since   model.Time
	seconds int64 // as measured, 0 for not
	option  int   // which deadline
	sku     cell.TypeName
	// takes is how many seconds it takes with so many GPUs, extrapolated; after it had run for by
	// that was as much as did, and since then it has now GPUs.
	takes, gpus, did, by, now int64
}

// runs is how long a job runs in all, as chronus says or the job declares.
func (p *promise) runs(declared model.Duration) model.Duration {
	switch {
	case p.takes > 0:
		return model.Duration(p.takes) * model.Second
	case p.seconds > 0:
		return model.Duration(p.seconds) * model.Second
	}
	return declared
}

// done is how much of that was done by a job that ran for so long; false where the note
// does not say what it has done since it has so many GPUs.
func (p *promise) done(ran model.Duration) (model.Duration, bool) {
	return ran + model.Duration(p.did-p.by)*model.Second, p.now == p.gpus
}

func (p *promise) kept() bool {
	return p.word == "promised" || p.word == "planned" || p.word == "holds"
}

func readPromise(note []byte) promise {
	var p promise
	text := string(note)
	if rest, ok := strings.CutPrefix(text, "measured "); ok {
		head, after, _ := strings.Cut(rest, "; ")
		seconds, _, _ := strings.Cut(head, "s")
		p.seconds, _ = strconv.ParseInt(seconds, 10, 64)
		p.told, text = true, after
	}
	if strings.HasPrefix(text, "takes ") {
		head, after, _ := strings.Cut(text, "; ")
		_, _ = fmt.Sscanf(head, "takes %ds on %d ", &p.takes, &p.gpus)
		p.now, text = p.gpus, after
	}
	if strings.HasPrefix(text, "did ") {
		head, after, _ := strings.Cut(text, "; ")
		_, _ = fmt.Sscanf(head, "did %ds of that by %ds, then on %d GPUs", &p.did, &p.by, &p.now)
		text = after
	}
	words := strings.Fields(text)
	if len(words) > 0 {
		p.word = words[0]
	}
	if len(words) > 1 && p.kept() {
		p.option, _ = strconv.Atoi(words[1])
	}
	if len(words) > 2 && p.kept() {
		p.sku = cell.TypeName(words[2])
	}
	return p
}

// chronusOf is the configuration of a VC under chronus.
func (c *checker) chronusOf(vc cell.VCName) (model.VCConfig, bool) {
	for _, v := range c.state.Config().VCs {
		if v.Name == vc {
			return v, v.Policy == "chronus"
		}
	}
	return model.VCConfig{}, false
}

// noted checks what a policy says about a job, and keeps it.
func (c *checker) noted(r model.Record, e model.Noted) {
	switch {
	case (e.Policy == "las" || e.Policy == "gittins") && e.Job != 0:
		c.promotes(r, e)
		return
	case e.Policy == "philly" && e.Job != 0 && c.losses[e.Job] == nil:
		c.begins(e.Job)
		return
	case e.Policy == "offers":
		if f := strings.Fields(string(e.Data)); len(f) == 3 {
			until, _ := strconv.ParseInt(f[1], 10, 64)
			c.filters[e.Job] = model.Time(until)
		}
		return
	case e.Policy != "chronus":
		return
	}
	v, ok := c.chronusOf(e.VC)
	if !ok {
		c.fail("event %d: chronus notes something about VC %s, which has another policy", r.Seq, e.VC)
		return
	}
	if e.Job == 0 {
		c.pool(r, v, e.Data)
		return
	}
	was, is := c.promises[e.Job], readPromise(e.Data)
	j := c.jobs[e.Job]
	is.since = r.Time
	if was.kept() {
		is.since = was.since
	}
	switch {
	case is.kept() && !was.kept():
		c.canPromise(r, v, e.Job, is)
	case was.kept() && is.word == "demoted":
		c.broken(r, v, e.Job, was, e.Data)
	case was.kept() && !is.kept():
		c.fail("C1: event %d: job %s, which was guaranteed (%s), is said to be %q", r.Seq, j.Name, was.word, e.Data)
	case is.kept() && is.option >= len(j.Hints.Deadlines):
		c.fail("C1: event %d: job %s has no deadline number %d", r.Seq, j.Name, is.option)
	case was.told && !is.told:
		c.fail("C3: event %d: what was measured of job %s is forgotten: %q", r.Seq, j.Name, e.Data)
	case is.word == "profiles" && parameter(v, "profiler") == "":
		c.fail("C3: event %d: job %s is profiled where nobody is", r.Seq, j.Name)
	}
	c.promises[e.Job] = is
}

// canPromise checks that a promise is one that whole leases can keep: between the next
// boundary and the deadline there are as many as the job needs.
func (c *checker) canPromise(r model.Record, v model.VCConfig, id model.JobID, p promise) {
	j := c.jobs[id]
	if p.seconds == 0 && j.Hints.Duration == 0 {
		c.fail("C1: event %d: job %s, of which nobody knows how long it runs, is guaranteed", r.Seq, j.Name)
		return
	}
	if len(j.Gangs) != 1 && !j.Gangs[1].Extra || p.option >= len(j.Hints.Deadlines) {
		c.fail("C1: event %d: job %s of %d gangs and %d deadlines is promised number %d", r.Seq, j.Name, len(j.Gangs), len(j.Hints.Deadlines), p.option)
		return
	}
	if len(j.AllowedNodes)+len(j.AvoidedNodes) > 0 {
		c.fail("C1: event %d: job %s, which names nodes, is guaranteed", r.Seq, j.Name)
	}
	lease := seconds(v, "lease", 1200)
	n := int64(r.Time) / int64(lease)
	until := int64(c.submitted[id].Add(j.Hints.Deadlines[p.option].After)) / int64(lease)
	if has, need := until-n-1, c.leasesFor(v, id, p, r.Time); has < need {
		c.fail("C1: event %d: job %s is promised %d leases until its deadline, and needs %d", r.Seq, j.Name, has, need)
	}
	if slot := seconds(v, "slot", 300); !p.told && int64(c.submitted[id]) > int64(r.Time)/int64(slot)*int64(slot) {
		c.fail("C1: event %d: job %s is judged in the slot in which it came", r.Seq, j.Name)
	}
}

// leasesFor is how many leases a job needs by its run time, with a start in each and the
// margin of safety, less what it ran.
func (c *checker) leasesFor(v model.VCConfig, id model.JobID, p promise, now model.Time) int64 {
	lease := seconds(v, "lease", 1200)
	t := int64(p.runs(c.jobs[id].Hints.Duration))
	leaves, starts := int64(c.leavesTimes(gangKey{job: id}, 1)), int64(1)
	if p.takes > 0 {
		leaves = p.gpus
	}
	for n := int64(1); n < leaves; n *= 2 {
		starts++
	}
	t += t * int64(seconds(v, "restart", 30)) * starts / int64(lease)
	t += t * int64(seconds(v, "safety", 10)) / int64(100*model.Second)
	done, known := p.done(c.service(gangKey{job: id}, now))
	if !known {
		return 0
	}
	t -= int64(done) + int64(lease)/20
	if t <= 0 {
		return 1
	}
	return (t-1)/int64(lease) + 1
}

// broken checks why a job loses its guarantee: it ran longer than it said, or something
// happened to it, or to the room of its VC, since it was given.
func (c *checker) broken(r model.Record, v model.VCConfig, id model.JobID, was promise, note []byte) {
	j := c.jobs[id]
	ran, known := was.done(c.service(gangKey{job: id}, r.Time))
	said := was.runs(j.Hints.Duration)
	if was.seconds > 0 || was.takes > 0 {
		said -= model.Second // which is rounded up
	}
	switch {
	case bytes.HasSuffix(note, []byte("demoted outran its estimate")):
		if known && ran < said {
			c.fail("C2: event %d: job %s ran %d s of %d s, and is said to have outrun its estimate", r.Seq, j.Name, ran/model.Second, said/model.Second)
		}
	case bytes.HasSuffix(note, []byte("demoted its guarantee is broken")):
		c.disturbed(fmt.Sprintf("event %d: the guarantee of job %s is broken", r.Seq, j.Name), was)
	default:
		c.fail("C2: event %d: job %s, which was guaranteed, gets %q", r.Seq, j.Name, note)
	}
}

// pool checks what the profiler says that it cost: more and more, and nobody is measured
// who was not started.
func (c *checker) pool(r model.Record, v model.VCConfig, note []byte) {
	for _, entry := range strings.Split(string(note), "; ") {
		rest, ok := strings.CutPrefix(entry, "profiler ")
		if !ok {
			continue
		}
		var now [3]int64
		if n, err := fmt.Sscanf(rest, "%d started, %d measured, %d GPU-seconds", &now[0], &now[1], &now[2]); n != 3 || err != nil {
			c.fail("C3: event %d: the profiler says %q", r.Seq, rest)
			return
		}
		was := c.profiled[v.Name]
		if now[0] < was[0] || now[1] < was[1] || now[2] < was[2] || now[1] > now[0] {
			c.fail("C3: event %d: the profiler said %v and says %v", r.Seq, was, now)
		}
		c.profiled[v.Name] = now
	}
}

// disturbed fails unless something happened since a promise that lets it be broken.
func (c *checker) disturbed(what string, p promise) {
	if c.calm && c.upset <= p.since {
		c.fail("C2: %s, and nothing happened since it was given", what)
	}
}

// givesWay reports whether chronus lets a job take the cells of another of its priority: not of
// one that holds the lease or is being measured, but for a job that holds the lease and, where
// the other does, too, has larger tasks.
func (c *checker) givesWay(of, by model.JobID) bool {
	switch holds := c.promises[by].word == "holds"; c.promises[of].word {
	case "holds":
		return holds && c.largestTask(of) < c.largestTask(by)
	case "profiles":
		return holds
	}
	return true
}

// largestTask is the leaves of a job's largest task.
func (c *checker) largestTask(id model.JobID) int32 {
	var most int32
	for _, r := range c.jobs[id].Roles {
		most = max(most, r.Leaves)
	}
	return most
}

// reordered forgets what chronus promised where a VC has another policy now.
func (c *checker) reordered() {
	for id := range c.promises {
		if _, still := c.chronusOf(c.jobs[id].VC); !still {
			delete(c.promises, id)
		}
	}
	for vc := range c.profiled {
		if _, still := c.chronusOf(vc); !still {
			delete(c.profiled, vc)
		}
	}
}

// punctual checks that a job which is guaranteed ends before the last of its deadlines.
func (c *checker) punctual(r model.Record, id model.JobID) {
	if p := c.promises[id]; p.kept() && r.Time > c.lastDeadline(id) {
		c.disturbed(fmt.Sprintf("event %d: job %s is guaranteed and ends after its deadline", r.Seq, c.jobs[id].Name), p)
	} else if p.kept() {
		c.met.kept++
	}
}

// overdue checks that nobody who is guaranteed runs beyond its deadline.
func (c *checker) overdue() {
	for id, p := range c.promises {
		if c.calm && p.kept() && !c.over[id] && c.s.World().Now() > c.lastDeadline(id) {
			c.disturbed(fmt.Sprintf("job %s is guaranteed, and its deadline has passed", c.jobs[id].Name), p)
		}
	}
}

func (c *checker) lastDeadline(id model.JobID) model.Time {
	d := c.jobs[id].Hints.Deadlines
	return c.submitted[id].Add(d[len(d)-1].After)
}
