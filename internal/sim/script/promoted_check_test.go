package script_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Who starved under las or gittins, by the checker's own books.

// promotion is how long a job of one gang had run when a policy promoted it.
type promotion struct {
	policy string
	ran    model.Duration
}

func (c *checker) config(vc cell.VCName) model.VCConfig {
	for _, v := range c.state.Config().VCs {
		if v.Name == vc {
			return v
		}
	}
	return model.VCConfig{}
}

// sincePromoted is the service of a gang that counts under las and gittins.
func (c *checker) sincePromoted(v model.VCConfig, g gangKey, now model.Time) model.Duration {
	ran := c.service(g, now)
	if p := c.promoted[g.job]; p.policy == v.Policy && parameter(v, "promote") != "" {
		ran -= p.ran
	}
	return ran
}

// promotes checks that who is promoted has one gang, which does not run, had sunk, and
// has waited for long enough.
func (c *checker) promotes(r model.Record, e model.Noted) {
	v, g, j := c.config(e.VC), gangKey{e.Job, 0}, c.jobs[e.Job]
	var ran model.Duration
	knob, err := strconv.ParseFloat(parameter(v, "promote"), 64)
	if _, scanned := fmt.Sscanf(string(e.Data), "promoted after %dus", &ran); err != nil || scanned != nil || len(j.Gangs) != 1 {
		c.fail("L1: event %d: %s notes %q of job %s (%d gangs)", r.Seq, v.Policy, e.Data, j.Name, len(j.Gangs))
		return
	}
	first, _, _ := strings.Cut(parameter(v, "limits"), "/")
	limit, _ := strconv.ParseFloat(first, 64)
	since := c.sincePromoted(v, g, r.Time)
	waited := float64(r.Time - c.ended[g])
	if ran != c.service(g, r.Time) || c.leavesTimes(g, float64(since)/float64(model.Second)) < limit || waited < knob*float64(since)-1 {
		c.fail("L2: event %d: job %s is promoted after %v; it ran %v, %v since it was before, and waited %v", r.Seq, j.Name, ran, c.service(g, r.Time), since, waited)
	}
	c.met.promoted++
	c.promoted[e.Job] = promotion{v.Policy, ran}
}

// forgetPromotions drops those of policies that a configuration has replaced.
func (c *checker) forgetPromotions() {
	for id, p := range c.promoted {
		if c.config(c.jobs[id].VC).Policy != p.policy {
			delete(c.promoted, id)
		}
	}
}
