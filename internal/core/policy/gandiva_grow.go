package policy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// Gandiva's grow-shrink: an elastic job that has its usual size gets more members on the nodes
// on which it runs, when GPUs were idle there for a while and no gang of the VC waits. It goes
// back to its usual size when others want these GPUs. A gang that arrives is promised those
// that it needs before any gang is suspended for it. A job that loses a member, for such a gang
// or by a fault, gives up all its members above the usual size.
//
// The note of such a job says for how many members there has been room all the time, and since
// when: "room for 2 since 1200000000us".

// growthRoom is the note of a gang; the zero value is no note.
type growthRoom struct {
	members int32
	since   model.Time
}

func readGrowthRoom(note []byte) (r growthRoom) {
	text, ok := bytes.CutPrefix(note, []byte("room for "))
	if ok {
		_, _ = fmt.Sscanf(string(text), "%d since %dus", &r.members, &r.since)
	}
	return r
}

// growable lists the gangs that run of jobs which can have more members than usual, the
// last submitted first.
func growable(v model.View) []model.GangView {
	var out []model.GangView
	for g := range v.Running() {
		if g.Sizes.Most > g.Sizes.Usual {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b model.GangView) int { return compareGangs(&b, &a) })
	return out
}

// gpusAboveUsual is how many GPUs the members above the usual size of a gang's job have.
func gpusAboveUsual(g *model.GangView) int64 {
	return int64(max(g.Sizes.Now-g.Sizes.Usual, 0)) * int64(g.Sizes.MemberLeaves)
}

// restoreUsualSizes gives jobs their usual size that have grown and lost a member since, and sums
// up the GPUs that the others have above theirs; false when no more wishes are heard.
func (r *reaction) restoreUsualSizes() bool {
	for _, g := range growable(r.v) {
		switch {
		case gpusAboveUsual(&g) == 0:
		case g.Sizes.Live >= g.Sizes.Now:
			r.grown += gpusAboveUsual(&g)
		case !r.yield(model.Wish{Gang: g.Ref, Size: g.Sizes.Usual}):
			return false
		}
	}
	return true
}

// shrinkable reports whether a gang might get cells of members above the usual sizes.
func (r *reaction) shrinkable(g *model.GangView) bool {
	return r.grown > 0 && int64(g.Leaves) <= r.v.Free()+r.grown && (g.Shape == "" || !r.misses[g.Shape])
}

// resize lets jobs grow while no gang wants the GPUs and none takes turns, and shrink while
// some gang waits; false when no more wishes are heard.
func (in *introspection) resize(allocs []*model.Allocation) bool {
	wanted, given := in.v.Wanted(), int64(0)
	calm := in.p.grow >= 0 && wanted == 0 && !slices.ContainsFunc(allocs, func(a *model.Allocation) bool { return len(a.Gangs) > 1 })
	for _, g := range growable(in.v) {
		var w model.Wish
		noted := readGrowthRoom(g.Note)
		switch {
		case wanted > given && gpusAboveUsual(&g) > 0:
			given += gpusAboveUsual(&g)
			w = model.Wish{Gang: g.Ref, Size: g.Sizes.Usual}
		case calm && g.Sizes.Live == g.Sizes.Now && g.Sizes.Now >= g.Sizes.Usual:
			w = in.grow(&g, noted)
		}
		switch {
		case w.Note == nil && noted.members > 0: // what is noted does not hold any more
			w.Note = &model.Note{Job: g.Ref.Job}
		case w.Note == nil && w.Size == 0:
			continue
		}
		if !in.yield(w) {
			return false
		}
	}
	return true
}

// grow is the wish of a gang that may grow: for how many members there is room is noted until
// that was so for long enough.
func (in *introspection) grow(g *model.GangView, noted growthRoom) model.Wish {
	more := in.v.GrowthOnOwnNodes(g.Ref)
	if more == 0 {
		return model.Wish{}
	}
	if noted.members == 0 || noted.since < g.Since { // or it ran elsewhere then
		noted = growthRoom{more, in.v.Now()}
	}
	noted.members = min(noted.members, more)
	var w model.Wish
	if noted.since.Add(in.p.grow) <= in.v.Now() {
		w = model.Wish{Gang: g.Ref, Size: g.Sizes.Now + noted.members, OnOwnNodes: true}
		noted = growthRoom{more - noted.members, in.v.Now()} // for the rest the delay begins
	}
	if noted.members > 0 {
		w.Note = remember(g.Ref.Job, fmt.Appendf(nil, "room for %d since %dus", noted.members, int64(noted.since))).Note
	}
	return w
}

// nextGrowth is when the first job for which room is noted may grow, or one begins to run; 0 is
// none.
func (p *gandiva) nextGrowth(v model.View) (next model.Time) {
	if p.grow < 0 || !v.Elastic() {
		return 0
	}
	for _, g := range growable(v) {
		at := g.Started
		if r := readGrowthRoom(g.Note); r.members > 0 && at <= v.Now() {
			at = r.since.Add(p.grow)
		}
		if at > v.Now() && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
