package index

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Keeping builds what a WaitIndexer keeps of the waiting gangs of one priority; nil for another
// policy.
func (s *Index) Keeping(space int32, u *waitGroups) model.WaitIndex {
	k, ok := s.Policies[space].(model.WaitIndexer)
	if !ok {
		return nil
	}
	was := s.EnterPolicy(space)
	out := k.NewWaitIndex()
	for i := range u.Groups {
		for _, e := range u.Groups[i].Gangs {
			s.tell(out, e)
		}
	}
	s.EnterPolicy(was)
	return out
}

// relay tells what is kept of a newly listed gang.
func (s *Index) relay(space int32, e Queued) {
	if u := s.GroupsOf(space, e.Prio); u.Kept != nil {
		was := s.EnterPolicy(space)
		s.tell(u.Kept, e)
		s.EnterPolicy(was)
	}
}

func (s *Index) tell(k model.WaitIndex, e Queued) {
	if s.Extra(e) {
		return
	}
	g := &s.Calls.gang
	*g = s.GangView(e)
	g.Delayed, g.Moved, g.Sizes.Now, g.Sizes.Live, g.Sizes.Runs = false, false, 0, 0, 0
	if s.Jobs[e.Slot].Gangs[e.Gang].Ungrouped {
		g.Shape = ""
	}
	k.Add(g)
}

// VerifyKept builds what Keepers keep anew and compares.
func (s *Index) VerifyKept(add func(string, ...any)) {
	for space, us := range s.WaitGroups.spaces {
		for i := range us {
			if u := &us[i]; u.Kept != nil && !reflect.DeepEqual(u.Kept, s.Keeping(int32(space), u)) {
				add("what space %d keeps of those who wait with priority %d is not what they are", space, u.prio)
			}
		}
	}
}

// WaitGroup is the gangs that wait with one priority in one VC and have one party and one shape,
// in order of submission. If the VC's policy is Keyed it has all parties, in order of keys. If its
// first gang finds no cells, neither do the rest: so a walk that passes over what does not fit
// reads wait groups, not gangs.
//
// Gangs that avoid nodes or have a promise are cases of their own: they stand in a wait group
// without a shape. Opportunistic wait groups have all parties.
type WaitGroup struct {
	groupKey
	Leaves int32 // of each gang, where they have one shape
	Gangs  []Queued
	first  []model.GangView // the first of them as View.ShapeGroups shows them: a cache
}

// groupKey is what the gangs of a wait group have in common.
type groupKey struct {
	Party model.Party
	Shape string // "": what one gang finds says nothing of the rest
	Extra bool   // members above a minimum
}

// waitGroups is the wait groups of one priority of a VC, in no order; some may be empty.
type waitGroups struct {
	prio   cell.Priority
	Kept   model.WaitIndex // what a Keeper keeps, without members above a minimum; nil until it asks
	Groups []WaitGroup
	at     map[groupKey]int32 // indices of Groups; nil until needed
}

// waitIndex is the wait groups of all VCs. Opportunistic gangs always stand in them, guaranteed
// ones once the VC's policy has asked for them.
type waitIndex struct {
	spaces [][]waitGroups
	asked  []model.By // by space: what makes a party, 0 while the policy did not ask
	empty  int        // number of empty wait groups
}

// maxEmpty is how many empty wait groups are kept before all of them are dropped.
const maxEmpty = 64

// RegroupAll builds the wait groups anew, after the VCs changed.
func (s *Index) RegroupAll() {
	n := len(s.Queues)
	s.WaitGroups = waitIndex{spaces: make([][]waitGroups, n), asked: make([]model.By, n)}
	for space, q := range s.Queues {
		for _, e := range q {
			s.Jobs[e.Slot].Gangs[e.Gang].Listed = false
		}
		for _, e := range q[Below(q, cell.MinGuaranteed):] {
			s.AddToGroup(int32(space), e)
		}
	}
}

// AskGroups builds the wait groups of a VC's guaranteed gangs; from now on they are kept. A policy
// always asks for the same kind of party.
func (s *Index) AskGroups(space int32, by model.By) {
	if s.WaitGroups.asked[space] == by {
		return
	}
	q := s.Queues[space]
	q = q[:Below(q, cell.MinGuaranteed)]
	for _, e := range q {
		s.DropFromGroup(space, e)
	}
	s.WaitGroups.asked[space] = by
	for _, e := range q {
		s.AddToGroup(space, e)
	}
}

