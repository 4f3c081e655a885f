package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// carry is what a leaf of a SKU of the cluster carries.
func (s *tables) carry(n cell.TypeName) model.Carry { return model.CarryOf(s.cl.SKU(n)) }

// amountOf says what n leaves of one of some SKUs are, all of the cluster's if there are none:
// "4 GPUs", or "4 GPUs or 16 CPUs".
func (s *tables) amountOf(skus []cell.TypeName, n int32) string {
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
func (s *tables) needText(j *job, g int) string {
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
	return model.JoinAnd(texts)
}

// rooms counts the leaves that a gang may use, by SKU in order of name: of a VC, its guarantee,
// and as free what neither uses of it nor was promised its guaranteed work, whatever the shape.
func (s *explainer) rooms(j *job, g int) []model.Room {
	f := s.cl.Forest()
	var out []model.Room
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	sp, used := s.cl.Space(0), []int32(nil)
	if guaranteed {
		sp, used = s.cl.Space(s.space(j.spec.VC)), inCommon(s).usedBy(&s.tables, s.space(j.spec.VC))
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
		out = model.AddRoom(out, s.carry(ch.SKU), free, total)
	}
	if !guaranteed {
		for ci := range f.Chains {
			for _, top := range f.Chains[ci].Tops {
				if s.usableChain(j, g, int16(ci)) {
					out = model.AddRoom(out, s.carry(f.Chains[ci].SKU), s.cl.Idle(top), 0)
				}
			}
		}
	}
	return out
}

// reach counts the leaves that a gang may ever use of its VC's guarantee; none are guaranteed to an
// opportunistic one.
func (s *tables) reach(j *job, g int) (leaves int32) {
	if j.spec.Priority < cell.MinGuaranteed {
		return 0
	}
	sp, f := s.cl.Space(s.space(j.spec.VC)), s.cl.Forest()
	for i := range sp.Roots {
		if r := &sp.Roots[i]; s.usableChain(j, g, r.Chain) && s.rootServes(j, g, r) {
			leaves += f.Chains[r.Chain].LeavesAt(r.Level)
		}
	}
	return leaves
}

// reasons is what those of a list have in common, as of one moment: they read the leaves of a
// virtual cluster once, and count rooms and holders once for each shape. What follows from it is
// only read.
type reasons struct {
	cl      *cell.Cluster
	seq     uint64
	now     model.Time
	used    map[int32][]int32 // leaves in use of the preassigned cells, by space
	rooms   map[whatFits][]model.Room
	holders map[whatFits]holdersOf
	lies    map[int32][]lie     // where of the preassigned cells leaves are free, by space
	apart   map[whatFits]string // how what is free lies on nodes
	ills    map[whatFits]*illness
	bad     map[cell.NodeName]string // nodes with leaves that were declared bad, with why
	read    int                      // leaves, in all, and what was said of them
}

// holdersOf are the jobs that hold what a shape could use, and how many of each there are besides.
type holdersOf struct {
	own, others         []model.JobID
	moreOwn, moreOthers int
}

func (h *holdersOf) more() int { return h.moreOwn + h.moreOthers }

// inCommon returns it, without what does not hold any more.
func inCommon(s *explainer) *reasons {
	if r := s.ranks.common; r != nil && r.cl == s.cl && r.seq == s.seq && r.now == s.now {
		return r
	}
	r := &reasons{cl: s.cl, seq: s.seq, now: s.now,
		used: map[int32][]int32{}, rooms: map[whatFits][]model.Room{}, holders: map[whatFits]holdersOf{},
		lies: map[int32][]lie{}, apart: map[whatFits]string{}, ills: map[whatFits]*illness{}}
	if was := s.ranks.common; was != nil {
		r.read = was.read
	}
	s.ranks.common = r
	return r
}

// usedBy returns how many leaves are in use of each preassigned cell of a VC.
func (r *reasons) usedBy(s *tables, space int32) []int32 {
	if used, ok := r.used[space]; ok {
		return used
	}
	sp := s.cl.Space(space)
	used := make([]int32, len(sp.Roots))
	for i := range sp.Roots {
		lies, free := r.lies[space], int32(0)
		used[i], free = usedIn(s, &sp.Roots[i], func(node int32) {
			if n := len(lies); n == 0 || lies[n-1].root != int32(i) || lies[n-1].node != node {
				lies = append(lies, lie{root: int32(i), node: node})
			}
			lies[len(lies)-1].free++
		})
		r.lies[space], r.read = lies, r.read+int(used[i]+free)
	}
	r.used[space] = used
	return used
}

// like is what the rooms and the holders of a gang hang on.
func like(j *job, g int) whatFits {
	return whatFits{j.space, min(j.spec.Priority, cell.MinGuaranteed), j.gangs[g].shape.text}
}

// usedIn counts the leaves of a preassigned cell that guaranteed work holds or
// was promised, those that are both once; of the others it names the nodes.
func usedIn(s *tables, r *cell.Root, idle func(node int32)) (used, free int32) {
	if r.Cell == cell.None {
		return 0, 0
	}
	f := s.cl.Forest()
	first := f.Cells[r.Cell].FirstLeaf
	for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
		hold, promised := s.cl.Holder(l)
		if promised != cell.None || hold != cell.None && !s.cl.Alloc(hold).Opportunistic() {
			used++
			continue
		}
		free++
		idle(f.Cells[f.Leaves[l]].Node)
	}
	return used, free
}

