package index

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// PartyGroup is a wait group, by index, and the index of its party.
type PartyGroup struct{ Group, Party int32 }

// FewParties is up to how many parties a scan finds one faster than a map.
const FewParties = 8

// LeavesOfGroup sums the leaves that the gangs of a wait group ask for.
func (s *Index) LeavesOfGroup(l *WaitGroup) int64 {
	if l.Shape != "" {
		return int64(l.Leaves) * int64(len(l.Gangs))
	}
	var n int64
	for _, e := range l.Gangs {
		n += int64(s.Jobs[e.Slot].Gangs[e.Gang].Leaves)
	}
	return n
}

// holding is how many leaves of one chain a party's gangs of one priority hold in a VC, or are
// promised.
type holding struct {
	By     model.By
	Party  model.Party
	Prio   cell.Priority
	Chain  int16
	Leaves int64
	// Staying counts those of guaranteed gangs that were not told to stop.
	Staying int64
}

func (h *holding) compare(o *holding) int {
	return cmp.Or(cmp.Compare(h.By, o.By), h.Party.Compare(o.Party), cmp.Compare(o.Prio, h.Prio),
		cmp.Compare(h.Chain, o.Chain))
}

// holdings are the holdings of a VC, sorted, by each kind of party for which some policy asked:
// from then on they are kept.
type holdings struct {
	Asked uint8   // a bit for each By
	Owned []int64 // the VC's resources; see AddResources
	List  []holding
}

func (hs *holdings) clone() holdings {
	return holdings{hs.Asked, hs.Owned, slices.Clone(hs.List)}
}

func (hs *holdings) Equal(o *holdings) bool {
	return hs.Asked == o.Asked && slices.Equal(hs.Owned, o.Owned) && slices.Equal(hs.List, o.List)
}

// From is the index of the first holding of a party; with the zero party, of the first of that By.
func (hs *holdings) From(by model.By, p model.Party) int {
	i, _ := slices.BinarySearchFunc(hs.List, holding{By: by, Party: p, Prio: cell.MaxGuaranteed + 1},
		func(h, k holding) int { return h.compare(&k) })
	return i
}

// AddResources adds n leaves of a chain to sums of, in this order, GPUs, MiB of GPU memory,
// thousandths of cores, MiB of memory, and leaves of each chain. It counts what the leaves carry,
// not what tasks ask for: no other task can use the difference.
func (s *Index) AddResources(to []int64, chain int, n int64) {
	sku := s.Cluster.SKU(s.Cluster.Forest().Chains[chain].SKU)
	to[0] += n * sku.GPU
	to[1] += n * sku.GPU * sku.GPUMemoryMB
	to[2] += n * sku.MilliCPU
	to[3] += n * sku.MemoryMB
	to[4+chain] += n
}

// Holdings returns the holdings of a VC; the first call for a kind of party begins to count.
func (s *Index) Holdings(space int32, by model.By) *holdings {
	hs := &s.Tallies[space].Holdings
	if hs.Asked>>by&1 == 0 {
		s.AskHoldings(space, by)
	}
	return hs
}

// AskHoldings counts what parties of a VC hold; from now on the counts are kept.
func (s *Index) AskHoldings(space int32, by model.By) {
	hs, f := &s.Tallies[space].Holdings, s.Cluster.Forest()
	if hs.Asked == 0 {
		hs.Owned = make([]int64, 4+len(f.Chains))
		sp := s.Cluster.Space(space)
		for i := range sp.Roots {
			r := &sp.Roots[i]
			s.AddResources(hs.Owned, int(r.Chain), int64(f.Chains[r.Chain].LeavesAt(r.Level)))
		}
	}
	hs.Asked |= 1 << by
	for a := range s.AttemptsIn(space) {
		if !a.NotFirst {
			s.CountHoldings(hs, by, s.Counted(a), 1)
		}
	}
}

// CountHoldings adds an attempt's leaves to its party's holdings, or with sign -1 subtracts them.
func (s *Index) CountHoldings(hs *holdings, by model.By, a *tables.Attempt, sign int64) {
	f, spec := s.Cluster.Forest(), s.Jobs[a.Job].Spec
	h := holding{By: by, Party: by.Party(spec), Prio: spec.Priority}
	stays := !a.Lazy && spec.Priority >= cell.MinGuaranteed && a.Cause == 0 && !a.Orphaned
	add := func() {
		if stays {
			h.Staying = h.Leaves
		}
		hs.hold(h)
	}
	for _, task := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		for _, l := range task.Leaves {
			if chain := f.Cells[f.Leaves[l]].Chain; chain != h.Chain {
				add()
				h.Chain, h.Leaves = chain, 0
			}
			h.Leaves += sign
		}
	}
	add()
}

// hold adds to the holdings of a party, and drops an entry that has no leaves left.
func (hs *holdings) hold(h holding) {
	if h.Leaves == 0 {
		return
	}
	i, found := slices.BinarySearchFunc(hs.List, h, func(o, k holding) int { return o.compare(&k) })
	if !found {
		hs.List = slices.Insert(hs.List, i, h)
		return
	}
	at := &hs.List[i]
	at.Leaves += h.Leaves
	at.Staying += h.Staying
	if at.Leaves == 0 {
		hs.List = slices.Delete(hs.List, i, i+1)
	}
}
