package sched

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
)

// keeping makes what a Keeper keeps; nil of another policy.
func (s *index) keeping(space int32, u *lineup) Keeping {
	k, ok := s.pol[space].(Keeper)
	if !ok {
		return nil
	}
	was := s.ask(space)
	out := k.Keep()
	for i := range u.lines {
		for _, e := range u.lines[i].gangs {
			s.tell(out, e)
		}
	}
	s.ask(was)
	return out
}

// relay tells what is kept of a gang that is listed now.
func (s *index) relay(space int32, e queued) {
	if u := s.lineup(space, e.prio); u.kept != nil {
		was := s.ask(space)
		s.tell(u.kept, e)
		s.ask(was)
	}
}

func (s *index) tell(k Keeping, e queued) {
	if s.extra(e) {
		return
	}
	g := &s.calls.gang
	*g = s.gangView(e)
	g.Delayed, g.Moved, g.Sizes.Now, g.Sizes.Live, g.Sizes.Runs = false, false, 0, 0, 0
	if s.jobs[e.slot].gangs[e.gang].single {
		g.Shape = ""
	}
	k.Add(g)
}

// verifyKept makes what is kept again and compares.
func (s *index) verifyKept(add func(string, ...any)) {
	for space, us := range s.lines.spaces {
		for i := range us {
			if u := &us[i]; u.kept != nil && !reflect.DeepEqual(u.kept, s.keeping(int32(space), u)) {
				add("what space %d keeps of those who wait with priority %d is not what they are", space, u.prio)
			}
		}
	}
}

// line is the gangs that wait with one priority in one VC and have one party and
// one shape, in order of submission; in a VC whose policy is Keyed, of all parties and
// in order of their keys. When the first of them finds nothing, neither
// do the others: so whoever passes over what does not fit reads lines, not gangs.
//
// Gangs that are cases of their own, since they avoid nodes or have a promise,
// stand in a line without a shape. Opportunistic lines are of all parties.
type line struct {
	lineKey
	leaves int32 // that each asks for, where they are of one shape
	gangs  []queued
	first  []GangView // the first of them as View.Lines shows them: a cache
}

type lineKey struct {
	party Party
	shape string // "": what one of them finds says nothing of the others
	extra bool   // members above a minimum
}

// lineup is the lines of one priority of a VC, in no order; some may be empty.
type lineup struct {
	prio  cell.Priority
	kept  Keeping // of a Keeper that asked; of all gangs but members above a minimum
	lines []line
	at    map[lineKey]int32 // where they stand; made when it is needed
}

// lineups are the lines of all VCs. Opportunistic gangs always stand in them,
// guaranteed ones where the VC's policy has asked for them.
type lineups struct {
	spaces [][]lineup
	asked  []By // by space: how parties are told apart, 0 while nobody asked
	empty  int  // lines
}

// maxEmpty is how many empty lines may stand until they are dropped.
const maxEmpty = 64

// relistAll makes the lines anew, after the VCs changed.
func (s *index) relistAll() {
	n := len(s.queues)
	s.lines = lineups{spaces: make([][]lineup, n), asked: make([]By, n)}
	for space, q := range s.queues {
		for _, e := range q {
			s.jobs[e.slot].gangs[e.gang].listed = false
		}
		for _, e := range q[below(q, cell.MinGuaranteed):] {
			s.list(int32(space), e)
		}
	}
}

// askLines makes the lines of a VC's guaranteed gangs; from now on they are kept.
// A policy always asks for the same.
func (s *index) askLines(space int32, by By) {
	if s.lines.asked[space] == by {
		return
	}
	q := s.queues[space]
	q = q[:below(q, cell.MinGuaranteed)]
	for _, e := range q {
		s.unlist(space, e)
	}
	s.lines.asked[space] = by
	for _, e := range q {
		s.list(space, e)
	}
}

// lineup returns the lines of a priority, nil when there are none.
func (s *index) lineup(space int32, p cell.Priority) *lineup {
	for i := range s.lines.spaces[space] {
		if u := &s.lines.spaces[space][i]; u.prio == p {
			return u
		}
	}
	return nil
}

// list puts a gang that waits into its line.
func (s *index) list(space int32, e queued) {
	if e.prio >= cell.MinGuaranteed && s.lines.asked[space] == 0 {
		return
	}
	g := &s.jobs[e.slot].gangs[e.gang]
	g.listed, g.single = true, g.attempt != none || g.avoids()
	g.key = s.policyKey(space, e) // whatever another policy gave it before
	e.key = g.key
	l := s.lineOf(space, e)
	if i, found := slices.BinarySearchFunc(l.gangs, e, queued.compare); !found {
		if len(l.gangs) == 0 {
			s.lines.empty--
		}
		l.gangs = slices.Insert(l.gangs, i, e)
		l.first = l.first[:min(i, len(l.first))]
	}
	s.relay(space, e)
}

