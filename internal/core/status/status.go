// Package status answers what users and the engine ask of the state: the status of jobs, gangs,
// nodes, cells and virtual clusters, when running jobs will end, and what will happen to them. It
// must not change the state.
package status

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// Status tells the status of jobs, gangs, nodes, cells and virtual clusters.
type Status struct{ state.State }

// Brief is what other users may know about a job.
func (s *Status) Brief(j *tables.Job) model.JobBrief {
	b := model.JobBrief{Job: j.ID, Name: j.Spec.Name, User: j.Spec.User, VC: j.Spec.VC, Priority: j.Spec.Priority,
		Takes: model.TotalText(s.TakenBy(j))}
	known := true
	for g := range j.Gangs {
		b.Leaves += j.Gangs[g].Leaves
		at := j.Gangs[g].Attempt
		if at == tables.None || s.Attempts[at].State == model.AttemptReserving {
			continue
		}
		a := &s.Attempts[at]
		end := s.SpanOf(a, nil, ByReports(&s.Index, a))
		ends, basis := goneBy(&s.Tables, a, end)
		b.Unknown = b.Unknown || a.State == model.AttemptUnknown
		if known = known && ends > 0; known || ends == 0 {
			b.Basis = basis
		}
		b.Ends, b.Likely = max(b.Ends, ends), b.Likely || end.LateBasis == model.BasisSteps
	}
	if !known {
		b.Ends, b.Likely = 0, false
	}
	return b
}

// goneBy is when an attempt has left its cells at the latest, its grace included, and what that
// rests on. From then on the cells count as free for other gangs.
func goneBy(s *tables.Tables, a *tables.Attempt, end Span) (at model.Time, basis string) {
	grace := s.Jobs[a.Job].Spec.Grace
	switch {
	case a.State == model.AttemptStopping:
		return a.StopSentAt.Add(grace), "the grace of its stop"
	case end.Late > 0 && end.LateBasis == model.BasisLimit && grace > 0:
		return end.Late.Add(grace), end.LateBasis.Text() + " and the grace"
	}
	return end.Late, cmp.Or(end.Why, end.LateBasis.Text())
}

// Phase derives a job's phase: Active while any attempt of it exists.
func (s *Status) Phase(j *tables.Job) model.Phase {
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State != model.AttemptReserving {
			return model.Active
		}
	}
	for i := range j.Tasks {
		if j.Tasks[i].State == model.TaskSucceeded || j.Tasks[i].State == model.TaskFailed {
			return model.Active // an incremental job between its tasks
		}
	}
	return model.Waiting
}

// status is a job as users see it.
func (s *Status) status(j *tables.Job) model.JobStatus {
	st := model.JobStatus{ID: j.ID, Name: j.Spec.Name, User: j.Spec.User, VC: j.Spec.VC, Priority: j.Spec.Priority,
		Phase: s.Phase(j), Submitted: j.Submitted, Started: j.Started, Retry: j.Retry, Counted: j.Counted,
		Preempted: j.Preempted, Yielded: j.Yielded, Stopping: j.Stop, Held: tables.RareOf(j.Rare).Held,
		Notices: tables.RareOf(j.Rare).AllNotices(), Lasting: len(tables.RareOf(j.Rare).Lasting),
		Tasks: s.Arenas.Tasks.Take(len(j.Tasks))[:0], Attempts: s.attemptsOf(j)}
	st.Leaves, st.GPUs = s.Taken(j)
	for g := range j.Gangs {
		ran := j.Gangs[g].Ran
		if at := j.Gangs[g].Attempt; at != tables.None {
			ran += s.RanFor(&s.Attempts[at])
		}
		st.Ran = max(st.Ran, ran)
	}
	st.Waited = waitedFor(&st, s.Now)
	st.Outlook, st.Coming = s.jobOutlook(j), Foresight{s}.coming(j)
	for i := range j.Tasks {
		t := taskStatus(j, &j.Tasks[i])
		if t.State != model.TaskWaiting {
			t.Limits = s.MayUse(j, &j.Tasks[i])
		}
		if at := j.Gangs[t.Gang].Attempt; t.State == model.TaskRunning && at != tables.None &&
			s.Suspended(&s.Attempts[at]) {
			t.State = model.TaskSuspended
		}
		st.Tasks = append(st.Tasks, t)
	}
	s.markLost(j, st.Tasks)
	return st
}

