package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Apply folds one record into the state. It never fails: a record that does not fit the state is a
// bug, and Apply panics with the numbers.
func (s *State) Apply(r model.Record) {
	if r.Seq != s.Seq+1 {
		panic(fmt.Sprintf("core: record %d does not follow %d", r.Seq, s.Seq))
	}
	s.Seq = r.Seq
	s.Now = max(s.Now, r.Time)
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		s.applySubmitted(e)
	case model.StopRequested:
		s.applyStopRequested(e)
	case model.JobHeld:
		s.applyHeld(e)
	case model.JobRequeued:
		s.applyRequeued(e)
	case model.JobUpdated:
		s.applyUpdated(e)
	case model.Configured:
		s.UnbookAll() // a configuration numbers the leaves anew
		s.Failed = nil
		s.applyConfigured(e)
	case model.NodeCordoned:
		s.applyCordoned(e)
	case model.Foretold: // what it says follows from the rest
	case model.Decided:
		s.Now, s.DecidedAt = max(s.Now, e.Now), e.Now
		s.clearDecided()
		if s.Again <= s.Now { // one that is still to come stays due
			s.Again, s.AgainFor = 0, nil
		}
		s.askAgain(e)
	case model.Noted:
		s.applyNoted(e)
	case model.Lost:
		s.applyLost(e)
	default:
		if !s.applyFact(r.Event) && !s.applyDecision(r.Event) {
			panic(fmt.Sprintf("core: no rule applies event %T", r.Event))
		}
	}
}

// maxAgain is how many decisions in a row may ask for another one at once. More are a bug: two
// decisions undo each other. From then on one a second is made, so that this neither fills the
// journal nor keeps the engine from everything else.
const maxAgain = 10_000

// askAgain notes whether a decision asks for another one.
func (s *State) askAgain(e model.Decided) {
	if !e.Again {
		s.againInARow = 0
		return
	}
	at := e.Now + 1
	if s.againInARow++; s.againInARow > maxAgain {
		at = e.Now.Add(model.Second)
	}
	if s.Again == 0 {
		s.Again, s.AgainFor = at, e.For
	} else { // the earlier of the two counts
		s.Again, s.AgainFor = min(s.Again, at), index.MergeNames(s.AgainFor, e.For)
	}
	s.SetTimer(s.Again, 0, 0)
}

// clearDecided clears what Decide has dealt with.
func (s *State) clearDecided() {
	s.Untouch()
	s.DropEmpty()
	s.Clean()
	for len(s.Timers) > 0 && s.Timers[0].At <= s.Now {
		s.Expire(s.Now)
	}
	s.Untouch()
	s.Clean()
}

func (s *State) applySubmitted(e model.JobSubmitted) {
	slot := int32(len(s.Jobs))
	if n := len(s.FreedJobs); n > 0 {
		slot, s.FreedJobs = s.FreedJobs[n-1], s.FreedJobs[:n-1]
	} else {
		s.Jobs = append(s.Jobs, tables.Job{})
	}
	j := &s.Jobs[slot]
	*j = s.NewJob(e.ID, e.Job, s.Now, s.Arenas.JobMemories.Take())
	if e.Job.Partial() {
		s.PartialJobs++
		s.CountPartial(j, 1)
	}
	if e.Job.Hints.Dedicated {
		s.DedicatedJobs++
	}
	s.Dirty.Chooses(j, 1)
	s.Slots.Put(e.ID, slot)
	s.Names.Put(slot, s.Jobs, s.Now, s.Seq)
	s.NextJob = max(s.NextJob, e.ID+1)
	for g := range j.Gangs {
		if s.Queue(slot, int32(g)) {
			s.Arrived(j.Space, j.Spec.Priority)
		}
	}
}

// NewJob makes a job that waits, in the memory of an ended job if in has any.
func (s *State) NewJob(id model.JobID, spec *model.Job, now model.Time, in tables.JobMemory) tables.Job {
	j := tables.Job{ID: id, Spec: spec, Space: s.Space(spec.VC), Submitted: now, Size: spec.UsualSize(),
		Dedicated: spec.Hints.Dedicated}
	n := 0
	for r := range spec.Roles {
		n += int(spec.Roles[r].Tasks)
	}
	j.Tasks, j.Gangs = slices.Grow(in.Tasks, n), slices.Grow(in.Gangs, len(spec.Gangs))
	for r := range spec.Roles {
		for i := range spec.Roles[r].Tasks {
			j.Tasks = append(j.Tasks, tables.TaskRun{Role: int32(r), Index: i, State: model.TaskWaiting})
		}
	}
	for g := range spec.Gangs {
		j.Gangs = append(j.Gangs, s.newGang(&j, g))
	}
	return j
}