// heads returns the first n gangs of a line without what may change while they wait.
func (s *index) heads(l *line, n int) []GangView {
	for i := len(l.first); i < n; i++ {
		g := s.gangView(l.gangs[i])
		g.Delayed, g.Moved, g.Note, g.Progress = false, false, nil, nil
		g.Sizes.Now, g.Sizes.Live = 0, 0
		if l.shape == "" {
			g.Shape = ""
		}
		l.first = append(l.first, g)
	}
	return l.first[:n:n]
}

// policyKey is the key by which a gang stands in its line: zero where the policy has
// none.
func (s *index) policyKey(space int32, e queued) Key {
	k, ok := s.pol[space].(Keyed)
	if !ok || e.prio < cell.MinGuaranteed || s.extra(e) {
		return Key{}
	}
	s.calls.gang = s.gangView(e)
	was := s.ask(space)
	key := k.Key(&s.calls.gang)
	s.ask(was)
	return key
}

// unlist takes a gang out of its line, if it stands in one.
func (s *index) unlist(space int32, e queued) {
	g := &s.jobs[e.slot].gangs[e.gang]
	if !g.listed {
		return
	}
	g.listed = false
	if u := s.lineup(space, e.prio); u.kept != nil {
		was := s.ask(space)
		u.kept.Drop(GangRef{Job: e.job, Gang: e.gang})
		s.ask(was)
	}
	e.key, g.key = g.key, Key{}
	l := s.lineOf(space, e)
	if i, found := slices.BinarySearchFunc(l.gangs, e, queued.compare); found {
		l.gangs = without(l.gangs, i)
		l.first = l.first[:min(i, len(l.first))]
		if len(l.gangs) == 0 {
			s.lines.empty++
		}
	}
}

// relist puts a gang that may have become a case of its own, or is none any more,
// where it belongs. While a policy reads the lines, one that loses its promise stays in
// its place: in the line of its shape, which may have been read, it would be passed over,
// and those behind it would get what it then takes back.
func (s *index) relist(slot, g int32) {
	j := &s.jobs[slot]
	if gg := &j.gangs[g]; !gg.listed || gg.single == (gg.attempt != none || gg.avoids()) {
		return
	}
	if s.calls.reading && j.gangs[g].single {
		s.calls.relist = append(s.calls.relist, GangRef{Job: j.id, Gang: g})
		return
	}
	space, e := j.space, queued{prio: j.spec.Priority, job: j.id, gang: g, slot: slot}
	s.unlist(space, e)
	s.list(space, e)
}

// relistMoved puts those where they belong who stayed while a policy read the lines.
func (s *index) relistMoved() {
	s.calls.reading = false
	for _, ref := range s.calls.relist {
		if slot, ok := s.slots.Get(ref.Job); ok {
			s.relist(slot, ref.Gang)
		}
	}
	s.calls.relist = s.calls.relist[:0]
}

// lineOf finds a gang's line, or begins it.
func (s *index) lineOf(space int32, e queued) *line {
	u := s.lineup(space, e.prio)
	if u == nil {
		s.lines.spaces[space] = append(s.lines.spaces[space], lineup{prio: e.prio})
		u = s.lineup(space, e.prio)
	}
	if u.at == nil {
		u.at = make(map[lineKey]int32, len(u.lines))
		for i := range u.lines {
			u.at[u.lines[i].lineKey] = int32(i)
		}
	}
	k := s.keyOf(space, e)
	i, found := u.at[k]
	if !found {
		i = int32(len(u.lines))
		u.at[k] = i
		u.lines = append(u.lines, line{lineKey: k, leaves: s.jobs[e.slot].gangs[e.gang].leaves})
		s.lines.empty++
	}
	return &u.lines[i]
}

// keyOf says what kind of line a gang stands in.
func (s *index) keyOf(space int32, e queued) lineKey {
	j := &s.jobs[e.slot]
	k := lineKey{extra: j.spec.Gangs[e.gang].Extra}
	if e.prio >= cell.MinGuaranteed {
		k.party = s.lines.asked[space].party(j.spec)
	}
	if g := &j.gangs[e.gang]; !g.single {
		k.shape = g.shape.text
	}
	return k
}

// dropEmpty drops lines that are empty once they are many; not while one reads
// them.
func (s *index) dropEmpty() {
	if s.lines.empty <= maxEmpty {
		return
	}
	s.lines.empty = 0
	for _, us := range s.lines.spaces {
		for i := range us {
			us[i].lines = slices.DeleteFunc(us[i].lines, func(l line) bool { return len(l.gangs) == 0 })
			us[i].at = nil
		}
	}
}

func (ls *lineups) clone() lineups {
	out := lineups{spaces: slices.Clone(ls.spaces), asked: slices.Clone(ls.asked), empty: ls.empty}
	for i := range out.spaces {
		out.spaces[i] = slices.Clone(ls.spaces[i])
		for k := range out.spaces[i] {
			u := &out.spaces[i][k]
			u.lines, u.at, u.kept = slices.Clone(u.lines), nil, nil
			for m := range u.lines {
				u.lines[m].gangs, u.lines[m].first = slices.Clone(u.lines[m].gangs), nil
			}
		}
	}
	return out
}

