package cell

import (
	"cmp"
	"slices"
)

// Parts are first placed one after the other, each as close together as possible, so that one may
// take the only room that another has. Then every way to divide the gang's tasks among the chains
// is tried. Chains share no cell: whether one can take some tasks depends on their sizes alone,
// however the others are filled. So a chain is asked for each set of sizes once. A subset of a
// set that fits does fit, too, and a superset of one that does not fit does not.

// divided returns a division of the gang among chains, nothing given yet; nil when all of it goes
// to one chain.
func (s *search) divided() *division {
	if !s.mixes() {
		return nil
	}
	d := &division{s: s}
	for i := range s.gang {
		p := &s.gang[i]
		for _, t := range p.tasks {
			if k := (size{p.pinned, t.leaves}); !slices.Contains(d.sizes, k) {
				d.sizes = append(d.sizes, k)
			}
		}
	}
	return d
}

// mixes reports whether there is more than one way to divide the gang among chains.
func (s *search) mixes() bool {
	if p := &s.gang[0]; len(s.gang) == 1 {
		chains := 0
		for ci := 0; ci < len(s.c.f.Chains) && len(p.tasks) > 1 && chains < 2; ci++ {
			if s.may(ci, p) {
				chains++
			}
		}
		return chains > 1
	}
	return true
}

// may reports whether a part could have anything of a chain at all.
func (s *search) may(ci int, p *part) bool {
	if !s.usable(ci, p) {
		return false
	}
	return s.opportunistic() || slices.ContainsFunc(s.c.spaces[s.r.Space].Roots, func(r Root) bool { return int(r.Chain) == ci && r.Pinned == p.pinned })
}

// count returns how many tasks of each size a part has.
func (d *division) count(p *part) []int32 {
	out := make([]int32, len(d.sizes))
	for _, t := range p.tasks {
		out[slices.Index(d.sizes, size{p.pinned, t.leaves})]++
	}
	return out
}

// known returns the answer for a chain that follows from earlier ones; nil when it must be asked.
func (d *division) known(ci int16, tasks []int32) *answer {
	within := func(a, b []int32) bool {
		for i := range a {
			if a[i] > b[i] {
				return false
			}
		}
		return true
	}
	var bounded *answer
	for i := range d.asked {
		switch a := &d.asked[i]; {
		case a.chain != ci:
		case a.ok && within(tasks, a.tasks), !a.ok && a.reached == 0 && within(a.tasks, tasks):
			return a
		case !a.ok && within(a.tasks, tasks):
			bounded = a
		}
	}
	return bounded
}

// tryChain is inChain, but uses what is known. It notes when a chain is too small for a part.
func (s *search) tryChain(ci int16, p *part) bool {
	if s.begun(ci) {
		return s.inChain(ci, p)
	}
	if s.division != nil {
		if a := s.division.known(ci, s.division.count(p)); a != nil && !a.ok {
			s.reached |= a.reached
			return false
		}
	}
	before := s.reached
	s.reached = 0
	ok := s.inChain(ci, p)
	if !ok && s.division == nil {
		s.division = s.divided()
	}
	if d := s.division; d != nil && !ok {
		d.asked = append(d.asked, answer{chain: ci, tasks: d.count(p), reached: s.reached &^ boundVictimBins})
	}
	s.reached |= before
	return ok
}

// divide places a gang by trying the ways to divide its tasks among chains, in divideSteps at most.
func (s *search) divide() bool {
	if s.division == nil {
		s.division = s.divided()
	}
	d := s.division
	if d == nil {
		return false
	}
	s.reached &= boundVictimBins // it does not matter what was cut short before: everything is tried now
	for range s.c.f.Chains {
		d.has = append(d.has, make([]int32, len(d.sizes)))
	}
	for i := range s.gang {
		d.addLots(&s.gang[i])
	}
	slices.SortStableFunc(d.lots, func(a, b lot) int { return cmp.Compare(min(a.may, 2), min(b.may, 2)) })
	return d.divideFrom(0, 0)
}

