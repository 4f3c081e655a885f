package script_test

import (
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// configured notes how devices are divided from now on, and what machines are called.
func (h *hardware) configured(e sched.Configured) {
	if cl, err := cell.New(&e.Config.Cluster); err == nil { // else the core panics
		h.cluster = cl
	}
	for _, tasks := range h.began {
		for k := range tasks {
			i := slices.IndexFunc(e.RenamedNodes, func(n sched.NodeRename) bool { return n.From == tasks[k].Node })
			if i >= 0 {
				tasks[k].Node = e.RenamedNodes[i].To
			}
		}
	}
}

// begins notes what an attempt is started with: it has that until it has ended, whatever
// later configurations say.
func (h *hardware) begins(id sched.AttemptID, p cell.Placement) []cell.Started {
	var out []cell.Started
	for _, t := range p.Tasks {
		out = append(out, cell.Started{Task: t, Origin: h.cluster.Origin(&t)})
	}
	h.began[id] = out
	return out
}

// owners checks by device that nobody lives on what an attempt is started with (I2): a part
// is the same as another one only where the device is in as many parts, and else the
// whole device counts. Who shares leaves joins them, and is not looked at here.
func (c *checker) owners(r sched.Record, e sched.Placed) {
	mine := c.world.begins(e.Attempt, e.Placement)
	for id, tasks := range c.world.began {
		if id == e.Attempt {
			continue
		}
		for i := range mine {
			for k := range tasks {
				if device, both := c.world.meet(&mine[i], &tasks[k]); both {
					c.fail("I2: event %d: attempt %v starts on device %d of %s, which attempt %v still has parts of", r.Seq, e.Attempt, device, mine[i].Node, id)
				}
			}
		}
	}
}

// meet finds a device that two tasks would both have. Two SKUs that a node has at the same
// time under one index are no such device: the file says that they are different things.
func (h *hardware) meet(a, b *cell.Started) (int32, bool) {
	if a.Node != b.Node || a.Origin.Leaf.Device != b.Origin.Leaf.Device {
		return 0, false
	}
	for i, d := range a.Devices {
		for k := range b.Devices {
			apart := i < len(a.Parts) && k < len(b.Parts) && a.Parts[i] != b.Parts[k] && a.Origin.Division[i] == b.Origin.Division[k]
			other := a.SKU != b.SKU && h.cluster.Forest().FindLeaf(a.Node, b.SKU, d) != cell.None
			if b.Devices[k] == d && !apart && !other {
				return d, true
			}
		}
	}
	return 0, false
}
