package cell

import (
	"cmp"
	"slices"
)

// byCounts reports whether the idle and preemptible counts of a cell bound what the gang can take
// of it, as long as it may preempt no more than those count.
func (r *Request) byCounts() bool { return r.Gone == nil && !r.IgnoreHealth && !r.IgnoreUse }

// allows reports whether the request may preempt an allocation.
func (r *Request) allows(id AllocID, a *Alloc) bool {
	switch {
	case r.Preempt.Also != nil && r.Preempt.Also(id):
		return true
	case a.intent == Unknown:
		return false
	case r.Protected != nil && r.Protected(id):
		return false
	case a.Opportunistic():
		return r.Preempt.Opportunistic
	}
	return a.Space == r.Space && a.Priority < r.Preempt.Below
}

// Compare orders costs, the least first.
func (a Cost) Compare(b Cost) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Count, b.Count), cmp.Compare(a.Preempted, b.Preempted),
		cmp.Compare(a.Lost, b.Lost), cmp.Compare(a.Earliest, b.Earliest), cmp.Compare(a.EarlySum, b.EarlySum))
}

// Plus is the cost of preempting both.
func (a Cost) Plus(b Cost) Cost {
	sum := Cost{max(a.Class, b.Class), a.Count, a.Preempted + b.Preempted, a.Lost + b.Lost, max(a.Earliest, b.Earliest), a.EarlySum + b.EarlySum}
	if b.Class == a.Class {
		sum.Count += b.Count
	} else if b.Class > a.Class {
		sum.Count = b.Count
	}
	if sum.Lost < a.Lost {
		sum.Lost = 1<<63 - 1
	}
	return sum
}

// Result is a placement and its victims: the holders that must leave first, in the order of their
// leaves.
type Result struct {
	Placement Placement
	Victims   []AllocID
	// Bounded is set when nothing was found but not everything was tried. Cut is set when no victim
	// is superfluous but there may be a set of fewer.
	Bounded, Cut bool
	Bounds       Bounds // those that Bounded and Cut are about
}

// Place finds leaves for a whole gang, or nothing. Without Preemptible it uses free leaves only: on
// the fewest nodes, then under the lowest common ancestor, then where they fit tightest. With
// Preemptible it looks for the fewest victims first; no victim is superfluous, unless the steps end
// before that is known. The cluster is unchanged afterwards.
//
// A guaranteed gang uses its VC's preassigned cells: those bound already, and as many unbound ones
// as it needs, bound to the physical cells that disturb least.
func (c *Cluster) Place(r *Request) (Result, bool) {
	defer c.EndBudget(c.Budget())
	c.scratch().budget = placeSteps
	if len(r.Preferred) > 0 {
		q := *r
		q.Preferred, q.Allowed = nil, r.Preferred
		if r.Allowed != nil {
			q.Allowed = q.Allowed.Both(r.Allowed)
		}
		if res, ok := c.place(&q); ok && len(res.Victims) == 0 {
			if soft, ok := c.place(r); ok && len(soft.Victims) == 0 && c.closer(&soft.Placement, &res.Placement) {
				return soft, true
			}
			return res, true
		}
	}
	res, ok := c.place(r)
	if !ok && res.Bounded && len(r.Preferred) > 0 { // in another order the bound may not be reached
		q := *r
		q.Preferred = nil
		return c.Place(&q)
	}
	return c.minimizeVictims(r, res), ok
}

// Try reports whether Place finds leaves, and what it has found before it looks for the fewest
// victims. Settle does the rest.
func (c *Cluster) Try(r *Request) (Result, bool) {
	defer c.EndBudget(c.Budget())
	c.scratch().budget = placeSteps
	if res, ok := c.place(r); ok || len(r.Preferred) == 0 {
		return res, ok
	}
	return c.Place(r) // which also looks at the preferred nodes alone
}