// addLots adds the lots of a part, the largest tasks first.
func (d *division) addLots(p *part) {
	s := d.s
	k := lot{p: p, given: make([]int32, len(d.has))}
	for ci := range d.has {
		if s.may(ci, p) {
			k.last = ci
			k.may++
		}
	}
	all := d.count(p)
	if s.r.Reach != nil {
		k.each, k.left = all, 1
		d.lots = append(d.lots, k)
		return
	}
	for i, t := range p.tasks {
		if i > 0 && t.leaves == p.tasks[i-1].leaves {
			continue
		}
		one := k
		one.given = slices.Clone(k.given)
		one.each = make([]int32, len(d.sizes))
		at := slices.Index(d.sizes, size{p.pinned, t.leaves})
		one.each[at], one.left = 1, all[at]
		d.lots = append(d.lots, one)
	}
}

// divideFrom divides what is left of lot i among the chains from ci on, and then the lots after it.
// As much as possible goes to the first chain, then less.
func (d *division) divideFrom(i, ci int) bool {
	k := &d.lots[i]
	switch {
	case k.left > 0 && ci > k.last:
		return false
	case k.left == 0 && i+1 == len(d.lots):
		return d.place()
	case k.left == 0:
		return d.fresh(i+1) && d.divideFrom(i+1, 0)
	case !d.s.may(ci, k.p) || k.p.alike && d.mixed(k.p, ci):
		return d.divideFrom(i, ci+1)
	}
	least := int32(0)
	if ci == k.last {
		least = k.left
	}
	for n := d.most(ci, k); n >= least; n-- {
		if d.steps++; d.steps > divideSteps {
			d.s.reached |= boundDivisions
			return false
		}
		d.move(k, ci, n)
		if d.divideFrom(i, ci+1) {
			return true
		}
		d.move(k, ci, -n)
	}
	return false
}

// move gives a chain n units of a lot, or takes them back.
func (d *division) move(k *lot, ci int, n int32) {
	k.left -= n
	k.given[ci] += n
	for i := range k.each {
		d.has[ci][i] += n * k.each[i]
	}
}

// mixed reports whether tasks of a part are in a chain of another SKU than that of ci.
func (d *division) mixed(p *part, ci int) bool {
	at := d.chainOf(p)
	return at >= 0 && d.s.c.f.Chains[at].SKU != d.s.c.f.Chains[ci].SKU
}

