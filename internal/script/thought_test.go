package script_test

import "github.com/combsched/comb/internal/sched"

// thought checks that an explanation and an estimate in full change nothing, and
// that every cell is counted once, in whatever state a random run has come to.
func (c *checker) thought() {
	for _, j := range c.state.Jobs() {
		if j.Phase != sched.Waiting {
			continue
		}
		before := c.state.Digest()
		e, _ := c.state.Explain(j.ID)
		c.state.Estimate(j.ID, nil)
		if after := c.state.Digest(); after != before {
			c.fail("explaining job %s changed the state", j.Name)
		}
		for _, g := range e.Gangs {
			for _, l := range g.Levels {
				n := l.Free + l.Lent + l.Bad + l.Avoided
				for _, h := range l.Held {
					n += h.Cells
				}
				if n != l.Cells || l.Unused > l.Owned || l.Unused < 0 {
					c.fail("job %s sees %d of %d cells: %+v", j.Name, n, l.Cells, l)
				}
			}
		}
		return // one is enough for now
	}
}
