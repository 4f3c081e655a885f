package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
)

// carry is what a leaf of a SKU of the cluster carries.
func (s *State) carry(n cell.TypeName) amount.Carry { return amount.Of(s.cl.SKU(n)) }

// amountOf says what n leaves of one of some SKUs are, all of the cluster's if there are none:
// "4 GPUs", or "4 GPUs or 16 CPUs".
func (s *State) amountOf(skus []cell.TypeName, n int32) string {
	if len(skus) == 0 {
		skus = s.skuNames()
	}
	var texts []string
	for _, name := range skus {
		if t := s.carry(name).Amount(n); !slices.Contains(texts, t) {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, " or ")
}

// needText says what a gang asks for in all, members that may use the same SKUs together.
func (s *State) needText(j *job, g int) string {
	type part struct {
		skus   []cell.TypeName
		leaves int32
	}
	var parts []part
	for _, m := range j.gangs[g].shape.members {
		i := slices.IndexFunc(parts, func(p part) bool { return slices.Equal(p.skus, m.SKUs) })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{skus: m.SKUs})
		}
		parts[i].leaves += m.Tasks * m.Leaves
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = s.amountOf(p.skus, p.leaves)
		if len(parts) > 1 && len(p.skus) > 0 {
			texts[i] += " of " + skuText(p.skus)
		}
	}
	return amount.JoinAnd(texts)
}

// rooms counts the leaves that a gang may use, by SKU in order of name: of a VC, its guarantee,
// and as free what neither uses of it nor was promised its guaranteed work, whatever the shape.
func (s *State) rooms(j *job, g int) []Room {
	f := s.cl.Forest()
	var out []Room
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	sp, used := s.cl.Space(0), []int32(nil)
	if guaranteed {
		sp, used = s.cl.Space(s.space(j.spec.VC)), inCommon(s).usedBy(s, s.space(j.spec.VC))
	}
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if !s.usableChain(j, g, r.Chain) || guaranteed && !s.rootServes(j, g, r) {
			continue
		}
		ch := &f.Chains[r.Chain]
		total := ch.LeavesAt(r.Level)
		free := int32(0)
		if guaranteed {
			free = total - used[i]
		}
		out = amount.AddRoom(out, s.carry(ch.SKU), free, total)
	}
	if !guaranteed {
		for ci := range f.Chains {
			for _, top := range f.Chains[ci].Tops {
				if s.usableChain(j, g, int16(ci)) {
					out = amount.AddRoom(out, s.carry(f.Chains[ci].SKU), s.cl.Idle(top), 0)
				}
			}
		}
	}
	return out
}

// reach counts the leaves that a gang may ever use.
func (s *State) reach(j *job, g int) int32 {
	_, total := amount.SumRooms(s.rooms(j, g))
	return total
}

// reasons is what those of a list have in common, as of one moment: they read the leaves of a
// virtual cluster once, and count rooms and holders once for each shape. What follows from it is
// only read.
type reasons struct {
	cl      *cell.Cluster
	seq     uint64
	now     Time
	used    map[int32][]int32 // leaves in use of the preassigned cells, by space
	rooms   map[whatFits][]Room
	holders map[whatFits]holdersOf
	read    int // leaves, in all
}

// holdersOf are the jobs that hold what a shape could use.
type holdersOf struct{ own, others []JobID }

// inCommon returns it, without what does not hold any more.
func inCommon(s *State) *reasons {
	if r := s.ranks.common; r != nil && r.cl == s.cl && r.seq == s.seq && r.now == s.now {
		return r
	}
	r := &reasons{cl: s.cl, seq: s.seq, now: s.now,
		used: map[int32][]int32{}, rooms: map[whatFits][]Room{}, holders: map[whatFits]holdersOf{}}
	if was := s.ranks.common; was != nil {
		r.read = was.read
	}
	s.ranks.common = r
	return r
}

// usedBy returns how many leaves are in use of each preassigned cell of a VC.
func (r *reasons) usedBy(s *State, space int32) []int32 {
	if used, ok := r.used[space]; ok {
		return used
	}
	sp := s.cl.Space(space)
	used := make([]int32, len(sp.Roots))
	for i := range sp.Roots {
		used[i] = s.usedIn(&sp.Roots[i])
		if root := sp.Roots[i].Cell; root != cell.None {
			r.read += int(s.cl.Forest().NumLeaves(root))
		}
	}
	r.used[space] = used
	return used
}

// like is what the rooms and the holders of a gang hang on.
func like(j *job, g int) whatFits {
	return whatFits{j.space, min(j.spec.Priority, cell.MinGuaranteed), j.gangs[g].shape.text}
}

// usedIn counts the leaves of a preassigned cell that guaranteed work holds or
// was promised, those that are both once.
func (s *State) usedIn(r *cell.Root) int32 {
	if r.Cell == cell.None {
		return 0
	}
	var n int32
	f := s.cl.Forest()
	first := f.Cells[r.Cell].FirstLeaf
	for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
		hold, promised := s.cl.Holder(l)
		if promised != cell.None || hold != cell.None && !s.cl.Alloc(hold).Opportunistic() {
			n++
		}
	}
	return n
}

// takenBy counts the leaves of a job's tasks by SKU: where they run or ran last, else the first
// that they may use.
func (s *State) takenBy(j *job) (rooms []Room) {
	for i := range j.tasks {
		c, n := s.taskTakes(j, &j.tasks[i])
		rooms = amount.AddRoom(rooms, c, 0, n)
	}
	return rooms
}

// takes counts the leaves and the GPUs of a job's tasks.
func (s *State) takes(j *job) (leaves int32, gpus int64) {
	for i := range j.tasks {
		c, n := s.taskTakes(j, &j.tasks[i])
		leaves += n
		gpus += int64(n) * c.GPU
	}
	return leaves, gpus
}

func (s *State) taskTakes(j *job, t *taskRun) (amount.Carry, int32) {
	r := &j.spec.Roles[t.role]
	if t.state != TaskWaiting {
		return s.carry(t.started().SKU), r.Leaves
	}
	names := s.carriers(r)
	if len(names) == 0 || names[0] == noSKU {
		names = r.SKUs
	}
	if len(names) == 0 {
		names = s.skuNames()
	}
	return s.carry(names[0]), r.Leaves
}

// unitsIn says what leaves of a VC's guarantee are, of whatever SKU: a policy that counts
// them counts all alike.
func (s *State) unitsIn(space int32, leaves int64) string {
	var units []string
	sp := s.cl.Space(space)
	for i := range sp.Roots {
		c := s.carry(s.cl.Forest().Chains[sp.Roots[i].Chain].SKU)
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