// chainOf is the first chain that was given tasks of a part; -1 if none was.
func (d *division) chainOf(p *part) int {
	first := -1
	for i := range d.lots {
		if d.lots[i].p != p {
			continue
		}
		if at := slices.IndexFunc(d.lots[i].given, func(n int32) bool { return n > 0 }); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// fresh reports whether the lots from the i-th on were not yet divided in the same situation: the
// same tasks in each chain, and each part that must be of one SKU in the same chain.
func (d *division) fresh(i int) bool {
	key := []int32{int32(i)}
	for k := range d.s.gang {
		if p := &d.s.gang[k]; p.alike {
			key = append(key, int32(d.chainOf(p)))
		}
	}
	return d.seen.Add(slices.Concat(append(slices.Clone(d.has), key)...))
}

// most returns how many units of a lot a chain can take besides what it has.
func (d *division) most(ci int, k *lot) int32 {
	fits := func(n int32) bool {
		tasks := slices.Clone(d.has[ci])
		for i := range tasks {
			tasks[i] += n * k.each[i]
		}
		return d.ask(int16(ci), tasks)
	}
	if fits(k.left) {
		return k.left
	}
	low, high := int32(0), k.left // what it can take, and what it cannot
	for high-low > 1 {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// ask reports whether a chain can take so many tasks of each size.
func (d *division) ask(ci int16, tasks []int32) bool {
	s := d.s
	if a := d.known(ci, tasks); a != nil {
		s.reached |= a.reached
		return a.ok
	}
	if d.asks++; d.asks > askSteps {
		s.reached |= boundAsks
		return false
	}
	var ps []part
	for i, k := range d.sizes {
		for range tasks[i] {
			ps = addTask(ps, k.pinned, task{leaves: k.leaves})
		}
	}
	before, start := s.reached, s.mark()
	s.reached = 0
	a := answer{chain: ci, tasks: tasks, ok: s.takeAll(ci, ps)}
	s.rewind(start)
	if !a.ok {
		a.reached = s.reached &^ boundVictimBins
	}
	d.asked = append(d.asked, a)
	s.reached = before | s.reached&boundVictimBins | a.reached
	return a.ok
}

// addTask adds a task to the part for a pinned cell ("": for none), and makes that part if there is
// none.
func addTask(ps []part, pinned PinnedID, t task) []part {
	i := slices.IndexFunc(ps, func(p part) bool { return p.pinned == pinned })
	if i < 0 {
		i = len(ps)
		ps = append(ps, part{pinned: pinned})
	}
	ps[i].tasks = append(ps[i].tasks, t)
	ps[i].total += t.leaves
	return ps
}

// place places the lots as they are divided.
func (d *division) place() bool {
	start := d.s.mark()
	for ci := range d.has {
		var ps []part
		for i := range d.lots {
			k := &d.lots[i]
			for _, t := range d.tasksOf(k, ci) {
				ps = addTask(ps, k.p.pinned, t)
			}
		}
		if !d.s.takeAll(int16(ci), ps) {
			d.s.rewind(start)
			return false
		}
	}
	return true
}

// tasksOf returns the tasks of a lot that a chain was given.
func (d *division) tasksOf(k *lot, ci int) []task {
	var all []task
	for _, t := range k.p.tasks {
		if k.each[slices.Index(d.sizes, size{k.p.pinned, t.leaves})] > 0 {
			all = append(all, t)
		}
	}
	times := k.left // which is 0
	for _, n := range k.given {
		times += n
	}
	first := int32(0)
	for _, n := range k.given[:ci] {
		first += n
	}
	each := int32(len(all)) / times
	return all[first*each : (first+k.given[ci])*each]
}

// takeAll places parts that differ by their pins alone in one chain. If they must stay close
// together it tries each place that is close enough, until one will do.
func (s *search) takeAll(ci int16, ps []part) bool {
	for i := range ps {
		slices.SortStableFunc(ps[i].tasks, func(a, b task) int {
			return cmp.Or(cmp.Compare(b.leaves, a.leaves), cmp.Compare(a.index, b.index))
		})
	}
	if l := s.reach(ci); len(ps) > 1 && l <= s.c.f.Chains[ci].Top {
		return s.takeNear(ci, ps, l)
	}
	for i := range ps {
		if !s.inChain(ci, &ps[i]) {
			return false
		}
	}
	return true
}

// takeNear places parts below one cell of a level.
func (s *search) takeNear(ci int16, ps []part, l Level) bool {
	f, start := s.c.f, s.mark()
	keep, plain := s.r.Excluded, s.countsExact
	defer func() { s.r.Excluded, s.countsExact = keep, plain }()
	s.countsExact = false
	for id := range f.Cells {
		if c := &f.Cells[id]; c.Chain != ci || c.Level != l {
			continue
		}
		s.r.Excluded = slices.Clone(keep)
		for o, leaf := range f.Leaves {
			if f.Cells[leaf].Chain == ci && !f.Contains(CellID(id), leaf) {
				s.r.Excluded = s.r.Excluded.Add(LeafID(o))
			}
		}
		if !slices.ContainsFunc(ps, func(p part) bool { return !s.inChain(ci, &p) }) {
			return true
		}
		s.rewind(start)
	}
	return false
}

func overlap(a, b []TypeName) bool {
	return slices.ContainsFunc(a, func(n TypeName) bool { return slices.Contains(b, n) })
}

func common(a, b []TypeName) []TypeName {
	return slices.DeleteFunc(slices.Clone(a), func(n TypeName) bool { return !slices.Contains(b, n) })
}