// waitedFor is the time from a job's submission to until, less the run time of its longest gang.
func waitedFor(st *model.JobStatus, until model.Time) model.Duration {
	return max(model.Duration(until-st.Submitted)-st.Ran, 0)
}

// finalStatus is an ended job as users see it.
func (s *Status) finalStatus(j *tables.EndedJob) model.JobStatus {
	e := &j.End
	st := s.status(&j.Job)
	st.Phase, st.Cause, st.Message, st.Ended, st.Stopping, st.Outlook = e.Phase, e.Cause, e.Message, j.At, false, nil
	st.Waited = waitedFor(&st, j.At)
	if e.Cause == model.EndSucceeded || e.Cause == model.EndFailed {
		if c := j.Completing; c != nil && c.Exit == e.Exit {
			st.Exit = &c.Exit // a completion never changes
		} else {
			st.Exit = s.Arenas.Exits.Keep(e.Exit)
		}
	}
	return st
}

// attemptsOf returns the live attempts of a job, and for each gang the last that ended.
func (s *Status) attemptsOf(j *tables.Job) []model.AttemptStatus {
	out := s.Arenas.Attempts.Take(len(j.Gangs))[:0]
	for g := range j.Gangs {
		for _, at := range [...]int32{j.Gangs[g].Attempt, j.Gangs[g].Next} {
			if at != tables.None {
				out = append(out, s.AttemptStatus(&s.Attempts[at]))
			}
		}
		if last := j.Gangs[g].Last; last != nil {
			out = append(out, *last)
		}
	}
	return out
}

func taskStatus(j *tables.Job, t *tables.TaskRun) model.TaskStatus {
	out := model.TaskStatus{Role: j.Spec.Roles[t.Role].Name, Index: t.Index, Gang: t.Gang, State: t.State,
		Attempt: t.Attempt,
		Exit:    t.Exit, Retries: t.Retries, Progress: t.Progress}
	if t.State != model.TaskWaiting {
		p := t.StartPlace()
		out.Node, out.SKU, out.Devices, out.Parts = p.Node, p.SKU, p.Devices, p.Parts
		b := t.StartReport()
		out.Host, out.Ports, out.PID = b.Host, b.Ports, b.Pid
	}
	return out
}

// MayUse is how much of its node a task may use, as of its start.
func (s *Status) MayUse(j *tables.Job, t *tables.TaskRun) model.Limits {
	sku := s.Cluster.SKU(t.StartPlace().SKU)
	if at := j.Gangs[t.Gang].Attempt; at != tables.None {
		if origins := tables.RareOf(s.Attempts[at].Rare).Origins; origins != nil {
			sku = origins[slices.IndexFunc(j.Spec.Gangs[t.Gang].Tasks,
				func(o int32) bool { return &j.Tasks[o] == t })].Leaf
		}
	}
	return j.Spec.Roles[t.Role].Launch.Asks().WithDefaults(sku, len(t.StartPlace().Devices))
}

// Statuses returns the jobs that have not ended, in submission order.
func (s *Status) Statuses() []model.JobStatus {
	out := slices.AppendSeq(make([]model.JobStatus, 0, s.Slots.N),
		s.Newest(func(model.JobID, *model.Job, model.Phase) bool { return true }))
	slices.Reverse(out)
	return out
}

// Newest goes through the jobs that have not ended and that want accepts, in the opposite order of
// submission. It makes the status of these alone: the first few of very many jobs cost little.
func (s *Status) Newest(want func(model.JobID, *model.Job, model.Phase) bool) iter.Seq[model.JobStatus] {
	return func(yield func(model.JobStatus) bool) {
		for id := range newest(s) {
			if j := s.Find(id); j != nil && want(id, j.Spec, s.Phase(j)) && !yield(s.status(j)) {
				return
			}
		}
	}
}

// IsHeld reports whether a user holds a job.
func (s *Status) IsHeld(id model.JobID) bool {
	j := s.Find(id)
	return j != nil && tables.RareOf(j.Rare).Held != nil
}

