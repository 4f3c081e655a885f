package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Why says why a job's gangs wait, by the code that decides: the short form of
// Explain, for lists.
func (s *explainer) Why(id model.JobID) (Explanation, bool) {
	j := s.find(id)
	if j == nil || s.cl == nil {
		return Explanation{}, false
	}
	e := Explanation{Job: id, Name: j.spec.Name, VC: j.spec.VC, Phase: s.phase(j), Gangs: []model.GangReason{}}
	e.Position, e.Waiting = s.position(j)
	e.Borrower = j.spec.Priority < cell.MinGuaranteed
	if j.spec.Partial() && j.size < j.spec.Sizes().Most {
		e.Size, e.Most = j.size, j.spec.Sizes().Most
	}
	if f := s.failedOf(j.spec.VC); f != nil {
		e.PolicyFailed = f.Words()
	}
	if n := j.noted(); n != nil {
		e.Note = string(n.Data)
	}
	for g := range j.gangs {
		gg := &j.gangs[g]
		e.Demoted = e.Demoted || gg.attempt != none && s.attempts[gg.attempt].lazy && s.attempts[gg.attempt].state != model.AttemptStopping
		if gg.attempt != none && s.shared(&s.attempts[gg.attempt]) {
			e.Shares = append(e.Shares, s.shareOf(j, &s.attempts[gg.attempt]))
		}
		unknown := gg.attempt != none && s.attempts[gg.attempt].state == model.AttemptUnknown
		if gg.waiting || unknown || (j.quarantined || j.held() && !gg.done) && gg.attempt == none {
			why := shortened(s, s.reason(j, int32(g)))
			e.Gangs = append(e.Gangs, model.GangReason{Gang: int32(g), Name: j.spec.Gangs[g].Name, Reason: why})
		}
	}
	return e, true
}

// whyNeverFits says why a gang never fits; nil where it does.
func (s *explainer) whyNeverFits(j *job, g int) *model.Reason {
	if !s.neverFits(j, g) {
		return nil
	}
	if s.cl.SpaceOf(j.spec.VC) == cell.None { // all that are gone are one space: nothing is remembered of them
		return &model.Reason{Code: NeverFits, Need: j.gangs[g].leaves, Asks: s.needText(j, g), Message: fmt.Sprintf("virtual cluster %s is no longer in the configuration", j.spec.VC)}
	}
	if j.gangs[g].shape.short { // rare, and the words are of the job rather than of its shape
		return s.uncovered(j, g)
	}
	key := whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: j.gangs[g].shape.text}
	if why, ok := s.told().never[key]; ok {
		return why
	}
	return remember(&s.told().never, key, s.judgeShape(j, g))
}

// said is what was said of shapes since the last configuration.
type said struct {
	configs uint64
	never   map[whatFits]*model.Reason // why one never fits
	most    map[whatFits]int32         // how many tasks of its size would
}

// told returns it, without what is stale.
func (s *explainer) told() *said {
	if s.said.configs != s.configs {
		s.said = said{configs: s.configs}
	}
	return &s.said
}

// judgeShape says why a shape never fits.
func (s *explainer) judgeShape(j *job, g int) *model.Reason {
	rooms := s.rooms(j, g)
	why := s.roomReason(j, g, rooms)
	why.Code, why.Free = NeverFits, 0
	if unknown := s.unknownIn(j, g); unknown != "" {
		why.Message = "it can never start: " + unknown
		return &why
	}
	whose := fmt.Sprintf("the cluster's %s", model.TotalText(rooms))
	if j.spec.Priority >= cell.MinGuaranteed {
		whose = fmt.Sprintf("the %s guaranteed to virtual cluster %s", model.TotalText(rooms), j.spec.VC)
		if model.Divided(s.cfg, j.spec.VC) {
			whose += " for its own jobs, beside the virtual clusters inside it"
		}
	}
	if why.Need > why.Total && j.spec.Priority >= cell.MinGuaranteed {
		why.Code = QuotaExceeded
	}
	switch {
	case len(rooms) == 0 && j.spec.Priority < cell.MinGuaranteed:
		why.Message = "it can never start: the cluster has nothing that fits " + s.shapeText(j, g)
	case len(rooms) == 0:
		why.Message = fmt.Sprintf("it can never start: virtual cluster %s is guaranteed nothing that fits %s%s",
			j.spec.VC, s.shapeText(j, g), elsePinned(&s.tables, j, g))
	case why.Need > why.Total:
		why.Message = fmt.Sprintf("it can never start: it asks for %s%s, more than %s", why.Asks, asShape(s, j, g),
			whose)
	default:
		why.Message = fmt.Sprintf("it can never start: %s does not fit the cells of %s, even if all are free", s.shapeText(j, g), whose)
	}
	return &why
}

