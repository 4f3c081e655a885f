package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/decide"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// Why says why a job's gangs wait, by asking the deciding code. It is the short form
// of Explain, for lists.
func (s *Explainer) Why(id model.JobID) (model.Explanation, bool) {
	j := s.Find(id)
	if j == nil || s.Cluster == nil {
		return model.Explanation{}, false
	}
	e := model.Explanation{Job: id, Name: j.Spec.Name, VC: j.Spec.VC, Phase: s.Phase(j), Gangs: []model.GangReason{}}
	e.Position, e.Waiting = s.position(j)
	e.Borrower = j.Spec.Priority < cell.MinGuaranteed
	if j.Spec.Partial() && j.Size < j.Spec.Sizes().Most {
		e.Size, e.Most = j.Size, j.Spec.Sizes().Most
	}
	if f := s.FailedOf(j.Spec.VC); f != nil {
		e.PolicyFailed = f.Words()
	}
	if n := j.PolicyNote(); n != nil {
		e.Note = string(n.Data)
	}
	for g := range j.Gangs {
		gg := &j.Gangs[g]
		e.Demoted = e.Demoted || gg.Attempt != tables.None && s.Attempts[gg.Attempt].Lazy &&
			s.Attempts[gg.Attempt].State != model.AttemptStopping
		if gg.Attempt != tables.None && s.Shared(&s.Attempts[gg.Attempt]) {
			e.Shares = append(e.Shares, s.ShareOf(j, &s.Attempts[gg.Attempt]))
		}
		unknown := gg.Attempt != tables.None && s.Attempts[gg.Attempt].State == model.AttemptUnknown
		if gg.Waiting || unknown || (j.Quarantined || j.Held() && !gg.Done) && gg.Attempt == tables.None {
			why := shortReason(s, s.Reason(j, int32(g)))
			e.Gangs = append(e.Gangs, model.GangReason{Gang: int32(g), Name: j.Spec.Gangs[g].Name, Reason: why})
		}
	}
	return e, true
}

// WhyNeverFits says why a gang never fits; nil where it does.
func (s *Explainer) WhyNeverFits(j *tables.Job, g int) *model.Reason {
	if !s.NeverFits(j, g) {
		return nil
	}
	// VCs that are gone share one space, so nothing is cached
	if s.Cluster.SpaceOf(j.Spec.VC) == cell.None {
		return &model.Reason{Code: model.NeverFits, Need: j.Gangs[g].Leaves, Asks: needText(&s.Tables, j, g),
			Message: fmt.Sprintf("virtual cluster %s is no longer in the configuration", j.Spec.VC)}
	}
	if j.Gangs[g].Shape.NoSKUFits { // rare, and the text is about the job rather than its shape
		return s.uncarriedReason(j, g)
	}
	key := tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: j.Gangs[g].Shape.Text}
	if why, ok := s.currentNeverFit().never[key]; ok {
		return why
	}
	return place.Remember(&s.currentNeverFit().never, key, s.judgeShape(j, g))
}

// currentNeverFit returns the cache of what never fits, emptied after a new configuration.
func (s *Explainer) currentNeverFit() *neverFitCache {
	if s.neverFit.configs != s.Configs {
		s.neverFit = neverFitCache{configs: s.Configs}
	}
	return &s.neverFit
}

// judgeShape says why a shape never fits.
func (s *Explainer) judgeShape(j *tables.Job, g int) *model.Reason {
	rooms := s.rooms(j, g)
	why := s.roomReason(j, g, rooms)
	why.Code, why.Free = model.NeverFits, 0
	if unknown := s.unknownIn(j, g); unknown != "" {
		why.Message = "it can never start: " + unknown
		return &why
	}
	whose := fmt.Sprintf("the cluster's %s", model.TotalText(rooms))
	if j.Spec.Priority >= cell.MinGuaranteed {
		whose = fmt.Sprintf("the %s guaranteed to virtual cluster %s", model.TotalText(rooms), j.Spec.VC)
		if model.HasChildVCs(s.Config, j.Spec.VC) {
			whose += " for its own jobs, beside the virtual clusters inside it"
		}
	}
	if why.Need > why.Total && j.Spec.Priority >= cell.MinGuaranteed {
		why.Code = model.QuotaExceeded
	}
	switch {
	case len(rooms) == 0 && j.Spec.Priority < cell.MinGuaranteed:
		why.Message = "it can never start: the cluster has nothing that fits " + s.shapeText(j, g)
	case len(rooms) == 0:
		why.Message = fmt.Sprintf("it can never start: virtual cluster %s is guaranteed nothing that fits %s%s",
			j.Spec.VC, s.shapeText(j, g), pinnedElsewhere(&s.Tables, j, g))
	case why.Need > why.Total:
		why.Message = fmt.Sprintf("it can never start: it asks for %s%s, more than %s", why.Asks,
			shapeInBrackets(s, j, g),
			whose)
	default:
		why.Message = fmt.Sprintf("it can never start: %s does not fit the cells of %s, even if all are free",
			s.shapeText(j, g), whose)
	}
	return &why
}

