package sched

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What VCs borrowed over time. Where the configuration has a half-life, opportunistic
// capacity goes first to the VC that borrows and borrowed least: the dominant share,
// over the types of leaves, of its mean use, in which what is a half-life ago counts half,
// together with its use now, divided by its weight. Both parts are leaves, so use now counts
// at once and one decision does not give everything to one VC.
//
// The mean m of a use u that did not change for a time t becomes m f + u (1 - f), where
// f is 2 to the power of -t over the half-life: in fixed point, from events alone.

// debt is what one VC borrowed, as of a time.
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

const meanBits = 20

// borrows counts an attempt's leaves, by chain, into what its VC borrows now.
func (s *fold) borrows(t *tally, a *attempt, sign int64) {
	if s.cfg.HalfLife == 0 {
		return
	}
	f := s.cl.Forest()
	if t.lent == nil {
		t.lent = make([]int64, len(f.Chains))
	}
	for _, task := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range task.Leaves {
			t.lent[f.Cells[f.Leaves[l]].Chain] += sign
		}
	}
}

// accrue brings the debt of a VC up to date, before what it borrows changes.
func (s *fold) accrue(space int32) {
	if s.cfg == nil || s.cfg.HalfLife == 0 || space == 0 || s.recount {
		return
	}
	name := s.cl.Space(space).Name
	i, found := s.findDebt(name)
	if !found {
		s.debts = slices.Insert(s.debts, i, debt{VC: name, At: s.now})
	}
	d := &s.debts[i]
	if d.At >= s.now {
		return
	}
	f := s.cl.Forest()
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
	d.At, d.Past = s.now, means
}

// accrueAll does so for all VCs, before the configuration changes.
func (s *fold) accrueAll() {
	for space := int32(1); s.cl != nil && space < s.cl.NumSpaces(); space++ {
		s.accrue(space)
	}
}

// resetDebts follows a configuration: whoever is new, or owed nothing yet, begins now with what it
// borrows, and who is no more, or has no half-life any more, is forgotten.
func (s *fold) resetDebts() {
	s.debts = slices.DeleteFunc(s.debts, func(d debt) bool { return s.cfg.HalfLife == 0 || s.space(d.VC) == 0 })
	s.accrueAll()
}

func (s *fold) findDebt(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.debts, vc, func(d debt, k cell.VCName) int { return cmp.Compare(d.VC, k) })
}

// meanUse is the mean of one SKU by now.
func (s *fold) meanUse(space int32, d *debt, sku cell.TypeName) int64 {
	var mean int64
	for _, p := range d.Past {
		if p.SKU == sku {
			mean = p.Mean
		}
	}
	keep := DecayAfter(int64(s.now-d.At), int64(s.cfg.HalfLife))
	return keep.Of(mean) + (NoDecay - keep).Of(s.lentOf(space, sku)<<meanBits)
}

// lentOf is how many leaves of a SKU a VC borrows now.
func (s *fold) lentOf(space int32, sku cell.TypeName) (n int64) {
	for c, leaves := range s.tallies[space].lent {
		if s.cl.Forest().Chains[c].SKU == sku {
			n += leaves
		}
	}
	return n
}

// owes is by what VCs are compared: parts of 10^9 of the cluster, for each unit of weight.
func (s *fold) owes(space int32) int64 {
	d := debt{At: s.now}
	if i, found := s.findDebt(s.cl.Space(space).Name); found {
		d = s.debts[i]
	}
	weight := s.weight(space)
	most := int64(0)
	f := s.cl.Forest()
	for c := range f.Chains {
		sku, of := f.Chains[c].SKU, int64(0)
		for k := range f.Chains {
			if f.Chains[k].SKU == sku {
				of += s.looks.chains[k]
			}
		}
		use := s.meanUse(space, &d, sku) + s.lentOf(space, sku)<<meanBits
		hi, lo := bits.Mul64(uint64(use), 1_000_000_000)
		q, _ := bits.Div64(hi, lo, max(uint64(of)<<meanBits, hi+1))
		most = max(most, int64(q)/weight)
	}
	return most
}

// weight is the part of a VC of what nobody uses, beside others' parts.
func (s *fold) weight(space int32) int64 {
	return int64(max(model.OfVC(s.cfg, s.cl.Space(space).Name).Weight, 1))
}
