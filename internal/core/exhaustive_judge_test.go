package core_test

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/twin"
)

// judge checks everything that must hold of a state in which Decide has nothing
// left to do.
func judge(s *core.State) error {
	if err := s.Verify(); err != nil {
		return err
	}
	tw := twin.Of(s.Cluster())
	if !tw.Safe() {
		return fmt.Errorf("I1: the unused guarantees of all VCs can no longer be had at once")
	}
	if err := owned(s); err != nil {
		return err
	}
	if err := waiting(s, tw); err != nil {
		return err
	}
	if err := explained(s); err != nil {
		return err
	}
	again := s.Clone()
	again.LookAgain()
	more := slices.DeleteFunc(again.Decide(s.Now()), func(r model.Record) bool {
		_, turns := r.Event.(model.Rotated) // a report is no look: turns follow what was seen at the next timer
		return turns && s.Wake() > s.Now()
	})
	if !idle(more) {
		return fmt.Errorf("L2: deciding again at the same instant did more: %s", kinds(more))
	}
	return nil
}

// owned checks that every leaf has one owner, every gang all its leaves, and that
// what is counted is what is there (I2, I3, I9).
func owned(s *core.State) error {
	c := s.Cluster()
	var held, promised uint64
	used := map[cell.VCName]uint64{}
	at := map[cell.AllocID]core.Held{}
	for _, h := range s.Held() {
		mask := leavesOf(h.Placement)
		if with, shared := at[h.Alloc]; shared {
			if err := together(s, &with, &h); err != nil {
				return err
			}
			continue
		}
		at[h.Alloc] = h
		list := &held
		if h.State == model.AttemptReserving {
			list = &promised
		}
		if *list&mask != 0 {
			return fmt.Errorf("I2: attempt %v has leaves that belong to another", h.ID)
		}
		*list |= mask
		if !h.Lazy && h.Spec.Priority >= cell.MinGuaranteed {
			used[h.Spec.VC] |= mask // what is held by one and promised to another counts once
		}
		for i, t := range h.Placement.Tasks {
			if int32(len(t.Leaves)) != h.Want[i] {
				return fmt.Errorf("I3: task %d of attempt %v has %d leaves instead of %d", i, h.ID, len(t.Leaves), h.Want[i])
			}
		}
	}
	for l := range cell.LeafID(len(c.Forest().Leaves)) {
		h, p := c.Holder(l)
		if (h != cell.None) != (held>>l&1 != 0) || (p != cell.None) != (promised>>l&1 != 0) {
			return fmt.Errorf("I9: leaf %d is held by %d and promised to %d, but the attempts say %v and %v", l, h, p, held>>l&1 != 0, promised>>l&1 != 0)
		}
		idle := h == cell.None && p == cell.None && !c.LeafBad(l) && c.NodeFaults(c.Forest().Cells[c.Forest().Leaves[l]].Node) == 0
		if (c.Idle(c.Forest().Leaves[l]) == 1) != idle {
			return fmt.Errorf("I9: leaf %d is idle: %v, counted %d", l, idle, c.Idle(c.Forest().Leaves[l]))
		}
	}
	for _, v := range s.VCs() {
		if n := int32(bits.OnesCount64(used[v.Name])); v.Used != n || n > v.Guaranteed {
			return fmt.Errorf("I9: VC %s uses %d of %d guaranteed leaves, its attempts hold %d", v.Name, v.Used, v.Guaranteed, n)
		}
	}
	return nil
}

