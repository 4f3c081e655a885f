package cell

import (
	"cmp"
	"math/bits"
	"slices"
)

// binSet is a set of bins (node-level cells of one chain) as a bitmap with a
// summary above it: adding, removing and finding the next one cost a few words,
// however large the cluster is.
type binSet struct {
	words []uint64
	sum   []uint64 // a bit for each word that is not zero
	n     int32
}

func newBinSet(bins int) binSet {
	words := (bins + 63) / 64
	both := make([]uint64, words+(words+63)/64)
	return binSet{words: both[:words:words], sum: both[words:]}
}

func (s *binSet) add(b int32) {
	w := b / 64
	if s.words[w]>>(b%64)&1 == 0 {
		s.words[w] |= 1 << (b % 64)
		s.sum[w/64] |= 1 << (w % 64)
		s.n++
	}
}

func (s *binSet) remove(b int32) {
	w := b / 64
	if s.words[w]>>(b%64)&1 == 0 {
		return
	}
	s.n--
	if s.words[w] &^= 1 << (b % 64); s.words[w] == 0 {
		s.sum[w/64] &^= 1 << (w % 64)
	}
}

// next returns the first bin that is not before b, or None.
func (s *binSet) next(b int32) int32 {
	w := int(b / 64)
	if w >= len(s.words) {
		return None
	}
	if rest := s.words[w] >> (b % 64); rest != 0 {
		return b + int32(bits.TrailingZeros64(rest))
	}
	for w++; w < len(s.words); {
		rest := s.sum[w/64] >> (w % 64)
		if rest == 0 {
			w = (w/64 + 1) * 64
			continue
		}
		w += bits.TrailingZeros64(rest)
		return int32(w*64 + bits.TrailingZeros64(s.words[w]))
	}
	return None
}