func (s *State) newGang(j *tables.Job, g int) tables.Gang {
	out := tables.Gang{Attempt: tables.None, Next: tables.None}
	var room [8]cell.Member
	members := room[:0]
	role := int32(tables.None)
	for _, t := range j.Spec.Gangs[g].Tasks {
		j.Tasks[t].Gang = int32(g)
		r := &j.Spec.Roles[j.Tasks[t].Role]
		out.Leaves += r.Leaves
		if j.Tasks[t].Role == role {
			members[len(members)-1].Tasks++
			continue
		}
		role = j.Tasks[t].Role
		members = append(members, cell.Member{Tasks: 1, Leaves: r.Leaves, SKUs: s.Carriers(r), Pinned: r.Pinned,
			Alike: r.OneSKU})
	}
	tables.Agree(members)
	out.Shape = s.shapeOf(members, j.Spec)
	return out
}

// Most jobs ask for the same as an earlier one: so up to maxShapes shapes are kept, those with
// texts of at most maxShapeText bytes.
const (
	maxShapes    = 1024
	maxShapeText = 256
)

// shapeOf returns the shape of a gang, an earlier gang's if that is known. Each submission asks
// for it.
func (s *State) shapeOf(members []cell.Member, spec *model.Job) *tables.Shape {
	var room [maxShapeText]byte
	text := AppendShape(room[:0], members, spec)
	if known, ok := s.Shapes[string(text)]; ok {
		return known
	}
	fresh := &tables.Shape{Text: string(text), Members: slices.Clone(members)}
	if !spec.Hints.Dedicated {
		fresh.Load, fresh.Skus = loadOf(members)
	}
	for i := range fresh.Members {
		m := &fresh.Members[i]
		fresh.NoSKUFits = fresh.NoSKUFits || len(m.SKUs) > 0 && m.SKUs[0] == tables.NoSKU
		m.SKUs = slices.Clone(m.SKUs) // so that the shape keeps no job's description in memory
	}
	if len(text) <= maxShapeText {
		if s.Shapes == nil || len(s.Shapes) >= maxShapes {
			s.Shapes = map[string]*tables.Shape{}
		}
		s.Shapes[fresh.Text] = fresh
	}
	return fresh
}

// AppendShape writes a shape as text. Each name in it has its length before it, so that no two
// shapes have one text.
func AppendShape(b []byte, members []cell.Member, spec *model.Job) []byte {
	num := func(n int, end byte) { b = append(strconv.AppendInt(b, int64(n), 10), end) }
	text := func(s string) {
		num(len(s), ':')
		b = append(b, s...)
	}
	for i := range members {
		m := &members[i]
		num(int(m.Tasks), 'x')
		num(int(m.Leaves), '/')
		if m.Alike {
			b = append(b, '=')
		}
		num(len(m.SKUs), '/')
		for _, sku := range m.SKUs {
			text(string(sku))
		}
		text(string(m.Pinned))
	}
	for _, nodes := range [...][]cell.NodeName{spec.AllowedNodes, spec.AvoidedNodes, spec.PreferredNodes} {
		num(len(nodes), ';')
		for _, n := range nodes {
			text(string(n))
		}
	}
	if spec.Hints.Dedicated {
		b = append(b, '!')
	}
	return b
}

func (s *State) applyStopRequested(e model.StopRequested) {
	j := s.Find(e.Job)
	if j == nil {
		return
	}
	slot := s.Slots.Of(e.Job)
	s.recounting(slot, func() { j.Stop = true })
	if e.Reason != "" {
		tables.SetRare(&j.Rare).StopReason = e.Reason
	}
	for g := range j.Gangs {
		s.Dequeue(slot, int32(g))
	}
	s.Touch(slot)
}

func (s *State) applyCordoned(e model.NodeCordoned) {
	n := s.node(e.Node)
	n.Cordon, n.Cordoned, n.By, n.Since, n.Drain, n.Dead = e.On, e.Reason, e.Meta.Subject, s.Now, e.Drain, e.Dead
	if !e.On {
		n.Cordoned, n.By, n.Since, n.Drain, n.Dead = "", "", 0, 0, false
		n.Suspect, n.Refused = 0, nil
	}
	if s.SetTimer(n.Drain, 0, 0); n.Drain > 0 {
		s.TouchOn(e.Node)
	}
	s.Dirty.DrainingNodes = index.CountDraining(s.Nodes)
	s.updateNodeHealth(n)
	s.DirtyAll()
}

// NodeNote returns what facts and commands said about a node, to read.
func (s *State) NodeNote(name cell.NodeName) tables.NodeNote {
	if i, found := s.findNode(name); found {
		return s.Nodes[i]
	}
	return tables.NodeNote{Name: name}
}

func (s *State) findNode(name cell.NodeName) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, name, func(n tables.NodeNote, k cell.NodeName) int {
		return strings.Compare(string(n.Name), string(k))
	})
}