// elsePinned names a pinned cell of a gang's VC on hardware that it asks for: only a job that names
// the cell gets it.
func elsePinned(s *tables, j *job, g int) string {
	roots := s.cl.Space(s.space(j.spec.VC)).Roots
	for _, m := range j.gangs[g].shape.members {
		for i := range roots {
			r := &roots[i]
			sku := s.cl.Forest().Chains[r.Chain].SKU
			if m.Pinned == "" && r.Pinned != "" && (len(m.SKUs) == 0 || slices.Contains(m.SKUs, sku)) {
				return fmt.Sprintf(", but for %s in its pinned cell %s, for jobs that name the cell (--pin %s)", sku, r.Pinned, r.Pinned)
			}
		}
	}
	return ""
}

// unknownIn says which name in a gang's request does not exist, "" if all do.
func (s *explainer) unknownIn(j *job, g int) string {
	f := s.cl.Forest()
	for _, m := range j.gangs[g].shape.members {
		if len(m.SKUs) > 0 && m.Pinned == "" && !slices.ContainsFunc(f.Chains, func(c cell.Chain) bool { return slices.Contains(m.SKUs, c.SKU) }) {
			return fmt.Sprintf("the cluster has no SKU %s", skuText(m.SKUs))
		}
		roots := s.cl.Space(s.space(j.spec.VC)).Roots
		if m.Pinned != "" && !slices.ContainsFunc(roots, func(r cell.Root) bool { return r.Pinned == m.Pinned }) {
			return fmt.Sprintf("virtual cluster %s has no pinned cell %s", j.spec.VC, m.Pinned)
		}
	}
	for _, n := range j.spec.AllowedNodes {
		if f.NodeIndex(n) == cell.None {
			return fmt.Sprintf("the cluster has no node %s", n)
		}
	}
	return ""
}