// GroupsOf returns the wait groups of a priority, nil when there are none.
func (s *Index) GroupsOf(space int32, p cell.Priority) *waitGroups {
	for i := range s.WaitGroups.spaces[space] {
		if u := &s.WaitGroups.spaces[space][i]; u.prio == p {
			return u
		}
	}
	return nil
}

// AddToGroup puts a gang that waits into its wait group.
func (s *Index) AddToGroup(space int32, e Queued) {
	if e.Prio >= cell.MinGuaranteed && s.WaitGroups.asked[space] == 0 {
		return
	}
	g := &s.Jobs[e.Slot].Gangs[e.Gang]
	g.Listed, g.Ungrouped = true, g.Attempt != tables.None || g.Avoids()
	g.Key = s.PolicyKey(space, e) // another policy may have given it another one
	e.Key = g.Key
	l := s.groupOf(space, e)
	if i, found := slices.BinarySearchFunc(l.Gangs, e, Queued.Compare); !found {
		if len(l.Gangs) == 0 {
			s.WaitGroups.empty--
		}
		l.Gangs = slices.Insert(l.Gangs, i, e)
		l.first = l.first[:min(i, len(l.first))]
	}
	s.relay(space, e)
}

// Heads returns the first n gangs of a wait group, without what may change while they wait.
func (s *Index) Heads(l *WaitGroup, n int) []model.GangView {
	for i := len(l.first); i < n; i++ {
		g := s.GangView(l.Gangs[i])
		g.Delayed, g.Moved, g.Note, g.Progress = false, false, nil, nil
		g.Sizes.Now, g.Sizes.Live = 0, 0
		if l.Shape == "" {
			g.Shape = ""
		}
		l.first = append(l.first, g)
	}
	return l.first[:n:n]
}

// PolicyKey is the key by which a gang stands in its wait group; zero if the policy is not Keyed.
func (s *Index) PolicyKey(space int32, e Queued) model.Key {
	k, ok := s.Policies[space].(model.Keyed)
	if !ok || e.Prio < cell.MinGuaranteed || s.Extra(e) {
		return model.Key{}
	}
	s.Calls.gang = s.GangView(e)
	was := s.EnterPolicy(space)
	key := k.Key(&s.Calls.gang)
	s.EnterPolicy(was)
	return key
}

// DropFromGroup takes a gang out of its wait group, if it stands in one.
func (s *Index) DropFromGroup(space int32, e Queued) {
	g := &s.Jobs[e.Slot].Gangs[e.Gang]
	if !g.Listed {
		return
	}
	g.Listed = false
	if u := s.GroupsOf(space, e.Prio); u.Kept != nil {
		was := s.EnterPolicy(space)
		u.Kept.Drop(model.GangRef{Job: e.Job, Gang: e.Gang})
		s.EnterPolicy(was)
	}
	e.Key, g.Key = g.Key, model.Key{}
	l := s.groupOf(space, e)
	if i, found := slices.BinarySearchFunc(l.Gangs, e, Queued.Compare); found {
		l.Gangs = without(l.Gangs, i)
		l.first = l.first[:min(i, len(l.first))]
		if len(l.Gangs) == 0 {
			s.WaitGroups.empty++
		}
	}
}

// Regroup moves a gang to the wait group where it belongs when it becomes a case of its own, or
// ceases to be one. While a policy reads the wait groups, a gang that loses its promise stays
// where it is. The group of its shape may have been read already: the gang would be passed over,
// and gangs behind it would get the cells that it takes back afterwards.
func (s *Index) Regroup(slot, g int32) {
	j := &s.Jobs[slot]
	if gg := &j.Gangs[g]; !gg.Listed || gg.Ungrouped == (gg.Attempt != tables.None || gg.Avoids()) {
		return
	}
	if s.Calls.Reading && j.Gangs[g].Ungrouped {
		s.Calls.relist = append(s.Calls.relist, model.GangRef{Job: j.ID, Gang: g})
		return
	}
	space, e := j.Space, Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: g, Slot: slot}
	s.DropFromGroup(space, e)
	s.AddToGroup(space, e)
}

// RegroupDeferred relists the gangs that stayed in place while a policy read the wait groups.
func (s *Index) RegroupDeferred() {
	s.Calls.Reading = false
	for _, ref := range s.Calls.relist {
		if slot, ok := s.Slots.Get(ref.Job); ok {
			s.Regroup(slot, ref.Gang)
		}
	}
	s.Calls.relist = s.Calls.relist[:0]
}

