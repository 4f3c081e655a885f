package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Carry is what one leaf of a SKU carries.
func (s *Tables) Carry(n cell.TypeName) model.Carry { return model.CarryOf(s.Cluster.SKU(n)) }

// AmountOf says what n leaves of any of the SKUs amount to, such as "4 GPUs" or "4 GPUs or 16
// CPUs"; no SKUs means all of the cluster's.
func (s *Tables) AmountOf(skus []cell.TypeName, n int32) string {
	if len(skus) == 0 {
		skus = s.SKUNames()
	}
	var texts []string
	for _, name := range skus {
		if t := s.Carry(name).Amount(n); !slices.Contains(texts, t) {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " or ")
}

// UsableLeaves counts the leaves of its VC's guarantee that a gang could ever use; 0 for an
// opportunistic gang.
func (s *Tables) UsableLeaves(j *Job, g int) (leaves int32) {
	if j.Spec.Priority < cell.MinGuaranteed {
		return 0
	}
	sp, f := s.Cluster.Space(s.Space(j.Spec.VC)), s.Cluster.Forest()
	for i := range sp.Roots {
		if r := &sp.Roots[i]; s.UsableChain(j, g, r.Chain) && s.RootServes(j, g, r) {
			leaves += f.Chains[r.Chain].LeavesAt(r.Level)
		}
	}
	return leaves
}

// UsedIn counts the leaves of a preassigned cell that guaranteed work holds or is promised (used),
// and the rest (free). It calls idle with the node of each free leaf. A cell that is not bound has
// neither.
func UsedIn(s *Tables, r *cell.Root, idle func(node int32)) (used, free int32) {
	if r.Cell == cell.None {
		return 0, 0
	}
	f := s.Cluster.Forest()
	first := f.Cells[r.Cell].FirstLeaf
	for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
		hold, promised := s.Cluster.Holder(l)
		if promised != cell.None || hold != cell.None && !s.Cluster.Alloc(hold).Opportunistic() {
			used++
			continue
		}
		free++
		idle(f.Cells[f.Leaves[l]].Node)
	}
	return used, free
}

// TakenBy counts the leaves of a job's tasks by what they carry: of the SKU on which the task runs
// or ran last, else of the first that it may use.
func (s *Tables) TakenBy(j *Job) (rooms []model.Room) {
	for i := range j.Tasks {
		c, n := s.taskTakes(j, &j.Tasks[i])
		rooms = model.AddRoom(rooms, c, 0, n)
	}
	return rooms
}

// Taken counts the leaves and the GPUs of a job's tasks.
func (s *Tables) Taken(j *Job) (leaves int32, gpus int64) {
	for i := range j.Tasks {
		c, n := s.taskTakes(j, &j.Tasks[i])
		leaves += n
		gpus += int64(n) * c.GPU
	}
	return leaves, gpus
}

func (s *Tables) taskTakes(j *Job, t *TaskRun) (model.Carry, int32) {
	r := &j.Spec.Roles[t.Role]
	if t.State != model.TaskWaiting {
		return s.Carry(t.StartPlace().SKU), r.Leaves
	}
	names := s.Carriers(r)
	if len(names) == 0 || names[0] == NoSKU {
		names = r.SKUs
	}
	if len(names) == 0 {
		names = s.SKUNames()
	}
	return s.Carry(names[0]), r.Leaves
}

// UnitsIn says leaves of a VC's guarantee in its units, such as "8 CPUs or GPUs": for policies
// that count leaves of all SKUs alike.
func (s *Tables) UnitsIn(space int32, leaves int64) string {
	var units []string
	sp := s.Cluster.Space(space)
	for i := range sp.Roots {
		c := s.Carry(s.Cluster.Forest().Chains[sp.Roots[i].Chain].SKU)
		unit := c.Unit()
		if leaves != 1 {
			unit += "s"
		}
		if !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	slices.Sort(units)
	return fmt.Sprintf("%d %s", leaves, strings.Join(units, " or "))
}

// A task gets as many leaves as cover what it asks for on the SKUs that it may use. A later
// configuration may let a SKU carry less under the same name. Tasks that run on it run on, but no
// other task may start there with less than it asks for.

// Carriers returns the SKUs on which the leaves of a role's tasks cover what these ask for: the
// role's own list if all of it does, NoSKU if none does.
func (s *Tables) Carriers(r *model.Role) []cell.TypeName {
	if s.Cluster == nil || r.Launch.GPU == 0 && r.Launch.MilliCPU == 0 && r.Launch.MemoryMB == 0 {
		return r.SKUs
	}
	short := func(n cell.TypeName) bool { return !s.Covers(n, r) }
	names := r.SKUs
	if len(names) == 0 {
		names = s.SKUNames()
	}
	if !slices.ContainsFunc(names, short) {
		return r.SKUs
	}
	if names = slices.DeleteFunc(slices.Clone(names), short); len(names) == 0 {
		return []cell.TypeName{NoSKU}
	}
	return names
}

// Agree gives members that must all run on one SKU the SKUs that each of them may use. If they
// have none in common, each keeps its own.
func Agree(members []cell.Member) {
	var all []cell.TypeName
	alike := 0
	for i := range members {
		m := &members[i]
		if !m.Alike {
			continue
		}
		if alike++; alike == 1 {
			all = m.SKUs
		} else {
			all = slices.DeleteFunc(slices.Clone(all), func(n cell.TypeName) bool {
				return !slices.Contains(m.SKUs,
					n)
			})
		}
	}
	if alike < 2 || len(all) == 0 {
		return
	}
	for i := range members {
		if members[i].Alike {
			members[i].SKUs = all
		}
	}
}

// NoSKU is a name that no SKU has: a member that asks for it fits nowhere.
const NoSKU cell.TypeName = ""

// Covers reports whether the leaves of one task carry what it asks for; true for a SKU of which
// that is not known.
func (s *Tables) Covers(name cell.TypeName, r *model.Role) bool {
	sku, n, l := s.Cluster.SKU(name), int64(r.Leaves), &r.Launch
	return sku.Device == "" || sku.GPU*n >= l.GPU && (sku.MilliCPU == 0 || sku.MilliCPU*n >= l.MilliCPU) &&
		(sku.MemoryMB == 0 || sku.MemoryMB*n >= l.MemoryMB)
}

// SKUNames returns the SKUs that the cluster's cells have, sorted.
func (s *Tables) SKUNames() []cell.TypeName {
	var out []cell.TypeName
	for i := range s.Cluster.Forest().Chains {
		out = append(out, s.Cluster.Forest().Chains[i].SKU)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
