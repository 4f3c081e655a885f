package sched

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// brief is what others may know about a job.
func (s *fold) brief(j *job) model.JobBrief {
	b := model.JobBrief{Job: j.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Priority: j.spec.Priority, Takes: model.TotalText(s.takenBy(j))}
	known := true
	for g := range j.gangs {
		b.Leaves += j.gangs[g].leaves
		at := j.gangs[g].attempt
		if at == none || s.attempts[at].state == model.AttemptReserving {
			continue
		}
		a := &s.attempts[at]
		end := s.spanOf(a, nil, byReports(&s.index, a))
		ends, basis := goneBy(&s.tables, a, end)
		b.Unknown = b.Unknown || a.state == model.AttemptUnknown
		if known = known && ends > 0; known || ends == 0 {
			b.Basis = basis
		}
		b.Ends, b.Likely = max(b.Ends, ends), b.Likely || end.basis == ByReported
	}
	if !known {
		b.Ends, b.Likely = 0, false
	}
	return b
}

// goneBy is when an attempt has left its cells at the latest, its grace included, and
// what that rests on: the instant from which others count on these cells.
func goneBy(s *tables, a *attempt, end span) (at model.Time, basis string) {
	grace := s.jobs[a.job].spec.Grace
	switch {
	case a.state == model.AttemptStopping:
		return a.told.Add(grace), "the grace of its stop"
	case end.late > 0 && end.basis == ByLimit && grace > 0:
		return end.late.Add(grace), end.basis.Text() + " and the grace"
	}
	return end.late, cmp.Or(end.why, end.basis.Text())
}

// phase derives a job's phase: Active while any attempt of it exists.
func (s *fold) phase(j *job) Phase {
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none && s.attempts[at].state != model.AttemptReserving {
			return Active
		}
	}
	for i := range j.tasks {
		if j.tasks[i].state == model.TaskSucceeded || j.tasks[i].state == model.TaskFailed {
			return Active // an incremental job between its tasks
		}
	}
	return Waiting
}

// status is a job as users see it.
func (s *fold) status(j *job) JobStatus {
	st := JobStatus{ID: j.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Priority: j.spec.Priority,
		Phase: s.phase(j), Submitted: j.submitted, Started: j.started, Retry: j.retry, Counted: j.counted,
		Preempted: j.preempted, Yielded: j.yielded, Stopping: j.stop, Held: rare(j.odd).held,
		Notices: rare(j.odd).told(), Lasting: len(rare(j.odd).lasting),
		Tasks: s.arenas.tasks.Take(len(j.tasks))[:0], Attempts: s.attemptsOf(j)}
	st.Leaves, st.GPUs = s.takes(j)
	for g := range j.gangs {
		ran := j.gangs[g].ran
		if at := j.gangs[g].attempt; at != none {
			ran += s.ranFor(&s.attempts[at])
		}
		st.Ran = max(st.Ran, ran)
	}
	st.Waited = waitedFor(&st, s.now)
	st.Outlook, st.Coming = s.jobOutlook(j), foresight{s}.coming(j)
	for i := range j.tasks {
		t := taskStatus(j, &j.tasks[i])
		if t.State != model.TaskWaiting {
			t.Limits = s.mayUse(j, &j.tasks[i])
		}
		if at := j.gangs[t.Gang].attempt; t.State == model.TaskRunning && at != none && s.suspended(&s.attempts[at]) {
			t.State = model.TaskSuspended
		}
		st.Tasks = append(st.Tasks, t)
	}
	s.markLost(j, st.Tasks)
	return st
}

// waitedFor is the time since a job was submitted, until an instant, less the run time of its
// longest gang.
func waitedFor(st *JobStatus, until model.Time) model.Duration {
	return max(model.Duration(until-st.Submitted)-st.Ran, 0)
}

// finalStatus is a job that is over as users see it.
func (s *fold) finalStatus(j *endedJob) JobStatus {
	e := &j.end
	st := s.status(&j.job)
	st.Phase, st.Cause, st.Message, st.Ended, st.Stopping, st.Outlook = e.Phase, e.Cause, e.Message, j.at, false, nil
	st.Waited = waitedFor(&st, j.at)
	if e.Cause == model.EndSucceeded || e.Cause == model.EndFailed {
		if c := j.completing; c != nil && c.Exit == e.Exit {
			st.Exit = &c.Exit // which never changes
		} else {
			st.Exit = s.arenas.exits.Keep(e.Exit)
		}
	}
	return st
}

// attemptsOf returns a job's live attempts and the last ended of each gang.
func (s *fold) attemptsOf(j *job) []model.AttemptStatus {
	out := s.arenas.attempts.Take(len(j.gangs))[:0]
	for g := range j.gangs {
		for _, at := range [...]int32{j.gangs[g].attempt, j.gangs[g].next} {
			if at != none {
				out = append(out, s.attemptStatus(&s.attempts[at]))
			}
		}
		if last := j.gangs[g].last; last != nil {
			out = append(out, *last)
		}
	}
	return out
}