// groupOf finds a gang's wait group, or begins it.
func (s *Index) groupOf(space int32, e Queued) *WaitGroup {
	u := s.GroupsOf(space, e.Prio)
	if u == nil {
		s.WaitGroups.spaces[space] = append(s.WaitGroups.spaces[space], waitGroups{prio: e.Prio})
		u = s.GroupsOf(space, e.Prio)
	}
	if u.at == nil {
		u.at = make(map[groupKey]int32, len(u.Groups))
		for i := range u.Groups {
			u.at[u.Groups[i].groupKey] = int32(i)
		}
	}
	k := s.groupKeyOf(space, e)
	i, found := u.at[k]
	if !found {
		i = int32(len(u.Groups))
		u.at[k] = i
		u.Groups = append(u.Groups, WaitGroup{groupKey: k, Leaves: s.Jobs[e.Slot].Gangs[e.Gang].Leaves})
		s.WaitGroups.empty++
	}
	return &u.Groups[i]
}

// groupKeyOf is the key of the wait group in which a gang belongs.
func (s *Index) groupKeyOf(space int32, e Queued) groupKey {
	j := &s.Jobs[e.Slot]
	k := groupKey{Extra: j.Spec.Gangs[e.Gang].Extra}
	if e.Prio >= cell.MinGuaranteed {
		k.Party = s.WaitGroups.asked[space].Party(j.Spec)
	}
	if g := &j.Gangs[e.Gang]; !g.Ungrouped {
		k.Shape = g.Shape.Text
	}
	return k
}

// DropEmpty drops the empty wait groups once there are many. It must not be called while a policy
// reads them.
func (s *Index) DropEmpty() {
	if s.WaitGroups.empty <= maxEmpty {
		return
	}
	s.WaitGroups.empty = 0
	for _, us := range s.WaitGroups.spaces {
		for i := range us {
			us[i].Groups = slices.DeleteFunc(us[i].Groups, func(l WaitGroup) bool { return len(l.Gangs) == 0 })
			us[i].at = nil
		}
	}
}

func (ls *waitIndex) Clone() waitIndex {
	out := waitIndex{spaces: slices.Clone(ls.spaces), asked: slices.Clone(ls.asked), empty: ls.empty}
	for i := range out.spaces {
		out.spaces[i] = slices.Clone(ls.spaces[i])
		for k := range out.spaces[i] {
			u := &out.spaces[i][k]
			u.Groups, u.at, u.Kept = slices.Clone(u.Groups), nil, nil
			for m := range u.Groups {
				u.Groups[m].Gangs, u.Groups[m].first = slices.Clone(u.Groups[m].Gangs), nil
			}
		}
	}
	return out
}

// VerifyWaitGroups compares the wait groups with the queues.
func (s *Index) VerifyWaitGroups(add func(string, ...any)) {
	empty := 0
	for space, us := range s.WaitGroups.spaces {
		listed := 0
		for _, u := range us {
			for i := range u.Groups {
				s.verifyWaitGroup(space, &u.Groups[i], add)
				if n := len(u.Groups[i].Gangs); n > 0 {
					listed += n
				} else {
					empty++
				}
			}
		}
		want := s.Queues[space]
		if s.WaitGroups.asked[space] == 0 {
			want = want[Below(want, cell.MinGuaranteed):]
		}
		if listed != len(want) {
			add("space %d: %d gangs stand in lines, want %d", space, listed, len(want))
		}
	}
	if empty != s.WaitGroups.empty {
		add("%d lines are empty, counted as %d", empty, s.WaitGroups.empty)
	}
}

