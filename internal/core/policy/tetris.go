package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// tetris packs along several resources (Grandl et al., SIGCOMM'14): of the gangs
// that fit it serves the one with the best score next, which is the alignment of
// its demand with what a machine has free, less its remaining work. It prefers
// the machine that it is aligned with.
//
// Alignment is the dot product of demand and idle leaves of each SKU, both as parts
// of what the machine has; a machine may stand in several chains. Leaves carry their
// GPUs, cores and memory with them, so these need no dimension of their own. A gang that
// needs several machines counts with the best one for its largest share of a
// machine, and prefers none. Remaining work is the declared run time that is left times
// the leaves; unknown times count as the mean. The work term is scaled by mean
// alignment over mean work (the paper's epsilon).
//
// The paper's penalty for remote input does not apply, since jobs here name no
// input; nor does the barrier knob: the tasks of a gang start together, and so no
// task waits for the last of a stage.
type tetris struct {
	// by=user (default) or by=team: the parties between which the knob is fair, by dominant
	// share.
	by model.By
	// fairness=0.25 is the paper's fairness knob f: only the 1-f of the waiting parties that
	// are furthest below their fair share are served, at least one. 0 packs best, 0.999 is
	// fairest.
	fairness int64
	// work=1 weighs the remaining work (the paper's m); 0 only packs.
	work int64
	// depth=100 bounds how many gangs of one party and shape are looked at, the
	// longest waiting first (ours).
	depth int64
}

func newTetris(a *args) *tetris {
	return &tetris{by: newBy(a), fairness: a.thousandths("fairness", 250, 0, 999),
		work: a.thousandths("work", 1000, 0, 100_000), depth: a.number("depth", 100, 1, maxList)}
}

// batch is waiting gangs of one party and one shape, least work first.
type batch struct {
	party int
	gangs []batchGang
	align int64 // parts per million
	node  int32 // where it is aligned best, -1 if nowhere
	cut   bool  // more wait than were read
}

// batchGang is one gang of a batch.
type batchGang struct {
	gang model.GangView
	work int64 // leaf-seconds; -1 is unknown
}

// bin is a machine.
type bin struct {
	model.NodeView
	rest []int32 // scratch: idle leaves of each offer
}

// packer is the state of one walk.
type packer struct {
	t       *tetris
	v       model.View
	parties []model.Party
	shares  []int64
	batches []batch
	bins    []bin
	mean    struct{ align, work int64 }
}

// Rank implements model.Policy.
func (t *tetris) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		p := &packer{t: t, v: v}
		p.collect()
		for len(p.batches) > 0 {
			at := p.best()
			b := &p.batches[at]
			g := &b.gangs[0].gang
			w := model.Wish{Gang: g.Ref}
			if b.node >= 0 {
				w.Prefer = cell.NodeSet{}.Add(b.node)
			}
			if !yield(w) {
				return
			}
			failed := ""
			if b.gangs = b.gangs[1:]; v.Placed(g.Ref) {
				p.placed(b)
			} else if !g.Delayed {
				failed = g.Shape // nor do the others of that shape fit
			}
			free := v.Free()
			p.batches = slices.DeleteFunc(p.batches, func(b batch) bool {
				return len(b.gangs) == 0 || !fits(&b.gangs[0].gang, free) || failed != "" && b.gangs[0].gang.Shape == failed
			})
		}
	}
}

// placed brings everything up to date after a gang of a batch was placed.
func (p *packer) placed(b *batch) {
	if len(b.gangs) == 0 && b.cut {
		p.collect()
		return
	}
	p.shares[b.party] = p.v.Share(p.t.by, p.parties[b.party])
	p.look()
	for i := range p.batches {
		if b := &p.batches[i]; len(b.gangs) > 0 {
			b.align, b.node = p.align(b.gangs[0].gang.Members)
		}
	}
}

// collect reads the gangs that wait and might fit. Of a shape for which no machine has idle
// leaves it reads only the first gang, which could only take leaves that others hold.
func (p *packer) collect() {
	p.parties, p.shares, p.batches = nil, nil, nil
	free, waits := p.v.Free(), p.v.Parties(p.t.by, false)
	if len(waits) == 0 {
		return
	}
	p.look()
	for i, gs := range waits {
		p.parties = append(p.parties, gs.Party)
		p.shares = append(p.shares, p.v.Share(p.t.by, gs.Party))
		at := map[string]int{}
		g, ok := gs.Next()
		for ok {
			if !fits(&g, free) {
				g, ok = gs.NextShape()
				continue
			}
			k, found := at[g.Shape]
			if !found || g.Shape == "" {
				k = len(p.batches)
				at[g.Shape] = k
				b := batch{party: i}
				b.align, b.node = p.align(g.Members)
				p.batches = append(p.batches, b)
			}
			b := &p.batches[k]
			if b.gangs = append(b.gangs, batchGang{g, workOf(&g)}); b.align > 0 && int64(len(b.gangs)) < p.t.depth || g.Shape == "" {
				g, ok = gs.Next()
			} else {
				b.cut = true
				g, ok = gs.NextShape()
			}
		}
	}
	p.means()
}