// shapeText describes a gang, for example "a gang of 2 tasks x 4 GPUs of A100".
func (s *explainer) shapeText(j *job, g int) string {
	var parts []string
	var tasks int32
	tasksOfGang := len(j.spec.Gangs[g].Tasks)
	for _, m := range j.gangs[g].shape.members {
		tasks += m.Tasks
		p := fmt.Sprintf("%s x %s", model.Plural(m.Tasks, "task", "tasks"), s.amountOf(m.SKUs, m.Leaves))
		switch {
		case m.Pinned != "":
			p += " in pinned cell " + string(m.Pinned)
		case m.Alike && len(m.SKUs) > 1 && tasksOfGang > 1:
			p += " of one type (" + skuText(m.SKUs) + ")"
		case len(m.SKUs) > 0 && len(m.SKUs) < len(s.skuNames()):
			p += " of " + skuText(m.SKUs)
		}
		parts = append(parts, p)
	}
	text := strings.Join(parts, " + ")
	if tasks > 1 {
		text = "a gang of " + text
	}
	return text + nodesText(j.spec, "")
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

// asShape is a gang's shape in brackets; "" where it says no more than what the gang asks for.
func asShape(s *explainer, j *job, g int) string {
	text := s.shapeText(j, g)
	if text == "1 task x "+s.needText(j, g) {
		return ""
	}
	return " (" + text + ")"
}

// reason says why a gang waits now. It asks the placing code the same question
// with one obstacle after the other taken away; the first that helps is why.
func (s *explainer) reason(j *job, g int32) model.Reason {
	if why, ok := s.outsideReason(j, g); ok {
		return why
	}
	gg := &j.gangs[g]
	r := s.newReason(j, g)
	if gg.attempt != none {
		return s.reservedReason(r, gg)
	}
	q := s.request(want{j: j, g: g})
	if _, ok := s.cl.Place(&q); !ok {
		if q.Avoided = nil; s.loners > 0 && !gg.avoids() {
			if _, ok := s.cl.Place(&q); ok {
				return s.aloneReason(r, j)
			}
		}
		if why, ok := s.lentReason(r, j, g); ok {
			return why
		}
		if why, ok := s.unlentReason(r, q); ok {
			return why
		}
		if why, ok := s.sparedReason(r, j, g); ok {
			return why
		}
		return s.busyReason(r, j, int(g))
	}
	if why, ok := s.comesBackReason(r, j, g); ok {
		return why
	}
	if q.Blocked = s.otherTypes(j, g); q.Blocked != nil {
		if _, ok := s.cl.Place(&q); !ok {
			return r.Say(HeldBack, "it would fit, but in %s all members of a job run on one SKU", j.spec.VC)
		}
	}
	return s.aheadReason(r, j, g)
}

// lentReason: a guaranteed gang could take cells that are lent, but its policy holds it back, or
// the order gives them to somebody else.
func (s *explainer) lentReason(r model.Reason, j *job, g int32) (model.Reason, bool) {
	if j.spec.Priority < cell.MinGuaranteed || r.Free < r.Need {
		return r, false
	}
	q := s.request(want{j: j, g: g})
	q.Blocked = s.otherTypes(j, g)
	q.Lift = &cell.Lift{Opportunistic: true}
	if _, ok := s.cl.Try(&q); !ok {
		return r, false
	}
	why := s.aheadReason(r, j, g)
	if why.Code != PriorityAhead && (why.Code != HeldBack || s.paced(j) > 0) {
		return r, false
	}
	why.Message = strings.Replace(why.Message, "it would fit", "it would fit on lent cells", 1)
	return why, true
}

func (s *explainer) newReason(j *job, g int32) model.Reason {
	r, key := inCommon(s), like(j, int(g))
	rooms, ok := r.rooms[key]
	if !ok {
		rooms = s.rooms(j, int(g))
		r.rooms[key] = rooms
	}
	return s.roomReason(j, int(g), rooms)
}

// roomReason is a reason that has only the amounts yet.
func (s *explainer) roomReason(j *job, g int, rooms []model.Room) model.Reason {
	r := model.Reason{Need: j.gangs[g].leaves, Asks: s.needText(j, g), Rooms: rooms}
	r.Free, r.Total = model.SumRooms(rooms)
	if !slices.ContainsFunc(j.gangs[g].shape.members, func(m cell.Member) bool { return !m.Alike }) {
		r.Free, r.Total = 0, 0 // all of it goes to one of them
		for i := range rooms {
			r.Free, r.Total = max(r.Free, rooms[i].Free), max(r.Total, rooms[i].Total)
		}
	}
	return r
}

// outsideReason gives the reasons that neither the jobs before nor those behind
// a gang have in their hands; a gang that waits for one holds nobody up.
func (s *explainer) outsideReason(j *job, g int32) (model.Reason, bool) {
	gg := &j.gangs[g]
	if why := s.whyNever(j, int(g)); why != nil {
		return *why, true
	}
	switch {
	case j.quarantined && rare(j.odd).aside+1 >= maxAside:
		return s.newReason(j, g).Say(QuarantinedJob, "set aside after three internal errors: the scheduler skips it, and it keeps its cells; report the errors"), true
	case j.quarantined:
		return s.newReason(j, g).Say(QuarantinedJob, "set aside after an internal error: stop it and submit it again"), true
	case j.held() && gg.attempt == none:
		h := j.odd.held
		r := s.newReason(j, g)
		return r.Say(OnHold, "on hold by %s%s; comb job release ends the hold", h.By, inBrackets(h.Reason)), true
	case gg.attempt != none && s.attempts[gg.attempt].state == model.AttemptUnknown:
		return s.heldReason(s.newReason(j, g), gg), true
	case rare(j.odd).after > s.now || gg.after > s.now:
		r := s.newReason(j, g)
		r.Until = max(rare(j.odd).after, gg.after)
		return r.Say(BackOff, "next try in %d s; its last attempt failed%s", secondsUntil(s.now, r.Until), j.lastEnd(g)), true
	case gg.attempt != none:
		return model.Reason{}, false
	case s.overLimit(j, g):
		return s.limitReason(j, g), true
	case j.spec.Gangs[g].Extra && !s.extraEligible(j):
		return s.minimumReason(j, g), true
	}
	return s.faultReason(j, g)
}

func secondsUntil(now, t model.Time) int64 {
	return int64((t - now + model.Time(model.Second) - 1) / model.Time(model.Second))
}

func (s *explainer) heldReason(r model.Reason, g *gang) model.Reason {
	j := &s.jobs[s.attempts[g.attempt].job]
	for i := range j.tasks {
		if t := &j.tasks[i]; !t.dead && t.state == model.TaskIsUnknown && !slices.Contains(r.Nodes, t.place.Node) {
			r.Nodes = append(r.Nodes, t.place.Node)
		}
	}
	return r.Say(HeldUnknown, "contact lost with its tasks on %s: they may still run, so their cells stay held", fewNodes(r.Nodes))
}

func (s *explainer) reservedReason(r model.Reason, g *gang) model.Reason {
	a := &s.attempts[g.attempt]
	for _, v := range rare(a.odd).victims {
		if s.live(v) != nil && !slices.Contains(r.Jobs, v.Job) {
			r.Jobs = append(r.Jobs, v.Job)
		}
	}
	return r.Say(WaitingPreemption, "its cells are reserved: it starts when %s %s stopped", s.jobList(s.jobs[a.job].spec.User, r.Jobs), verb(r.Jobs, "has", "have"))
}

// verb is that of a sentence about one job or many.
func verb(ids []model.JobID, one, many string) string {
	if len(ids) > 1 {
		return many
	}
	return one
}

// aheadReason: there is room, but the order gives it to somebody else.
func (s *explainer) aheadReason(r model.Reason, j *job, g int32) model.Reason {
	if why, until := s.restrained(j, g); why != "" {
		r.Until = until
		if strings.Contains(why, WaitsForRoom) {
			return r.Say(HeldBack, "it would fit apart, but %s", why)
		}
		return r.Say(HeldBack, "it would fit, but %s", why)
	}
	r.Jobs, r.More = few(s, aheadOf(s, j))
	if back := backBefore(&s.fold, j); len(r.Jobs) == 0 && len(back) > 0 {
		r.Jobs = back
		return comesBefore(s, r, j)
	}
	if kept := s.bookedBefore(j, g); len(r.Jobs) == 0 && len(kept) > 0 {
		r.Jobs = kept
		if slices.Equal(kept, []model.JobID{j.id}) {
			return r.Say(PriorityAhead, "it would fit, but its cells are kept for another gang of its job")
		}
		return r.Say(PriorityAhead, "it would fit, but %[2]s keeps its cells for %[1]s, in line before it", s.jobList(j.spec.User, kept), j.spec.VC)
	}
	if at := s.paced(j); len(r.Jobs) == 0 && at > 0 {
		r.Until = at
		return r.Say(HeldBack, "it would fit by the latest progress of the jobs of %s; their policy reads that again within %d s", j.spec.VC, secondsUntil(s.now, at))
	}
	if len(r.Jobs) == 0 {
		return r.Say(NotYetDecided, "it fits: the next decision starts it")
	}
	return r.Say(PriorityAhead, "it would fit, but %s %s ahead of it in %s", listed(s, j.spec.User, r.Jobs, r.More), verb(r.Jobs, "is", "are"), j.spec.VC)
}

// paced is when the VC of a job is looked at for what jobs reported since it was looked
// at last; 0 where its policy does not leave that for later, or a look is due now.
func (s *explainer) paced(j *job) model.Time {
	space := s.space(j.spec.VC)
	if _, ok := s.pol[space].(Paced); !ok || j.spec.Priority < cell.MinGuaranteed || s.looking() ||
		s.Wake() <= s.now+1 {
		return 0
	}
	return s.nextChange(space)
}

func (s *explainer) busyReason(r model.Reason, j *job, g int) model.Reason {
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	h := s.holdersFor(j, g)
	r.Jobs = append(slices.Clone(h.own), h.others...)
	slices.Sort(r.Jobs)
	r.Jobs, r.More = few(s, r.Jobs)
	r.More += h.more()
	switch {
	case r.Free < r.Need && guaranteed:
		besides := ""
		if len(h.others) > 0 {
			besides = "; also on its nodes: " + listed(s, j.spec.User, h.others, h.moreOthers)
		}
		return r.Say(VCBusy, "%s: %s free; it needs %s%s; %s%s", j.spec.VC, model.FreeText(r.Rooms), r.Asks,
			asShape(s, j, g), usedBy(s, j, h.own, h.moreOwn), besides)
	case r.Free < r.Need:
		return r.Say(ClusterBusy, "cluster: %s free; it needs %s%s; an opportunistic job gets only what nobody else uses",
			model.FreeText(r.Rooms), r.Asks, asShape(s, j, g))
	}
	whose := string(j.spec.VC)
	if !guaranteed {
		whose = "cluster"
	}
	where, text := "not in the shape of "+s.shapeText(j, g), apart(s, j, g, r.Free)
	switch {
	case text == "":
	case j.spec.Restricted():
		return r.Say(Fragmented, "%s: %s free, but none %s: %s %s there%s", whose, model.FreeText(r.Rooms), text,
			listed(s, j.spec.User, r.Jobs, r.More), verb(r.Jobs, "runs", "run"), s.movesText(j.spec.VC))
	case len(r.Rooms) == 1:
		where = fmt.Sprintf("%s; it needs %s", text, s.shapeText(j, g))
	}
	return r.Say(Fragmented, "%s: %s free, but %s; %s%s", whose, model.FreeText(r.Rooms), where,
		usedBy(s, j, r.Jobs, r.More), s.movesText(j.spec.VC))
}

func usedBy(s *explainer, j *job, jobs []model.JobID, more int) string {
	if len(jobs) == 0 {
		return "the rest is in use"
	}
	return "in use by " + listed(s, j.spec.User, jobs, more)
}

// pinAround returns the pinned cell of a VC that a leaf is in, "" if none.
func (s *explainer) pinAround(at cell.CellID, space int32) cell.PinnedID {
	f := s.cl.Forest()
	for ; at != cell.None; at = f.Cells[at].Parent {
		pin := f.Pinned(at)
		if pin != "" && slices.ContainsFunc(s.cl.Space(space).Roots,
			func(r cell.Root) bool { return r.Pinned == pin }) {
			return pin
		}
	}
	return ""
}

// jobList names jobs to a reader.
func (s *explainer) jobList(reader model.Subject, ids []model.JobID) string {
	return listed(s, reader, ids, 0)
}

// nameTo is how a reader calls a job, unless the state is a copy for another one: by its number
// where that may not know more.
func (s *explainer) nameTo(reader model.Subject, id model.JobID) string {
	if j := s.find(id); j != nil && !s.Veiled(j.spec) {
		return j.spec.Name.To(cmp.Or(s.names.reader, reader), j.spec.User)
	}
	return fmt.Sprintf("job %d", id)
}
