package cell

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
)

// binKey is what bins must have in common to be equally good, wherever they are: their idle
// leaves, the most idle leaves of any one cell at each of three levels below the node, and their
// preemptible leaves. Keys are ordered by idle, wide and preemptible.
type binKey struct {
	idle, preemptible int32
	wide              uint64 // 16 bits a level: the level below the node in the highest
}

// wideLevels is how many levels below the node a key describes.
const wideLevels = 3

// lowest returns the lowest level of a cell in such a bin with n idle leaves, as
// far as the key tells; there must be n.
func (k binKey) lowest(ch *Chain, n int32) Level {
	if n == 1 {
		return 1
	}
	for i := min(wideLevels, int(ch.NodeLevel)-2); i >= 1; i-- {
		if int32(k.wide>>(16*(wideLevels-i))&0xffff) >= n {
			return ch.NodeLevel - Level(i)
		}
	}
	return ch.NodeLevel
}

// less orders keys by idle, wide and preemptible.
func (k *binKey) less(o *binKey) bool {
	return k.idle < o.idle || k.idle == o.idle && (k.wide < o.wide || k.wide == o.wide && k.preemptible < o.preemptible)
}

// kinds numbers the keys that bins of one chain have or had. A number stays, and all indexes use
// it.
type kinds struct {
	keys  []binKey // by number
	order []int32  // the numbers, by key
	table []int32  // by hash: a number plus 1; 0 is none; at most half full
}

// number returns the number of a key.
func (ks *kinds) number(k binKey) int32 {
	if 2*len(ks.keys) >= len(ks.table) {
		ks.table = make([]int32, max(64, 2*len(ks.table)))
		for n := range ks.keys {
			ks.table[ks.home(&ks.keys[n])] = int32(n) + 1
		}
	}
	at := ks.home(&k)
	if n := ks.table[at]; n != 0 {
		return n - 1
	}
	n := int32(len(ks.keys))
	ks.keys = append(ks.keys, k)
	ks.table[at] = n + 1
	ks.order = slices.Insert(ks.order, ks.from(k), n)
	return n
}

// home is where a key stands in the table, or would stand.
func (ks *kinds) home(k *binKey) int {
	const golden = 0x9E3779B97F4A7C15 // multiples of the golden ratio lie evenly (Knuth, 6.4)
	i := int(((uint64(uint32(k.idle))<<32|uint64(uint32(k.preemptible)))*golden ^ k.wide) * golden >> 32)
	for ; ; i++ {
		i &= len(ks.table) - 1
		if n := ks.table[i]; n == 0 || ks.keys[n-1] == *k {
			return i
		}
	}
}

