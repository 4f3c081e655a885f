package explain

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/timeline"
)

// Changes that cost neither the job nor other jobs anything. They are tried first.

const (
	prioritiesMost = 3 // how many priorities are tried
	pinnedMost     = 4 // how many pinned cells are tried
)

// cheapChanges tries a shorter time limit, a higher priority and a free pinned cell. why is the
// code of the gang's reason.
func (t *suggester) cheapChanges(why model.Code) {
	inItsWay := []model.Code{model.PriorityAhead, model.Fragmented, model.HeldBack}
	if (slices.Contains(inItsWay, why) || outOfServiceCode(why)) &&
		t.j.Spec.Priority >= cell.MinGuaranteed && timeline.Books(t.s.VC(t.j.Space)) {
		t.shorterLimit()
	}
	t.higherPriority(false)
	t.pinnedCell()
}

// shorterLimit looks for the longest of some round time limits with which the job is backfilled
// now.
func (t *suggester) shorterLimit() {
	spec := t.j.Spec
	limits := []model.Duration{model.Minute, 5 * model.Minute, 15 * model.Minute, 30 * model.Minute, model.Hour,
		2 * model.Hour, 4 * model.Hour, 8 * model.Hour, 12 * model.Hour, 24 * model.Hour, 48 * model.Hour}
	if spec.TimeLimit > 0 {
		limits = slices.DeleteFunc(limits, func(d model.Duration) bool { return d >= spec.TimeLimit })
	}
	starts := func(i int) bool {
		out := *spec
		out.TimeLimit = limits[i]
		preempts, ok := t.tryInstead(&out)
		return ok && len(preempts) == 0
	}
	if len(limits) == 0 || !starts(0) {
		return
	}
	best := 0
	for low, high := 1, len(limits)-1; low <= high; {
		if mid := (low + high) / 2; starts(mid) {
			best, low = mid, mid+1
		} else {
			high = mid - 1
		}
	}
	was := "none"
	if spec.TimeLimit > 0 {
		was = model.SpanText(int64(spec.TimeLimit))
	}
	t.add(model.Suggestion{Kind: model.ShorterLimit, TimeLimit: limits[best]}, nil,
		"it would start with a time limit of %s instead of %s: then it is over before the cells are needed",
		model.SpanText(int64(limits[best])), was)
}

// higherPriority looks for the lowest priority with which the job would start. It tries the one
// above its own, those above higher ones in its VC, and the one above all that wait there. A start
// that preempts counts only with lifting.
func (t *suggester) higherPriority(lifting bool) {
	own := t.j.Spec.Priority
	tries := []cell.Priority{own + 1}
	for _, r := range slices.Backward(t.s.Limits(t.j.Space, cell.MaxGuaranteed)) {
		tries = append(tries, r)
	}
	if q := t.s.Queues[t.j.Space]; len(q) > 0 {
		tries = append(tries, q[0].Prio+1)
	}
	slices.Sort(tries)
	tries = slices.DeleteFunc(slices.Compact(tries), func(p cell.Priority) bool {
		return p <= own || p > cell.MaxGuaranteed || t.s.checkCap(t.j, p) != nil
	})
	if n := len(tries); n > prioritiesMost {
		tries = append(tries[:prioritiesMost-1], tries[n-1])
	}
	for _, p := range tries {
		out := *t.j.Spec
		out.Priority = p
		if preempts, ok := t.tryIfFits(&out); ok && (lifting || len(preempts) == 0) {
			t.add(model.Suggestion{Kind: model.HigherPriority, Priority: p}, preempts,
				"it would start with priority %d instead of %d", p, own)
			return
		}
	}
}

// pinnedCell looks for a free pinned cell of the VC, for a job that asks for none.
func (t *suggester) pinnedCell() {
	spec := t.j.Spec
	if spec.Priority < cell.MinGuaranteed || slices.ContainsFunc(spec.Roles,
		func(r model.Role) bool { return r.Pinned != "" }) {
		return
	}
	var tried []cell.PinnedID
	for _, r := range t.s.Cluster.Space(t.j.Space).Roots {
		if r.Pinned == "" || slices.Contains(tried, r.Pinned) || len(tried) == pinnedMost {
			continue
		}
		tried = append(tried, r.Pinned)
		out := *spec
		out.Roles = slices.Clone(spec.Roles)
		for i := range out.Roles {
			out.Roles[i].Pinned = r.Pinned
		}
		if preempts, ok := t.tryIfFits(&out); ok && len(preempts) == 0 {
			t.add(model.Suggestion{Kind: model.PinnedCell, Pinned: r.Pinned}, nil,
				"it would start in the pinned cell %s, which is free", r.Pinned)
			return
		}
	}
}

// atMost suggests the most tasks, and the largest, with which the job could ever start, if it asks
// for more. Sizes with which it starts at once are suggested already.
func (t *suggester) atMost() {
	m := MostEver{t.s, t.j, t.g, t.role()}
	r := &t.j.Spec.Roles[m.Role]
	offered := func(tasks, leaves int32) bool {
		return slices.ContainsFunc(t.found, func(g model.Suggestion) bool {
			return g.Role == r.Name && g.Tasks == tasks && g.Leaves == leaves
		})
	}
	if n := m.Tasks(); n > 0 && !offered(n, 0) {
		t.add(model.Suggestion{Kind: model.AtMost, Role: r.Name, Tasks: n}, nil,
			"once enough is free, it could start with at most %s in role %s instead of %d",
			model.Plural(n, "task", "tasks"), r.Name, r.Tasks)
	}
	if t.j.Gangs[t.g].Shape.NoSKUFits {
		return
	}
	if n := m.leaves(t.j.Spec); n > 0 && !offered(0, n) {
		t.add(model.Suggestion{Kind: model.AtMost, Role: r.Name, Leaves: n}, nil,
			"once enough is free, it could start with at most %s per task in role %s instead of %s",
			t.s.AmountOf(r.SKUs, n), r.Name, t.s.AmountOf(r.SKUs, r.Leaves))
	}
}