// pinnedElsewhere names a pinned cell of a gang's VC that has the SKU that it asks for; "" if none.
// Only a job that names the cell may use it.
func pinnedElsewhere(s *tables.Tables, j *tables.Job, g int) string {
	roots := s.Cluster.Space(s.Space(j.Spec.VC)).Roots
	for _, m := range j.Gangs[g].Shape.Members {
		for i := range roots {
			r := &roots[i]
			sku := s.Cluster.Forest().Chains[r.Chain].SKU
			if m.Pinned == "" && r.Pinned != "" && (len(m.SKUs) == 0 || slices.Contains(m.SKUs, sku)) {
				return fmt.Sprintf(", but for %s in its pinned cell %s, for jobs that name the cell (--pin %s)", sku,
					r.Pinned, r.Pinned)
			}
		}
	}
	return ""
}

// unknownIn says which name in a gang's request does not exist, "" if all do.
func (s *Explainer) unknownIn(j *tables.Job, g int) string {
	f := s.Cluster.Forest()
	for _, m := range j.Gangs[g].Shape.Members {
		if len(m.SKUs) > 0 && m.Pinned == "" && !slices.ContainsFunc(f.Chains,
			func(c cell.Chain) bool { return slices.Contains(m.SKUs, c.SKU) }) {
			return fmt.Sprintf("the cluster has no SKU %s", tables.SKUText(m.SKUs))
		}
		roots := s.Cluster.Space(s.Space(j.Spec.VC)).Roots
		if m.Pinned != "" && !slices.ContainsFunc(roots, func(r cell.Root) bool { return r.Pinned == m.Pinned }) {
			return fmt.Sprintf("virtual cluster %s has no pinned cell %s", j.Spec.VC, m.Pinned)
		}
	}
	for _, n := range j.Spec.AllowedNodes {
		if f.NodeIndex(n) == cell.None {
			return fmt.Sprintf("the cluster has no node %s", n)
		}
	}
	return ""
}

// shapeText describes a gang, for example "a gang of 2 tasks x 4 GPUs of A100".
func (s *Explainer) shapeText(j *tables.Job, g int) string {
	var parts []string
	var tasks int32
	tasksOfGang := len(j.Spec.Gangs[g].Tasks)
	for _, m := range j.Gangs[g].Shape.Members {
		tasks += m.Tasks
		p := fmt.Sprintf("%s x %s", model.Plural(m.Tasks, "task", "tasks"), s.AmountOf(m.SKUs, m.Leaves))
		switch {
		case m.Pinned != "":
			p += " in pinned cell " + string(m.Pinned)
		case m.Alike && len(m.SKUs) > 1 && tasksOfGang > 1:
			p += " of one type (" + tables.SKUText(m.SKUs) + ")"
		case len(m.SKUs) > 0 && len(m.SKUs) < len(s.SKUNames()):
			p += " of " + tables.SKUText(m.SKUs)
		}
		parts = append(parts, p)
	}
	text := strings.Join(parts, " + ")
	if tasks > 1 {
		text = "a gang of " + text
	}
	return text + nodesText(j.Spec, "")
}

// nodesText says to which nodes a job is restricted, and whose they are: " on its allowed node
// off 2 avoided nodes".
func nodesText(spec *model.Job, whose string) (text string) {
	count := func(n int, one, many string) string {
		if whose != "" && n == 1 {
			return whose + one
		}
		return whose + model.Plural(int32(n), one, many)
	}
	if n := len(spec.AllowedNodes); n > 0 {
		text += " on " + count(n, "allowed node", "allowed nodes")
	}
	if n := len(spec.AvoidedNodes); n > 0 {
		text += " off " + count(n, "avoided node", "avoided nodes")
	}
	return text
}

