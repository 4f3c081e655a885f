package script_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What virtual clusters borrowed, computed a second time with real numbers: the mean of
// the leaves that opportunistic work holds, of which half is forgotten after a half-life.

// lent is what one VC borrows of one type.
type lent struct {
	mean float64
	use  int64
	at   model.Time
}

type lentKey struct {
	vc  cell.VCName
	sku cell.TypeName
}

// by brings a mean to a later time.
func (l *lent) by(now model.Time, half model.Duration) float64 {
	keep := math.Exp2(-float64(now-l.at) / float64(half))
	return l.mean*keep + float64(l.use)*(1-keep)
}

// borrow counts anew what everybody borrows, after an event. A configuration begins
// new books.
func (c *checker) borrow(r model.Record) {
	half := c.state.Config().HalfLife
	if _, configured := r.Event.(model.Configured); configured || half == 0 {
		clear(c.lent)
		c.owed = false
		if half == 0 {
			return
		}
	}
	use := map[lentKey]int64{}
	held := map[device]bool{}
	for id, a := range c.live {
		j := c.jobs[id.Job]
		if !a.placed || j.Priority >= cell.MinGuaranteed && !a.lazy {
			continue
		}
		for _, t := range a.place.Tasks {
			for _, l := range t.Leaves {
				d := device{sku: t.SKU, index: int32(l)}
				if !held[d] { // who shares its leaves borrows them once
					use[lentKey{j.VC, t.SKU}]++
				}
				held[d] = true
			}
		}
	}
	for k := range use {
		if c.lent[k] == nil {
			c.lent[k] = &lent{at: r.Time}
		}
	}
	for k, l := range c.lent {
		if n := use[k]; n != l.use {
			l.mean, l.use, l.at = l.by(r.Time, half), n, r.Time
		}
	}
}

// debts compares with what a snapshot of the state has.
func (c *checker) debts(snapshot []byte) {
	half := c.state.Config().HalfLife
	if half == 0 {
		return
	}
	var image struct {
		Debts []struct {
			VC   cell.VCName `json:"vc"`
			At   model.Time  `json:"at"`
			Past []struct {
				SKU  cell.TypeName `json:"sku"`
				Mean int64         `json:"mean"`
			} `json:"past"`
		} `json:"debts"`
	}
	if err := json.NewDecoder(bytes.NewReader(snapshot)).Decode(&image); err != nil { // jobs follow
		c.fail("the snapshot cannot be read: %v", err)
		return
	}
	now := c.state.Now()
	first := !c.owed
	c.owed = true
	got := map[lentKey]lent{}
	for _, d := range image.Debts {
		for _, p := range d.Past {
			got[lentKey{d.VC, p.SKU}] = lent{mean: float64(p.Mean) / (1 << 20), at: d.At}
		}
	}
	for k, g := range got {
		if !first {
			break
		}
		if c.lent[k] == nil {
			c.lent[k] = &lent{}
		}
		l := c.lent[k]
		g.use = l.use
		l.mean, l.at = g.by(now, half), now // from here on
	}
	if first {
		return
	}
	for k, l := range c.lent {
		if !slices.ContainsFunc(c.state.Config().VCs, func(v model.VCConfig) bool { return v.Name == k.vc }) {
			continue // its books rest
		}
		g := got[k]
		if g.use = l.use; g.at == 0 {
			g.at = l.at // nothing yet
		}
		want, is := l.by(now, half), g.by(now, half)
		if d := math.Abs(want - is); d > 0.01+want/1000 {
			c.fail("B1: VC %s is said to have borrowed %.4f %s over time, and borrowed %.4f", k.vc, is, k.sku, want)
		}
		c.met.debts++
	}
}
