package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// chosen is a line, and which party's it is.
type chosen struct{ line, party int32 }

// fewParties are found faster by looking at each.
const fewParties = 8

// leavesOfLine sums what the gangs of a line want.
func (s *index) leavesOfLine(l *line) int64 {
	if l.shape != "" {
		return int64(l.leaves) * int64(len(l.gangs))
	}
	var n int64
	for _, e := range l.gangs {
		n += int64(s.jobs[e.slot].gangs[e.gang].leaves)
	}
	return n
}

// holding is how many leaves of one chain a party's gangs of one priority hold in
// a VC, or were promised.
type holding struct {
	by     By
	party  Party
	prio   cell.Priority
	chain  int16
	leaves int64
	// staying are those of guaranteed gangs that were not told to stop.
	staying int64
}

func (h *holding) compare(o *holding) int {
	return cmp.Or(cmp.Compare(h.by, o.by), h.party.Compare(o.party), cmp.Compare(o.prio, h.prio), cmp.Compare(h.chain, o.chain))
}

// holdings are the holdings of a VC, sorted, told apart in each way that some
// policy asked for: from then on they are kept.
type holdings struct {
	asked uint8   // a bit for each By
	owned []int64 // the VC's resources; see addResources
	list  []holding
}

func (hs *holdings) clone() holdings {
	return holdings{hs.asked, hs.owned, slices.Clone(hs.list)}
}

func (hs *holdings) equal(o *holdings) bool {
	return hs.asked == o.asked && slices.Equal(hs.owned, o.owned) && slices.Equal(hs.list, o.list)
}

// from returns where the holdings of a party begin, or of all with the zero party.
func (hs *holdings) from(by By, p Party) int {
	i, _ := slices.BinarySearchFunc(hs.list, holding{by: by, party: p, prio: cell.MaxGuaranteed + 1},
		func(h, k holding) int { return h.compare(&k) })
	return i
}

// addResources adds leaves of a chain to sums of GPUs, MiB of GPU memory,
// thousandths of cores and MiB, with one more entry for each chain's leaves. It is
// what the leaves carry, which nobody else can use, and not what tasks ask for.
func (s *index) addResources(to []int64, chain int, n int64) {
	sku := s.cl.SKU(s.cl.Forest().Chains[chain].SKU)
	to[0] += n * sku.GPU
	to[1] += n * sku.GPU * sku.GPUMemoryMB
	to[2] += n * sku.MilliCPU
	to[3] += n * sku.MemoryMB
	to[4+chain] += n
}

// holdings returns the holdings of a VC; it begins to count those that were not
// asked for before.
func (s *index) holdings(space int32, by By) *holdings {
	hs := &s.tallies[space].holdings
	if hs.asked>>by&1 == 0 {
		s.askHoldings(space, by)
	}
	return hs
}

func (s *index) askHoldings(space int32, by By) {
	hs, f := &s.tallies[space].holdings, s.cl.Forest()
	if hs.asked == 0 {
		hs.owned = make([]int64, 4+len(f.Chains))
		sp := s.cl.Space(space)
		for i := range sp.Roots {
			r := &sp.Roots[i]
			s.addResources(hs.owned, int(r.Chain), int64(f.Chains[r.Chain].LeavesAt(r.Level)))
		}
	}
	hs.asked |= 1 << by
	for a := range s.holding(space) {
		if !a.joined {
			s.countHoldings(hs, by, s.counted(a), 1)
		}
	}
}

// countHoldings adds an attempt's leaves to what its party holds, or with -1 takes
// them away.
func (s *index) countHoldings(hs *holdings, by By, a *attempt, sign int64) {
	f, spec := s.cl.Forest(), s.jobs[a.job].spec
	h := holding{by: by, party: by.party(spec), prio: spec.Priority}
	stays := !a.lazy && spec.Priority >= cell.MinGuaranteed && a.cause == 0 && !a.orphaned
	add := func() {
		if stays {
			h.staying = h.leaves
		}
		hs.hold(h)
	}
	for _, task := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range task.Leaves {
			if chain := f.Cells[f.Leaves[l]].Chain; chain != h.chain {
				add()
				h.chain, h.leaves = chain, 0
			}
			h.leaves += sign
		}
	}
	add()
}

// hold adds to what a party holds.
func (hs *holdings) hold(h holding) {
	if h.leaves == 0 {
		return
	}
	i, found := slices.BinarySearchFunc(hs.list, h, func(o, k holding) int { return o.compare(&k) })
	if !found {
		hs.list = slices.Insert(hs.list, i, h)
		return
	}
	at := &hs.list[i]
	at.leaves += h.leaves
	at.staying += h.staying
	if at.leaves == 0 {
		hs.list = slices.Delete(hs.list, i, i+1)
	}
}