func taskStatus(j *job, t *taskRun) TaskStatus {
	out := TaskStatus{Role: j.spec.Roles[t.role].Name, Index: t.index, Gang: t.gang, State: t.state, Attempt: t.attempt,
		Exit: t.exit, Retries: t.retries, Progress: t.progress}
	if t.state != model.TaskWaiting {
		p := t.started()
		out.Node, out.SKU, out.Devices, out.Parts = p.Node, p.SKU, p.Devices, p.Parts
		b := t.runs()
		out.Host, out.Ports, out.PID = b.host, b.ports, b.pid
	}
	return out
}

// mayUse is what a task may use as it was started.
func (s *fold) mayUse(j *job, t *taskRun) model.Limits {
	sku := s.cl.SKU(t.started().SKU)
	if at := j.gangs[t.gang].attempt; at != none {
		if origins := rare(s.attempts[at].odd).origins; origins != nil {
			sku = origins[slices.IndexFunc(j.spec.Gangs[t.gang].Tasks, func(o int32) bool { return &j.tasks[o] == t })].Leaf
		}
	}
	return j.spec.Roles[t.role].Launch.Asks().Or(sku, len(t.started().Devices))
}

func (s *fold) attemptStatus(a *attempt) model.AttemptStatus {
	out := model.AttemptStatus{ID: a.id, State: a.state, Lazy: a.lazy, Orphaned: a.orphaned, Cause: a.cause,
		Placed: a.placed, Started: a.started, Told: a.told, By: a.by, Message: rare(a.odd).message}
	if a.state == model.AttemptRunning && s.suspended(a) {
		out.State = model.AttemptSuspended
	}
	out.Opportunistic = s.cl.Alloc(a.alloc).Opportunistic()
	for _, v := range rare(a.odd).victims {
		if s.live(v) != nil {
			out.Victims = append(out.Victims, v)
		}
	}
	return out
}

// suspended reports whether others have their turn on an attempt's leaves.
func (s *fold) suspended(a *attempt) bool {
	r := s.rotationOf(a)
	return r != nil && a.cause == 0 && !r.Runs(a.id, s.now)
}

// Statuses returns the jobs that have not ended, in submission order.
func (s *fold) Statuses() []JobStatus {
	out := slices.AppendSeq(make([]JobStatus, 0, s.slots.N), s.Newest(func(model.JobID, *model.Job, Phase) bool { return true }))
	slices.Reverse(out)
	return out
}

// Newest goes through the jobs that have not ended and are wanted, in the opposite order. It makes
// the status of those alone: of very many jobs the first few cost little.
func (s *fold) Newest(want func(model.JobID, *model.Job, Phase) bool) iter.Seq[JobStatus] {
	return func(yield func(JobStatus) bool) {
		for id := range newest(s) {
			if j := s.find(id); j != nil && want(id, j.spec, s.phase(j)) && !yield(s.status(j)) {
				return
			}
		}
	}
}

// IsHeld reports whether a user holds a job.
func (s *fold) IsHeld(id model.JobID) bool {
	j := s.find(id)
	return j != nil && rare(j.odd).held != nil
}

// newest goes through the numbers of jobs from the highest down, and some of jobs that have ended
// with them where those are few.
func newest(s *fold) iter.Seq[model.JobID] {
	return func(yield func(model.JobID) bool) {
		if int64(s.nextJob) < 4*int64(s.slots.N)+1000 {
			for id := s.nextJob - 1; id > 0 && yield(id); id-- {
			}
			return
		}
		ids := make([]model.JobID, 0, s.slots.N)
		for i := range s.jobs {
			if s.jobs[i].spec != nil {
				ids = append(ids, s.jobs[i].id)
			}
		}
		slices.Sort(ids)
		for i := len(ids) - 1; i >= 0 && yield(ids[i]); i-- {
		}
	}
}

// Takes counts the GPUs of a job that has not ended.
func (s *fold) Takes(id model.JobID) int64 {
	j := s.find(id)
	if j == nil {
		return 0
	}
	_, gpus := s.takes(j)
	return gpus
}

// Size is how many jobs there are that have not ended.
func (s *fold) Size() int { return s.slots.N }

// Job returns one job that has not ended.
func (s *fold) Job(id model.JobID) (JobStatus, bool) {
	j := s.find(id)
	if j == nil {
		return JobStatus{}, false
	}
	return s.status(j), true
}

// Spec returns what was submitted for a job that has not ended.
func (s *fold) Spec(id model.JobID) (*model.Job, bool) {
	j := s.find(id)
	if j == nil {
		return nil, false
	}
	return j.spec, true
}