// newest goes through the ids of jobs from the highest down. If few of these have ended, ended
// ones are included.
func newest(s *Status) iter.Seq[model.JobID] {
	return func(yield func(model.JobID) bool) {
		if int64(s.NextJob) < 4*int64(s.Slots.N)+1000 {
			for id := s.NextJob - 1; id > 0 && yield(id); id-- {
			}
			return
		}
		ids := make([]model.JobID, 0, s.Slots.N)
		for i := range s.Jobs {
			if s.Jobs[i].Spec != nil {
				ids = append(ids, s.Jobs[i].ID)
			}
		}
		slices.Sort(ids)
		for i := len(ids) - 1; i >= 0 && yield(ids[i]); i-- {
		}
	}
}

// Takes counts the GPUs of a job that has not ended.
func (s *Status) Takes(id model.JobID) int64 {
	j := s.Find(id)
	if j == nil {
		return 0
	}
	_, gpus := s.Taken(j)
	return gpus
}

// Size is how many jobs there are that have not ended.
func (s *Status) Size() int { return s.Slots.N }

// Job returns one job that has not ended.
func (s *Status) Job(id model.JobID) (model.JobStatus, bool) {
	j := s.Find(id)
	if j == nil {
		return model.JobStatus{}, false
	}
	return s.status(j), true
}

// Spec returns what was submitted for a job that has not ended.
func (s *Status) Spec(id model.JobID) (*model.Job, bool) {
	j := s.Find(id)
	if j == nil {
		return nil, false
	}
	return j.Spec, true
}

// ByName returns a user's job of that name that has not ended.
func (s *Status) ByName(user model.Subject, n model.JobName) (model.JobID, bool) {
	slot, ok := s.Names.Get(user, n, s.Jobs)
	if !ok {
		return 0, false
	}
	return s.Jobs[slot].ID, true
}

// VCs returns all virtual clusters in order of name.
func (s *Status) VCs() []model.VCStatus {
	if s.Cluster == nil {
		return []model.VCStatus{}
	}
	out := make([]model.VCStatus, 0, s.Cluster.NumSpaces())
	for i := int32(1); i < s.Cluster.NumSpaces(); i++ {
		out = append(out, s.vcStatus(i))
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Spec == nil {
			continue
		}
		if at := s.Space(j.Spec.VC); at > 0 {
			if s.Phase(j) == model.Active {
				out[at-1].Active++
			} else {
				out[at-1].Waiting++
			}
		}
	}
	s.countBorrowed(out)
	cell.Lent(s.Cluster, func(n cell.VCName) bool { return model.ConfigOfVC(s.Config, n).Lending == model.LendNothing },
		func(vc int32, chain int16, n int32) {
			out[vc-1].Use(s.Carry(s.Cluster.Forest().Chains[chain].SKU)).Lent += n
		})
	for i := range out {
		out[i].Sum()
		if up := s.Cluster.SpaceOf(out[i].Parent); up > 0 {
			out[up-1].Children = append(out[up-1].Children, out[i].Name)
		}
	}
	return s.withOrphanVCs(out)
}

func (s *Status) vcStatus(space int32) model.VCStatus {
	f, sp := s.Cluster.Forest(), s.Cluster.Space(space)
	c := model.ConfigOfVC(s.Config, sp.Name)
	policy, params, failed := cmp.Or(c.Policy, model.Fallback), c.Params, s.FailedOf(sp.Name)
	if failed != nil {
		policy, params = model.Fallback, nil
	}
	v := model.VCStatus{Name: sp.Name, Policy: policy, Params: params, Failed: failed, Backfill: c.Backfill,
		MinRun: s.MinRun(space),
		Budget: c.Budget, Moves: c.Moves, Cells: []model.QuotaUse{}, SKUs: []model.VCUse{}}
	if v.Backfill == "none" {
		v.Backfill = ""
	}
	for up := sp.Parent; up > 0 && v.Parent == ""; up = s.Cluster.Space(up).Parent {
		if name, _ := s.Cluster.SpaceName(up); name != v.Name { // a container has a space of its own, too
			v.Parent = name
		}
	}
	for i := range sp.Roots {
		r := &sp.Roots[i]
		ch := &f.Chains[r.Chain]
		use := v.Use(s.Carry(ch.SKU))
		use.Guaranteed += ch.LeavesAt(r.Level)
		used, _ := tables.UsedIn(&s.Tables, r, func(int32) {})
		use.Used += used
		u := model.QuotaUse{Chain: ch.Name, Type: ch.Types[r.Level-1], Level: r.Level, Pinned: r.Pinned}
		k := slices.IndexFunc(v.Cells, func(q model.QuotaUse) bool {
			return q.Chain == u.Chain &&
				q.Level == u.Level && q.Pinned == u.Pinned
		})
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
			away := s.Cluster.NodeFaults(f.Cells[f.Leaves[l]].Node)&^cell.Cordoned != 0
			switch {
			case !away && s.Cluster.LeafBad(l) && s.HeldByOthers(l):
				if hold, _ := s.Cluster.Holder(l); hold == cell.None {
					use.HeldByOthers++
				}
			case !away && s.Cluster.LeafBad(l) && s.CordonedElsewhere(l): // as if it was cordoned here
			case away || s.Cluster.LeafBad(l):
				use.Bad++
			}
		}
	}
	return v
}

