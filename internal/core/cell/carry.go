package cell

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// carrier carries running allocations over to another cluster.
type carrier struct{ *Cluster }

// Carried is where an allocation of an older cluster stands in a new one.
type Carried struct {
	Placement     Placement
	Lost          int32 // leaves that the new cluster lacks
	Lazy          bool  // it lost its guarantee and goes on as opportunistic
	DeviceChanged bool  // it cannot regain it: a device is another one now, or divided otherwise
	// Drains are leaves of devices that this cluster divides otherwise than the one in which the
	// tasks were started (the older one or an earlier one), while several allocations use parts of
	// them. Others hold some of these leaves. They serve no other until this allocation has ended
	// as well.
	Drains []LeafID
}

// Origin is what the leaves of a task were in the cluster in which it was started.
// Later ones may lack its SKU, or divide its devices otherwise.
type Origin struct {
	Leaf SKU `json:"leaf"`
	// Division says how each of the task's devices was divided, in their order. None when they were
	// whole.
	Division []Division `json:"division,omitempty"`
}

// Division is how a device is divided: its parts, in the order of their numbers. None is a device
// that is whole, does not exist, or of which that is not known.
type Division []Part

// Part is one of the parts of a device.
type Part struct {
	N   int32    `json:"n"`
	SKU TypeName `json:"sku"` // tells its size
}

// Same reports whether parts with equal numbers are the same in two divisions: there are as many,
// with the same numbers and of the same sizes. A SKU that occurs in one of them only may have
// been renamed.
func (d Division) Same(e Division) bool {
	if len(d) == 0 || len(d) != len(e) {
		return false
	}
	now, was := map[TypeName]TypeName{}, map[TypeName]TypeName{}
	for i := range d {
		from, to := d[i].SKU, e[i].SKU
		if _, seen := now[from]; !seen {
			now[from] = to
		}
		if _, seen := was[to]; !seen {
			was[to] = from
		}
		if d[i].N != e[i].N || now[from] != to || was[to] != from {
			return false
		}
	}
	for i := range d {
		_, stays := was[d[i].SKU]
		_, old := now[e[i].SKU]
		if d[i].SKU != e[i].SKU && (stays || old) {
			return false
		}
	}
	return true
}

// Equal reports whether two origins say the same.
func (o Origin) Equal(p Origin) bool {
	files := slices.Equal(o.Leaf.Files, p.Leaf.Files)
	o.Leaf.Files, p.Leaf.Files = nil, nil
	return files && slices.EqualFunc(o.Division, p.Division, slices.Equal[Division]) &&
		reflect.DeepEqual(o.Leaf, p.Leaf)
}

// Started is a task as it was started, with its node's name in the new cluster.
type Started struct {
	Task
	Origin Origin
	Pinned PinnedID // the pinned cell that it asked for
}

// Origin returns what the leaves are of a task that was started in this cluster.
func (c *Cluster) Origin(t *Task) Origin {
	o := Origin{Leaf: c.SKU(t.SKU)}
	for k := range t.Parts {
		o.Division = append(o.Division, c.division(t.Node, &o.Leaf, t.Devices[k]))
	}
	return o
}

// Divides reports whether this cluster divides a task's devices as the one did in which the task
// was started.
func (c *Cluster) Divides(t *Started) bool {
	for k, d := range t.Devices {
		now := c.division(t.Node, &t.Origin.Leaf, d)
		if k >= len(t.Parts) && len(now) > 0 || k < len(t.Parts) && !t.divided(k).Same(now) {
			return false
		}
	}
	return true
}

// divided is how the k-th device of a task was divided when the task was started.
func (t *Started) divided(k int) Division {
	if k < len(t.Origin.Division) {
		return t.Origin.Division[k]
	}
	return nil
}

// division returns how the device of a node with an index is divided. was is a SKU of it.
func (c *Cluster) division(n NodeName, was *SKU, device int32) Division {
	node := c.f.NodeIndex(n)
	if node == None {
		return nil
	}
	var parts Division
	of := strconv.Itoa(int(device)) + ":"
	for _, id := range c.f.Nodes[node].Cells {
		sku := c.SKU(c.f.Chains[c.f.Cells[id].Chain].SKU)
		if !sameDevices(&sku, was) {
			continue
		}
		first := c.f.Cells[id].FirstLeaf
		for l := first; l < first+LeafID(c.f.NumLeaves(id)); l++ {
			if p, found := strings.CutPrefix(c.f.Address(c.f.Leaves[l]), of); found {
				number, _ := strconv.Atoi(p)
				parts = append(parts, Part{N: int32(number), SKU: sku.Name})
			}
		}
	}
	slices.SortFunc(parts, func(p, q Part) int { return cmp.Or(cmp.Compare(p.N, q.N), cmp.Compare(p.SKU, q.SKU)) })
	return parts
}

