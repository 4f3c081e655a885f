package cell

import (
	"cmp"
	"slices"
)

// scatter places the tasks of an opportunistic gang one by one that may use several
// chains. Parts are packed one after the other, each as close together as it can be, and
// one may take the only room that another has; here everything is tried, with nodes of one
// chain and as many free leaves counted once, until packSteps are used up.
func (s *search) scatter(ps []part) bool {
	if !s.opportunistic() || s.r.Lift != nil || s.r.Reach != nil || !s.mixes(ps) {
		return false
	}
	x := scattering{}
	for i := range ps {
		if ps[i].pinned != "" {
			return false
		}
		for _, t := range ps[i].tasks {
			x.tasks = append(x.tasks, scattered{task: t, part: i})
		}
	}
	slices.SortStableFunc(x.tasks, func(a, b scattered) int {
		return cmp.Or(cmp.Compare(b.leaves, a.leaves), cmp.Compare(b.part, a.part))
	})
	least := x.tasks[len(x.tasks)-1].leaves
	for ci := range s.c.f.Chains {
		for _, b := range s.bins(s.c.everywhere(int16(ci)), int16(ci), least) {
			x.put(int16(ci), b.avail, b)
		}
	}
	if !s.roomFor(&x, ps) || !s.scatterFrom(&x, ps, 0) {
		s.hit &= boundBins // whatever was cut short before: all that there is was tried
		if x.steps > packSteps {
			s.hit |= boundPacks
		}
		return false
	}
	for _, t := range x.tasks {
		c := &x.rooms[t.room]
		b := c.bins[len(c.bins)-1]
		c.bins = c.bins[:len(c.bins)-1]
		s.take(t.index, s.pick(&b, t.leaves))
		x.put(c.chain, c.left-t.leaves, b)
	}
	return true
}

// mixes reports whether there is more than one way to divide a gang among chains.
func (s *search) mixes(ps []part) bool {
	chains := 0
	for ci := range s.c.f.Chains {
		if s.usable(ci, &ps[0]) {
			chains++
		}
	}
	return len(ps) > 1 || chains > 1 && len(ps[0].tasks) > 1
}

// roomFor reports whether each kind of task alone finds room, and all by their number.
func (s *search) roomFor(x *scattering, ps []part) bool {
	total := int32(0)
	for i := range x.rooms {
		total += x.rooms[i].left * int32(x.rooms[i].n)
	}
	for i := 0; i < len(x.tasks); {
		t, alike := &x.tasks[i], int32(0)
		for ; i < len(x.tasks) && x.tasks[i].part == t.part && x.tasks[i].leaves == t.leaves; i++ {
			alike++
		}
		total -= alike * t.leaves
		for k := range x.rooms {
			if r := &x.rooms[k]; s.usable(int(r.chain), &ps[t.part]) {
				alike -= min(alike, r.left/t.leaves*int32(r.n))
			}
		}
		if alike > 0 || total < 0 {
			return false
		}
	}
	return true
}

// scattering is one try of everything.
type scattering struct {
	tasks []scattered // the largest first
	rooms []vacancy
	steps int
}

// scattered is a task with where it goes.
type scattered struct {
	task
	part int // which parts say where it may
	room int
}

// vacancy is the nodes of one chain that have so many leaves left.
type vacancy struct {
	chain int16
	left  int32
	n     int   // how many they are, while everything is tried
	bins  []bin // and which, before and afterwards
}

// at finds a room, or makes it.
func (x *scattering) at(chain int16, left int32) int {
	i := slices.IndexFunc(x.rooms, func(r vacancy) bool { return r.chain == chain && r.left == left })
	if i < 0 {
		i = len(x.rooms)
		x.rooms = append(x.rooms, vacancy{chain: chain, left: left})
	}
	return i
}

// put adds a bin with so many leaves left.
func (x *scattering) put(chain int16, left int32, b bin) {
	r := &x.rooms[x.at(chain, left)]
	r.n++
	r.bins = append(r.bins, b)
}

// scatterFrom places task i and all after it. Tasks alike go where more leaves are left
// first, which any way to place them can be put in the order of.
func (s *search) scatterFrom(x *scattering, ps []part, i int) bool {
	if i == len(x.tasks) {
		return true
	}
	t := &x.tasks[i]
	alike := i > 0 && x.tasks[i-1].part == t.part && x.tasks[i-1].leaves == t.leaves
	for k := range x.rooms {
		r := &x.rooms[k]
		if r.n == 0 || r.left < t.leaves || alike && x.rooms[x.tasks[i-1].room].after(r) || !s.usable(int(r.chain), &ps[t.part]) {
			continue
		}
		if x.steps++; x.steps > packSteps {
			return false
		}
		to := x.at(r.chain, r.left-t.leaves)
		x.rooms[k].n--
		x.rooms[to].n++
		t.room = k
		if s.scatterFrom(x, ps, i+1) {
			return true
		}
		x.rooms[k].n++
		x.rooms[to].n--
	}
	return false
}

// after reports whether nodes come behind others among those for tasks alike.
func (r *vacancy) after(o *vacancy) bool {
	return cmp.Or(cmp.Compare(o.left, r.left), cmp.Compare(r.chain, o.chain)) > 0
}