// countBorrowed adds the leaves that opportunistic work holds to those of its VC.
func (s *Status) countBorrowed(out []model.VCStatus) {
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.NotFirst || a.State == model.AttemptReserving {
			continue
		}
		al := s.Cluster.Alloc(a.Alloc)
		if al.Space == 0 || !al.Opportunistic() {
			continue
		}
		for _, t := range al.Placement.Tasks {
			if len(t.Leaves) > 0 {
				f := s.Cluster.Forest()
				sku := f.Chains[f.Cells[f.Leaves[t.Leaves[0]]].Chain].SKU
				out[al.Space-1].Use(s.Carry(sku)).Opportunistic += int32(len(t.Leaves))
			}
		}
	}
}

// NodeStatuses returns all nodes in order of name.
func (s *Status) NodeStatuses() []model.NodeStatus {
	if s.Cluster == nil {
		return []model.NodeStatus{}
	}
	f := s.Cluster.Forest()
	out := make([]model.NodeStatus, 0, len(f.Nodes))
	for i := range f.Nodes {
		b := s.Cluster.NodeFaults(int32(i))
		n := model.NodeStatus{Name: f.Nodes[i].Name, Up: b&cell.Down == 0, Cordoned: b&cell.Cordoned != 0}
		note := s.NodeNote(n.Name)
		n.Suspect, n.Reason, n.Drain = note.Suspect, note.Reason, note.Drain
		n.Dead, n.By, n.Since = note.Dead, note.By, note.Since
		if n.Cordoned && note.Cordoned != "" {
			n.Reason = strings.TrimSuffix(note.Cordoned+"; "+note.Reason, "; ")
		}
		cordoned := ""
		for _, c := range f.Nodes[i].Cells {
			sku, elsewhere := s.nodeSKU(c)
			n.SKUs, cordoned = append(n.SKUs, sku), cmp.Or(cordoned, elsewhere)
		}
		if cordoned != "" {
			n.Cordoned, n.Reason = true, strings.TrimPrefix(n.Reason+"; "+cordoned, "; ")
		}
		out = append(out, n)
	}
	out = s.withOrphanNodes(out)
	slices.SortFunc(out, func(a, b model.NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// nodeSKU counts one SKU's leaves on a node. cordoned says by what the node is cordoned outside of
// Comb; "" is by nothing.
func (s *Status) nodeSKU(c cell.CellID) (out model.NodeSKU, cordoned string) {
	f := s.Cluster.Forest()
	ch := &f.Chains[f.Cells[c].Chain]
	out = model.NodeSKU{Carry: s.Carry(ch.SKU), Chain: ch.Name, Total: f.NumLeaves(c),
		Pretended: s.Cluster.SKU(ch.SKU).Pretended}
	for l := f.Cells[c].FirstLeaf; l < f.Cells[c].FirstLeaf+cell.LeafID(out.Total); l++ {
		if h, _ := s.Cluster.Holder(l); h != cell.None {
			out.Used++
		}
		if !s.Cluster.LeafBad(l) {
			continue
		}
		i, noted := s.FindLeafNote(s.LeafOf(l))
		switch {
		case noted && s.Leaves[i].HeldByOthers:
			out.HeldByOthers++
			out.Holders = cmp.Or(out.Holders, s.Leaves[i].Reason)
		case noted && s.Leaves[i].Cordoned:
			cordoned = cmp.Or(cordoned, s.Leaves[i].Reason)
		case noted:
			out.Fault = cmp.Or(out.Fault, s.Leaves[i].Reason)
			fallthrough
		default:
			out.Bad++
		}
	}
	return out, cordoned
}

// LeavesOf names the leaves of a node.
func (s *Status) LeavesOf(node cell.NodeName) (list []model.LeafHealth) {
	if s.Cluster == nil || s.Cluster.Forest().NodeIndex(node) == cell.None {
		return nil
	}
	f := s.Cluster.Forest()
	for _, c := range f.Nodes[f.NodeIndex(node)].Cells {
		for l := range cell.LeafID(f.NumLeaves(c)) {
			list = append(list, s.LeafOf(f.Cells[c].FirstLeaf+l))
		}
	}
	return list
}

// Cells returns the physical cells, top level first.
func (s *Status) Cells() []model.CellStatus {
	if s.Cluster == nil {
		return []model.CellStatus{}
	}
	out := []model.CellStatus{}
	for _, chain := range s.Cluster.Forest().Chains {
		for _, top := range chain.Tops {
			out = append(out, s.cellStatus(top, ""))
		}
	}
	return out
}

func (s *Status) cellStatus(id cell.CellID, prefix string) model.CellStatus {
	f := s.Cluster.Forest()
	c := &f.Cells[id]
	out := model.CellStatus{Type: f.Chains[c.Chain].Types[c.Level-1], Address: prefix + f.Address(id), Level: c.Level,
		Pinned: f.Pinned(id), Healthy: true, Priority: cell.Free}
	if c.Node != cell.None {
		out.Node = f.Nodes[c.Node].Name
	}
	if space, root := s.Cluster.RootOver(id); space != cell.None {
		out.VC = s.Cluster.Space(space).Name
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

func (s *Status) leafStatus(out *model.CellStatus, l cell.LeafID) {
	out.Healthy = !s.LeafBad(l)
	hold, promised := s.Cluster.Holder(l)
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
		out.Job = s.Holder(a).ID.Job
		out.Priority = s.Cluster.Alloc(a).Priority
		if s.Cluster.Alloc(a).Lazy {
			out.Priority = cell.Opportunistic
		}
	}
}

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *Status) TakeEnded() []model.JobStatus {
	if len(s.Ended) == 0 {
		return nil
	}
	out := make([]model.JobStatus, len(s.Ended))
	for i := range s.Ended {
		out[i] = s.finalStatus(&s.Ended[i])
	}
	s.DropEnded()
	return out
}

// DropEnded forgets the jobs that ended, if their status is not wanted.
func (s *Status) DropEnded() {
	for i := range s.Ended {
		s.Arenas.JobMemories.Recycle(&s.Ended[i].Job)
	}
	clear(s.Ended)
	s.Ended = s.Ended[:0]
}

// ShareOf says with which jobs a gang shares its leaves, and how.
func (s *Status) ShareOf(j *tables.Job, a *tables.Attempt) model.GangShare {
	out := model.GangShare{Gang: a.ID.Gang, Name: j.Spec.Gangs[a.ID.Gang].Name, Runs: true}
	for _, id := range s.OtherMembers(a) {
		if !slices.ContainsFunc(out.With, func(b model.JobBrief) bool { return b.Job == id.Job }) {
			out.With = append(out.With, s.Brief(s.Find(id.Job)))
		}
	}
	if r := s.RotationOf(a); r != nil && len(r.Turns) > 1 {
		mine := r.Turn(a.ID)
		out.Quantum, out.Turn, out.Turns = r.Quantum, int32(mine)+1, int32(len(r.Turns))
		out.Runs, out.Next = r.Runs(a.ID, s.Now), r.Change(s.Now)
		for range r.Turns {
			if r.Runs(a.ID, out.Next) != out.Runs {
				break
			}
			out.Next = r.Change(out.Next)
		}
	}
	return out
}

// FailedOf is how the policy of a VC failed; nil if it did not.
func (s *Status) FailedOf(vc cell.VCName) *model.PolicyFailed {
	for _, all := range [][]model.PolicyFailed{s.Failed, s.FailedToMake} {
		for _, e := range all {
			if e.VC == vc {
				return &e
			}
		}
	}
	return nil
}