// takenBy counts the leaves of a job's tasks by SKU: where they run or ran last, else the first
// that they may use.
func (s *tables) takenBy(j *job) (rooms []model.Room) {
	for i := range j.tasks {
		c, n := s.taskTakes(j, &j.tasks[i])
		rooms = model.AddRoom(rooms, c, 0, n)
	}
	return rooms
}

// takes counts the leaves and the GPUs of a job's tasks.
func (s *tables) takes(j *job) (leaves int32, gpus int64) {
	for i := range j.tasks {
		c, n := s.taskTakes(j, &j.tasks[i])
		leaves += n
		gpus += int64(n) * c.GPU
	}
	return leaves, gpus
}

func (s *tables) taskTakes(j *job, t *taskRun) (model.Carry, int32) {
	r := &j.spec.Roles[t.role]
	if t.state != model.TaskWaiting {
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
func (s *tables) unitsIn(space int32, leaves int64) string {
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

// lie is how many leaves of a preassigned cell are free on a node.
type lie struct{ root, node, free int32 }

// apart says how the leaves that are free to a gang lie on nodes: "2 on n1 and 2 on n2". It is
// empty where that does not keep the gang from them: where its tasks would fit by their numbers
// alone, or where cells that are free lie on no node yet. Of a job that may use some nodes only it
// says which these are, where none is free there and jobs run there: "on its allowed node".
func apart(s *explainer, j *job, g int, free int32) string {
	r, key := inCommon(s), like(j, g)
	text, ok := r.apart[key]
	if !ok {
		text = apartNow(s, j, g, free)
		r.apart[key] = text
	}
	return text
}

func apartNow(s *explainer, j *job, g int, free int32) string {
	if j.spec.Restricted() {
		return fullNodes(s, j, g)
	}
	on, exact := freeOn(s, j, g)
	if len(on) < 2 || fitByNumber(j.gangs[g].shape.members, on) {
		return ""
	}
	var texts []string
	sum, most := int32(0), int32(0)
	for _, l := range on {
		sum, most = sum+l.free, max(most, l.free)
	}
	if !exact || sum != free {
		return fmt.Sprintf("at most %d on one node", most)
	}
	for _, l := range on[:min(len(on), maxNamed)] {
		texts = append(texts, fmt.Sprintf("%d on %s", l.free, s.cl.Forest().Nodes[l.node].Name))
		sum -= l.free
	}
	if more := int32(len(on) - len(texts)); more > 0 {
		texts = append(texts, fmt.Sprintf("%d on %s", sum, model.Plural(more, "other node", "other nodes")))
	}
	return model.JoinAnd(texts)
}

// fullNodes are the only nodes of a job, where nothing there is free and all that is in its way
// runs there.
func fullNodes(s *explainer, j *job, g int) string {
	all, its := allHolders(s, j, g), s.itsNodes(j)
	if len(all.own)+len(all.others) == 0 ||
		slices.ContainsFunc(s.rooms(j, g), func(r model.Room) bool { return s.inService(j, g, r.SKU) > 0 }) {
		return ""
	}
	there := map[model.JobID]bool{}
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != model.AttemptReserving && s.standsOn(j, g, a, its) {
			there[a.id.Job] = true
		}
	}
	elsewhere := func(id model.JobID) bool { return !there[id] }
	if slices.ContainsFunc(all.own, elsewhere) || slices.ContainsFunc(all.others, elsewhere) {
		return ""
	}
	return strings.TrimPrefix(nodesText(j.spec, "its "), " ")
}

// freeOn counts what is free to a gang on each node, in order of the nodes, with what could be
// bound there; exact is false where more could be bound than its VC has cells.
func freeOn(s *explainer, j *job, g int) (on []lie, exact bool) {
	f := s.cl.Forest()
	add := func(node, free int32) {
		if free > 0 {
			on = append(on, lie{node: node, free: free})
		}
	}
	exact = true
	if j.spec.Priority < cell.MinGuaranteed {
		for i := range f.Nodes {
			for _, c := range f.Nodes[i].Cells {
				if s.usableChain(j, g, f.Cells[c].Chain) {
					add(int32(i), s.cl.Idle(c))
				}
			}
		}
	} else {
		space := s.space(j.spec.VC)
		inCommon(s).usedBy(&s.tables, space)
		for _, l := range inCommon(s).lies[space] {
			if r := &s.cl.Space(space).Roots[l.root]; s.usableChain(j, g, r.Chain) && s.rootServes(j, g, r) {
				add(l.node, l.free)
			}
		}
		exact = unboundOn(&s.tables, j, g, add)
	}
	slices.SortStableFunc(on, func(a, b lie) int { return cmp.Compare(a.node, b.node) })
	out := on[:0]
	for _, l := range on {
		if n := len(out); n > 0 && out[n-1].node == l.node {
			out[n-1].free += l.free
			continue
		}
		out = append(out, l)
	}
	return out, exact
}

// unboundOn adds where cells of a gang's VC could be bound that are not yet, and reports whether
// all of these places are taken then.
func unboundOn(s *tables, j *job, g int, add func(node, free int32)) (exact bool) {
	type kind struct {
		chain int16
		level cell.Level
	}
	var kinds []kind
	var leaves []int32
	sp, f := s.cl.Space(s.space(j.spec.VC)), s.cl.Forest()
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Cell != cell.None || !s.usableChain(j, g, r.Chain) || !s.rootServes(j, g, r) {
			continue
		}
		k := slices.Index(kinds, kind{r.Chain, r.Level})
		if k < 0 {
			k, kinds, leaves = len(kinds), append(kinds, kind{r.Chain, r.Level}), append(leaves, 0)
		}
		leaves[k] += f.Chains[r.Chain].LeavesAt(r.Level)
	}
	exact = len(kinds) < 2
	for k := range kinds {
		ch, sum := &f.Chains[kinds[k].chain], int32(0)
		if kinds[k].level > ch.NodeLevel {
			return false
		}
		for _, c := range ch.NodeCells {
			n := looseIn(s, c, ch.LeavesAt(kinds[k].level))
			sum += n
			add(f.Cells[c].Node, min(n, leaves[k]))
		}
		exact = exact && sum == leaves[k]
	}
	return exact
}

// looseIn counts the leaves of the cells of a size on a node that could be bound: they are healthy,
// in no bound cell, and used by opportunistic work at most.
func looseIn(s *tables, node cell.CellID, size int32) (n int32) {
	f := s.cl.Forest()
	first := f.Cells[node].FirstLeaf
	for from := first; from < first+cell.LeafID(f.NumLeaves(node)); from += cell.LeafID(size) {
		loose := true
		for l := from; loose && l < from+cell.LeafID(size); l++ {
			hold, promised := s.cl.Holder(l)
			space, _ := s.cl.RootOver(f.Leaves[l])
			loose = space == cell.None && promised == cell.None && !s.leafBad(l) &&
				(hold == cell.None || s.cl.Alloc(hold).Opportunistic())
		}
		if loose {
			n += size
		}
	}
	return n
}

// fitByNumber reports whether tasks fit by the number of leaves alone, the largest first.
func fitByNumber(members []cell.Member, on []lie) bool {
	left := slices.Clone(on)
	larger := func(a, b cell.Member) int { return cmp.Compare(b.Leaves, a.Leaves) }
	for _, m := range slices.SortedStableFunc(slices.Values(members), larger) {
		for range m.Tasks {
			i := slices.IndexFunc(left, func(l lie) bool { return l.free >= m.Leaves })
			if i < 0 {
				return false
			}
			left[i].free -= m.Leaves
		}
	}
	return true
}