// verifyLines compares the lines with the queues.
func (s *index) verifyLines(add func(string, ...any)) {
	empty := 0
	for space, us := range s.lines.spaces {
		listed := 0
		for _, u := range us {
			for i := range u.lines {
				s.verifyLine(space, &u.lines[i], add)
				if n := len(u.lines[i].gangs); n > 0 {
					listed += n
				} else {
					empty++
				}
			}
		}
		want := s.queues[space]
		if s.lines.asked[space] == 0 {
			want = want[below(want, cell.MinGuaranteed):]
		}
		if listed != len(want) {
			add("space %d: %d gangs stand in lines, want %d", space, listed, len(want))
		}
	}
	if empty != s.lines.empty {
		add("%d lines are empty, counted as %d", empty, s.lines.empty)
	}
}

func (s *index) verifyLine(space int, l *line, add func(string, ...any)) {
	if n := len(l.first); n > len(l.gangs) || n > 0 && !reflect.DeepEqual(l.first, s.heads(&line{lineKey: l.lineKey, gangs: l.gangs}, n)) {
		add("of a line of space %d the first %d gangs were seen as something else", space, n)
	}
	for i, e := range l.gangs {
		g := &s.jobs[e.slot].gangs[e.gang]
		plain := e
		plain.key = Key{}
		at, found := slices.BinarySearchFunc(s.queues[space], plain, queued.compare)
		switch {
		case e.key != g.key:
			add("gang %d of job %d stands in its line by %v, not by %v", e.gang, e.job, e.key, g.key)
		case found && g.key != s.policyKey(int32(space), plain):
			add("gang %d of job %d stands in its line by %v, but now has %v", e.gang, e.job, g.key, s.policyKey(int32(space), plain))
		case !found || s.queues[space][at] != plain:
			add("gang %d of job %d stands in a line of space %d, but not in its queue", e.gang, e.job, space)
		case !g.listed || s.keyOf(int32(space), e) != l.lineKey || i > 0 && l.gangs[i-1].compare(e) >= 0:
			add("gang %d of job %d stands in the wrong line, or place of it", e.gang, e.job)
		case g.single != (g.attempt != none || g.avoids()):
			add("gang %d of job %d is a case of its own: %v", e.gang, e.job, g.single)
		}
	}
}

// merge reads lines of one priority as if they were one, in order of submission. A line whose shape
// found nothing is left out from then on. Gangs may leave their lines meanwhile.
type merge struct {
	s     *index
	space int32
	prio  cell.Priority
	alone bool                   // who says so has nodes for himself in this VC
	heads collections.Heap[head] // by gang
}

// aloneToo marks the shape of who found no nodes for himself: it says nothing of VCs whose policy
// gives nobody any.
const aloneToo = " alone"

// head is the next gang of one line.
type head struct {
	line int32
	at   int
	e    queued
}

// Before implements collections.HeapItem.
func (h head) Before(o head) bool { return h.e.compare(o.e) < 0 }

// add lets a merge read one more line, which is not empty; order is to be called after the last.
func (m *merge) add(line int, l *line) {
	m.heads = append(m.heads, head{line: int32(line), e: l.gangs[0]})
}

// addFull adds all lines of full gangs.
func (m *merge) addFull() {
	if up := m.s.lineup(m.space, m.prio); up != nil {
		for i := range up.lines {
			if l := &up.lines[i]; !l.extra && len(l.gangs) > 0 {
				m.add(i, l)
			}
		}
	}
	m.order()
}

func (m *merge) order() {
	slices.SortFunc(m.heads, func(a, b head) int { return a.e.compare(b.e) })
}

// first returns the next gang; false at the end.
func (m *merge) first(failed map[string]bool) (queued, bool) {
	for len(m.heads) > 0 {
		h := &m.heads[0]
		l := m.line(h)
		if l.shape != "" && (failed[l.shape] || m.alone && failed[l.shape+aloneToo]) {
			m.heads.Pop() // the line is left out
			continue
		}
		if h.at < len(l.gangs) && l.gangs[h.at] == h.e {
			return h.e, true
		}
		h.at, _ = slices.BinarySearchFunc(l.gangs, h.e, queued.compare) // others left the line, or it did
		m.settle(l.gangs)
	}
	return queued{}, false
}

func (m *merge) line(h *head) *line { return &m.s.lineup(m.space, m.prio).lines[h.line] }

// next steps over the gang that first returned.
func (m *merge) next() {
	h := &m.heads[0]
	gangs := m.line(h).gangs
	found := h.at < len(gangs) && gangs[h.at] == h.e
	if !found {
		h.at, found = slices.BinarySearchFunc(gangs, h.e, queued.compare)
	}
	if found {
		h.at++
	}
	m.settle(gangs)
}

// pass steps over the gang that first returned, for which there is no room, and so over all of its
// shape.
func (m *merge) pass() {
	if m.line(&m.heads[0]).shape == "" {
		m.next()
		return
	}
	m.heads.Pop() // the line is left out
}

// settle reads the gang at which the first line stands now.
func (m *merge) settle(gangs []queued) {
	h := &m.heads[0]
	if h.at == len(gangs) {
		m.heads.Pop() // the line is left out
		return
	}
	h.e = gangs[h.at]
	m.heads.Sink()
}
