package script_test

import (
	"github.com/combsched/comb/internal/core/model"
)

// thought checks of one job that waits that an explanation and an estimate in full change
// nothing, that every cell is counted once, and that what is suggested comes true, in whatever
// state a random run has come to.
func (c *checker) thought() {
	var waiting []model.JobStatus
	for _, j := range c.state.Jobs() {
		if j.Phase == model.Waiting {
			waiting = append(waiting, j)
		}
	}
	if len(waiting) == 0 {
		return
	}
	j := waiting[c.quietly/thoughtEach%len(waiting)]
	defer func() {
		if p := recover(); p != nil {
			c.fail("explaining job %s: %v", j.Name, p)
		}
	}()
	before := c.state.Digest()
	e, _ := c.state.Explain(j.ID)
	c.state.Estimate(j.ID, nil)
	if after := c.state.Digest(); after != before {
		c.fail("explaining job %s changed the state", j.Name)
	}
	for _, g := range e.Gangs {
		for i := range g.Levels {
			c.counted(j.Name, &g.Levels[i])
		}
	}
	c.suggested(j.ID)
}

// thoughtEach is how often a random run is quiet before one explanation is checked in full.
const thoughtEach = 16

// counted checks that an explanation counts each cell of a level once.
func (c *checker) counted(job model.JobName, l *model.LevelUse) {
	n := l.Free + l.Lent + l.Bad + l.HeldByOthers + l.Cordoned + l.Avoided
	for _, h := range l.Held {
		n += h.Cells
	}
	if n != l.Cells || l.Unused > l.Owned || l.Unused < 0 {
		c.fail("job %s sees %d of %d cells: %+v", job, n, l.Cells, *l)
	}
}