// together checks two attempts on the same leaves (S1 to S4): of one VC and priority, both in
// one rotation, both willing, and their memory fits.
func together(s *core.State, a, b *core.Held) error {
	x, y := s.RotationOf(a.ID), s.RotationOf(b.ID)
	p, q := &a.Spec.Hints, &b.Spec.Hints
	switch {
	case x == nil || x != y || x.Turn(a.ID) < 0 || x.Turn(b.ID) < 0 || x.Check() != nil:
		return fmt.Errorf("S2: attempts %v and %v share leaves, and no rotation has both: %+v %+v", a.ID, b.ID, x, y)
	case a.Spec.VC != b.Spec.VC || a.Spec.Priority != b.Spec.Priority || a.Lazy != b.Lazy:
		return fmt.Errorf("S1: attempts %v and %v share leaves, and have not one guarantee", a.ID, b.ID)
	case x.Turn(a.ID) == x.Turn(b.ID) && !(p.Packable && q.Packable) || x.Turn(a.ID) != x.Turn(b.ID) && !(p.Suspendable && q.Suspendable):
		return fmt.Errorf("S4: attempts %v and %v share leaves, and a job does not let itself", a.ID, b.ID)
	}
	need := int64(0) // who is suspended keeps its memory
	for _, turn := range x.Turns {
		for _, id := range turn {
			j, _ := s.Spec(id.Job)
			need += j.Hints.GPUMemoryMB
		}
	}
	if of := s.Config().Cluster.SKUs[0].GPUMemoryMB; need > of {
		return fmt.Errorf("S4: the rotation of attempt %v needs %d MiB of %d", a.ID, need, of)
	}
	return nil
}

// waiting checks that nobody waits who could be placed (L1), and that the first of
// each VC's line gets its guarantee by free cells or by those of lower rank (I5).
func waiting(s *core.State, tw *twin.Twin) error {
	served := map[int32]bool{}
	for _, w := range s.Waiting() {
		if w.Promise || w.Spec.Gangs[w.Gang].Extra {
			continue // one above its minimum has no claim of its own
		}
		if w.Spec.Priority < cell.MinGuaranteed {
			if tw.Fits(&w.Request, nil) {
				return fmt.Errorf("L1: %s fits the free leaves and waits", w.Spec.Name)
			}
			continue
		}
		if served[w.Space] {
			continue // it may be the turn of the one ahead
		}
		served[w.Space] = true
		if tw.Fits(&w.Request, below(s, w)) {
			return fmt.Errorf("I5: %s is the first of its line and could have its cells if those of lower rank left, but waits for nobody", w.Spec.Name)
		}
	}
	return nil
}

// below says who must leave for a gang: opportunistic work and its VC's work of
// lower priority, but not what may be alive on a lost node.
func below(s *core.State, w core.InLine) twin.Gone {
	may := map[cell.AllocID]bool{}
	for _, h := range s.Held() {
		free := h.Lazy || h.Spec.Priority < cell.MinGuaranteed
		so, shared := may[h.Alloc] // all that share it must be able to leave
		may[h.Alloc] = (so || !shared) && h.State != model.AttemptUnknown && (free || h.Spec.VC == w.Spec.VC && h.Spec.Priority < w.Spec.Priority)
	}
	return func(id cell.AllocID) bool { return may[id] }
}

// fullEach says in how many states one is explained in full, with what would help.
const fullEach = 16

// explained checks that whoever waits has a true reason.
func explained(s *core.State) error {
	why := s.Why
	if s.Seq()%fullEach == 0 {
		why = s.Explain
	}
	for _, w := range s.Waiting() {
		e, ok := why(w.Job)
		if !ok || len(e.Gangs) == 0 {
			return fmt.Errorf("%s waits without a reason", w.Spec.Name)
		}
		for _, g := range e.Gangs {
			if r := g.Reason; r.Code == model.NotYetDecided || r.Code == "" || r.Message == "" {
				return fmt.Errorf("L1: %s waits for %q: %q", w.Spec.Name, r.Code, r.Message)
			}
		}
	}
	return nil
}

// step follows one Decide with its own books: who was placed and preempted for
// whom.
type step struct {
	live    map[model.AttemptID]*core.Held
	numbers map[model.JobID][]int32 // how many attempts each gang had
	specs   map[model.JobID]*model.Job
	fresh   []model.AttemptID
	cleared []model.AttemptID // lost their guarantee though their jobs do not allow that: they must stop
	stops   int
	running int
	joins   bool // an attempt begins on the leaves of others
	passes  bool // a policy lets jobs preempt later ones of their priority
}