// binKey is, in the order of idle, wide and soft, what bins must have in common to be equally good, wherever they are:
// idle leaves, the most idle leaves of any cell at the three levels below the
// node, and leaves that a guaranteed gang could have by lifting opportunistic work.
type binKey struct {
	idle, soft int32
	wide       uint64 // 16 bits a level, the level below the node first
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

// class is the bins with one key.
type class struct {
	key    binKey
	places binSet
}

// binIndex finds bins by what they offer. The physical cluster has one for each
// chain, and so has every VC for the nodes that lie wholly in its bound cells;
// nodes of which it has only parts are listed apart.
//
// A class holds places. In the cluster's index a place is a bin; in a VC's it is
// where the node lies in the VC's own preassigned cells, one after the other. So
// which of equally good nodes a VC takes never depends on where others left room:
// alone on its cells it would take the same one.
type binIndex struct {
	classes []class // sorted by key; some may be empty
	parts   []partBin
	bins    []int32 // of VCs, by place: the bin, while it is bound
}

// bin returns the bin at a place.
func (x *binIndex) bin(place int32) int32 {
	if x.bins == nil {
		return place
	}
	return x.bins[place]
}

// partBin is a node of which a VC has preassigned cells below node level bound.
type partBin struct {
	bin   int32
	cells []CellID // ascending
}

// find returns where a key stands or would stand.
func (x *binIndex) find(k binKey) (int, bool) {
	lo, hi := 0, len(x.classes)
	for lo < hi {
		mid := (lo + hi) / 2
		if at := &x.classes[mid].key; at.idle < k.idle || at.idle == k.idle && (at.wide < k.wide || at.wide == k.wide && at.soft < k.soft) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(x.classes) && x.classes[lo].key == k
}

func (x *binIndex) add(k binKey, place int32, places int) {
	i, found := x.find(k)
	if !found {
		x.classes = slices.Insert(x.classes, i, class{k, newBinSet(places)})
	}
	x.classes[i].places.add(place)
}

func (x *binIndex) remove(k binKey, place int32) {
	i, _ := x.find(k)
	x.classes[i].places.remove(place)
}

func (x *binIndex) addPart(bin int32, id CellID) {
	i, found := slices.BinarySearchFunc(x.parts, bin, func(p partBin, b int32) int { return cmp.Compare(p.bin, b) })
	if !found {
		x.parts = slices.Insert(x.parts, i, partBin{bin: bin})
	}
	p := &x.parts[i]
	k, _ := slices.BinarySearch(p.cells, id)
	p.cells = slices.Insert(slices.Clone(p.cells), k, id)
}

func (x *binIndex) removePart(bin int32, id CellID) {
	i, _ := slices.BinarySearchFunc(x.parts, bin, func(p partBin, b int32) int { return cmp.Compare(p.bin, b) })
	p := &x.parts[i]
	k, _ := slices.BinarySearch(p.cells, id)
	if p.cells = slices.Delete(slices.Clone(p.cells), k, k+1); len(p.cells) == 0 {
		x.parts = slices.Delete(x.parts, i, i+1)
	}
}

func (x *binIndex) clone() binIndex {
	y := binIndex{classes: slices.Clone(x.classes), parts: slices.Clone(x.parts), bins: slices.Clone(x.bins)}
	var words int
	for i := range x.classes {
		words += len(x.classes[i].places.words) + len(x.classes[i].places.sum)
	}
	slab := make([]uint64, words)
	for i := range y.classes {
		s := &y.classes[i].places
		n, m := len(s.words), len(s.sum)
		copy(slab, s.words)
		copy(slab[n:], s.sum)
		s.words, s.sum, slab = slab[:n:n], slab[n:n+m:n+m], slab[n+m:]
	}
	return y
}

// key describes a bin as it is now.
func (c *Cluster) key(ch *Chain, node CellID) binKey {
	k := binKey{idle: c.idle[node], soft: c.soft[node]}
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

// refresh puts a node-level cell where its present counts belong.
func (c *Cluster) refresh(chain int16, bin int32) {
	ch := &c.f.Chains[chain]
	k := c.key(ch, ch.NodeCells[bin])
	was := c.keys[chain][bin]
	if k == was {
		return
	}
	c.keys[chain][bin] = k
	c.all[chain].remove(was, bin)
	c.all[chain].add(k, bin, len(ch.NodeCells))
	if sp := c.whose[chain][bin]; sp != None {
		x := &c.spaces[sp].index[chain]
		place := c.seat[chain][bin]
		x.remove(was, place)
		x.add(k, place, len(x.bins))
	}
}

// enlist puts the nodes of a newly bound preassigned cell into its VC's index;
// on false it takes them out.
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
		if on {
			c.whose[cl.Chain][b], c.seat[cl.Chain][b], x.bins[place] = space, place, b
			x.add(c.keys[cl.Chain][b], place, len(x.bins))
		} else {
			c.whose[cl.Chain][b] = None
			x.remove(c.keys[cl.Chain][b], place)
		}
	}
}

// scanMost bounds how many nodes of one class Samples reads.
const scanMost = 64

// Samples returns nodes with idle leaves that a VC may reach, ascending: of every
// class of its bound nodes, and of those that nobody has bound wholly, up to so
// many. What it costs grows with the classes, not with the nodes.
func (c *Cluster) Samples(space int32, each int) []int32 {
	var out []int32
	read := func(ch *Chain, x *binIndex, whose []int32, want int32) {
		for i := range x.classes {
			if x.classes[i].key.idle == 0 {
				continue
			}
			places := &x.classes[i].places
			found, at := 0, places.next(0)
			for n := 0; n < scanMost && found < each && at != None; n++ {
				if b := x.bin(at); whose[b] == want {
					out = append(out, c.f.Cells[ch.NodeCells[b]].Node)
					found++
				}
				at = places.next(at + 1)
			}
		}
	}
	for ci := range c.f.Chains {
		ch := &c.f.Chains[ci]
		read(ch, &c.spaces[space].index[ci], c.whose[ci], space)
		read(ch, &c.all[ci], c.whose[ci], None)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
