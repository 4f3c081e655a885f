package index

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// A partial job has gang 0, the minimum, and members above it, each a gang of its own
// (Gang.Extra). A member above the minimum waits in the queue only while the minimum runs. It is
// placed after all full gangs of its priority had their chance, makes only opportunistic work
// leave, is the first to be preempted, and ends with its minimum.

// Extra reports whether a queued gang is a member above a minimum; the first gang of a job never
// is.
func (s *Index) Extra(e Queued) bool {
	return e.Gang > 0 && s.Jobs[e.Slot].Spec.Gangs[e.Gang].Extra
}

// MinimumLives reports whether a job's minimum has an attempt that is not
// stopping: then the members above it may wait, run and be placed.
func (s *Index) MinimumLives(j *tables.Job) bool {
	at := j.Gangs[0].Attempt
	return at != tables.None && s.Attempts[at].State != model.AttemptReserving && s.Attempts[at].Cause == 0 &&
		s.Attempts[at].Alive > 0
}

// IsExtra reports whether an attempt is of a member above a minimum.
func (s *Index) IsExtra(a *tables.Attempt) bool {
	return s.PartialJobs > 0 && s.Jobs[a.Job].Spec.Gangs[a.ID.Gang].Extra
}

// Steady reports whether an attempt and all that share its leaves start or run, and none was told
// to stop.
func (s *Index) Steady(a *tables.Attempt) bool {
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		if m := &s.Attempts[at]; m.State != model.AttemptStarting && m.State != model.AttemptRunning {
			return false
		}
	}
	return true
}

// DevicesChanged reports whether the devices of an attempt had other SKUs, or were divided
// otherwise, when it was started. No gang may join it: a newcomer would start on what the present
// configuration calls these devices and follow that through the next one, which may be less; and
// members that take turns find each other's locks only under equal device names.
func (s *Index) DevicesChanged(a *tables.Attempt) bool {
	kept := tables.RareOf(a.Rare).Origins
	j := &s.Jobs[a.Job]
	for k, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		t := j.Tasks[o].Place
		if t.SKU != s.Cluster.Alloc(a.Alloc).Placement.Tasks[k].SKU || kept != nil &&
			!s.Cluster.Divides(&cell.Started{Task: *t, Origin: kept[k]}) {
			return true
		}
	}
	return false
}

// What the policies see of the gangs that hold cells: which run in a VC, for how long, and the
// service attained (Tiresias, NSDI'19: GPUs times time).

// RanFor is how long an attempt has run by now; on shared leaves only its own turns count.
func (s *Index) RanFor(a *tables.Attempt) model.Duration {
	switch {
	case a.Started == 0:
		return 0
	case a.Share == 0:
		return model.Duration(s.Now - a.Started)
	}
	return tables.RareOf(a.Rare).RanBefore + s.RanSince(a, max(a.Started, s.Shares[a.Share-1].Since))
}

// RanSince is how long an attempt ran since a time. Before its present rotation began it counts as
// running all the time.
func (s *Index) RanSince(a *tables.Attempt, from model.Time) model.Duration {
	if a.Share == 0 {
		return model.Duration(s.Now - from)
	}
	sh := &s.Shares[a.Share-1]
	before := model.Duration(max(sh.Since-from, 0))
	return before + sh.Rotation.Ran(a.ID, max(from, sh.Since), s.Now)
}

// AttemptsIn yields the attempts and promises of a VC. A restart may change their order: no
// decision may depend on it.
func (s *Index) AttemptsIn(space int32) iter.Seq[*tables.Attempt] {
	return func(yield func(*tables.Attempt) bool) {
		for _, i := range s.Holders[space] {
			if !yield(&s.Attempts[i]) {
				return
			}
		}
	}
}

// GangView is what a policy sees of a gang.
func (s *Index) GangView(e Queued) model.GangView {
	j := &s.Jobs[e.Slot]
	g := &j.Gangs[e.Gang]
	v := model.GangView{Ref: model.GangRef{Job: e.Job, Gang: e.Gang}, User: j.Spec.User, Priority: e.Prio,
		Submitted: j.Submitted,
		Order:     int64(e.Job), Leaves: g.Leaves, Members: g.Shape.Members, Shape: g.Shape.Text, Hints: &j.Spec.Hints, RanBefore: g.Ran, Ran: g.Ran, Since: j.Submitted}
	v.Moved = g.Rare != nil && g.Rare.MoveTo != nil
	v.Delayed, v.NodesRestricted = !s.Eligible(j, e.Gang), j.Spec.Restricted()
	if g.Last != nil {
		v.Since = max(v.Since, g.Last.Ended)
	}
	if len(s.Config.Throughputs) > 0 {
		v.Speeds = model.Speeds(s.Config.Throughputs, j.Spec.Hints.Model)
	}
	if v.Gangs = int32(len(j.Gangs)); e.Gang == 0 && j.Spec.Partial() {
		v.Sizes = s.SizesOf(j)
	}
	if n := j.PolicyNote(); n != nil {
		v.Note = n.Data
	}
	if tasks := j.Spec.Gangs[e.Gang].Tasks; len(tasks) > 0 {
		v.Progress = j.Tasks[tasks[0]].Progress
	}
	if g.Attempt != tables.None {
		a := &s.Attempts[g.Attempt]
		v.Started, v.Delayed = a.Started, v.Delayed || a.Lazy && (!s.Steady(a) || a.Orphaned && !s.PartLeft(a))
		if a.Started > 0 {
			v.Since = a.Started
			v.Ran += s.RanFor(a)
		}
	}
	return v
}

