package cell

import (
	"cmp"
	"slices"
	"sort"
)

// combines reports whether joining cells below node level may help: the VC has unbound ones, and
// the part a task that is larger than some of them, or than what some of them still have.
func (s *search) combines(ci int16, p *part) bool {
	least := s.narrowest(ci)
	return least < p.tasks[0].leaves || least < wide && s.holed(ci) && p.tasks[0].leaves > 1
}

// holed reports whether unbound cells of a chain may have leaves that the gang cannot use: bad
// ones, or ones that others hold or keep.
func (s *search) holed(ci int16) bool {
	ch := &s.c.f.Chains[ci]
	return s.r.Excluded != nil || s.r.Protected != nil || s.c.unknownCount > 0 || s.anyBad(ch) || s.r.Preempt == nil && s.anyPreemptible(ch)
}

// anyPreemptible reports whether a chain has preemptible leaves.
func (s *search) anyPreemptible(ch *Chain) bool {
	return slices.ContainsFunc(ch.Tops, func(top CellID) bool { return s.c.preemptible[top] > 0 })
}

// wide is more leaves than any cell has.
const wide = 1 << 30

// narrowest returns the size of the VC's smallest unbound cell below node level; wide if it has
// none.
func (s *search) narrowest(ci int16) int32 {
	ch := &s.c.f.Chains[ci]
	for l := Level(1); l < ch.NodeLevel; l++ {
		if len(s.c.spaces[s.r.Space].unbound[ch.slot0+int(l)-1]) > 0 {
			return ch.LeavesAt(l)
		}
	}
	return wide
}

// join binds several cells below node level inside one node, so that a task fits that none of
// them could hold: quotas below the node combine where they are adjacent. It reports whether it
// bound any.
func (s *search) join(ci int16, p *part) bool {
	ch := &s.c.f.Chains[ci]
	least, holed := s.narrowest(ci), s.holed(ci)
	if p.tasks[0].leaves > ch.LeavesAt(ch.NodeLevel) {
		return false
	}
	if holed {
		least = 1
	}
	first, rest := len(s.bound), p.tasks
	for _, n := range s.joinable(ci, p) {
		if len(rest) == 0 || rest[0].leaves <= least { // the others need one cell each
			break
		}
		mark := len(s.bound)
		got, left := fitInto(rest, s.fillNode(ch, n, served(rest, n.room)))
		if got == 0 {
			s.undoBinds(mark)
			continue
		}
		rest = left
	}
	return len(s.bound) > first
}

// fitInto returns how many leaves of some tasks fit into a room, the largest tasks first, and the
// tasks that do not fit. These must not be changed.
func fitInto(tasks []task, room int32) (leaves int32, others []task) {
	for i := fitting(tasks, room); i < len(tasks); i = fitting(tasks, room-leaves) {
		others = append(others, tasks[:i]...)
		leaves, tasks = leaves+tasks[i].leaves, tasks[i+1:]
	}
	if len(others) == 0 { // equal tasks, of which there may be thousands
		return leaves, tasks
	}
	return leaves, append(others, tasks...)
}

// served is the first result of within.
func served(tasks []task, room int32) (leaves int32) {
	for i := fitting(tasks, room); i < len(tasks); i = fitting(tasks, room-leaves) {
		leaves, tasks = leaves+tasks[i].leaves, tasks[i+1:]
	}
	return leaves
}

// fitting returns the index of the first task that fits into a room; the largest tasks come
// first.
func fitting(tasks []task, room int32) int {
	return sort.Search(len(tasks), func(i int) bool { return tasks[i].leaves <= room })
}

// joinable lists the nodes in which the VC has parts, or could bind some. Those that serve most
// of a part come first, then the tightest: those with least idle room, since what the VC's
// container has left does not say how full a node is. The list is good until the next call.
func (s *search) joinable(ci int16, p *part) []nodeRoom {
	ch := &s.c.f.Chains[ci]
	all := s.t.rooms[:0]
	s.c.work.Step(len(ch.NodeCells) / 16)
	for _, id := range ch.NodeCells {
		if s.atMost(id) < p.smallest() && !s.hidden(id) {
			continue
		}
		s.c.work.Step(1)
		own := s.ownRoom(ch, id)
		room, idle := s.freeRoom(ch, id)
		if room += own; room > 0 {
			all = append(all, nodeRoom{id, own, room, own + idle, served(p.tasks, room)})
		}
	}
	slices.SortStableFunc(all, func(a, b nodeRoom) int {
		return cmp.Or(cmp.Compare(b.serves, a.serves), cmp.Compare(a.idle, b.idle))
	})
	s.t.rooms = all
	return all
}

