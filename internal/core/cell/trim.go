package cell

import "slices"

// trim drops superfluous victims, the dearest first, as long as the gang still fits, while
// holders that are leaving anyway are off their leaves. A victim that is needed while all others
// leave is needed when some of them stay: one round is enough.
func (c victims) trim(r *Request, res Result, spare slack) Result {
	victims := c.staying(res.Victims)
	may := slices.DeleteFunc(slices.Clone(victims), func(v AllocID) bool { return !c.superfluous(r, v, spare) })
	slices.SortFunc(may, func(a, b AllocID) int { return r.cost(b).Compare(r.cost(a)) })
	if len(may) == 0 {
		return res
	}
	q := *r
	q.Preempt, q.Cost, q.boundFirst = nil, nil, true
	c.scratch().budget = setSteps
	for _, v := range victims {
		c.vacate(v, true)
	}
	rooms, kept := c.rooms(r, false), map[AllocID]bool{}
	for missed := 0; len(may) > 0; may = may[1:] {
		v := may[0]
		if !c.superfluous(r, v, spare) || !c.enoughIfStays(r, rooms, v) {
			continue
		}
		if c.work.Over() {
			res.Bounds |= boundSteps
			break
		}
		if missed == maxTrim {
			res.Bounds |= boundTrim
			break
		}
		c.vacate(v, false)
		less, ok := c.place(&q)
		if !ok {
			c.vacate(v, true)
			missed++
			continue
		}
		res.Placement, kept[v] = less.Placement, true
		spare.room -= c.leavesOf(v)
		if c.owns(r, v) {
			spare.own -= c.leavesOf(v)
		}
		rooms = c.rooms(r, false)
	}
	for _, v := range victims {
		if !kept[v] {
			c.vacate(v, false)
		}
	}
	return res
}

// anyMayStay reports whether by numbers, of leaves and node by node, one of the victims may stay if
// all that is preemptible leaves.
func (c victims) anyMayStay(r *Request, victims []AllocID, spare slack) bool {
	may := slices.DeleteFunc(slices.Clone(victims), func(v AllocID) bool { return !c.superfluous(r, v, spare) })
	if len(may) == 0 {
		return false
	}
	for _, v := range victims {
		c.vacate(v, true)
	}
	rooms := c.rooms(r, true)
	ok := slices.ContainsFunc(may, func(v AllocID) bool { return c.enoughIfStays(r, rooms, v) })
	for _, v := range victims {
		c.vacate(v, false)
	}
	return ok
}

// cheaper replaces victims by cheaper holders, the dearest victims first. The search looked at
// some of the nodes only, and holders on others may do as well. Of more than maxPriced leaves it
// looks at so many, evenly spread.
func (c victims) cheaper(r *Request, res Result) Result {
	victims := c.holdersOf(res.Placement)
	if len(victims) == 0 { // all proved superfluous
		return res
	}
	slices.SortFunc(victims, func(a, b AllocID) int { return r.cost(a).Compare(r.cost(b)) })
	type priced struct { // with what preempting it costs
		id   AllocID
		cost Cost
	}
	var others []priced
	t, most := c.scratch(), r.cost(victims[len(victims)-1])
	for _, v := range victims {
		t.victim[v] = t.epoch // a victim, or seen
	}
	// The step is odd, so that it does not always meet the same device of a node.
	for l := 0; l < len(c.leaves); l += (len(c.leaves)+maxPriced-1)/maxPriced | 1 {
		id := c.leaves[l].holder
		if id == None || t.victim[id] == t.epoch {
			continue
		}
		t.victim[id] = t.epoch
		if a := &c.allocs[id]; a.intent != Leaving && r.allows(id, a) && c.holdsUsable(r, a) {
			if cost := r.cost(id); cost.Compare(most) < 0 {
				others = append(others, priced{id, cost})
			}
		}
	}
	slices.SortStableFunc(others, func(a, b priced) int { return a.cost.Compare(b.cost) })
	c.scratch().budget = setSteps
	tries := maxTrim
	for i := len(victims) - 1; i >= 0; i-- {
		v, least, cost := victims[i], min(c.leavesOf(victims[i]), r.Leaves()), r.cost(victims[i])
		for k := 0; k < len(others) && others[k].cost.Compare(cost) < 0 && tries > 0 && !c.work.Over(); k++ {
			if c.leavesOf(others[k].id) < least {
				continue
			}
			tries--
			victims[i] = others[k].id
			if with, ok := c.with(r, victims); ok {
				res.Placement, others = with.Placement, slices.Delete(others, k, k+1)
				break
			}
			victims[i] = v
		}
	}
	return res
}

