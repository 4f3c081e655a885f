package cell

// Alloc is a set of leaves with a holder that the caller knows. A promised
// allocation holds nothing yet.
type Alloc struct {
	Space     int32 // the VC, also of an opportunistic allocation
	Priority  Priority
	Lazy      bool // was guaranteed and became opportunistic
	Promised  bool
	mood      Mood
	live      bool
	leaves    int32  // how many it holds, or was promised
	first     LeafID // the first of them, when they are one after the other in order of tasks; else None
	Placement Placement
	bind      [1]Bind // that of the placement, if it has one
}

// binds are those of the placement: most have one, which is read here, since what a
// placement points to is far away.
func (a *Alloc) binds() []Bind {
	if len(a.Placement.Binds) == 1 {
		return a.bind[:]
	}
	return a.Placement.Binds
}

// setBinds says which preassigned cells it uses.
func (a *Alloc) setBinds(binds []Bind) {
	if a.Placement.Binds = binds; len(binds) == 1 {
		a.bind[0] = binds[0]
	}
}

// setLeaves notes how many leaves the placement has, and whether they are one after
// the other.
func (a *Alloc) setLeaves() {
	a.first = None
	row := true
	for i := range a.Placement.Tasks {
		for _, l := range a.Placement.Tasks[i].Leaves {
			if a.leaves == 0 {
				a.first = l
			}
			row = row && l == a.first+LeafID(a.leaves)
			a.leaves++
		}
	}
	if !row {
		a.first = None
	}
}

// held returns the leaves of an allocation, some after the others; false behind the
// last of them. What it returns is good until it is called again.
func (c *Cluster) held(a *Alloc, i int) ([]LeafID, bool) {
	switch {
	case a.first != None && i == 0: // which needs nothing of what the placement points to
		c.row = c.row[:0]
		for l := a.first; l < a.first+LeafID(a.leaves); l++ {
			c.row = append(c.row, l)
		}
		return c.row, true
	case a.first != None || i >= len(a.Placement.Tasks):
		return nil, false
	}
	return a.Placement.Tasks[i].Leaves, true
}

// Mood says what a holder is about to do; the caller knows and tells.
type Mood uint8

// The moods of a holder.
const (
	Staying Mood = iota
	Leaving      // it was told to go: waiting for its leaves costs nothing
	Stuck        // nothing is known of it: its leaves cannot be counted on
)

// Mood returns what the holder is about to do.
func (a *Alloc) Mood() Mood { return a.mood }

// SetMood says what a holder is about to do.
func (c *Cluster) SetMood(id AllocID, m Mood) {
	a := &c.allocs[id]
	if a.mood == m {
		return
	}
	c.countMood(a, -1)
	a.mood = m
	c.countMood(a, 1)
	c.recountAll(a)
}

// staysOn reports whether an allocation holds leaves of its VC's guarantee and was
// not told to go.
func (a *Alloc) staysOn() bool {
	return a.live && !a.Promised && !a.Opportunistic() && a.mood != Leaving
}

// countHeld counts an allocation in (sign 1) or out (-1) of what its VC's gangs hold
// of the guarantee: around every change of what that depends on.
func (c *Cluster) countHeld(a *Alloc, sign int32) {
	if a.staysOn() {
		c.spaces[a.Space].held += sign * a.leaves
	}
}

// countMood counts an allocation in (d is 1) or out (-1) of all that its mood matters to.
func (c *Cluster) countMood(a *Alloc, d int32) {
	c.countHeld(a, d)
	switch a.mood {
	case Stuck:
		c.stuck += d
	case Leaving:
		c.leaving += d
	}
}

// Opportunistic reports whether the allocation uses no guarantee.
func (a *Alloc) Opportunistic() bool { return a.Lazy || a.Priority < MinGuaranteed }