// Shared reports whether an attempt is not alone on its leaves.
func (s *Index) Shared(a *tables.Attempt) bool { return a.NotFirst || a.NextMember != tables.None }

// First returns the slot of the first member of an attempt's allocation.
func (s *Index) First(a *tables.Attempt) int32 { return s.ByAlloc[a.Alloc] }

// FirstStaying returns the first member of an attempt's allocation that was not told to stop; nil
// if all were.
func (s *Index) FirstStaying(a *tables.Attempt) *tables.Attempt {
	if !s.Shared(a) {
		if a.Cause == 0 {
			return a
		}
		return nil
	}
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		if s.Attempts[at].Cause == 0 {
			return &s.Attempts[at]
		}
	}
	return nil
}

// Reaches is when an attempt will have run for d, if its rotation stays; an attempt that does not
// run yet is taken to begin now.
func (s *Index) Reaches(a *tables.Attempt, d model.Duration) model.Time {
	from := a.Started
	if from == 0 {
		from = s.Now
	}
	if a.Share == 0 {
		return from.Add(d)
	}
	sh := &s.Shares[a.Share-1]
	if d <= tables.RareOf(a.Rare).RanBefore {
		return min(from.Add(d), s.Now)
	}
	return sh.Rotation.RunReachedAt(a.ID, max(from, sh.Since), d-tables.RareOf(a.Rare).RanBefore)
}

// SizesOf is what a policy sees of the sizes of a partial job.
func (s *Index) SizesOf(j *tables.Job) model.Sizes {
	z := j.Spec.Sizes()
	z.Now = j.Size
	for i := range j.Gangs {
		at := j.Gangs[i].Attempt
		if i > 0 {
			z.MemberLeaves = max(z.MemberLeaves, j.Gangs[i].Leaves)
		}
		if at == tables.None || s.Attempts[at].Cause != 0 {
			continue
		}
		n, promised := int32(1), s.Attempts[at].State == model.AttemptReserving
		if i == 0 {
			n = z.Least
		}
		if !promised {
			z.Runs += n
		}
		if !promised || i > 0 {
			z.Live += n
		}
	}
	return z
}

// DeviceMemory is the memory of the smallest device of an allocation, in MiB; 0 if that of any
// device is unknown.
func (s *Index) DeviceMemory(a *tables.Attempt) int64 {
	var least int64
	for i, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		n := s.Cluster.SKU(t.SKU).GPUMemoryMB
		if i == 0 || n < least {
			least = n
		}
	}
	return least
}

// Entry is an attempt's gang as it would stand in the queue.
func (s *Index) Entry(a *tables.Attempt) Queued {
	return Queued{Prio: s.Jobs[a.Job].Spec.Priority, Job: a.ID.Job, Gang: a.ID.Gang, Slot: a.Job}
}

// Below is the index of the first gang of a queue with a priority below p.
func Below(q []Queued, p cell.Priority) int {
	if len(q) == 0 || q[0].Prio < p {
		return 0
	}
	i, _ := slices.BinarySearchFunc(q, p, func(e Queued, p cell.Priority) int {
		if e.Prio >= p {
			return -1
		}
		return 1
	})
	return i
}

// PartLeft reports whether an attempt that lost leaves still has some, and these are as they were
// when it started.
func (s *Index) PartLeft(a *tables.Attempt) bool {
	some := slices.ContainsFunc(s.Cluster.Alloc(a.Alloc).Placement.Tasks,
		func(t cell.Task) bool { return len(t.Leaves) > 0 })
	return some && !s.DevicesChanged(a)
}

// Eligible reports whether a gang may be placed at all now.
func (s *Index) Eligible(j *tables.Job, g int32) bool {
	return !j.Quarantined && tables.RareOf(j.Rare).After <= s.Now && j.Gangs[g].After <= s.Now && !s.OverLimit(j, g)
}
