package explain

import (
	"fmt"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// uncarriedReason is the reason of a gang with a task that asks for more than its leaves of any SKU
// carry. It names the first such role.
func (s *Explainer) uncarriedReason(j *tables.Job, g int) *model.Reason {
	why := &model.Reason{Code: model.NeverFits, Need: j.Gangs[g].Leaves}
	for _, o := range j.Spec.Gangs[g].Tasks {
		r := &j.Spec.Roles[j.Tasks[o].Role]
		if !slices.Equal(s.Carriers(r), []cell.TypeName{tables.NoSKU}) {
			continue
		}
		names := r.SKUs
		if len(names) == 0 {
			names = s.SKUNames()
		}
		why.Asks = r.Launch.Asks().String()
		why.Message = fmt.Sprintf("it can never start: a task of role %s asks for %s, more than its %s of SKU %s carry now; submit it again to size it anew",
			r.Name, why.Asks, s.AmountOf(names, r.Leaves), tables.SKUText(names))
		break
	}
	return why
}

// andMost is added to the key of a cached reason that also says the most that would fit.
const andMost = "\x00"

// neverWithMost is WhyNeverFits with the most that would fit. If tasks take more GPUs than they ask
// for, because of CPUs or memory, it also says what each GPU comes with.
func (s *Explainer) neverWithMost(j *tables.Job, g int) *model.Reason {
	why := s.WhyNeverFits(j, g)
	if why == nil || j.Gangs[g].Shape.NoSKUFits || s.Cluster.SpaceOf(j.Spec.VC) == cell.None {
		return why
	}
	for _, o := range j.Spec.Gangs[g].Tasks {
		r := &j.Spec.Roles[j.Tasks[o].Role]
		c, ok := s.sizedByCPUOrMemory(r)
		if !ok {
			continue
		}
		said := *why
		said.Message += fmt.Sprintf("; a task of role %s asks for %s, and %s, so it takes %s", r.Name,
			r.Launch.Asks(), c.PerUnitText(), c.Amount(r.Leaves))
		if n := s.largestTask(j, g, r.Name); n > 0 {
			said.Message += fmt.Sprintf("; a task with %s would fit", c.Full(n))
		}
		return &said
	}
	key := tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: j.Gangs[g].Shape.Text + andMost}
	if known := s.currentNeverFit().never[key]; known != nil {
		return known
	}
	said := *why
	said.Message += MostEver{s, j, int32(g), largestRole(j, int32(g))}.text(why.Total)
	return place.Remember(&s.currentNeverFit().never, key, &said)
}

// sizedByCPUOrMemory returns what a leaf carries, if a role's tasks take more GPUs than they ask
// for because of their CPUs or memory; else false.
func (s *Explainer) sizedByCPUOrMemory(r *model.Role) (model.Carry, bool) {
	names := s.Carriers(r)
	if len(names) == 0 {
		names = s.SKUNames()
	}
	for _, name := range names {
		if c := s.Carry(name); c.GPU > 0 && c.SizedByCPUOrMemory(r.Launch.Asks(), r.Leaves) {
			return c, true
		}
	}
	return model.Carry{}, false
}

// largestTask is the most leaves for each task of a role with which a gang would fit if all cells
// were free; 0 if no size fits.
func (s *Explainer) largestTask(j *tables.Job, g int, role string) int32 {
	i := slices.IndexFunc(j.Spec.Roles, func(r model.Role) bool { return r.Name == role })
	fits := func(n int32) bool {
		spec := model.WithLeaves(j.Spec, int32(i), n)
		with := s.NewJob(j.ID, spec, s.Now, tables.JobMemory{})
		return place.FitsEver(&s.Finder, &with, g)
	}
	most := int(min(j.Spec.Roles[i].Leaves-1, largestNode(s.Cluster.Forest())))
	return int32(sort.Search(most, func(k int) bool { return !fits(int32(k) + 1) }))
}

// MostEver finds the most tasks, and the largest, that a gang could have in a role if all cells of
// its VC were free and in service. A job that asks for more can never start.
type MostEver struct {
	S    *Explainer
	J    *tables.Job
	G    int32
	Role int32
}

// Fits reports whether a changed job in place of this one could ever start.
func (m MostEver) Fits(spec *model.Job) bool {
	j := m.S.NewJob(m.J.ID, spec, m.S.Now, tables.JobMemory{})
	g := int(gangWith(spec, m.Role))
	return !j.Gangs[g].Shape.NoSKUFits && place.FitsEver(&m.S.Finder, &j, g)
}

// largest is the largest of the sizes 1 to sizes with which the job fits; 0 if none. The last is
// tried first, since mostly it fits.
func (m MostEver) largest(sizes int32, with func(int32) *model.Job) int32 {
	if sizes <= 0 || m.Fits(with(sizes)) {
		return max(sizes, 0)
	}
	return int32(sort.Search(int(sizes)-1, func(i int) bool { return !m.Fits(with(int32(i) + 1)) }))
}