// ByName returns the job of that name of a user that has not ended.
func (s *fold) ByName(user model.Subject, n model.JobName) (model.JobID, bool) {
	slot, ok := s.names.get(user, n, s.jobs)
	if !ok {
		return 0, false
	}
	return s.jobs[slot].id, true
}

// VCs returns all virtual clusters in order of name.
func (s *fold) VCs() []VCStatus {
	if s.cl == nil {
		return []VCStatus{}
	}
	out := make([]VCStatus, 0, s.cl.NumSpaces())
	for i := int32(1); i < s.cl.NumSpaces(); i++ {
		out = append(out, s.vcStatus(i))
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.spec == nil {
			continue
		}
		if at := s.space(j.spec.VC); at > 0 {
			if s.phase(j) == Active {
				out[at-1].Active++
			} else {
				out[at-1].Waiting++
			}
		}
	}
	s.countBorrowed(out)
	cell.Lent(s.cl, func(n cell.VCName) bool { return model.OfVC(s.cfg, n).Lending == model.LendNothing },
		func(vc int32, chain int16, n int32) {
			out[vc-1].use(s.carry(s.cl.Forest().Chains[chain].SKU)).Lent += n
		})
	for i := range out {
		out[i].sum()
		if up := s.cl.SpaceOf(out[i].Parent); up > 0 {
			out[up-1].Children = append(out[up-1].Children, out[i].Name)
		}
	}
	return s.withOrphanVCs(out)
}

func (s *fold) vcStatus(space int32) VCStatus {
	f, sp := s.cl.Forest(), s.cl.Space(space)
	c := model.OfVC(s.cfg, sp.Name)
	policy, params, failed := cmp.Or(c.Policy, fallback), c.Params, s.failedOf(sp.Name)
	if failed != nil {
		policy, params = fallback, nil
	}
	v := VCStatus{Name: sp.Name, Policy: policy, Params: params, Failed: failed, Backfill: c.Backfill, MinRun: s.minRun(space),
		Budget: c.Budget, Moves: c.Moves, Cells: []model.QuotaUse{}, SKUs: []model.VCUse{}}
	if v.Backfill == "none" {
		v.Backfill = ""
	}
	for up := sp.Parent; up > 0 && v.Parent == ""; up = s.cl.Space(up).Parent {
		if name, _ := s.cl.SpaceName(up); name != v.Name { // its own jobs have a part of it like any other
			v.Parent = name
		}
	}
	for i := range sp.Roots {
		r := &sp.Roots[i]
		ch := &f.Chains[r.Chain]
		use := v.use(s.carry(ch.SKU))
		use.Guaranteed += ch.LeavesAt(r.Level)
		used, _ := usedIn(&s.tables, r, func(int32) {})
		use.Used += used
		u := model.QuotaUse{Chain: ch.Name, Type: ch.Types[r.Level-1], Level: r.Level, Pinned: r.Pinned}
		k := slices.IndexFunc(v.Cells, func(q model.QuotaUse) bool { return q.Chain == u.Chain && q.Level == u.Level && q.Pinned == u.Pinned })
		if k < 0 {
			k = len(v.Cells)
			v.Cells = append(v.Cells, u)
		}
		v.Cells[k].Total++
		if r.Used > 0 {
			v.Cells[k].Bound++
		}
		if r.Cell == cell.None {
			continue
		}
		first := f.Cells[r.Cell].FirstLeaf
		for l := first; l < first+cell.LeafID(f.NumLeaves(r.Cell)); l++ {
			if s.cl.LeafBad(l) || s.cl.Blame(f.Cells[f.Leaves[l]].Node)&^cell.Cordoned != 0 {
				use.Bad++
			}
		}
	}
	return v
}

// countBorrowed adds the leaves that opportunistic work holds to its VC.
func (s *fold) countBorrowed(out []VCStatus) {
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.joined || a.state == model.AttemptReserving {
			continue
		}
		al := s.cl.Alloc(a.alloc)
		if al.Space == 0 || !al.Opportunistic() {
			continue
		}
		for _, t := range al.Placement.Tasks {
			if len(t.Leaves) > 0 {
				f := s.cl.Forest()
				sku := f.Chains[f.Cells[f.Leaves[t.Leaves[0]]].Chain].SKU
				out[al.Space-1].use(s.carry(sku)).Opportunistic += int32(len(t.Leaves))
			}
		}
	}
}

