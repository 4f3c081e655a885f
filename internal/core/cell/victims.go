package cell

import "slices"

// victims looks for fewer, or cheaper, victims than a search found.
type victims struct{ *Cluster }

// maxPriced bounds the leaves for which holders are priced for one gang.
const maxPriced = 1024

// fewest improves a result that needs victims. If at most maxExact holders may be preempted, it
// tries every smaller set, and every set of the same size that costs less. Else it drops
// superfluous victims; what is left may not be the fewest (Result.Cut). If the search did not
// look at all bins, it also looks on all nodes for cheaper victims.
func (c victims) fewest(r *Request, res Result) Result {
	staying := c.staying(res.Victims)
	if len(staying) == 0 {
		return res
	}
	tasks := int32(0)
	for _, m := range r.Members {
		tasks += m.Tasks
	}
	all, few := c.allPreemptible(r)
	far := res.Bounds&boundVictimBins != 0
	if !few && !far && (tasks == 1 || len(staying) == 1 && c.leavingCount == 0) {
		return res // the cheapest of each bin was compared
	}
	leavers := c.leavers()
	spare := c.slack(r, staying, leavers)
	if !few {
		res.Cut, res.Bounds = true, res.Bounds|boundExact
		if !far && !c.anyMayStay(r, staying, spare) {
			return res // without any one of them there are not enough leaves
		}
	}
	for _, v := range leavers {
		c.vacate(v, true)
	}
	if few {
		res = c.bestSet(r, res, all)
	}
	if res.Cut {
		res = c.trim(r, res, spare)
	}
	if !few && far {
		res = c.cheaper(r, res)
	}
	for _, v := range leavers {
		c.vacate(v, false)
	}
	res.Victims = c.holdersOf(res.Placement)
	return res
}

// leavers lists the holders that are leaving anyway, in no order that means anything.
func (c victims) leavers() []AllocID {
	var out []AllocID
	for i := 0; i < len(c.allocs) && len(out) < int(c.leavingCount); i++ {
		if a := &c.allocs[i]; a.live && a.intent == Leaving && !a.Promised {
			out = append(out, AllocID(i))
		}
	}
	return out
}

// staying returns the holders that are not leaving anyway: only these cost anything.
func (c victims) staying(ids []AllocID) []AllocID {
	out := make([]AllocID, 0, len(ids))
	for _, v := range ids {
		if c.allocs[v].intent != Leaving {
			out = append(out, v)
		}
	}
	return out
}

// allPreemptible lists the holders that may be preempted, the cheapest first; false if there are
// more than maxExact.
func (c victims) allPreemptible(r *Request) ([]AllocID, bool) {
	var out []AllocID
	for i := range c.allocs {
		a := &c.allocs[i]
		if !a.live || a.Promised || a.intent == Leaving || !r.allows(AllocID(i), a) || !c.holdsUsable(r, a) {
			continue
		}
		if out = append(out, AllocID(i)); len(out) > maxExact {
			return nil, false
		}
	}
	slices.SortFunc(out, func(a, b AllocID) int { return r.cost(a).Compare(r.cost(b)) })
	return out, true
}

// holdsUsable reports whether an allocation holds a leaf that the gang could use.
func (c victims) holdsUsable(r *Request, a *Alloc) bool {
	for _, t := range a.Placement.Tasks {
		if slices.ContainsFunc(r.Members, func(m Member) bool {
			return m.Pinned != "" || len(m.SKUs) == 0 || slices.Contains(m.SKUs, t.SKU)
		}) {
			return true
		}
	}
	return false
}

// bestSet tries every set of victims that is smaller, or as large and cheaper, while holders that
// are leaving anyway are off their leaves.
func (c victims) bestSet(r *Request, res Result, all []AllocID) Result {
	e := victimSets{c: c.Cluster, r: r, all: all, best: c.sum(r, res.Victims), size: len(c.staying(res.Victims))}
	e.short = r.Leaves() - c.unheld(r)
	e.gains = make([]int32, len(all))
	for i, v := range all {
		if c.owns(r, v) {
			e.gains[i] = c.leavesOf(v)
			e.most = max(e.most, e.gains[i])
		}
	}
	e.lacking()
	defer e.vacate(nil)
	c.scratch().budget = setSteps
	for e.k = 0; e.k <= e.size; e.k++ { // no victim at all may do, if the caller did not try that
		if e.extend(0, 0, 0); e.found {
			e.res.Cut, e.res.Bounds = e.cut != 0, e.cut
			e.res.Victims = e.last
			return e.res
		}
	}
	res.Cut, res.Bounds = e.cut != 0, res.Bounds|e.cut
	return res
}