// newStep opens the books before Decide runs.
func newStep(s *core.State) *step {
	st := &step{live: map[model.AttemptID]*core.Held{}, numbers: map[model.JobID][]int32{}, specs: map[model.JobID]*model.Job{}}
	for _, h := range s.Held() {
		st.live[h.ID] = &h
	}
	st.running = len(st.live)
	st.passes = s.Config() != nil && slices.ContainsFunc(s.Config().VCs, func(v model.VCConfig) bool {
		return slices.ContainsFunc(v.Params, func(p model.Param) bool { return p.Key == "preempt" })
	})
	for _, id := range s.IDs() {
		st.numbers[id] = s.Attempts(id)
		st.specs[id], _ = s.Spec(id)
	}
	return st
}

func (st *step) check(after *core.State, records []model.Record) error {
	for _, r := range records {
		if err := st.record(r); err != nil {
			return err
		}
	}
	for _, id := range st.cleared {
		if h := st.live[id]; h != nil && h.Cause == 0 {
			return fmt.Errorf("attempt %v became opportunistic and goes on, which its job does not allow", id)
		}
	}
	if st.stops > st.running {
		return fmt.Errorf("I6: %d are preempted, but only %d ran", st.stops, st.running)
	}
	return st.order(after)
}

func (st *step) record(r model.Record) error {
	switch e := r.Event.(type) {
	case model.Placed:
		return st.begins(e.Attempt, e.Placement, model.AttemptStarting)
	case model.Joined:
		return st.joined(e)
	case model.Reserved:
		if err := st.begins(e.Attempt, e.Placement, model.AttemptReserving); err != nil {
			return err
		}
		return st.enough(e)
	case model.Unreserved:
		delete(st.live, e.Attempt)
	case model.AttemptEnded:
		if h := st.live[e.Attempt]; h == nil || slices.ContainsFunc(h.Tasks, func(s model.TaskState) bool { return s != 0 }) {
			return fmt.Errorf("I10: attempt %v ends, but its tasks are not all proven dead", e.Attempt)
		}
		delete(st.live, e.Attempt)
	case model.Upgraded:
		for _, id := range append(e.With, e.Attempt) {
			if h := st.live[id]; h == nil || !h.Lazy || h.Cause != 0 {
				return fmt.Errorf("attempt %v cannot be guaranteed again", id)
			}
			firm := *st.live[id]
			firm.Lazy = false
			st.live[id] = &firm
		}
	case model.LazilyPreempted:
		for _, id := range append(e.With, e.Attempt) {
			h := st.live[id]
			if h == nil || h.Lazy {
				return fmt.Errorf("attempt %v cannot become opportunistic", id)
			}
			if !h.Spec.LazyPreempt && !h.Spec.Gangs[h.ID.Gang].Extra {
				st.cleared = append(st.cleared, id)
			}
			lazy := *h
			lazy.Lazy = true
			st.live[id] = &lazy
		}
	case model.StopSent:
		return st.stopped(e)
	case model.JobEnded:
		for id := range st.live {
			if id.Job == e.Job {
				return fmt.Errorf("I8: job %d ends while attempt %v lives", e.Job, id)
			}
		}
	}
	return nil
}

// begins checks that a gang has at most one attempt, with a new number (I8, I10).
func (st *step) begins(id model.AttemptID, pl cell.Placement, state model.AttemptState) error {
	if h := st.live[id]; h != nil && (h.State != model.AttemptReserving || state == model.AttemptReserving) {
		return fmt.Errorf("I10: attempt %v begins twice", id)
	}
	for other := range st.live {
		if other.Job == id.Job && other.Gang == id.Gang && other != id {
			return fmt.Errorf("I10: attempt %v begins while %v lives", id, other)
		}
	}
	n := st.numbers[id.Job]
	if n == nil || id.N <= n[id.Gang] {
		return fmt.Errorf("I8: attempt %v begins after number %v", id, n)
	}
	st.live[id] = &core.Held{ID: id, State: state, Spec: st.specs[id.Job], Placement: pl}
	st.fresh = append(st.fresh, id)
	if state == model.AttemptReserving || st.joins {
		return nil
	}
	for other, h := range st.live {
		if other != id && h.State != model.AttemptReserving && leavesOf(h.Placement)&leavesOf(pl) != 0 {
			return fmt.Errorf("I2: attempt %v gets leaves of %v", id, other)
		}
	}
	return nil
}

