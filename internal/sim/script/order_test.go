package script_test

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Who may preempt whom within one priority, by the checker's own books.

// yields checks a preemption within one priority: only by a policy that preempts,
// only of who stands behind in its order or above a minimum, and neither before the
// minimum run time nor beyond the budget.
func (c *checker) yields(r model.Record, e model.StopSent) bool {
	of := c.jobs[e.Attempt.Job]
	i := slices.IndexFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == of.VC })
	if i < 0 {
		return false
	}
	v := c.state.Config().VCs[i]
	if c.young(r, v, *e.By, e.Attempt) && !c.minimumStops(e) {
		return false
	}
	if of.Gangs[e.Attempt.Gang].Extra {
		if v.Policy == "gandiva" {
			c.met.shrinks++
		}
		return c.mayShrink(v, e.Attempt)
	}
	return c.yielded[e.Attempt.Job] <= v.PreemptionBudget() && c.behind(v, r.Time, e)
}

// gaveUp checks who becomes opportunistic for whom: only work of lower priority of the same VC,
// or of the same where its policy lets that be stopped.
func (c *checker) gaveUp(r model.Record, e model.LazilyPreempted) {
	by, of := c.jobs[e.By.Job], c.jobs[e.Attempt.Job]
	c.attempt(r, e.Attempt).gaveUp = e.By
	stop := model.StopSent{Attempt: e.Attempt, By: e.By}
	for id, min := range c.live {
		if id.Job == e.Attempt.Job && id.Gang == 0 && of.Gangs[e.Attempt.Gang].Extra && min.gaveUp != nil && *min.gaveUp == *e.By {
			return // with its minimum
		}
	}
	if by.VC != of.VC || by.Priority < of.Priority || by.Priority == of.Priority && !c.yields(r, stop) {
		c.fail("I6: event %d: %v of VC %s, priority %d, takes the guarantee of %v of VC %s, priority %d",
			r.Seq, *e.By, by.VC, by.Priority, e.Attempt, of.VC, of.Priority)
	}
}

// minimumStops reports whether an attempt stops only because its minimum does.
func (c *checker) minimumStops(e model.StopSent) bool {
	for id, a := range c.live {
		if id.Job == e.Attempt.Job && id.Gang == 0 && e.Attempt.Gang != 0 && a.stop {
			return c.jobs[id.Job].Gangs[e.Attempt.Gang].Extra
		}
	}
	return false
}

// behind reports whether a policy's order has a gang that is preempted behind the
// one that it makes room for.
func (c *checker) behind(v model.VCConfig, now model.Time, e model.StopSent) bool {
	by, of := gangKey{e.By.Job, e.By.Gang}, gangKey{e.Attempt.Job, e.Attempt.Gang}
	switch preempts := parameter(v, "preempt"); v.Policy {
	case "fifo":
		return preempts == "true" && of.job > by.job
	case "capacity":
		started := c.live[e.Attempt].started
		return preempts == "true" && c.jobs[of.job].Hints.Queue != c.jobs[by.job].Hints.Queue &&
			started > 0 && started.Add(seconds(v, "wait", 15)) <= now
	case "edf":
		return preempts != "no" && c.urgency(by, now) < c.urgency(of, now)
	case "srtf":
		return c.remaining(by, now) < c.remaining(of, now)
	case "srsf":
		return c.leavesTimes(by, c.remaining(by, now)) < c.leavesTimes(of, c.remaining(of, now))
	case "las":
		ahead := parameter(v, "order") == "submission" && by.job < of.job
		return c.queue(v, by, now) < c.queue(v, of, now) || ahead && c.queue(v, by, now) == c.queue(v, of, now)
	case "genie": // who can meet no deadline any more makes room for anybody else
		return c.elastic(of.job) || c.elastic(by.job) || c.hopelessly(of, now) && !c.hopelessly(by, now)
	case "chronus":
		return c.givesWay(of.job, by.job)
	case "themis":
		return c.leaseEnded(v, by, c.live[e.Attempt].started, now)
	case "gittins": // and by the index within a queue
		return c.queue(v, by, now) <= c.queue(v, of, now)
	}
	return false
}