// victimSets is a search over sets of k victims.
type victimSets struct {
	c       *Cluster
	r       *Request
	all     []AllocID
	gains   []int32 // by holder: leaves of the VC's guarantee that it gives back
	most    int32   // the most of these
	short   int32   // leaves of the guarantee that the gang lacks
	frees   []int32 // by holder: leaves that the gang could take once it has left
	freest  int32   // the most of these
	lacks   int32   // leaves that must be freed in the only chain it can use; 0 is not known
	set     []AllocID
	gone    []AllocID // holders that are off their leaves: the set that was tried last
	k, size int       // size of the sets tried, and of the set to better
	best    Cost
	found   bool
	cut     Bounds // bounds reached: not everything was tried with each set
	res     Result
	last    []AllocID // the set that res needs
}

// lacking counts how many leaves the gang lacks, and how many each holder would free for it; what
// is promised to others does not become free. If all members must go to one chain, a set that
// frees fewer need not be tried.
func (e *victimSets) lacking() {
	c, r := e.c, e.r
	e.frees = make([]int32, len(e.all))
	if r.Priority < MinGuaranteed || r.Gone != nil || r.IgnoreHealth || r.IgnoreUse || len(r.Members) == 0 {
		return
	}
	p := part{skus: r.Members[0].SKUs}
	for _, m := range r.Members {
		if m.Pinned != "" || !slices.Equal(m.SKUs, p.skus) {
			return
		}
	}
	s, chain := search{c: c, r: r}, int16(None)
	for ci := range c.f.Chains {
		switch {
		case !s.may(ci, &p):
		case chain != None:
			return
		default:
			chain = int16(ci)
		}
	}
	if chain == None {
		return
	}
	e.lacks = r.Leaves()
	for _, top := range c.f.Chains[chain].Tops {
		e.lacks -= c.idle[top]
	}
	for i, v := range e.all {
		e.frees[i] = victims{c}.freedBy(v)
		e.freest = max(e.freest, e.frees[i])
	}
}

// freedBy counts the leaves of a holder that are not promised.
func (c victims) freedBy(id AllocID) int32 {
	var n int32
	for i := 0; ; i++ {
		leaves, more := c.leafRun(&c.allocs[id], i)
		if !more {
			return n
		}
		for _, l := range leaves {
			if c.leaves[l].promised == None {
				n++
			}
		}
	}
}

// extend extends the set by holders from the i-th on, and tries it when it is complete. The set
// gives back gain leaves of the guarantee, and frees freed leaves.
func (e *victimSets) extend(i int, gain, freed int32) {
	if e.c.work.Over() {
		e.cut |= boundSteps
		return
	}
	more := int32(e.k - len(e.set))
	if gain+more*e.most < e.short || freed+more*e.freest < e.lacks {
		return
	}
	if len(e.set) == e.k {
		cost := victims{e.c}.sum(e.r, e.set)
		if (e.found || e.k == e.size) && cost.Compare(e.best) >= 0 {
			return
		}
		e.vacate(e.set)
		res, ok := victims{e.c}.vacated(e.r)
		if ok {
			e.res, e.best, e.found, e.last = res, cost, true, slices.Clone(e.set)
		}
		if res.Bounded {
			e.cut |= res.Bounds
			if res.Bounds&boundAllBinds != 0 {
				e.cut = e.cut&^boundAllBinds | boundSets // its steps are shared by all sets
			}
		}
		return
	}
	for ; i <= len(e.all)-(e.k-len(e.set)); i++ {
		e.set = append(e.set, e.all[i])
		e.extend(i+1, gain+e.gains[i], freed+e.frees[i])
		e.set = e.set[:len(e.set)-1]
	}
}

func (c victims) sum(r *Request, ids []AllocID) Cost {
	var sum Cost
	for _, v := range c.staying(ids) {
		sum = sum.Plus(r.cost(v))
	}
	return sum
}