// shapeInBrackets is a gang's shape in brackets; "" where it says no more than needText.
func shapeInBrackets(s *Explainer, j *tables.Job, g int) string {
	text := s.shapeText(j, g)
	if text == "1 task x "+needText(&s.Tables, j, g) {
		return ""
	}
	return " (" + text + ")"
}

// Reason says why a gang waits now. It asks the placing code for cells, each time
// with one more obstacle removed: the obstacle whose removal helps is the reason.
func (s *Explainer) Reason(j *tables.Job, g int32) model.Reason {
	if why, ok := s.outsideReason(j, g); ok {
		return why
	}
	gg := &j.Gangs[g]
	r := s.newReason(j, g)
	if gg.Attempt != tables.None {
		return s.reservedReason(r, gg)
	}
	q := s.Request(place.Want{J: j, G: g})
	if _, ok := s.Cluster.Place(&q); !ok {
		if q.Avoided = nil; s.DedicatedJobs > 0 && !gg.Avoids() {
			if _, ok := s.Cluster.Place(&q); ok {
				return s.dedicatedReason(r, j)
			}
		}
		if why, ok := s.lentReason(r, j, g); ok {
			return why
		}
		if why, ok := s.unlentReason(r, q); ok {
			return why
		}
		if why, ok := s.demotedAheadReason(r, j, g); ok {
			return why
		}
		return s.busyReason(r, j, int(g))
	}
	if why, ok := s.comesBackReason(r, j, g); ok {
		return why
	}
	if q.Blocked = s.OtherTypes(j, g); q.Blocked != nil {
		if _, ok := s.Cluster.Place(&q); !ok {
			return r.Say(model.HeldBack, "it would fit, but in %s all members of a job run on one SKU", j.Spec.VC)
		}
	}
	return s.aheadReason(r, j, g)
}

// lentReason is for a guaranteed gang that could take back lent cells, but that its policy holds
// back, or that has jobs ahead of it. It is false if that is not so.
func (s *Explainer) lentReason(r model.Reason, j *tables.Job, g int32) (model.Reason, bool) {
	if j.Spec.Priority < cell.MinGuaranteed || r.Free < r.Need {
		return r, false
	}
	q := s.Request(place.Want{J: j, G: g})
	q.Blocked = s.OtherTypes(j, g)
	q.Preempt = &cell.Preemptible{Opportunistic: true}
	if _, ok := s.Cluster.Try(&q); !ok {
		return r, false
	}
	why := s.aheadReason(r, j, g)
	if why.Code != model.PriorityAhead && (why.Code != model.HeldBack || s.nextReportLook(j) > 0) {
		return r, false
	}
	why.Message = strings.Replace(why.Message, "it would fit", "it would fit on lent cells", 1)
	return why, true
}

// newReason returns a reason of a gang with the amounts only, from the cache of its shape.
func (s *Explainer) newReason(j *tables.Job, g int32) model.Reason {
	r, key := reasonCacheOf(s), fitKeyOf(j, int(g))
	rooms, ok := r.rooms[key]
	if !ok {
		rooms = s.rooms(j, int(g))
		r.rooms[key] = rooms
	}
	return s.roomReason(j, int(g), rooms)
}

// roomReason returns a reason with the amounts only.
func (s *Explainer) roomReason(j *tables.Job, g int, rooms []model.Room) model.Reason {
	r := model.Reason{Need: j.Gangs[g].Leaves, Asks: needText(&s.Tables, j, g), Rooms: rooms}
	r.Free, r.Total = model.SumRooms(rooms)
	if !slices.ContainsFunc(j.Gangs[g].Shape.Members, func(m cell.Member) bool { return !m.Alike }) {
		r.Free, r.Total = 0, 0 // all members run on one SKU
		for i := range rooms {
			r.Free, r.Total = max(r.Free, rooms[i].Free), max(r.Total, rooms[i].Total)
		}
	}
	return r
}