// sameDevices reports whether equal indices of two SKUs mean the same device. A SKU that was
// unknown when it was looked up has no kind: it may be of any.
func sameDevices(sku, was *SKU) bool {
	return sku.Name == was.Name || was.Device == "" || sku.Device == was.Device
}

// Carry finds the leaves and the preassigned cells that an allocation of an older cluster has in
// this one (HiveD's work-preserving reconfiguration). A leaf is the same when node, SKU and
// address are. The guarantee survives if the VC has a preassigned cell of the same type, or in
// the same place and with as many leaves, that is bound around those leaves or can safely be.
// Else it survives if other cells of the VC can stand around them. vc is None when the VC is
// gone. The cluster is unchanged; the caller takes the placement.
//
// started are, by task, all devices that the tasks were started with, what they were then, and
// the node's name in this cluster. A device that an earlier configuration lacked and this one has
// again is held again, and guaranteed with the others.
//
// A device that is still there under another SKU is the same device and stays held. The guarantee
// goes, unless the SKU differs in nothing but its name. If a device has other parts, by number or
// by size, no part is the same: all of them are held, or drain, and the guarantee goes.
func (c *Cluster) Carry(old *Cluster, vc int32, a *Alloc, started []Started) Carried {
	var out Carried
	moved := map[LeafID]LeafID{}
	back := false // a device came back
	for i, t := range a.Placement.Tasks {
		n := Task{Node: started[i].Node, SKU: t.SKU}
		for k := range started[i].Devices {
			to, same := carrier{c}.carryLeaves(&started[i], k)
			if len(to) == 0 || slices.ContainsFunc(to, func(l LeafID) bool { return c.leaves[l].holder != None }) {
				out.Lost++
				out.Drains = append(out.Drains, to...) // none where the device is gone
				continue
			}
			was := slices.IndexFunc(t.Leaves, func(l LeafID) bool { return old.f.Address(old.f.Leaves[l]) == address(&started[i].Task, k) })
			if was >= 0 && same {
				moved[t.Leaves[was]] = to[0]
			}
			out.DeviceChanged, back = out.DeviceChanged || !same, back || was < 0
			again := slices.Contains(n.Leaves, to[0]) || out.Placement.holds(to[0])
			if len(to) > 1 || again {
				out.Lost++ // a whole device was divided, or several parts became one device, held once
			}
			if again {
				continue
			}
			n.SKU = c.f.Chains[c.f.Cells[c.f.Leaves[to[0]]].Chain].SKU
			n.Leaves = append(n.Leaves, to...)
		}
		slices.Sort(n.Leaves)
		carrier{c}.nameDevices(&n)
		out.Placement.Tasks = append(out.Placement.Tasks, n)
	}
	slices.Sort(out.Drains)
	out.Drains = slices.Compact(out.Drains)
	if a.Opportunistic() {
		return out
	}
	out.Lazy = true
	if out.DeviceChanged || vc == None {
		return out
	}
	k := carrying{c: c, old: old, vc: vc, a: a, moved: moved}
	binds, ok := []Bind(nil), false
	if !back {
		binds, ok = k.binds()
	}
	if !ok {
		binds, ok = c.around(vc, &out.Placement)
		// A pinned cell must be asked for.
		ok = ok && k.pinnedAlike(binds) && (!back || carrier{c}.inAskedPins(vc, &out.Placement, started, binds))
	}
	if ok {
		out.Lazy, out.Placement.Binds = false, binds
	}
	return out
}

// inAskedPins reports whether the leaves of each task lie in the pinned cell that it asked for, or
// in none if it asked for none.
func (c carrier) inAskedPins(vc int32, p *Placement, started []Started, binds []Bind) bool {
	for i := range p.Tasks {
		for _, l := range p.Tasks[i].Leaves {
			if !slices.ContainsFunc(binds, func(b Bind) bool {
				return b.Space == 0 && c.f.Contains(b.Cell, c.f.Leaves[l]) && c.spaces[vc].Roots[b.Root].Pinned == started[i].Pinned
			}) {
				return false
			}
		}
	}
	return true
}