// ownRoom is what the gang could take of the VC's bound parts of a node.
func (s *search) ownRoom(ch *Chain, node CellID) int32 {
	x := &s.c.spaces[s.r.Space].index[s.c.f.Cells[node].Chain]
	i, found := x.partsOf(s.c.f.Cells[node].Bin)
	if !found {
		return 0
	}
	return s.newBin(node, x.parts[i].cells).avail
}

// freeRoom is what the gang could take of a node's cells that are free to bind: free cells of the
// VC's container, and cells that the container could bind around them. idle is the same if it had
// as many of these as it liked.
func (s *search) freeRoom(ch *Chain, node CellID) (room, idle int32) {
	up := s.c.spaces[s.r.Space].Parent
	if s.c.openable(up, node) {
		room = s.room(node)
		return room, room
	}
	var own [maxLevels]int
	left, some := own[:ch.NodeLevel], false // of the container's own cells, by level
	for l := range left {
		left[l] = len(s.c.spaces[up].unbound[ch.slot0+l])
		some = some || left[l] > 0
	}
	if !some {
		room = s.roomIn(ch, up, node)
		return room, room
	}
	idle = s.openRoom(ch, node, left, 0)
	return s.openRoom(ch, node, left, 1), idle
}

// openRoom is what the gang could take of a node's cells that are free in the VC's container or
// that this could bind. left counts, by level, the unbound roots of the container; each cell uses
// up `each` of them.
func (s *search) openRoom(ch *Chain, node CellID, left []int, each int) int32 {
	up := s.c.spaces[s.r.Space].Parent
	var n int32
	for i := CellID(0); int(i) < len(ch.inside); {
		id, l := node+i, ch.inside[i]
		own := left[l-1] > 0 && s.c.openable(s.c.spaces[up].Parent, id)
		if !own && !s.c.spaces[up].free[s.c.slotOf(id)].has(id) {
			i++
			continue
		}
		room := s.room(id)
		if own && room > 0 {
			left[l-1] -= each
		}
		n += room
		i += ch.size[l-1] // past what lies in it
	}
	return n
}

// roomIn is what the gang could take of the free cells of a container inside a node.
func (s *search) roomIn(ch *Chain, space int32, node CellID) int32 {
	var n int32
	end := node + CellID(len(ch.inside))
	for l := Level(1); l < ch.NodeLevel; l++ {
		free := s.c.spaces[space].free[ch.slot0+int(l)-1]
		for i, _ := slices.BinarySearch(free, node); i < len(free) && free[i] < end; i++ {
			n += s.room(free[i])
		}
	}
	return n
}

// openable reports whether a cell lies under a free cell of a container, or whether a root of the
// container could be bound around it, if that is safe.
func (c *Cluster) openable(space int32, id CellID) bool {
	if c.freeAbove(space, id) != None {
		return true
	}
	up := c.spaces[space].Parent
	for ; up != None && id != None; id = c.f.parent[id] {
		if len(c.spaces[space].unbound[c.slotOf(id)]) > 0 && c.openable(up, id) {
			return true
		}
	}
	return false
}

// fillNode binds cells inside a node, large ones first, until they have room for n leaves with
// what the VC has there. It returns how much that is.
func (s *search) fillNode(ch *Chain, in nodeRoom, n int32) int32 {
	node, got := in.node, in.own
	unbound := s.c.spaces[s.r.Space].unbound
	for l := ch.NodeLevel; l >= 1; l-- {
		slot := ch.slot0 + int(l) - 1
		for i := CellID(0); int(i) < len(ch.inside) && got < n && len(unbound[slot]) > 0; {
			id, at := node+i, ch.inside[i]
			if at > l && !s.empty(id) {
				i++ // to its first child
				continue
			}
			i += ch.size[at-1] // past what lies in it
			if at > l {
				continue
			}
			if room := s.room(id); room > 0 && s.bindTo(slot, id) {
				got += room
			}
		}
	}
	return got
}

// empty reports whether the counts tell that the gang could take no leaf below a cell.
func (s *search) empty(id CellID) bool {
	return s.c.idle[id] == 0 && (s.r.Preempt == nil || s.c.preemptible[id] == 0) && s.counted(s.c.f.Cells[id].Chain)
}