// taskRoom counts for how many tasks of a size and some SKUs there are idle leaves (have), node by
// node, and how many tasks of that size and above the gang has (need). With less it cannot fit.
type taskRoom struct {
	skus            []TypeName // none is any
	size            int32
	need            int32
	have            int64
	withPreemptible bool // preemptible leaves count as idle
}

// at returns how many leaves of a node count.
func (k *taskRoom) at(c *Cluster, node CellID) int32 {
	if k.withPreemptible {
		return c.idle[node] + c.preemptible[node]
	}
	return c.idle[node]
}

// rooms counts the idle leaves on the nodes that a gang could use, as they are now; with soft
// also the preemptible ones.
func (c victims) rooms(r *Request, soft bool) []taskRoom {
	var out []taskRoom
	for _, m := range r.Members {
		if m.Pinned == "" && !slices.ContainsFunc(out, func(k taskRoom) bool { return k.size == m.Leaves && slices.Equal(k.skus, m.SKUs) }) {
			out = append(out, taskRoom{skus: m.SKUs, size: m.Leaves, withPreemptible: soft})
		}
	}
	for i := range out {
		k := &out[i]
		for _, m := range r.Members {
			if m.Pinned == "" && m.Leaves >= k.size && k.covers(m.SKUs) {
				k.need += m.Tasks
			}
		}
		for ci := range c.f.Chains {
			if k.covers([]TypeName{c.f.Chains[ci].SKU}) {
				k.have += c.roomIn(r, int16(ci), k)
			}
		}
	}
	return out
}

// covers reports whether tasks of some SKUs can go only where the room is.
func (k *taskRoom) covers(skus []TypeName) bool {
	return len(k.skus) == 0 || len(skus) > 0 && !slices.ContainsFunc(skus, func(n TypeName) bool { return !slices.Contains(k.skus, n) })
}

// roomIn counts the tasks of its size that a chain has room for.
func (c victims) roomIn(r *Request, ci int16, k *taskRoom) int64 {
	var n int64
	c.work.Step(len(c.f.Chains[ci].NodeCells) / 8)
	for b, id := range c.f.Chains[ci].NodeCells {
		if c.others(r, ci, int32(b)) {
			continue
		}
		n += int64(k.at(c.Cluster, id) / k.size)
	}
	return n
}

// others reports whether a node lies in a bound cell of another VC.
func (c victims) others(r *Request, ci int16, bin int32) bool {
	w := c.bins[ci][bin].vc
	return w != None && w != r.Space
}

// enoughIfStays reports whether, by numbers alone, there is room for a gang's tasks if a victim
// stays. The victim's leaves count as idle now.
func (c victims) enoughIfStays(r *Request, rooms []taskRoom, v AllocID) bool {
	own := map[CellID]int32{} // idle leaves by node
	for _, t := range c.allocs[v].Placement.Tasks {
		for _, l := range t.Leaves {
			if cl := &c.f.Cells[c.f.Leaves[l]]; c.leaves[l].use == useIdle && !c.others(r, cl.Chain, cl.Bin) {
				own[c.f.Chains[cl.Chain].NodeCells[cl.Bin]]++
			}
		}
	}
	for i := range rooms {
		k := &rooms[i]
		left := k.have
		for node, n := range own { // a sum: the order does not matter
			if k.covers([]TypeName{c.f.Chains[c.f.Cells[node].Chain].SKU}) {
				left -= int64(k.at(c.Cluster, node)/k.size - (k.at(c.Cluster, node)-n)/k.size)
			}
		}
		if left < int64(k.need) {
			return false
		}
	}
	return true
}