// node returns what is remembered about a node, to change.
func (s *State) node(name cell.NodeName) *tables.NodeNote {
	i, found := s.findNode(name)
	if !found {
		s.Nodes = slices.Insert(s.Nodes, i, tables.NodeNote{Name: name})
	}
	return &s.Nodes[i]
}

// updateNodeHealth tells the cells why a node is out of service, if it is.
func (s *State) updateNodeHealth(n *tables.NodeNote) {
	if s.Cluster == nil {
		return
	}
	i := s.Cluster.Forest().NodeIndex(n.Name)
	if i == cell.None {
		return
	}
	s.Health++
	for _, c := range []*cell.Cluster{s.Cluster, s.Empty} {
		if c != nil {
			setNodeHealth(c, i, n)
		}
	}
}

func setNodeHealth(c *cell.Cluster, node int32, n *tables.NodeNote) {
	c.SetNodeFaults(node, cell.Down, n.Down)
	c.SetNodeFaults(node, cell.Cordoned, n.Cordon)
	c.SetNodeFaults(node, cell.Suspect, n.Suspect > 0)
}

// Vacant is the cluster with nothing in use and the present health; the first call builds it.
func (s *State) Vacant() *cell.Cluster {
	if s.Empty != nil {
		return s.Empty
	}
	s.Empty = s.Base.Clone()
	for i := range s.Nodes {
		if at := s.Base.Forest().NodeIndex(s.Nodes[i].Name); at != cell.None {
			setNodeHealth(s.Empty, at, &s.Nodes[i])
		}
	}
	for _, n := range s.Leaves {
		if l := s.Base.Forest().FindPart(n.Node, n.SKU, n.Device, n.Part); l != cell.None {
			s.Empty.SetLeafBad(l, true)
		}
	}
	for i := range s.Attempts {
		for _, l := range tables.RareOf(s.Attempts[i].Rare).DrainingLeaves {
			s.Empty.SetLeafBad(l, true)
		}
	}
	return s.Empty
}

func (s *State) applyConfigured(e model.Configured) {
	cl, err := cell.New(&e.Config.Cluster)
	if err != nil {
		panic(fmt.Sprintf("core: a configuration was accepted that cannot be built: %v", err))
	}
	s.accrueAll()
	was, origins := s.Config, s.allOrigins()
	s.Config, s.Cluster, s.Base, s.Empty = e.Config, cl, cl.Clone(), nil
	s.Exits = exit.Compile(e.Config.ExitRules)
	s.Configs++
	s.Policies, s.FailedToMake = make([]model.Policy, cl.NumSpaces()), nil
	for i := int32(1); i < cl.NumSpaces(); i++ {
		s.Policies[i] = s.makePolicy(cl.Space(i).Name)
	}
	s.Quanta = index.QuantaOf(s.Policies)
	s.ByAlloc = nil
	renaming{s}.all(&e)
	s.keepOrigins(origins)
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Spec != nil {
			j.Space = s.Space(j.Spec.VC)
			for g := range j.Gangs { // a SKU may carry something else now
				j.Gangs[g].Shape = s.newGang(j, g).Shape
			}
		}
	}
	for _, m := range e.Moves {
		s.move(m)
	}
	for i := range s.Nodes {
		s.updateNodeHealth(&s.Nodes[i])
	}
	for i := range s.Leaves {
		s.updateLeafHealth(&s.Leaves[i], true)
	}
	s.forgetNotes()
	s.requeueAll()
	if was != nil {
		s.forgetSizes(was, e.Renamed)
	}
	s.resetDebts()
}

// move puts one attempt on its cells in the new cluster.
func (s *State) move(m model.Move) {
	a := s.Live(m.Attempt)
	if a == nil {
		panic(fmt.Sprintf("core: attempt %v moves but does not live", m.Attempt))
	}
	j := &s.Jobs[a.Job]
	lazy := (m.Lazy || a.Lazy && !m.Regained) && j.Spec.Priority >= cell.MinGuaranteed
	if !a.NotFirst { // the other members of the allocation move along
		alloc := s.Cluster.Take(j.Space, j.Spec.Priority, m.Placement, false)
		if lazy {
			s.Cluster.Demote(alloc)
		}
		first := j.Gangs[a.ID.Gang].Attempt
		s.setAlloc(alloc, first)
		for at := first; at != tables.None; at = s.Attempts[at].NextMember {
			s.Attempts[at].Alloc = alloc
		}
	}
	a.Orphaned, a.VacatedTasks, a.Lazy = m.Orphaned, 0, lazy
	s.markDraining(a, m.Drains)
	s.setIntent(a)
	s.TimeMinRun(a)
}

// setAlloc notes the slot of the first member of an allocation.
func (s *State) setAlloc(id cell.AllocID, slot int32) {
	for int(id) >= len(s.ByAlloc) {
		s.ByAlloc = append(s.ByAlloc, tables.None)
	}
	s.ByAlloc[id] = slot
}