// holds reports whether a leaf belongs to one of the tasks.
func (p *Placement) holds(l LeafID) bool {
	return slices.ContainsFunc(p.Tasks, func(t Task) bool { return slices.Contains(t.Leaves, l) })
}

// address returns the address of a task's k-th leaf on its node.
func address(t *Task, k int) string {
	if k < len(t.Parts) {
		return fmt.Sprintf("%d:%d", t.Devices[k], t.Parts[k])
	}
	return strconv.Itoa(int(t.Devices[k]))
}

// nameDevices writes the devices and parts of a task's leaves.
func (c carrier) nameDevices(t *Task) {
	for _, l := range t.Leaves {
		d, p, isPart := strings.Cut(c.f.Address(c.f.Leaves[l]), ":")
		device, _ := strconv.Atoi(d)
		t.Devices = append(t.Devices, int32(device))
		if isPart {
			part, _ := strconv.Atoi(p)
			t.Parts = append(t.Parts, int32(part))
		}
	}
}

// carryLeaves returns the leaves that stand for the k-th device of a task: the leaf of that SKU,
// else one of another SKU for the same device, else all parts of the device, else the whole
// device of which it was a part. same reports that nothing about it changed but names.
func (c carrier) carryLeaves(t *Started, k int) (found []LeafID, same bool) {
	node := c.f.NodeIndex(t.Node)
	if node == None {
		return nil, false
	}
	was, addr := t.Origin.Leaf, address(&t.Task, k)
	device, _, isPart := strings.Cut(addr, ":")
	split := !isPart || !t.divided(k).Same(c.division(t.Node, &was, t.Devices[k]))
	var other, parts, whole []LeafID
	for _, id := range c.f.Nodes[node].Cells {
		sku := c.SKU(c.f.Chains[c.f.Cells[id].Chain].SKU)
		first := c.f.Cells[id].FirstLeaf
		for l := first; l < first+LeafID(c.f.NumLeaves(id)); l++ {
			at := c.f.Address(c.f.Leaves[l])
			switch {
			case !sameDevices(&sku, &was):
			case split && strings.HasPrefix(at, device+":"):
				parts = append(parts, l)
			case at == addr && sku.Name == was.Name:
				return []LeafID{l}, true
			case at == addr && !same && onlyRenamed(sku, was):
				other, same = []LeafID{l}, true
			case at == addr:
				other = append(other, l)
			case isPart && at == device:
				whole = append(whole, l)
			}
		}
	}
	switch {
	case len(other) > 0:
		return other[:1], same
	case len(parts) > 0:
		return parts, false
	}
	return whole, false
}

// onlyRenamed reports whether leaves of two SKUs carry the same.
func onlyRenamed(a, b SKU) bool {
	return a.GPU == b.GPU && a.MilliCPU == b.MilliCPU && a.MemoryMB == b.MemoryMB && a.Device == b.Device && a.Part == b.Part
}

// carrying is the search for the preassigned cells of one allocation of an older cluster.
type carrying struct {
	c, old *Cluster
	vc     int32 // in c
	a      *Alloc
	moved  map[LeafID]LeafID // its old leaves and what they are in c
	fresh  []Bind            // roots bound for it so far
}

// pinnedAlike reports whether each leaf lies in the pinned cell that it lay in before, or again
// in none.
func (k *carrying) pinnedAlike(binds []Bind) bool {
	c, old := k.c, k.old
	for _, t := range k.a.Placement.Tasks {
		for _, l := range t.Leaves {
			to, kept := k.moved[l]
			if !kept {
				continue
			}
			was := old.rootOver(old.f.Leaves[l])
			if !slices.ContainsFunc(binds, func(b Bind) bool {
				return b.Space == 0 && c.f.Contains(b.Cell, c.f.Leaves[to]) && c.spaces[k.vc].Roots[b.Root].Pinned == old.spaces[was.space].Roots[was.root].Pinned
			}) {
				return false
			}
		}
	}
	return true
}