// joined checks that an attempt comes to exactly the leaves of one that runs.
func (st *step) joined(e model.Joined) error {
	h := st.live[e.Host]
	if h == nil || h.Cause != 0 || h.Lazy || leavesOf(h.Placement) != leavesOf(e.Placement) {
		return fmt.Errorf("S1: attempt %v cannot join %v", e.Attempt, e.Host)
	}
	st.joins = true
	defer func() { st.joins = false }()
	return st.begins(e.Attempt, e.Placement, model.AttemptStarting)
}

// enough checks that a promise holds once its victims have left, and that none of
// them could stay (I6).
func (st *step) enough(e model.Reserved) error {
	want := leavesOf(e.Placement)
	for other, h := range st.live {
		if h.State == model.AttemptReserving {
			continue
		}
		needed := leavesOf(h.Placement)&want != 0
		if needed != slices.Contains(e.Victims, other) {
			return fmt.Errorf("I6: attempt %v stands in the way of %v: %v, is its victim: %v", other, e.Attempt, needed, !needed)
		}
		if needed && h.State == model.AttemptUnknown {
			return fmt.Errorf("I6: attempt %v counts on the death of %v, which may be alive on a lost node", e.Attempt, other)
		}
	}
	return nil
}

// stopped checks who preempts whom (I6): rank falls.
func (st *step) stopped(e model.StopSent) error {
	victim := st.live[e.Attempt]
	if victim == nil || victim.Cause != 0 || slices.Contains(st.fresh, e.Attempt) {
		return fmt.Errorf("I6: attempt %v cannot be stopped now", e.Attempt)
	}
	over := *victim
	over.Cause = e.Cause
	st.live[e.Attempt] = &over
	if e.Cause != model.EndPreempted {
		return nil
	}
	st.stops++
	if e.By == nil || st.live[*e.By] == nil {
		return fmt.Errorf("I6: attempt %v is preempted for nobody", e.Attempt)
	}
	by := st.live[*e.By].Spec
	switch {
	case by.Priority < cell.MinGuaranteed:
		return fmt.Errorf("I6: an opportunistic job preempts attempt %v", e.Attempt)
	case victim.Lazy || victim.Spec.Priority < cell.MinGuaranteed:
		return nil
	case by.VC != victim.Spec.VC:
		return fmt.Errorf("I1: %s of VC %s preempts guaranteed %s of VC %s", by.Name, by.VC, victim.Spec.Name, victim.Spec.VC)
	case by.Priority == victim.Spec.Priority && st.passes && (victim.Spec.Gangs[victim.ID.Gang].Extra || e.By.Job < victim.ID.Job):
		return nil
	case by.Priority <= victim.Spec.Priority:
		return fmt.Errorf("I6: priority %d preempts %d", by.Priority, victim.Spec.Priority)
	}
	return nil
}

// order checks that nobody was placed while a higher priority of the same VC
// waits that could have been placed in his stead (I4).
func (st *step) order(after *core.State) error {
	if len(st.fresh) == 0 {
		return nil
	}
	for _, w := range after.Waiting() {
		if w.Promise || w.Spec.Priority < cell.MinGuaranteed || w.Spec.Gangs[w.Gang].Extra {
			continue
		}
		for _, h := range after.Held() {
			if !slices.Contains(st.fresh, h.ID) || h.Spec.VC != w.Spec.VC || h.Spec.Priority >= w.Spec.Priority {
				continue
			}
			if twin.Of(after.Cluster()).Fits(&w.Request, func(id cell.AllocID) bool { return id == h.Alloc }) {
				return fmt.Errorf("I4: %s is placed while %s, of higher priority, could be", h.Spec.Name, w.Spec.Name)
			}
		}
	}
	return nil
}