// outsideReason returns the reasons that do not depend on jobs ahead of a gang or
// behind it; false if there is none. A gang that waits for one holds up no others.
func (s *Explainer) outsideReason(j *tables.Job, g int32) (model.Reason, bool) {
	gg := &j.Gangs[g]
	if why := s.neverWithMost(j, int(g)); why != nil {
		return *why, true
	}
	switch {
	case j.Quarantined && tables.RareOf(j.Rare).Aside+1 >= state.MaxAside:
		return s.newReason(j, g).Say(model.QuarantinedJob, "set aside after three internal errors: the scheduler skips it, and it keeps its cells; report the errors"), true
	case j.Quarantined:
		return s.newReason(j, g).Say(model.QuarantinedJob, "set aside after an internal error: stop it and submit it again"), true
	case j.Held() && gg.Attempt == tables.None:
		h := j.Rare.Held
		r := s.newReason(j, g)
		return r.Say(model.OnHold, "on hold by %s%s; comb job release ends the hold", h.By,
			state.InBrackets(h.Reason)), true
	case gg.Attempt != tables.None && s.Attempts[gg.Attempt].State == model.AttemptUnknown:
		return s.unknownReason(s.newReason(j, g), gg), true
	case tables.RareOf(j.Rare).After > s.Now || gg.After > s.Now:
		r := s.newReason(j, g)
		r.Until = max(tables.RareOf(j.Rare).After, gg.After)
		return r.Say(model.BackOff, "next try in %d s; its last attempt failed%s", secondsUntil(s.Now, r.Until),
			j.LastEnd(g)), true
	case gg.Attempt != tables.None:
		return model.Reason{}, false
	case s.OverLimit(j, g):
		return s.limitReason(j, g), true
	case j.Spec.Gangs[g].Extra && !s.ExtraEligible(j):
		return s.minimumReason(j, g), true
	}
	return s.faultReason(j, g)
}

// secondsUntil is the time until t in seconds, rounded up.
func secondsUntil(now, t model.Time) int64 {
	return int64((t - now + model.Time(model.Second) - 1) / model.Time(model.Second))
}

// unknownReason is for a gang with tasks that may still run on lost nodes.
func (s *Explainer) unknownReason(r model.Reason, g *tables.Gang) model.Reason {
	j := &s.Jobs[s.Attempts[g.Attempt].Job]
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !t.Dead && t.State == model.TaskIsUnknown && !slices.Contains(r.Nodes, t.Place.Node) {
			r.Nodes = append(r.Nodes, t.Place.Node)
		}
	}
	return r.Say(model.HeldUnknown, "contact lost with its tasks on %s: they may still run, so their cells stay held",
		firstNodesText(r.Nodes))
}

// reservedReason is for a gang with reserved cells that waits for its victims to stop.
func (s *Explainer) reservedReason(r model.Reason, g *tables.Gang) model.Reason {
	a := &s.Attempts[g.Attempt]
	for _, v := range tables.RareOf(a.Rare).Victims {
		if s.Live(v) != nil && !slices.Contains(r.Jobs, v.Job) {
			r.Jobs = append(r.Jobs, v.Job)
		}
	}
	return r.Say(model.WaitingPreemption, "its cells are reserved: it starts when %s %s stopped",
		s.jobList(s.Jobs[a.Job].Spec.User, r.Jobs), verb(r.Jobs, "has", "have"))
}

// verb is one or many, as the number of jobs has it.
func verb(ids []model.JobID, one, many string) string {
	if len(ids) > 1 {
		return many
	}
	return one
}

// aheadReason is for a gang that would fit, but that its policy holds back, or that other jobs are
// ahead of.
func (s *Explainer) aheadReason(r model.Reason, j *tables.Job, g int32) model.Reason {
	if why, until := s.whyHeldBack(j, g); why != "" {
		r.Until = until
		if strings.Contains(why, model.WaitsForRoom) {
			return r.Say(model.HeldBack, "it would fit apart, but %s", why)
		}
		return r.Say(model.HeldBack, "it would fit, but %s", why)
	}
	r.Jobs, r.More = firstNamed(s, aheadOf(s, j))
	if back := decide.BackBefore(&s.State, j); len(r.Jobs) == 0 && len(back) > 0 {
		r.Jobs = back
		return comesBefore(s, r, j)
	}
	if kept := s.bookedBefore(j, g); len(r.Jobs) == 0 && len(kept) > 0 {
		r.Jobs = kept
		if slices.Equal(kept, []model.JobID{j.ID}) {
			return r.Say(model.PriorityAhead, "it would fit, but its cells are kept for another gang of its job")
		}
		return r.Say(model.PriorityAhead, "it would fit, but %[2]s keeps its cells for %[1]s, in line before it",
			s.jobList(j.Spec.User, kept), j.Spec.VC)
	}
	if at := s.nextReportLook(j); len(r.Jobs) == 0 && at > 0 {
		r.Until = at
		return r.Say(model.HeldBack, "it would fit by the latest progress of the jobs of %s; their policy reads that again within %d s", j.Spec.VC, secondsUntil(s.Now, at))
	}
	if len(r.Jobs) == 0 {
		return r.Say(model.NotYetDecided, "it fits: the next decision starts it")
	}
	return r.Say(model.PriorityAhead, "it would fit, but %s %s ahead of it in %s",
		jobsText(s, j.Spec.User, r.Jobs, r.More), verb(r.Jobs, "is", "are"), j.Spec.VC)
}