func (s *Index) verifyWaitGroup(space int, l *WaitGroup, add func(string, ...any)) {
	if n := len(l.first); n > len(l.Gangs) || n > 0 && !reflect.DeepEqual(l.first,
		s.Heads(&WaitGroup{groupKey: l.groupKey, Gangs: l.Gangs}, n)) {
		add("of a line of space %d the first %d gangs were seen as something else", space, n)
	}
	for i, e := range l.Gangs {
		g := &s.Jobs[e.Slot].Gangs[e.Gang]
		plain := e
		plain.Key = model.Key{}
		at, found := slices.BinarySearchFunc(s.Queues[space], plain, Queued.Compare)
		switch {
		case e.Key != g.Key:
			add("gang %d of job %d stands in its line by %v, not by %v", e.Gang, e.Job, e.Key, g.Key)
		case found && g.Key != s.PolicyKey(int32(space), plain):
			add("gang %d of job %d stands in its line by %v, but now has %v", e.Gang, e.Job, g.Key,
				s.PolicyKey(int32(space), plain))
		case !found || s.Queues[space][at] != plain:
			add("gang %d of job %d stands in a line of space %d, but not in its queue", e.Gang, e.Job, space)
		case !g.Listed || s.groupKeyOf(int32(space), e) != l.groupKey || i > 0 && l.Gangs[i-1].Compare(e) >= 0:
			add("gang %d of job %d stands in the wrong line, or place of it", e.Gang, e.Job)
		case g.Ungrouped != (g.Attempt != tables.None || g.Avoids()):
			add("gang %d of job %d is a case of its own: %v", e.Gang, e.Job, g.Ungrouped)
		}
	}
}

// Merge reads wait groups of one priority as if they were one, in order. A wait group is left out
// once its shape found nothing. Gangs may leave their wait groups meanwhile.
type Merge struct {
	S         *Index
	Space     int32
	Prio      cell.Priority
	Dedicates bool                   // jobs that want their nodes for themselves get that in this VC
	Heads     collections.Heap[Head] // the next gang of each wait group
}

// DedicatedMark, behind a shape's text, marks a shape that found no nodes for itself. That says
// nothing of VCs with a policy that gives no job nodes of its own.
const DedicatedMark = " alone"

// Head is the next gang of one wait group.
type Head struct {
	group int32
	at    int
	e     Queued
}

// Before implements collections.HeapItem.
func (h Head) Before(o Head) bool { return h.e.Compare(o.e) < 0 }

// Add lets a merge read one more wait group, which is not empty; Order is to be called after the
// last.
func (m *Merge) Add(line int, l *WaitGroup) {
	m.Heads = append(m.Heads, Head{group: int32(line), e: l.Gangs[0]})
}

// AddFull adds all wait groups of full gangs, and orders.
func (m *Merge) AddFull() {
	if up := m.S.GroupsOf(m.Space, m.Prio); up != nil {
		for i := range up.Groups {
			if l := &up.Groups[i]; !l.Extra && len(l.Gangs) > 0 {
				m.Add(i, l)
			}
		}
	}
	m.Order()
}

// Order sorts the wait groups by their next gangs.
func (m *Merge) Order() {
	slices.SortFunc(m.Heads, func(a, b Head) int { return a.e.Compare(b.e) })
}

// First returns the next gang; false at the end. failed holds the shapes that found nothing.
func (m *Merge) First(failed map[string]bool) (Queued, bool) {
	for len(m.Heads) > 0 {
		h := &m.Heads[0]
		l := m.group(h)
		if l.Shape != "" && (failed[l.Shape] || m.Dedicates && failed[l.Shape+DedicatedMark]) {
			m.Heads.Pop() // the group is left out
			continue
		}
		if h.at < len(l.Gangs) && l.Gangs[h.at] == h.e {
			return h.e, true
		}
		h.at, _ = slices.BinarySearchFunc(l.Gangs, h.e, Queued.Compare) // gangs left the group
		m.readHead(l.Gangs)
	}
	return Queued{}, false
}

func (m *Merge) group(h *Head) *WaitGroup { return &m.S.GroupsOf(m.Space, m.Prio).Groups[h.group] }

// Next steps over the gang that First returned.
func (m *Merge) Next() {
	h := &m.Heads[0]
	gangs := m.group(h).Gangs
	found := h.at < len(gangs) && gangs[h.at] == h.e
	if !found {
		h.at, found = slices.BinarySearchFunc(gangs, h.e, Queued.Compare)
	}
	if found {
		h.at++
	}
	m.readHead(gangs)
}

// Pass steps over the gang that First returned, which does not fit, and so over all of its shape.
func (m *Merge) Pass() {
	if m.group(&m.Heads[0]).Shape == "" {
		m.Next()
		return
	}
	m.Heads.Pop() // the group is left out
}

// readHead reads the gang to which the first wait group has come.
func (m *Merge) readHead(gangs []Queued) {
	h := &m.Heads[0]
	if h.at == len(gangs) {
		m.Heads.Pop() // the group is left out
		return
	}
	h.e = gangs[h.at]
	m.Heads.Sink()
}