// elastic reports whether it depends on its size how long a job runs.
func (c *checker) elastic(id model.JobID) bool {
	gangs := c.jobs[id].Gangs
	return gangs[len(gangs)-1].Extra && len(c.state.Config().Throughputs) > 0
}

// hopelessly reports whether a gang can meet no deadline any more by what it declares.
func (c *checker) hopelessly(g gangKey, now model.Time) bool {
	d := c.jobs[g.job].Hints.Deadlines
	if len(d) == 0 || c.jobs[g.job].Hints.Duration == 0 {
		return false
	}
	return float64(c.submitted[g.job].Add(d[len(d)-1].After))-c.remaining(g, now) < float64(now)
}

// leaseEnded reports whether a lease that began with an attempt, or a later one, has ended
// in a round that is over since the last decision; or any lease, when it makes room for a
// gang that has waited for one.
func (c *checker) leaseEnded(v model.VCConfig, by gangKey, started, now model.Time) bool {
	lease := seconds(v, "lease", 1200)
	round := max(model.Time(seconds(v, "round", min(300, int64(lease/model.Second)/4))), 1)
	ran := model.Duration(now - started)
	if started == 0 || ran < lease {
		return false
	}
	end := (started.Add(ran/lease*lease) + round - 1) / round * round
	return c.decided < end && end <= now || max(c.submitted[by.job], c.ended[by]).Add(lease) <= now
}

// seconds reads a parameter of a policy.
func seconds(v model.VCConfig, key string, otherwise int64) model.Duration {
	if n, err := strconv.ParseInt(parameter(v, key), 10, 64); err == nil {
		otherwise = n
	}
	return model.Duration(otherwise) * model.Second
}

func parameter(v model.VCConfig, key string) string {
	for _, p := range v.Params {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// service is how long a gang has run, in all its attempts.
func (c *checker) service(g gangKey, now model.Time) model.Duration {
	ran := c.ran[g]
	for id, a := range c.live {
		if id.Job == g.job && id.Gang == g.gang && a.started > 0 {
			ran += c.had(id, a, now)
		}
	}
	return ran
}

// remaining is what a job declares less what the gang has run, at least a microsecond;
// endless where it declares nothing.
func (c *checker) remaining(g gangKey, now model.Time) float64 {
	if d := c.jobs[g.job].Hints.Duration; d > 0 {
		return float64(max(d-c.service(g, now), 1))
	}
	return math.Inf(1)
}

func (c *checker) leavesTimes(g gangKey, d float64) float64 {
	j := c.jobs[g.job]
	n := int32(0)
	for _, t := range j.Gangs[g.gang].Tasks {
		n += roleOf(j, t).Leaves
	}
	return float64(n) * d
}

// urgency is a job's next deadline, or when none is left what remains of it, which
// comes after all deadlines.
func (c *checker) urgency(g gangKey, now model.Time) float64 {
	for _, d := range c.jobs[g.job].Hints.Deadlines {
		if at := c.submitted[g.job].Add(d.After); at > now {
			return float64(at) - 1e16 // below zero for some hundred years
		}
	}
	return c.remaining(g, now)
}

// queue is which of the queues of attained service a gang stands in.
func (c *checker) queue(v model.VCConfig, g gangKey, now model.Time) int {
	limits := []string{"3250", "7200"}
	if text := parameter(v, "limits"); text != "" {
		limits = strings.Split(text, "/")
	}
	served := c.leavesTimes(g, float64(c.sincePromoted(v, g, now))/float64(model.Second))
	return len(limits) - len(slices.DeleteFunc(limits, func(l string) bool {
		n, err := strconv.ParseFloat(l, 64)
		return err == nil && served >= n
	}))
}