// nextReportLook is when the VC of a job is looked at next for what its jobs reported. It is 0 if
// its policy looks at every report (it is not DefersReports), or a look is due now.
func (s *Explainer) nextReportLook(j *tables.Job) model.Time {
	space := s.Space(j.Spec.VC)
	if _, ok := s.Policies[space].(model.DefersReports); !ok || j.Spec.Priority < cell.MinGuaranteed || s.IsDirty() ||
		s.Wake() <= s.Now+1 {
		return 0
	}
	return s.NextChange(space)
}

// busyReason is for a gang for which too few leaves are free, or not in its shape.
func (s *Explainer) busyReason(r model.Reason, j *tables.Job, g int) model.Reason {
	guaranteed := j.Spec.Priority >= cell.MinGuaranteed
	h := s.holdersFor(j, g)
	r.Jobs = append(slices.Clone(h.Own), h.Others...)
	slices.Sort(r.Jobs)
	r.Jobs, r.More = firstNamed(s, r.Jobs)
	r.More += h.More()
	switch {
	case r.Free < r.Need && guaranteed:
		besides := ""
		if len(h.Others) > 0 {
			besides = "; also on its nodes: " + jobsText(s, j.Spec.User, h.Others, h.MoreOthers)
		}
		return r.Say(model.VCBusy, "%s: %s free; it needs %s%s; %s%s", j.Spec.VC, model.FreeText(r.Rooms), r.Asks,
			shapeInBrackets(s, j, g), inUseText(s, j, h.Own, h.MoreOwn), besides)
	case r.Free < r.Need:
		return r.Say(model.ClusterBusy, "cluster: %s free; it needs %s%s; an opportunistic job gets only what nobody else uses",
			model.FreeText(r.Rooms), r.Asks, shapeInBrackets(s, j, g))
	}
	whose := string(j.Spec.VC)
	if !guaranteed {
		whose = "cluster"
	}
	where, text := "not in the shape of "+s.shapeText(j, g), spreadText(s, j, g, r.Free)
	switch {
	case text == "":
	case j.Spec.Restricted():
		return r.Say(model.Fragmented, "%s: %s free, but none %s: %s %s there%s", whose, model.FreeText(r.Rooms), text,
			jobsText(s, j.Spec.User, r.Jobs, r.More), verb(r.Jobs, "runs", "run"), s.movesText(j.Spec.VC))
	case len(r.Rooms) == 1:
		where = fmt.Sprintf("%s; it needs %s", text, s.shapeText(j, g))
	}
	return r.Say(model.Fragmented, "%s: %s free, but %s; %s%s", whose, model.FreeText(r.Rooms), where,
		inUseText(s, j, r.Jobs, r.More), s.movesText(j.Spec.VC))
}

func inUseText(s *Explainer, j *tables.Job, jobs []model.JobID, more int) string {
	if len(jobs) == 0 {
		return "the rest is in use"
	}
	return "in use by " + jobsText(s, j.Spec.User, jobs, more)
}

// pinAround returns the pinned cell of a VC that a leaf is in, "" if none.
func (s *Explainer) pinAround(at cell.CellID, space int32) cell.PinnedID {
	f := s.Cluster.Forest()
	for ; at != cell.None; at = f.Cells[at].Parent {
		pin := f.Pinned(at)
		if pin != "" && slices.ContainsFunc(s.Cluster.Space(space).Roots,
			func(r cell.Root) bool { return r.Pinned == pin }) {
			return pin
		}
	}
	return ""
}

// jobList names jobs to a reader.
func (s *Explainer) jobList(reader model.Subject, ids []model.JobID) string {
	return jobsText(s, reader, ids, 0)
}

// nameTo is the name by which a reader knows a job, or its number if the reader may not know the
// name. If the state is a copy for one reader (Names.Reader) that one counts.
func (s *Explainer) nameTo(reader model.Subject, id model.JobID) string {
	if j := s.Find(id); j != nil && !s.HidesName(j.Spec) {
		return j.Spec.Name.ShownTo(cmp.Or(s.Names.Reader, reader), j.Spec.User)
	}
	return fmt.Sprintf("job %d", id)
}
