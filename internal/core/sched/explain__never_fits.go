package sched

import (
	"fmt"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// uncovered says of a gang that no SKU carries it, by the first role of which that is true.
func (s *explainer) uncovered(j *job, g int) *model.Reason {
	why := &model.Reason{Code: NeverFits, Need: j.gangs[g].leaves}
	for _, o := range j.spec.Gangs[g].Tasks {
		r := &j.spec.Roles[j.tasks[o].role]
		if !slices.Equal(s.carriers(r), []cell.TypeName{noSKU}) {
			continue
		}
		names := r.SKUs
		if len(names) == 0 {
			names = s.skuNames()
		}
		why.Asks = r.Launch.Asks().String()
		why.Message = fmt.Sprintf("it can never start: a task of role %s asks for %s, more than its %s of SKU %s carry now; submit it again to size it anew",
			r.Name, why.Asks, s.amountOf(names, r.Leaves), skuText(names))
		break
	}
	return why
}

// andMost stands behind a shape of which it is remembered why it never fits, and what would.
const andMost = "\x00"

// whyNever is whyNeverFits with what there is to say of tasks that take more GPUs than they ask
// for: what each carries, and the most that would fit.
func (s *explainer) whyNever(j *job, g int) *model.Reason {
	why := s.whyNeverFits(j, g)
	if why == nil || j.gangs[g].shape.short || s.cl.SpaceOf(j.spec.VC) == cell.None {
		return why
	}
	for _, o := range j.spec.Gangs[g].Tasks {
		r := &j.spec.Roles[j.tasks[o].role]
		c, ok := s.dearer(r)
		if !ok {
			continue
		}
		said := *why
		said.Message += fmt.Sprintf("; a task of role %s asks for %s, and %s, so it takes %s", r.Name, r.Launch.Asks(), c.Share(), c.Amount(r.Leaves))
		if n := s.largestTask(j, g, r.Name); n > 0 {
			said.Message += fmt.Sprintf("; a task with %s would fit", c.Full(n))
		}
		return &said
	}
	key := whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: j.gangs[g].shape.text + andMost}
	if known := s.told().never[key]; known != nil {
		return known
	}
	said := *why
	said.Message += mostEver{s, j, int32(g), largestRole(j, int32(g))}.words(why.Total)
	return remember(&s.told().never, key, &said)
}

// dearer returns what a leaf carries, where a role's tasks take more GPUs than they ask for
// because of their CPUs or memory.
func (s *explainer) dearer(r *model.Role) (model.Carry, bool) {
	names := s.carriers(r)
	if len(names) == 0 {
		names = s.skuNames()
	}
	for _, name := range names {
		if c := s.carry(name); c.GPU > 0 && c.Dearer(r.Launch.Asks(), r.Leaves) {
			return c, true
		}
	}
	return model.Carry{}, false
}

// largestTask is the most leaves for each task of a role with which a gang would fit the cells if
// all were free; 0 is none.
func (s *explainer) largestTask(j *job, g int, role string) int32 {
	i := slices.IndexFunc(j.spec.Roles, func(r model.Role) bool { return r.Name == role })
	fits := func(n int32) bool {
		spec := model.WithLeaves(j.spec, int32(i), n)
		with := s.newJob(j.id, spec, s.now, room{})
		return fitsEver(&s.finder, &with, g)
	}
	most := int(min(j.spec.Roles[i].Leaves-1, widest(s.cl.Forest())))
	return int32(sort.Search(most, func(k int) bool { return !fits(int32(k) + 1) }))
}

// mostEver is the most of a role that a gang could ever have, were its VC's cells all free and in
// service. A job that asks for more can never start; one that asks for this waits at most.
type mostEver struct {
	s    *explainer
	j    *job
	g    int32
	role int32
}

// fits reports whether a job in place of this one could ever start.
func (m mostEver) fits(spec *model.Job) bool {
	j := m.s.newJob(m.j.id, spec, m.s.now, room{})
	g := int(gangWith(spec, m.role))
	return !j.gangs[g].shape.short && fitsEver(&m.s.finder, &j, g)
}

// largest is the largest size of so many with which it fits, 0 for none; mostly it is the last.
func (m mostEver) largest(sizes int32, with func(int32) *model.Job) int32 {
	if sizes <= 0 || m.fits(with(sizes)) {
		return max(sizes, 0)
	}
	return int32(sort.Search(int(sizes)-1, func(i int) bool { return !m.fits(with(int32(i) + 1)) }))
}