// maxWork bounds work, so that it can be multiplied.
const maxWork = 1 << 38

// workOf is a gang's remaining work in leaf-seconds.
func workOf(g *model.GangView) int64 {
	left := remaining(g)
	if left == unknown {
		return -1
	}
	return min(times(left/int64(model.Second)+1, g.Leaves), maxWork)
}

// look reads the machines.
func (p *packer) look() {
	p.bins = p.bins[:0]
	for n := range p.v.Nodes() {
		p.bins = append(p.bins, bin{n, make([]int32, len(n.Offers))})
	}
}

// align finds the machine with which a gang is aligned best, -1 when no machine
// holds all of it.
func (p *packer) align(members []cell.Member) (best int64, node int32) {
	node = -1
	for i := range p.bins {
		if a, ok := p.bins[i].holds(members); ok && (node < 0 || a > best) {
			best, node = a, p.bins[i].Node
		}
	}
	if node >= 0 {
		return best, node
	}
	for i := range p.bins {
		for k := range members {
			m := &members[k]
			for _, o := range p.bins[i].Offers {
				if usesSKU(m, o.SKU) && o.Idle >= m.Leaves {
					best = max(best, alignedPart(min(m.Tasks, o.Idle/m.Leaves)*m.Leaves, o))
				}
			}
		}
	}
	return best, -1
}

// alignedPart is one dimension of the dot product.
func alignedPart(leaves int32, o model.Offer) int64 {
	return int64(leaves) * int64(o.Idle) * 1_000_000 / (int64(o.Of) * int64(o.Of))
}

func usesSKU(m *cell.Member, sku cell.TypeName) bool {
	return len(m.SKUs) == 0 || slices.Contains(m.SKUs, sku)
}

// holds reports whether a machine holds a whole gang, and how they are aligned.
func (b *bin) holds(members []cell.Member) (int64, bool) {
	for i, o := range b.Offers {
		b.rest[i] = o.Idle
	}
	for k := range members {
		m := &members[k]
		need, at := m.Tasks*m.Leaves, -1
		for i, o := range b.Offers {
			if usesSKU(m, o.SKU) && b.rest[i] >= need && (at < 0 || b.rest[i] > b.rest[at]) {
				at = i
			}
		}
		if at < 0 {
			return 0, false
		}
		b.rest[at] -= need
	}
	var a int64
	for i, o := range b.Offers {
		a += alignedPart(o.Idle-b.rest[i], o)
	}
	return a, true
}

// means sums up what the terms of the score are scaled by, and puts the gangs of
// every batch in order.
func (p *packer) means() {
	var aligns, works, n, known int64
	for i := range p.batches {
		b := &p.batches[i]
		n += int64(len(b.gangs))
		aligns += b.align * int64(len(b.gangs))
		for _, g := range b.gangs {
			if g.work >= 0 {
				known++
				works += g.work
			}
		}
	}
	if n > 0 {
		p.mean.align = aligns / n
	}
	if known > 0 {
		p.mean.work = max(works/known, 1)
	}
	for i := range p.batches {
		b := &p.batches[i]
		for k := range b.gangs {
			if b.gangs[k].work < 0 {
				b.gangs[k].work = p.mean.work
			}
		}
		slices.SortStableFunc(b.gangs, func(x, y batchGang) int { return cmp.Compare(x.work, y.work) })
	}
}

// score is alignment less scaled work.
func (p *packer) score(b *batch) int64 {
	if p.mean.work == 0 {
		return b.align
	}
	return b.align - p.mean.align*b.gangs[0].work/p.mean.work*p.t.work/1000
}

// best returns the batch whose first gang is next.
func (p *packer) best() int {
	cut := p.servedParties()
	at := -1
	var most int64
	for i := range p.batches {
		b := &p.batches[i]
		if !cut[b.party] {
			continue
		}
		s := p.score(b)
		if at < 0 || s > most || s == most && b.gangs[0].gang.Order < p.batches[at].gangs[0].gang.Order {
			at, most = i, s
		}
	}
	return at
}

// servedParties says which parties are served: of those with waiting gangs, the part furthest below
// its share.
func (p *packer) servedParties() []bool {
	in := make([]bool, len(p.parties))
	var waiting []int
	for i := range p.batches {
		if k := p.batches[i].party; !in[k] {
			in[k] = true
			waiting = append(waiting, k)
		}
	}
	slices.SortFunc(waiting, func(x, y int) int {
		return cmp.Or(cmp.Compare(p.shares[x], p.shares[y]), p.parties[x].Compare(p.parties[y]))
	})
	for _, k := range waiting[(len(waiting)*int(1000-p.t.fairness)+999)/1000:] {
		in[k] = false
	}
	return in
}
