package script_test

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// owners are the checker's books of who runs on which device, by what each attempt was
// started with: later configurations may give a device another SKU or divide it otherwise,
// and who runs there knows nothing of it.
type owners struct {
	cluster *cell.Cluster // as the file in force has it
	began   map[model.AttemptID]*owner
}

// owner is an attempt that may live. first is the attempt on whose leaves it is: its own
// id, or that of the one whom it joined, or who was joined by that one.
type owner struct {
	first model.AttemptID
	tasks []cell.Started
}

func newOwners() owners { return owners{began: map[model.AttemptID]*owner{}} }

// configured notes how devices are divided from now on, and what machines are called.
func (o *owners) configured(e model.Configured) {
	if cl, err := cell.New(&e.Config.Cluster); err == nil { // else the core panics
		o.cluster = cl
	}
	for _, own := range o.began {
		for k := range own.tasks {
			i := slices.IndexFunc(e.RenamedNodes, func(n model.NodeRename) bool { return n.From == own.tasks[k].Node })
			if i >= 0 {
				own.tasks[k].Node = e.RenamedNodes[i].To
			}
		}
	}
}

// owns notes what an attempt is started with, and checks by device that nobody else has
// that (I2): but for those on whose leaves it is, as one of them.
func (c *checker) owns(r model.Record, id, host model.AttemptID, p cell.Placement) {
	mine := &owner{first: id}
	if first := c.owners.began[host]; first != nil {
		mine.first = first.first
	}
	for _, t := range p.Tasks {
		mine.tasks = append(mine.tasks, cell.Started{Task: t, Origin: c.owners.cluster.Origin(&t)})
	}
	for other, theirs := range c.owners.began {
		if theirs.first == mine.first {
			continue
		}
		for i := range mine.tasks {
			for k := range theirs.tasks {
				if c.owners.older(&theirs.tasks[k], &mine.tasks[i]) {
					c.met.beside++
				}
				if device, both := c.owners.meet(&mine.tasks[i], &theirs.tasks[k]); both {
					c.fail("I2: event %d: attempt %v starts on device %d of %s, of which attempt %v has all or parts", r.Seq, id, device, mine.tasks[i].Node, other)
				}
			}
		}
	}
	c.owners.began[id] = mine
}

// older reports whether the file in force says otherwise of a task's devices than the one
// under which it was started, and another task is on its machine.
func (o *owners) older(t, beside *cell.Started) bool {
	return t.Node == beside.Node && (!o.cluster.Divides(t) || o.cluster.Forest().FindPart(t.Node, t.SKU, t.Devices[0], 0) == cell.None && len(t.Parts) == 0)
}

// meet finds a device that two tasks would both have: one of the same kind and index, of
// which they have the same part, or parts of different divisions, or one has all. Two SKUs
// that a node has at the same time under one index are no such device: the file says that
// they are different things.
func (o *owners) meet(a, b *cell.Started) (int32, bool) {
	if a.Node != b.Node || a.Origin.Leaf.Device != b.Origin.Leaf.Device {
		return 0, false
	}
	for i, d := range a.Devices {
		for k := range b.Devices {
			apart := i < len(a.Parts) && k < len(b.Parts) && a.Parts[i] != b.Parts[k] && a.Origin.Division[i].Same(b.Origin.Division[k])
			other := a.SKU != b.SKU && len(a.Parts)+len(b.Parts) == 0 && o.cluster.Forest().FindPart(a.Node, b.SKU, d, 0) != cell.None
			if b.Devices[k] == d && !apart && !other {
				return d, true
			}
		}
	}
	return 0, false
}