// MinimizeVictims returns what Place finds. tried is what Try found for the same request in the
// same state.
func (c *Cluster) MinimizeVictims(r *Request, tried Result) Result {
	defer c.EndBudget(c.Budget())
	if len(r.Preferred) > 0 {
		if res, ok := c.Place(r); ok { // there may be no more steps for that
			return res
		}
	}
	return c.minimizeVictims(r, tried)
}

// minimizeVictims looks for the fewest victims, within the part of the budget that is kept for
// that.
func (c *Cluster) minimizeVictims(r *Request, res Result) Result {
	if r.Preempt == nil || r.IgnoreUse || len(res.Victims) == 0 {
		return res
	}
	defer c.EndBudget(c.work.WithinReserve(1))
	q := *r // which escapes, as r need not
	return victims{c}.fewest(&q, res)
}

func (c *Cluster) place(r *Request) (Result, bool) {
	if r.Space == 0 && r.Priority >= MinGuaranteed {
		return Result{}, false // its VC is gone: no cell is owed to it
	}
	res, ok := c.search(r)
	if !ok && r.IgnoreHealth && len(c.charges) > 0 { // costs something for each charge
		defer charging{c}.suspendUnused()()
		return c.search(r)
	}
	return res, ok
}

// Searches returns how often cells were searched for in this cluster so far: a count of the work
// of decisions. A copy begins at 0.
func (c *Cluster) Searches() int {
	if c.tmp == nil {
		return 0
	}
	return c.tmp.asked
}

func (p *part) smallest() int32 { return p.tasks[len(p.tasks)-1].leaves }

// partition divides a gang's tasks among parts.
func (t *scratch) partition(ms []Member, parts []part) []part {
	index := int32(0)
	t.tasks = t.tasks[:0]
	for _, m := range ms {
		i := slices.IndexFunc(parts, func(p part) bool { return slices.Equal(p.skus, m.SKUs) && p.pinned == m.Pinned && p.alike == m.Alike })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{skus: m.SKUs, pinned: m.Pinned, alike: m.Alike, tasks: t.tasks})
			t.tasks = nil // of the first part alone
		}
		for range m.Tasks {
			parts[i].tasks = append(parts[i].tasks, task{index, m.Leaves})
			parts[i].total += m.Leaves
			index++
		}
	}
	if len(parts) > 1 {
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(min(len(a.skus), 1), min(len(b.skus), 1)) })
	}
	for i := range parts {
		if len(ms) > 1 {
			slices.SortStableFunc(parts[i].tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
		}
	}
	if len(parts) > 0 {
		t.tasks = parts[0].tasks
	}
	return parts
}

func (s *search) opportunistic() bool { return s.r.Priority < MinGuaranteed }

// parts places one part after the other. When a later one fails it goes back to another chain for
// an earlier one. What it misses, divide finds.
func (s *search) parts(ps []part) bool {
	if len(ps) == 0 {
		return s.withinReach()
	}
	if s.ways++; s.ways > waySteps {
		return false
	}
	if s.packJoined(ps) {
		return true
	}
	p := &ps[0]
	for ci := range s.c.f.Chains {
		if !s.usable(ci, p) {
			continue
		}
		mark := s.mark()
		if s.tryChain(int16(ci), p) && s.parts(ps[1:]) {
			return true
		}
		s.rewind(mark)
	}
	return false
}

// waySteps bounds how often parts are tried together and apart, before every way to divide them
// is tried.
const waySteps = 256