// vacate takes a set off its leaves, and puts back the holders of the previous set that are not
// in it. Two sets tried in turn are mostly the same.
func (e *victimSets) vacate(set []AllocID) {
	same := 0
	for same < min(len(set), len(e.gone)) && set[same] == e.gone[same] {
		same++
	}
	for _, v := range slices.Backward(e.gone[same:]) {
		victims{e.c}.vacate(v, false)
	}
	for _, v := range set[same:] {
		victims{e.c}.vacate(v, true)
	}
	e.gone = append(e.gone[:same], set[same:]...)
}

// with places a gang as if some holders had left.
func (c victims) with(r *Request, gone []AllocID) (Result, bool) {
	for _, v := range gone {
		c.vacate(v, true)
	}
	res, ok := c.vacated(r)
	for i := len(gone) - 1; i >= 0; i-- {
		c.vacate(gone[i], false)
	}
	return res, ok
}

// vacated places a gang while holders are off their leaves. Mostly there is no room, so the quick
// bound comes first.
func (c victims) vacated(r *Request) (Result, bool) {
	q := *r
	q.Preempt, q.Cost, q.boundFirst = nil, nil, true
	return c.place(&q)
}

// vacate takes an allocation off the leaves that it holds, or puts it back.
func (c victims) vacate(id AllocID, on bool) {
	to := id
	if on {
		to = None
	}
	a := &c.allocs[id]
	c.work.Step(len(a.Placement.Tasks))
	for i := 0; ; i++ {
		leaves, more := c.leafRun(a, i)
		if !more {
			break
		}
		for _, l := range leaves {
			c.leaves[l].holder = to
		}
	}
	c.recountAll(a)
}

// slack bounds how many leaves are left over at most when all victims and all that are leaving
// anyway have left and the gang is placed: room of the idle leaves anywhere, own of the leaves of
// its VC's guarantee that the VC's own gangs do not hold.
type slack struct{ room, own int32 }

// slack has no bound if the gang may have more than is idle, nor for room if members may go to
// different chains.
func (c victims) slack(r *Request, victims, leavers []AllocID) slack {
	const much = 1 << 30
	if r.Gone != nil || r.IgnoreHealth {
		return slack{much, much}
	}
	need := r.Leaves()
	own := c.unheld(r) - need
	for _, v := range victims {
		if c.owns(r, v) {
			own += c.leavesOf(v)
		}
	}
	var room int32
	for _, m := range r.Members {
		if m.Pinned != "" || !slices.Equal(m.SKUs, r.Members[0].SKUs) {
			return slack{much, own}
		}
	}
	for i := range c.spaces[0].Roots {
		room += c.idle[c.spaces[0].Roots[i].Cell]
	}
	for _, v := range victims {
		room += c.leavesOf(v)
	}
	for _, v := range leavers {
		room += c.leavesOf(v)
	}
	return slack{room - need, own}
}

// superfluous reports whether there may be enough leaves if a victim stays.
func (c victims) superfluous(r *Request, v AllocID, spare slack) bool {
	n := c.leavesOf(v)
	return n <= spare.room && (n <= spare.own || !c.owns(r, v))
}

// owns reports whether a holder has leaves of the guarantee of a gang's VC.
func (c victims) owns(r *Request, id AllocID) bool {
	a := &c.allocs[id]
	return a.Space == r.Space && !a.Opportunistic()
}

// Leaves returns how many leaves the gang asks for.
func (r *Request) Leaves() int32 {
	var n int32
	for _, m := range r.Members {
		n += m.Tasks * m.Leaves
	}
	return n
}

// unheld is how many leaves of a VC's guarantee its own gangs do not hold, not counting gangs
// that are leaving. No gang of the VC can have more while the others stay. An opportunistic gang
// may have any.
func (c victims) unheld(r *Request) int32 {
	if r.Priority < MinGuaranteed || r.Gone != nil {
		return 1 << 29
	}
	var n int32
	sp := &c.spaces[r.Space]
	for i := range sp.Roots {
		n += c.f.Chains[sp.Roots[i].Chain].LeavesAt(sp.Roots[i].Level)
	}
	return n - sp.held
}

func (c victims) leavesOf(id AllocID) int32 { return c.allocs[id].leaves }