// leaves is the largest size of its tasks, below what they ask for.
func (m mostEver) leaves(spec *model.Job) int32 {
	most := min(spec.Roles[m.role].Leaves-1, widest(m.s.cl.Forest()))
	return m.largest(most, func(n int32) *model.Job { return model.WithLeaves(spec, m.role, n) })
}

// widest is the leaves of the largest node: no task gets more.
func widest(f *cell.Forest) (leaves int32) {
	for i := range f.Chains {
		leaves = max(leaves, f.Chains[i].LeavesAt(f.Chains[i].NodeLevel))
	}
	return leaves
}

// tasks is the largest number of its tasks of this size, below what it asks for.
func (m mostEver) tasks() int32 {
	spec := m.j.spec
	if m.s.tasksOf(m.j, m.g, m.role) < 2 || len(spec.Gangs[m.g].Tasks) < 2 {
		return 0
	}
	with := func(n int32) *model.Job { return model.WithTasks(spec, m.role, n) }
	if !m.leads() {
		return m.largest(spec.Roles[m.role].Tasks-1, with)
	}
	most := int32(len(spec.Gangs[m.g].Tasks)) - 1
	members := slices.Clone(m.j.gangs[m.g].shape.members)
	members[0].Tasks = 1
	text := string(appendShape(nil, members, spec)) + andMost + "tasks"
	key := whatFits{space: m.j.space, prio: min(m.j.spec.Priority, 0), shape: text}
	if known, ok := m.s.told().most[key]; ok {
		return min(known, most)
	}
	n := m.largest(min(most, m.room()), with)
	if n < most { // else there may be room for more
		remember(&m.s.told().most, key, n)
	}
	return n
}

// leads reports whether a gang of one role that never fits has the first tasks of the role: then
// how many fit does not depend on how many it asks for.
func (m mostEver) leads() bool {
	gang := m.j.spec.Gangs[m.g].Tasks
	for i, o := range gang {
		if t := &m.j.tasks[o]; t.role != m.role || int(t.index) != i {
			return false
		}
	}
	return len(m.j.gangs[m.g].shape.members) == 1
}

// room is how many of its tasks there are leaves for, at most: a task lies on one node, so a cell
// of nodes has room for as many on each.
func (m mostEver) room() int32 {
	f, size := m.s.cl.Forest(), m.j.spec.Roles[m.role].Leaves
	guaranteed := m.j.spec.Priority >= cell.MinGuaranteed
	sp := m.s.cl.Space(0)
	if guaranteed {
		sp = m.s.cl.Space(m.s.space(m.j.spec.VC))
	}
	tasks, parts := int32(0), int32(0) // parts: leaves of cells that are less than a node
	for i := range sp.Roots {
		r := &sp.Roots[i]
		ch := &f.Chains[r.Chain]
		switch node := ch.LeavesAt(ch.NodeLevel); {
		case !m.s.usableChain(m.j, int(m.g), r.Chain) || guaranteed && !m.s.rootServes(m.j, int(m.g), r):
		case r.Level < ch.NodeLevel:
			parts += ch.LeavesAt(r.Level)
		default:
			tasks += ch.LeavesAt(r.Level) / node * (node / size)
		}
	}
	tasks += parts / size
	if !m.j.spec.Restricted() {
		return tasks
	}
	allowed, there := m.s.allowedNodes(m.j.spec), int32(0)
	for i := range f.Nodes {
		for _, c := range f.Nodes[i].Cells {
			if allowed.Has(int32(i)) && m.s.usableChain(m.j, int(m.g), f.Cells[c].Chain) {
				there += f.NumLeaves(c) / size
			}
		}
	}
	return min(tasks, there)
}

// words say the most of a gang that can never start: of each task, or of tasks like those that it
// has; nothing where that is all that there is, which is said already. Of a gang with several
// roles nothing is said, too: the most of one hangs on the others.
func (m mostEver) words(total int32) string {
	spec := m.j.spec
	if len(m.j.gangs[m.g].shape.members) != 1 {
		return ""
	}
	r := &spec.Roles[m.role]
	if n := m.tasks(); n > 0 {
		if r.Leaves == 1 && n == total {
			return ""
		}
		return fmt.Sprintf("; the most is %s x %s", model.Plural(n, "task", "tasks"), m.s.amountOf(r.SKUs, r.Leaves))
	}
	if m.s.tasksOf(m.j, m.g, m.role) > 1 {
		spec = model.WithTasks(spec, m.role, 1)
	}
	if n := m.leaves(spec); n > 0 && n < total {
		return fmt.Sprintf("; the most is %s for each task", m.s.amountOf(r.SKUs, n))
	}
	return ""
}
