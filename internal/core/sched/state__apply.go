package sched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// Apply folds one record into the state. It never fails: a record that does not
// fit the state is a bug and panics with the numbers.
func (s *fold) Apply(r Record) {
	if r.Seq != s.seq+1 {
		panic(fmt.Sprintf("sched: record %d does not follow %d", r.Seq, s.seq))
	}
	s.seq = r.Seq
	s.now = max(s.now, r.Time)
	switch e := r.Event.(type) {
	case JobSubmitted:
		s.applySubmitted(e)
	case StopRequested:
		s.applyStopRequested(e)
	case JobHeld:
		s.applyHeld(e)
	case JobRequeued:
		s.applyRequeued(e)
	case JobUpdated:
		s.applyUpdated(e)
	case Configured:
		s.unbookAll() // leaves have other numbers from now on
		s.failed = nil
		s.applyConfigured(e)
	case NodeCordoned:
		s.applyCordoned(e)
	case Foretold: // what it tells follows from the rest
	case Decided:
		s.now, s.decided = max(s.now, e.Now), e.Now
		s.settled()
		if s.again <= s.now { // a look that is still to come stays due
			s.again, s.againFor = 0, nil
		}
		s.askAgain(e)
	case Noted:
		s.applyNoted(e)
	case Lost:
		s.applyLost(e)
	default:
		if !s.applyFact(r.Event) && !s.applyDecision(r.Event) {
			panic(fmt.Sprintf("sched: no rule applies event %T", r.Event))
		}
	}
}

// maxAgain is how many decisions in a row may ask for another one at once. More are a defect of
// ours, two that take turns: then one a second is made, so that it neither fills the journal nor
// keeps the engine from everything else.
const maxAgain = 10_000

// askAgain notes that a decision asked for another one, or that none does.
func (s *fold) askAgain(e Decided) {
	if !e.Again {
		s.turns = 0
		return
	}
	at := e.Now + 1
	if s.turns++; s.turns > maxAgain {
		at = e.Now.Add(model.Second)
	}
	if s.again == 0 {
		s.again, s.againFor = at, e.For
	} else { // one that is to come is not put off
		s.again, s.againFor = min(s.again, at), both(s.againFor, e.For)
	}
	s.at(s.again, 0, 0)
}

// settled clears what Decide has dealt with.
func (s *fold) settled() {
	s.untouch()
	s.dropEmpty()
	s.looked()
	for len(s.timers) > 0 && s.timers[0].at <= s.now {
		s.expire(s.now)
	}
	s.untouch()
	s.looked()
}

func (s *fold) applySubmitted(e JobSubmitted) {
	slot := int32(len(s.jobs))
	if n := len(s.spare); n > 0 {
		slot, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		s.jobs = append(s.jobs, job{})
	}
	j := &s.jobs[slot]
	*j = s.newJob(e.ID, e.Job, s.now, s.arenas.rooms.take())
	if e.Job.Partial() {
		s.partials++
		s.countPartial(j, 1)
	}
	if e.Job.Hints.Dedicated {
		s.loners++
	}
	s.looks.chooses(j, 1)
	s.slots.Put(e.ID, slot)
	s.names.put(slot, s.jobs, s.now, s.seq)
	s.nextJob = max(s.nextJob, e.ID+1)
	for g := range j.gangs {
		if s.queue(slot, int32(g)) {
			s.arrived(j.space, j.spec.Priority)
		}
	}
}

// newJob lays out a job that waits, in the memory of one that has ended, if any.
func (s *fold) newJob(id model.JobID, spec *model.Job, now model.Time, in room) job {
	j := job{id: id, spec: spec, space: s.space(spec.VC), submitted: now, size: spec.UsualSize(), loner: spec.Hints.Dedicated}
	n := 0
	for r := range spec.Roles {
		n += int(spec.Roles[r].Tasks)
	}
	j.tasks, j.gangs = slices.Grow(in.tasks, n), slices.Grow(in.gangs, len(spec.Gangs))
	for r := range spec.Roles {
		for i := range spec.Roles[r].Tasks {
			j.tasks = append(j.tasks, taskRun{role: int32(r), index: i, state: model.TaskWaiting})
		}
	}
	for g := range spec.Gangs {
		j.gangs = append(j.gangs, s.newGang(&j, g))
	}
	return j
}