// leaves is the most leaves for each task of the role, fewer than it asks for; 0 if none fits.
func (m MostEver) leaves(spec *model.Job) int32 {
	most := min(spec.Roles[m.Role].Leaves-1, largestNode(m.S.Cluster.Forest()))
	return m.largest(most, func(n int32) *model.Job { return model.WithLeaves(spec, m.Role, n) })
}

// largestNode is how many leaves the largest node has, the most for a task.
func largestNode(f *cell.Forest) (leaves int32) {
	for i := range f.Chains {
		leaves = max(leaves, f.Chains[i].LeavesAt(f.Chains[i].NodeLevel))
	}
	return leaves
}

// Tasks is the most tasks of the role, fewer than it asks for; 0 if none fits.
func (m MostEver) Tasks() int32 {
	spec := m.J.Spec
	if m.S.tasksOf(m.J, m.G, m.Role) < 2 || len(spec.Gangs[m.G].Tasks) < 2 {
		return 0
	}
	with := func(n int32) *model.Job { return model.WithTasks(spec, m.Role, n) }
	if !m.hasFirstTasks() {
		return m.largest(spec.Roles[m.Role].Tasks-1, with)
	}
	most := int32(len(spec.Gangs[m.G].Tasks)) - 1
	members := slices.Clone(m.J.Gangs[m.G].Shape.Members)
	members[0].Tasks = 1
	text := string(state.AppendShape(nil, members, spec)) + andMost + "tasks"
	key := tables.FitKey{Space: m.J.Space, Prio: min(m.J.Spec.Priority, 0), Shape: text}
	if known, ok := m.S.currentNeverFit().most[key]; ok {
		return min(known, most)
	}
	n := m.largest(min(most, m.taskBound()), with)
	if n < most { // else there may be room for more
		place.Remember(&m.S.currentNeverFit().most, key, n)
	}
	return n
}

// hasFirstTasks reports whether a gang is of one role and has its first tasks. Then how many fit
// does not depend on how many it asks for.
func (m MostEver) hasFirstTasks() bool {
	gang := m.J.Spec.Gangs[m.G].Tasks
	for i, o := range gang {
		if t := &m.J.Tasks[o]; t.Role != m.Role || int(t.Index) != i {
			return false
		}
	}
	return len(m.J.Gangs[m.G].Shape.Members) == 1
}

// taskBound is an upper bound on the tasks of the role, by the number of leaves: a task runs on one
// node, so each node of a cell holds as many.
func (m MostEver) taskBound() int32 {
	f, size := m.S.Cluster.Forest(), m.J.Spec.Roles[m.Role].Leaves
	guaranteed := m.J.Spec.Priority >= cell.MinGuaranteed
	sp := m.S.Cluster.Space(0)
	if guaranteed {
		sp = m.S.Cluster.Space(m.S.Space(m.J.Spec.VC))
	}
	tasks, parts := int32(0), int32(0) // parts: leaves of cells that are less than a node
	for i := range sp.Roots {
		r := &sp.Roots[i]
		ch := &f.Chains[r.Chain]
		switch node := ch.LeavesAt(ch.NodeLevel); {
		case !m.S.UsableChain(m.J, int(m.G), r.Chain) || guaranteed && !m.S.RootServes(m.J, int(m.G), r):
		case r.Level < ch.NodeLevel:
			parts += ch.LeavesAt(r.Level)
		default:
			tasks += ch.LeavesAt(r.Level) / node * (node / size)
		}
	}
	tasks += parts / size
	if !m.J.Spec.Restricted() {
		return tasks
	}
	allowed, there := m.S.AllowedNodes(m.J.Spec), int32(0)
	for i := range f.Nodes {
		for _, c := range f.Nodes[i].Cells {
			if allowed.Has(int32(i)) && m.S.UsableChain(m.J, int(m.G), f.Cells[c].Chain) {
				there += f.NumLeaves(c) / size
			}
		}
	}
	return min(tasks, there)
}

// text says the most that a gang which can never start could have: tasks of its size, or the size
// of each task. It is "" where that is all that there is, which the reason says already, and for a
// gang of several roles, where the most of one depends on the others.
func (m MostEver) text(total int32) string {
	spec := m.J.Spec
	if len(m.J.Gangs[m.G].Shape.Members) != 1 {
		return ""
	}
	r := &spec.Roles[m.Role]
	if n := m.Tasks(); n > 0 {
		if r.Leaves == 1 && n == total {
			return ""
		}
		return fmt.Sprintf("; the most is %s x %s", model.Plural(n, "task", "tasks"), m.S.AmountOf(r.SKUs, r.Leaves))
	}
	if m.S.tasksOf(m.J, m.G, m.Role) > 1 {
		spec = model.WithTasks(spec, m.Role, 1)
	}
	if n := m.leaves(spec); n > 0 && n < total {
		return fmt.Sprintf("; the most is %s for each task", m.S.AmountOf(r.SKUs, n))
	}
	return ""
}
