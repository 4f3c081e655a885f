package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/test/seeds"
)

// TestRandomRuns lets seeded users, faults, failing disks and restarts loose on
// the loop. After every durable batch all invariants hold in the replica; in the
// end every job is over and the journal verifies.
func TestRandomRuns(t *testing.T) {
	for seed := range seeds.Of(t, 30) {
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { randomRun(t, seed) }) {
			return
		}
	}
}

// chaos is one random run.
type chaos struct {
	*rig
	memory  *engine.Memory
	random  *rand.Rand
	nodes   int
	named   int
	acked   map[model.JobID]model.JobName
	answers []*engine.Reply
	names   []model.JobName
}

func randomRun(t *testing.T, seed uint64) {
	m := engine.NewMemory()
	c := &chaos{memory: m, random: rand.New(rand.NewPCG(seed, 7)), acked: map[model.JobID]model.JobName{}}
	c.nodes = 2 + c.random.IntN(3)
	c.rig = newRig(t, m, c.nodes)
	c.options.SnapshotEvery = uint64(10 + c.random.IntN(100))
	c.options.OnBatch = func(b engine.Batch) {
		c.seq = b.Last()
		c.state(func(s *core.State) {
			if err := s.Verify(); err != nil {
				t.Errorf("event %d: %v", s.Seq(), err)
			}
		})
	}
	for life := range uint64(4) {
		var steps []func()
		for range 40 {
			steps = append(steps, c.step())
		}
		if err := c.run(steps...); err != nil {
			t.Fatal(err)
		}
		c.restart(life)
	}
	m.Fail(nil)
	if err := c.run(func() { c.world.Heal() }, c.pass(model.Hour), c.stopAll, c.pass(model.Hour), c.pass(model.Hour)); err != nil {
		t.Fatal(err)
	}
	c.judge()
}

// restart opens a new engine on what is durable, in the middle of everything.
func (c *chaos) restart(life uint64) {
	c.memory.Fail(nil)
	c.options.Epoch = life + 2
	c.world.Reopen(true)
}

func (c *chaos) step() func() {
	switch n := c.random.IntN(20); {
	case n < 7:
		return c.submit
	case n < 8:
		return func() {
			id := model.JobID(1 + c.random.IntN(c.named+1))
			c.give([]model.Command{model.Stop{Job: id}, model.Stop{Job: id}, model.Requeue{Job: id, Hold: id%2 == 0}, model.Hold{Job: id, On: id%3 == 0}}[c.random.IntN(4)], nil)
		}
	case n < 9:
		return c.breakDisk
	case n < 10:
		return func() { c.memory.Fail(nil) }
	case n < 11:
		return c.fault
	case n < 12:
		return func() {
			c.give(model.Cordon{Node: c.node(), On: c.random.IntN(3) == 0}, nil)
		}
	}
	return func() { c.world.Extend(c.world.Now().Add(model.Duration(c.random.IntN(60)) * model.Second)) }
}

func (c *chaos) node() cell.NodeName {
	return cell.NodeName(fmt.Sprintf("n%d", 1+c.random.IntN(c.nodes)))
}

func (c *chaos) submit() {
	for range 1 + c.random.IntN(3) {
		c.named++
		vc := cell.VCName([]string{"a", "b"}[c.random.IntN(2)])
		j := job(fmt.Sprint("job", c.named), vc, int32(1+c.random.IntN(2)), model.Duration(1+c.random.IntN(90))*model.Second)
		j.Priority = []cell.Priority{-1, 10, 10, 100}[c.random.IntN(4)]
		j.Retries = int32(c.random.IntN(2))
		reply := &engine.Reply{}
		c.answers, c.names = append(c.answers, reply), append(c.names, j.Name)
		c.give(submit(j), reply)
	}
}

// breakDisk makes appends fail, all or some of them, in one of two ways.
func (c *chaos) breakDisk() {
	some, full := c.random.IntN(2) == 0, c.random.IntN(2) == 0
	c.memory.Fail(func(engine.Batch) error {
		switch {
		case some && c.random.IntN(2) == 0:
			return nil
		case full:
			return engine.ErrFull
		}
		return errors.New("input/output error")
	})
}

func (c *chaos) fault() {
	id := model.JobID(1 + c.random.IntN(c.named+1))
	switch c.random.IntN(5) {
	case 0:
		c.world.Exit(id, 0, int32(c.random.IntN(2)))
	case 1:
		c.world.Down(c.node(), "no answer")
	case 2:
		c.world.Up(c.node())
	case 3:
		c.world.Refuse(c.node(), "no such image", 1, false)
	case 4:
		c.world.Lose(id, 0, "supervisor does not answer")
	}
}

func (c *chaos) stopAll() {
	c.state(func(s *core.State) {
		for _, j := range s.Jobs() {
			c.give(model.Stop{Job: j.ID}, nil)
		}
	})
}

// judge checks the end: what was acknowledged is there, and nothing is left over.
func (c *chaos) judge() {
	ended := map[model.JobID]model.JobName{}
	for _, j := range c.memory.Ended() {
		if _, twice := ended[j.ID]; twice {
			c.t.Errorf("job %d ended twice", j.ID)
		}
		ended[j.ID] = j.Name
	}
	accepted := 0
	for i, r := range c.answers {
		if r.Err == nil && r.Refusal == nil && r.Answer.Job != 0 {
			accepted++
			if ended[r.Answer.Job] != c.names[i] {
				c.t.Errorf("job %d (%s) was acknowledged and is lost", r.Answer.Job, c.names[i])
			}
		}
	}
	c.state(func(s *core.State) {
		for _, j := range s.Jobs() {
			c.t.Errorf("job %d is still %s: %+v", j.ID, j.Phase, j)
		}
	})
	if n := c.world.Living(); n != 0 {
		c.t.Errorf("%d tasks still live", n)
	}
	if err := c.world.Err(); err != nil {
		c.t.Error(err)
	}
	if c.engine.Health().Diverged {
		c.t.Error("the replica diverged")
	}
	report := sound(c.t, c.memory, policy.New, c.engine.Replica())
	if accepted == 0 || report.Decisions == 0 {
		c.t.Errorf("nothing happened: %d jobs, %+v", accepted, report)
	}
}