func (s *fold) newGang(j *job, g int) gang {
	out := gang{attempt: none, next: none}
	var room [8]cell.Member
	members := room[:0]
	role := int32(none)
	for _, t := range j.spec.Gangs[g].Tasks {
		j.tasks[t].gang = int32(g)
		r := &j.spec.Roles[j.tasks[t].role]
		out.leaves += r.Leaves
		if j.tasks[t].role == role {
			members[len(members)-1].Tasks++
			continue
		}
		role = j.tasks[t].role
		members = append(members, cell.Member{Tasks: 1, Leaves: r.Leaves, SKUs: s.carriers(r), Pinned: r.Pinned, Alike: r.OneSKU})
	}
	agree(members)
	out.shape = s.shapeOf(members, j.spec)
	return out
}

// Most jobs look like one that was submitted before: so many shapes are kept, if
// their texts are no longer than that.
const (
	maxShapes    = 1024
	maxShapeText = 256
)

// shapeOf returns the shape of a gang: that of an earlier one, if it is known. It
// is asked for at every submission.
func (s *fold) shapeOf(members []cell.Member, spec *model.Job) *shape {
	var room [maxShapeText]byte
	text := appendShape(room[:0], members, spec)
	if known, ok := s.shapes[string(text)]; ok {
		return known
	}
	fresh := &shape{text: string(text), members: slices.Clone(members)}
	if !spec.Hints.Dedicated {
		fresh.load, fresh.skus = loadOf(members)
	}
	for i := range fresh.members {
		m := &fresh.members[i]
		fresh.short = fresh.short || len(m.SKUs) > 0 && m.SKUs[0] == noSKU
		m.SKUs = slices.Clone(m.SKUs) // so that no job's description is kept for it
	}
	if len(text) <= maxShapeText {
		if s.shapes == nil || len(s.shapes) >= maxShapes {
			s.shapes = map[string]*shape{}
		}
		s.shapes[fresh.text] = fresh
	}
	return fresh
}