// from returns where in order the keys begin that are not less than k.
func (ks *kinds) from(k binKey) int {
	lo, hi := 0, len(ks.order)
	for lo < hi {
		if mid := (lo + hi) / 2; ks.keys[ks.order[mid]].less(&k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (ks *kinds) clone() kinds {
	return kinds{slices.Clone(ks.keys), slices.Clone(ks.order), slices.Clone(ks.table)}
}

// nodeBin is what is noted about a bin.
type nodeBin struct {
	kind   int32 // the number of its key
	listed int32 // its number in the cluster's index: older than kind while it is late there
	vc     int32 // the VC that has a bound cell around the node, None if none has
	seat   int32 // its place in that VC's index
}

// binIndex finds bins by what they offer. The physical cluster has one for each chain. So has
// every VC, for the nodes that lie wholly in its bound cells; nodes of which it has only parts
// are listed apart.
//
// A class holds places. In the cluster's index a place is a bin. In a VC's it counts the nodes of
// the VC's own preassigned cells, one after the other. So which of equally good nodes a VC takes
// never depends on where others left room: alone on its cells it would take the same one.
type binIndex struct {
	classes []collections.SparseSet // by the number of their key
	size    []int32                 // of each class
	listed  int32                   // places in all classes
	parts   []partBin
	spare   []CellID // memory for the cells of the next bin listed
	bins    []int32  // of VCs, by place: the bin, while it is bound
}

// bin returns the bin at a place.
func (x *binIndex) bin(place int32) int32 {
	if x.bins == nil {
		return place
	}
	return x.bins[place]
}

// partBin is a node of which a VC has bound preassigned cells below node level. Its cells are
// good until one more is bound or unbound.
type partBin struct {
	bin   int32
	cells []CellID // ascending
}

// some reports whether any bin is of a kind.
func (x *binIndex) some(kind int32) bool { return int(kind) < len(x.size) && x.size[kind] > 0 }

// ordered returns the kinds of which the index may have bins, by key, from a place in that order
// on. It returns none if the index has only parts of nodes.
func (x *binIndex) ordered(ks *kinds, from int) []int32 {
	if x.listed == 0 {
		return nil
	}
	return ks.order[from:]
}

// add puts a place into the class of a kind, where it must not be yet; places is how many there
// are in all.
func (x *binIndex) add(kind, place int32, places int) {
	for int(kind) >= len(x.size) {
		x.classes, x.size = append(x.classes, collections.SparseSet{}), append(x.size, 0)
	}
	if x.classes[kind].Words() == 0 {
		x.classes[kind] = collections.NewSparseSet(places)
	}
	x.classes[kind].Add(place)
	x.size[kind]++
	x.listed++
}

// remove takes a place out of the class of a kind.
func (x *binIndex) remove(kind, place int32) {
	x.classes[kind].Remove(place)
	x.size[kind]--
	x.listed--
}

// addPart lists a cell below node level that was bound in a bin.
func (x *binIndex) addPart(bin int32, id CellID) {
	i, found := x.partsOf(bin)
	if !found {
		x.parts = slices.Insert(x.parts, i, partBin{bin: bin, cells: x.spare})
		x.spare = nil
	}
	p := &x.parts[i]
	if n := len(p.cells); n == 0 || p.cells[n-1] < id {
		p.cells = append(p.cells, id)
		return
	}
	k, _ := slices.BinarySearch(p.cells, id)
	p.cells = slices.Insert(p.cells, k, id)
}

func (x *binIndex) removePart(bin int32, id CellID) {
	i, _ := x.partsOf(bin)
	p := &x.parts[i]
	k, _ := slices.BinarySearch(p.cells, id)
	if p.cells = slices.Delete(p.cells, k, k+1); len(p.cells) == 0 {
		x.spare = p.cells
		x.parts = slices.Delete(x.parts, i, i+1)
	}
}

// partsOf finds where the parts of a bin are listed, or would be.
func (x *binIndex) partsOf(bin int32) (int, bool) {
	return slices.BinarySearchFunc(x.parts, bin, func(p partBin, b int32) int { return cmp.Compare(p.bin, b) })
}

func (x *binIndex) clone() binIndex {
	y := binIndex{classes: slices.Clone(x.classes), size: slices.Clone(x.size), listed: x.listed, parts: slices.Clone(x.parts), bins: slices.Clone(x.bins)}
	for i := range y.parts {
		y.parts[i].cells = slices.Clone(y.parts[i].cells)
	}
	var words int
	for i := range x.classes {
		words += x.classes[i].Words()
	}
	slab := make([]uint64, words)
	for i := range y.classes {
		y.classes[i], slab = y.classes[i].CloneIn(slab)
	}
	return y
}

// key describes a bin as it is now.
func (c *Cluster) key(ch *Chain, node CellID) binKey {
	k := binKey{idle: c.idle[node], preemptible: c.preemptible[node]}
	if k.idle == 0 {
		return k
	}
	var most [wideLevels]int32
	for i := 1; i < len(ch.inside); i++ {
		l := ch.inside[i]
		if d := int(ch.NodeLevel-l) - 1; l > 1 && d < wideLevels {
			most[d] = max(most[d], c.idle[node+CellID(i)])
		}
	}
	for d, m := range most {
		k.wide |= uint64(min(m, 0xffff)) << (16 * (wideLevels - 1 - d))
	}
	return k
}

// refresh puts a node-level cell into the class of its present counts.
func (c *Cluster) refresh(node CellID) {
	chain, bin := c.f.Cells[node].Chain, c.f.Cells[node].Bin
	b := &c.bins[chain][bin]
	was := b.kind
	if b.kind = c.kinds[chain].number(c.key(&c.f.Chains[chain], node)); b.kind == was {
		return
	}
	c.stale[chain].Add(bin)
	if b.vc != None {
		x := &c.spaces[b.vc].index[chain]
		x.remove(was, b.seat)
		x.add(b.kind, b.seat, len(x.bins))
	}
}

// everywhere returns the index of all nodes of a chain. Few ask for it, so it is
// brought up to date only here.
func (c *Cluster) everywhere(chain int16) *binIndex {
	x, late, bins := &c.all[chain], &c.stale[chain], c.bins[chain]
	for i := late.Next(0); i != None; i = late.Next(i + 1) {
		late.Remove(i)
		if b := &bins[i]; b.listed != b.kind {
			x.remove(b.listed, i)
			x.add(b.kind, i, len(bins))
			b.listed = b.kind
		}
	}
	return x
}

// enlist puts the nodes of a newly bound preassigned cell into its VC's index (on), or takes them
// out.
func (c *Cluster) enlist(space int32, root RootID, id CellID, on bool) {
	cl := &c.f.Cells[id]
	ch := &c.f.Chains[cl.Chain]
	x := &c.spaces[space].index[cl.Chain]
	if cl.Level < ch.NodeLevel {
		if on {
			x.addPart(cl.Bin, id)
		} else {
			x.removePart(cl.Bin, id)
		}
		return
	}
	first := c.f.Cells[id+CellID(cl.Level-ch.NodeLevel)].Bin
	n := ch.LeavesAt(cl.Level) / ch.LeavesAt(ch.NodeLevel)
	for b := first; b < first+n; b++ {
		place := c.spaces[space].Roots[root].place + b - first
		at := &c.bins[cl.Chain][b]
		if on {
			at.vc, at.seat, x.bins[place] = space, place, b
			x.add(at.kind, place, len(x.bins))
		} else {
			at.vc = None
			x.remove(at.kind, place)
		}
	}
}

// NodeLiesIn reports whether a node lies in a bound cell of a VC.
func (c *Cluster) NodeLiesIn(node, space int32) bool {
	for _, id := range c.f.Nodes[node].Cells {
		ci := c.f.Cells[id].Chain
		if b, found := slices.BinarySearch(c.f.Chains[ci].NodeCells, id); found && c.bins[ci][b].vc == space {
			return true
		}
	}
	return false
}

// indexChain puts every node of a chain into its index.
func (c *Cluster) indexChain(ci int16) {
	ch := &c.f.Chains[ci]
	c.bins[ci], c.stale[ci] = make([]nodeBin, len(ch.NodeCells)), collections.NewSparseSet(len(ch.NodeCells))
	if len(ch.NodeCells) == 0 {
		return
	}
	whole := c.kinds[ci].number(c.key(ch, ch.NodeCells[0]))
	for b := range ch.NodeCells {
		c.bins[ci][b] = nodeBin{kind: whole, listed: whole, vc: None}
		c.all[ci].add(whole, int32(b), len(ch.NodeCells))
	}
}