// packJoined packs a part with another one of the same pin and common SKUs as one part: placed
// alone, the first could take the only leaves that suit the other.
func (s *search) packJoined(ps []part) bool {
	p := &ps[0]
	for i := 1; i < len(ps); i++ {
		if len(p.skus) > 0 && !overlap(p.skus, ps[i].skus) || ps[i].pinned != p.pinned {
			continue
		}
		rest := slices.Clone(ps[1:])
		both := &rest[i-1]
		if len(p.skus) > 0 {
			both.skus = common(p.skus, both.skus)
		}
		both.tasks = slices.Concat(p.tasks, both.tasks)
		both.total += p.total
		slices.SortStableFunc(both.tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
		mark := s.mark()
		if s.parts(rest) {
			return true
		}
		s.rewind(mark)
	}
	return false
}

func (s *search) usable(ci int, p *part) bool {
	if s.r.Blocked != nil && s.r.Blocked[ci] && p.pinned == "" {
		return false
	}
	return len(p.skus) == 0 || slices.Contains(p.skus, s.c.f.Chains[ci].SKU)
}

// mark says how far a search is, so that it can come back to that.
type mark struct{ bound, placed, victims int }

func (s *search) mark() mark { return mark{len(s.bound), len(s.placed), len(s.victims)} }

func (s *search) rewind(m mark) {
	for _, p := range s.placed[m.placed:] {
		for _, l := range p.leaves {
			s.t.taken[l] = 0
		}
	}
	s.placed = s.placed[:m.placed]
	for _, v := range s.victims[m.victims:] {
		s.t.victim[v] = 0
	}
	s.victims = s.victims[:m.victims]
	s.undoBinds(m.bound)
}

func (s *search) addVictim(v AllocID) {
	if s.t.victim[v] != s.t.epoch {
		s.t.victim[v] = s.t.epoch
		s.victims = append(s.victims, v)
	}
}

func (s *search) undoBinds(n int) {
	for len(s.bound) > n {
		last := len(s.bound) - 1
		s.c.unbind(s.r.Space, s.bound[last])
		s.bound = s.bound[:last]
	}
}

// counted reports whether the counts of a chain's cells are what this gang could take: it has no
// tasks there yet.
func (s *search) counted(ci int16) bool { return s.countsExact && !s.begun(ci) }

// begun reports whether tasks of the gang were placed in a chain already.
func (s *search) begun(ci int16) bool {
	for i := range s.placed {
		if s.c.f.Cells[s.c.leaves[s.placed[i].leaves[0]].node].Chain == ci {
			return true
		}
	}
	return false
}

// inChain places one part in one chain.
func (s *search) inChain(ci int16, p *part) bool {
	if p.pinned != "" {
		return s.pack(ci, s.pinnedBins(ci, p.pinned), p)
	}
	if s.opportunistic() {
		if !s.prefers && s.counted(ci) && s.single(s.c.everywhere(ci), ci, p, 0) {
			return true
		}
		return s.pack(ci, s.bins(s.c.everywhere(ci), ci, p.smallest()), p)
	}
	if s.r.boundFirst && s.growable(ci) && !s.couldFit(ci, p) {
		return false
	}
	for _, s.roomy = range []bool{false, true} {
		if s.inVC(ci, p) {
			return true
		}
		if !s.growable(ci) {
			return false // the gang can have no more than bound cells
		}
		if s.spent() || !s.couldFit(ci, p) || !s.enough(ci, p) {
			return false
		}
		if s.r.Preempt == nil {
			break // a second ranking changes nothing for free leaves
		}
	}
	s.roomy, s.steps, s.tried = false, 0, nil
	if !s.reachable(ci, p) {
		return false
	}
	defer s.c.work.Restore(s.c.work.Within(s.c.work.Left(gangSteps) / 4))
	return s.exhaust(ci, p)
}

// packBound packs a part into the VC's bound cells of a chain; with ideal only if no other cells
// could hold it closer together.
func (s *search) packBound(ci int16, p *part, ideal bool) bool {
	ch := &s.c.f.Chains[ci]
	x := &s.c.spaces[s.r.Space].index[ci]
	want := Level(0)
	if ideal {
		want = ch.Fit(p.total)
	}
	if s.r.Preempt == nil && !s.prefers && s.counted(ci) && !s.insideNode(ci) {
		if s.single(x, ci, p, want) {
			return true
		}
		if ideal && p.total <= ch.LeavesAt(ch.NodeLevel) {
			return false
		}
	}
	if s.wholes(x, ci, p) {
		return s.packWholes(x, ci, p, want)
	}
	bins := s.bins(x, ci, p.smallest())
	if !ideal {
		return s.pack(ci, bins, p)
	}
	assign, used, level, ok := s.choose(bins, p)
	each := ch.LeavesAt(ch.NodeLevel)
	if !ok || used > int((p.total+each-1)/each) || level > want {
		return false
	}
	s.assign(bins, assign, p)
	return true
}

func (c *Cluster) search(r *Request) (Result, bool) {
	t := c.scratch()
	t.asked++
	c.work.Step(1)
	s := &t.search
	t.request = *r
	*s = search{c: c, r: &t.request, t: t, bound: s.bound[:0], victims: s.victims[:0], placed: s.placed[:0]}
	s.countsExact = r.Excluded == nil && (r.Preempt == nil || r.Protected == nil) && r.Gone == nil && !r.IgnoreHealth && !r.IgnoreUse &&
		(r.Preempt == nil || r.Preempt.Also == nil && r.Preempt.Below <= MinGuaranteed && r.Preempt.Opportunistic)
	c.ignoreHealth = r.IgnoreHealth
	s.restricted = r.Allowed != nil || len(r.Avoided) > 0
	s.prefers = len(r.Preferred) > 0
	ps := t.partition(r.Members, t.one[:0])
	s.gang = ps
	ok := s.parts(ps) || s.divide()
	var res Result
	if ok {
		res = s.result()
	}
	res.Bounded, res.Cut = !ok && s.reached&^boundVictimBins != 0, s.reached&boundVictimBins != 0
	if res.Bounded {
		c.work.EndedEarly()
	}
	if res.Bounded || res.Cut {
		res.Bounds = s.reached
	}
	s.undoBinds(0)
	t.request, s.gang, s.division = Request{}, nil, nil // these may refer to much memory
	c.ignoreHealth = false
	return res, ok
}

// result makes a placement of what the search placed.
func (s *search) result() Result {
	var res Result
	slices.SortFunc(s.placed, func(a, b placedTask) int { return cmp.Compare(a.index, b.index) })
	f := s.c.f
	n := 0
	for i := range s.placed {
		n += len(s.placed[i].leaves)
	}
	devices := takeSlab(&s.t.newDevices, n)
	res.Placement.Binds = s.t.binds[:0]
	res.Placement.Tasks = takeSlab(&s.t.newTasks, len(s.placed))
	for _, p := range s.placed {
		top := &f.Cells[s.c.leaves[p.leaves[0]].node]
		ch := &f.Chains[top.Chain]
		t := Task{Node: f.Nodes[top.Node].Name, SKU: ch.SKU, Leaves: p.leaves}
		for _, l := range p.leaves {
			devices = append(devices, f.device[l])
			if ch.parts {
				t.Parts = append(t.Parts, f.part[l])
			}
		}
		t.Devices = devices[len(devices)-len(p.leaves) : len(devices) : len(devices)]
		res.Placement.Tasks = append(res.Placement.Tasks, t)
		if s.opportunistic() {
			continue
		}
		for _, l := range p.leaves {
			s.bindOf(&res.Placement, l)
		}
	}
	slices.SortFunc(res.Placement.Binds, func(a, b Bind) int { return cmp.Compare(a.Root, b.Root) })
	res.Placement.Binds = slices.Compact(res.Placement.Binds)
	s.t.binds = res.Placement.Binds
	res.Placement.Binds = s.c.withOuter(s.r.Space, append(takeSlab(&s.t.newBinds, len(s.t.binds)), s.t.binds...))
	if !s.r.IgnoreUse && (s.r.Preempt != nil || s.r.Gone != nil) {
		res.Victims = s.c.holdersOf(res.Placement)
	}
	return res
}