// appendShape writes a shape as text: each name in it with its length, so that no
// two shapes have one text.
func appendShape(b []byte, members []cell.Member, spec *model.Job) []byte {
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

func (s *fold) applyStopRequested(e StopRequested) {
	j := s.find(e.Job)
	if j == nil {
		return
	}
	slot := s.slots.Of(e.Job)
	s.recounting(slot, func() { j.stop = true })
	if e.Reason != "" {
		alter(&j.odd).stopReason = e.Reason
	}
	for g := range j.gangs {
		s.dequeue(slot, int32(g))
	}
	s.touch(slot)
}

func (s *fold) applyCordoned(e NodeCordoned) {
	n := s.node(e.Node)
	n.Cordon, n.Cordoned, n.By, n.Since, n.Drain, n.Dead = e.On, e.Reason, e.Meta.Subject, s.now, e.Drain, e.Dead
	if !e.On {
		n.Cordoned, n.By, n.Since, n.Drain, n.Dead = "", "", 0, 0, false
		n.Suspect, n.Refused = 0, nil
	}
	if s.at(n.Drain, 0, 0); n.Drain > 0 {
		s.touchOn(e.Node)
	}
	s.looks.drains = drainsOf(s.nodes)
	s.blame(n)
	s.lookAll()
}

// noted returns what is remembered about a node, to read.
func (s *fold) noted(name cell.NodeName) nodeNote {
	if i, found := s.findNode(name); found {
		return s.nodes[i]
	}
	return nodeNote{Name: name}
}

func (s *fold) findNode(name cell.NodeName) (int, bool) {
	return slices.BinarySearchFunc(s.nodes, name, func(n nodeNote, k cell.NodeName) int {
		return strings.Compare(string(n.Name), string(k))
	})
}

// node returns what is remembered about a node, for change.
func (s *fold) node(name cell.NodeName) *nodeNote {
	i, found := s.findNode(name)
	if !found {
		s.nodes = slices.Insert(s.nodes, i, nodeNote{Name: name})
	}
	return &s.nodes[i]
}

// blame tells the cells what is remembered about a node.
func (s *fold) blame(n *nodeNote) {
	if s.cl == nil {
		return
	}
	i := s.cl.Forest().NodeIndex(n.Name)
	if i == cell.None {
		return
	}
	s.health++
	for _, c := range []*cell.Cluster{s.cl, s.empty} {
		if c != nil {
			setBlame(c, i, n)
		}
	}
}

func setBlame(c *cell.Cluster, node int32, n *nodeNote) {
	c.SetBlame(node, cell.Down, n.Down)
	c.SetBlame(node, cell.Cordoned, n.Cordon)
	c.SetBlame(node, cell.Suspect, n.Suspect > 0)
}

// vacant returns the cluster with nothing in use and the present health.
func (s *fold) vacant() *cell.Cluster {
	if s.empty != nil {
		return s.empty
	}
	s.empty = s.base.Clone()
	for i := range s.nodes {
		if at := s.base.Forest().NodeIndex(s.nodes[i].Name); at != cell.None {
			setBlame(s.empty, at, &s.nodes[i])
		}
	}
	for _, n := range s.leaves {
		if l := s.base.Forest().FindPart(n.Node, n.SKU, n.Device, n.Part); l != cell.None {
			s.empty.SetLeafBad(l, true)
		}
	}
	for i := range s.attempts {
		for _, l := range rare(s.attempts[i].odd).drains {
			s.empty.SetLeafBad(l, true)
		}
	}
	return s.empty
}

func (s *fold) applyConfigured(e Configured) {
	cl, err := cell.New(&e.Config.Cluster)
	if err != nil {
		panic(fmt.Sprintf("sched: a configuration was accepted that cannot be built: %v", err))
	}
	s.accrueAll()
	was, origins := s.cfg, s.allOrigins()
	s.cfg, s.cl, s.base, s.empty = e.Config, cl, cl.Clone(), nil
	s.exits = exit.Compile(e.Config.ExitRules)
	s.configs++
	s.pol, s.unmade = make([]Policy, cl.NumSpaces()), nil
	for i := int32(1); i < cl.NumSpaces(); i++ {
		s.pol[i] = s.makePolicy(cl.Space(i).Name)
	}
	s.quanta = quantaOf(s.pol)
	s.byAlloc = nil
	s.rename(&e)
	s.keepOrigins(origins)
	for i := range s.jobs {
		if j := &s.jobs[i]; j.spec != nil {
			j.space = s.space(j.spec.VC)
			for g := range j.gangs { // SKUs may carry something else
				j.gangs[g].shape = s.newGang(j, g).shape
			}
		}
	}
	for _, m := range e.Moves {
		s.move(m)
	}
	for i := range s.nodes {
		s.blame(&s.nodes[i])
	}
	for i := range s.leaves {
		s.blameLeaf(&s.leaves[i], true)
	}
	s.forgetNotes()
	s.requeueAll()
	if was != nil {
		s.forgetSizes(was, e.Renamed)
	}
	s.resetDebts()
}

// move puts one attempt on its cells in the new cluster.
func (s *fold) move(m Move) {
	a := s.live(m.Attempt)
	if a == nil {
		panic(fmt.Sprintf("sched: attempt %v moves but does not live", m.Attempt))
	}
	j := &s.jobs[a.job]
	lazy := (m.Lazy || a.lazy && !m.Regained) && j.spec.Priority >= cell.MinGuaranteed
	if !a.joined { // whom it shares its leaves with moves along, next
		alloc := s.cl.Take(j.space, j.spec.Priority, m.Placement, false)
		if lazy {
			s.cl.Demote(alloc)
		}
		first := j.gangs[a.id.Gang].attempt
		s.setAlloc(alloc, first)
		for at := first; at != none; at = s.attempts[at].mate {
			s.attempts[at].alloc = alloc
		}
	}
	a.orphaned, a.left, a.lazy = m.Orphaned, 0, lazy
	s.drain(a, m.Drains)
	s.setMood(a)
	s.timeMinRun(a)
}

// setAlloc remembers whose an allocation is.
func (s *fold) setAlloc(id cell.AllocID, slot int32) {
	for int(id) >= len(s.byAlloc) {
		s.byAlloc = append(s.byAlloc, none)
	}
	s.byAlloc[id] = slot
}