// NodeStatuses returns all nodes in order of name.
func (s *fold) NodeStatuses() []model.NodeStatus {
	if s.cl == nil {
		return []model.NodeStatus{}
	}
	f := s.cl.Forest()
	out := make([]model.NodeStatus, 0, len(f.Nodes))
	for i := range f.Nodes {
		b := s.cl.Blame(int32(i))
		n := model.NodeStatus{Name: f.Nodes[i].Name, Up: b&cell.Down == 0, Cordoned: b&cell.Cordoned != 0}
		note := s.noted(n.Name)
		n.Suspect, n.Reason, n.Drain, n.Dead, n.By, n.Since = note.Suspect, note.Reason, note.Drain, note.Dead, note.By, note.Since
		if n.Cordoned && note.Cordoned != "" {
			n.Reason = strings.TrimSuffix(note.Cordoned+"; "+note.Reason, "; ")
		}
		for _, c := range f.Nodes[i].Cells {
			n.SKUs = append(n.SKUs, s.nodeSKU(c))
		}
		out = append(out, n)
	}
	out = s.withOrphanNodes(out)
	slices.SortFunc(out, func(a, b model.NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (s *fold) nodeSKU(c cell.CellID) model.NodeSKU {
	f := s.cl.Forest()
	ch := &f.Chains[f.Cells[c].Chain]
	out := model.NodeSKU{Carry: s.carry(ch.SKU), Chain: ch.Name, Total: f.NumLeaves(c), Pretended: s.cl.SKU(ch.SKU).Pretended}
	for l := f.Cells[c].FirstLeaf; l < f.Cells[c].FirstLeaf+cell.LeafID(out.Total); l++ {
		if h, _ := s.cl.Holder(l); h != cell.None {
			out.Used++
		}
		if s.cl.LeafBad(l) {
			out.Bad++
			if i, noted := s.findLeafNote(s.leafOf(l)); noted {
				out.Fault = cmp.Or(out.Fault, s.leaves[i].Reason)
			}
		}
	}
	return out
}

// leafOf names a leaf as facts do.
func (s *fold) leafOf(l cell.LeafID) LeafHealth {
	f := s.cl.Forest()
	return LeafHealth{Node: f.Nodes[f.Cells[f.Leaves[l]].Node].Name, SKU: f.ChainOf(l).SKU, Device: f.Device(l), Part: f.Part(l)}
}

// LeavesOf names the leaves of a node.
func (s *fold) LeavesOf(node cell.NodeName) (list []LeafHealth) {
	if s.cl == nil || s.cl.Forest().NodeIndex(node) == cell.None {
		return nil
	}
	f := s.cl.Forest()
	for _, c := range f.Nodes[f.NodeIndex(node)].Cells {
		for l := range cell.LeafID(f.NumLeaves(c)) {
			list = append(list, s.leafOf(f.Cells[c].FirstLeaf+l))
		}
	}
	return list
}

// Cells returns the physical cells, top level first.
func (s *fold) Cells() []model.CellStatus {
	if s.cl == nil {
		return []model.CellStatus{}
	}
	out := []model.CellStatus{}
	for _, chain := range s.cl.Forest().Chains {
		for _, top := range chain.Tops {
			out = append(out, s.cellStatus(top, ""))
		}
	}
	return out
}

func (s *fold) cellStatus(id cell.CellID, prefix string) model.CellStatus {
	f := s.cl.Forest()
	c := &f.Cells[id]
	out := model.CellStatus{Type: f.Chains[c.Chain].Types[c.Level-1], Address: prefix + f.Address(id), Level: c.Level,
		Pinned: f.Pinned(id), Healthy: true, Priority: cell.Free}
	if c.Node != cell.None {
		out.Node = f.Nodes[c.Node].Name
	}
	if space, root := s.cl.RootOver(id); space != cell.None {
		out.VC = s.cl.Space(space).Name
		out.Virtual = fmt.Sprintf("%s/%d", out.VC, root)
	}
	first, step, n := f.Children(id)
	if n == 0 {
		s.leafStatus(&out, c.FirstLeaf)
		return out
	}
	for i := int32(0); i < n; i++ {
		k := s.cellStatus(first+cell.CellID(i)*step, out.Address+"/")
		out.Healthy = out.Healthy && k.Healthy
		out.Priority = max(out.Priority, k.Priority)
		switch {
		case i == 0:
			out.State = k.State
		case k.State == "Used" || out.State != k.State:
			out.State = "Used"
		}
		out.Children = append(out.Children, k)
	}
	return out
}

func (s *fold) leafStatus(out *model.CellStatus, l cell.LeafID) {
	out.Healthy = !s.leafBad(l)
	hold, promised := s.cl.Holder(l)
	out.State = "Free"
	switch {
	case hold != cell.None && promised != cell.None:
		out.State = "Reserving"
	case hold != cell.None:
		out.State = "Used"
	case promised != cell.None:
		out.State = "Reserved"
	}
	for _, a := range []cell.AllocID{hold, promised} {
		if a == cell.None {
			continue
		}
		out.Job = s.holder(a).id.Job
		out.Priority = s.cl.Alloc(a).Priority
		if s.cl.Alloc(a).Lazy {
			out.Priority = cell.Opportunistic
		}
	}
}
