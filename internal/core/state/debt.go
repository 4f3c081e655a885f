package state

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// What VCs borrowed over time. If the configuration has a half-life, opportunistic capacity goes
// first to the VC that owes least. What a VC owes is its dominant share over the types of leaves.
// For each type that is the mean use, in which use a half-life ago counts half, plus the use now,
// divided by the VC's weight. Both are in leaves, so that use now counts at once and one decision
// does not give everything to one VC.
//
// The mean m of a use u that did not change for a time t becomes m f + u (1 - f), where f is 2 to
// the power of -t over the half-life: in fixed point, from events alone.

// debt is what one VC borrowed, as of At.
type debt struct {
	VC   cell.VCName `json:"vc"`
	At   model.Time  `json:"at"`
	Past []past      `json:"past,omitempty"` // by SKU
}

// past is the decayed mean of the leaves of one SKU, times 2^20.
type past struct {
	SKU  cell.TypeName `json:"sku"`
	Mean int64         `json:"mean"`
}

// MeanBits are the binary digits of a mean behind its point.
const MeanBits = 20

// borrows adds an attempt's leaves, by chain, to what its VC borrows now, or with sign -1
// subtracts them.
func (s *State) borrows(t *index.Tally, a *tables.Attempt, sign int64) {
	if s.Config.HalfLife == 0 {
		return
	}
	f := s.Cluster.Forest()
	if t.BorrowedByChain == nil {
		t.BorrowedByChain = make([]int64, len(f.Chains))
	}
	for _, task := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		for _, l := range task.Leaves {
			t.BorrowedByChain[f.Cells[f.Leaves[l]].Chain] += sign
		}
	}
}

// accrue brings the debt of a VC up to date, before what it borrows changes.
func (s *State) accrue(space int32) {
	if s.Config == nil || s.Config.HalfLife == 0 || space == 0 || s.Recount {
		return
	}
	name := s.Cluster.Space(space).Name
	i, found := s.findDebt(name)
	if !found {
		s.Debts = slices.Insert(s.Debts, i, debt{VC: name, At: s.Now})
	}
	d := &s.Debts[i]
	if d.At >= s.Now {
		return
	}
	f := s.Cluster.Forest()
	means := make([]past, 0, len(f.Chains))
	for c := range f.Chains {
		sku := f.Chains[c].SKU
		if slices.ContainsFunc(means, func(p past) bool { return p.SKU == sku }) {
			continue
		}
		if m := s.meanUse(space, d, sku); m > 0 {
			means = append(means, past{sku, m})
		}
	}
	d.At, d.Past = s.Now, means
}

// accrueAll brings the debts of all VCs up to date, before the configuration changes.
func (s *State) accrueAll() {
	for space := int32(1); s.Cluster != nil && space < s.Cluster.NumSpaces(); space++ {
		s.accrue(space)
	}
}

// resetDebts follows a configuration: VCs that are new or owed nothing yet begin with what they
// borrow now. Debts of VCs that are gone, or all if there is no half-life any more, are dropped.
func (s *State) resetDebts() {
	s.Debts = slices.DeleteFunc(s.Debts, func(d debt) bool { return s.Config.HalfLife == 0 || s.Space(d.VC) == 0 })
	s.accrueAll()
}

func (s *State) findDebt(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.Debts, vc, func(d debt, k cell.VCName) int { return cmp.Compare(d.VC, k) })
}

// meanUse is the mean of one SKU as of now, times 2^20.
func (s *State) meanUse(space int32, d *debt, sku cell.TypeName) int64 {
	var mean int64
	for _, p := range d.Past {
		if p.SKU == sku {
			mean = p.Mean
		}
	}
	keep := DecayAfter(int64(s.Now-d.At), int64(s.Config.HalfLife))
	return keep.Of(mean) + (NoDecay - keep).Of(s.borrowedOf(space, sku)<<MeanBits)
}

// borrowedOf is how many leaves of a SKU a VC borrows now.
func (s *State) borrowedOf(space int32, sku cell.TypeName) (n int64) {
	for c, leaves := range s.Tallies[space].BorrowedByChain {
		if s.Cluster.Forest().Chains[c].SKU == sku {
			n += leaves
		}
	}
	return n
}

// Owes is what a VC owes, by which VCs are compared: its largest share of the leaves of a SKU, in
// billionths per unit of its weight.
func (s *State) Owes(space int32) int64 {
	d := debt{At: s.Now}
	if i, found := s.findDebt(s.Cluster.Space(space).Name); found {
		d = s.Debts[i]
	}
	weight := s.Weight(space)
	most := int64(0)
	f := s.Cluster.Forest()
	for c := range f.Chains {
		sku, of := f.Chains[c].SKU, int64(0)
		for k := range f.Chains {
			if f.Chains[k].SKU == sku {
				of += s.Dirty.Chains[k]
			}
		}
		use := s.meanUse(space, &d, sku) + s.borrowedOf(space, sku)<<MeanBits
		hi, lo := bits.Mul64(uint64(use), 1_000_000_000)
		q, _ := bits.Div64(hi, lo, max(uint64(of)<<MeanBits, hi+1))
		most = max(most, int64(q)/weight)
	}
	return most
}

// Weight is a VC's part of idle capacity, relative to other VCs' weights; at least 1.
func (s *State) Weight(space int32) int64 {
	return int64(max(model.ConfigOfVC(s.Config, s.Cluster.Space(space).Name).Weight, 1))
}