// binds finds a root for every preassigned cell of the allocation.
func (k *carrying) binds() ([]Bind, bool) {
	c, old := k.c, k.old
	if k.vc == None {
		return nil, false
	}
	var binds []Bind
	ok := true
	for _, b := range k.a.Placement.Binds {
		if b.Space != 0 {
			continue // it is bound with what lies in it
		}
		cells := k.cells(b.Cell)
		if cells == nil {
			continue // all of its leaves are gone
		}
		pin := old.spaces[k.a.Space].Roots[b.Root].Pinned
		if pin == "" {
			k.containers(old.spaces[k.a.Space].Parent, c.spaces[k.vc].Parent, b.Cell)
		}
		bind := k.root(cells, pin)
		if ok = bind.Root != None; !ok {
			break
		}
		binds = append(binds, bind)
	}
	slices.SortFunc(binds, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
	if binds = slices.Compact(binds); ok {
		binds = c.withOuter(k.vc, binds)
	}
	for _, b := range slices.Backward(k.fresh) {
		if c.spaces[b.Space].Roots[b.Root].Cell == b.Cell { // else it went with what lay in it
			c.unbind(b.Space, b.Root)
		}
	}
	return binds, ok
}

// containers binds cells of the containers around the VC as they were bound around a preassigned
// cell before, the outermost first, as far as possible. Bound elsewhere they could take the room
// of allocations that were carried over already, or come next. was lies in the older container o,
// for which n stands now: their names may differ.
func (k *carrying) containers(o, n int32, was CellID) {
	c, old := k.c, k.old
	if o <= 0 || n <= 0 {
		return
	}
	for old.spaces[o].rootAtCell(was) == None {
		was = old.f.parent[was]
	}
	k.containers(old.spaces[o].Parent, c.spaces[n].Parent, was)
	for _, id := range k.cells(was) {
		if c.freeAbove(n, id) != None || c.spaces[n].rootAtCell(id) != None {
			return // a cell is bound there already
		}
		list := c.spaces[n].unbound[c.slotOf(id)]
		if len(list) > 0 && c.bind(n, list[len(list)-1], id) {
			k.fresh = append(k.fresh, Bind{Space: n, Root: list[len(list)-1], Cell: id})
			return
		}
	}
}

// root binds the first of some cells that a root of the VC can stand for. With pin it must be the
// root pinned so, else an unpinned one.
func (k *carrying) root(cells []CellID, pin PinnedID) Bind {
	c := k.c
	for _, id := range cells {
		root, fresh := carrier{c}.rootFor(k.vc, id)
		switch {
		case root == None:
		case c.spaces[k.vc].Roots[root].Pinned == pin:
			if fresh {
				k.fresh = append(k.fresh, Bind{Space: k.vc, Root: root, Cell: id})
			}
			return Bind{Root: root, Cell: id}
		case fresh:
			c.unbind(k.vc, root)
		}
	}
	return Bind{Root: None}
}

// cells returns the cells that may stand for a preassigned cell, best first. They lie around all
// its leaves that are still there, and are of the same type or have as many leaves. It is nil if
// no leaf is left, and empty if there is no such cell.
func (k *carrying) cells(was CellID) []CellID {
	c, old := k.c, k.old.f
	first := old.Cells[was].FirstLeaf
	end := first + LeafID(old.NumLeaves(was))
	var leaves []CellID
	for _, t := range k.a.Placement.Tasks {
		for _, l := range t.Leaves {
			if to, kept := k.moved[l]; kept && l >= first && l < end {
				leaves = append(leaves, c.f.Leaves[to])
			}
		}
	}
	if len(leaves) == 0 {
		return nil
	}
	want := old.Chains[old.Cells[was].Chain].Types[old.Cells[was].Level-1]
	ch := &c.f.Chains[c.f.Cells[leaves[0]].Chain]
	named, shaped := []CellID{}, []CellID(nil)
	for id := leaves[0]; id != None; id = c.f.Cells[id].Parent {
		level := c.f.Cells[id].Level
		switch {
		case slices.ContainsFunc(leaves, func(l CellID) bool { return !c.f.Contains(id, l) }):
		case ch.Types[level-1] == want:
			named = append(named, id)
		case ch.LeavesAt(level) == old.NumLeaves(was):
			shaped = append(shaped, id)
		}
	}
	return append(named, shaped...)
}

// rootFor returns the root of a VC that is bound to a cell, or binds the first unbound one that
// may be (fresh); None when there is none.
func (c carrier) rootFor(vc int32, cell CellID) (root RootID, fresh bool) {
	if ref := c.owner[cell]; ref.space == vc {
		return ref.root, false
	}
	cl := &c.f.Cells[cell]
	for i := range c.spaces[vc].Roots {
		r := &c.spaces[vc].Roots[i]
		if r.Cell != None || r.Chain != cl.Chain || r.Level != cl.Level {
			continue
		}
		if c.bind(vc, RootID(i), cell) {
			return RootID(i), true
		}
		break
	}
	return None, false
}
