package metrics

import (
	"math/bits"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// series are the quantities that are integrated over time for each VC.
type series int

const (
	waiting       series = iota // gangs in the queue or backing off
	running                     // gangs with an attempt
	guaranteed                  // leaves held within the guarantee
	opportunistic               // leaves held beyond it
	quota                       // leaves of the guarantee
	active                      // apps that have not ended
	numSeries
)

// account is one VC: its present counts, their integrals, and its ended jobs. Integrals are
// in leaf- (gang-, app-) microseconds. They may wrap around, since only differences are used.
type account struct {
	name   cell.VCName
	gone   bool // no longer in the configuration
	cur    [numSeries]int64
	area   [numSeries]uint64
	last   model.Time
	quota  []int32 // by SKU
	used   []int32 // by SKU, guaranteed
	pools  []*pool
	ended  ended
	closed [numSeries]uint64 // area when the last open job ended
}

// integrate integrates up to now.
func (a *account) integrate(now model.Time) {
	if dt := uint64(now - a.last); dt > 0 {
		for i := range a.cur {
			a.area[i] += uint64(a.cur[i]) * dt
		}
		a.last = now
	}
}

// change adds d to one count at the present time.
func (f *Fold) change(a *account, s series, d int64) {
	if f.began {
		a.integrate(f.now)
	}
	a.cur[s] += d
}

// use adds leaves of one SKU to those that the VC uses of its guarantee.
func (f *Fold) use(a *account, sku uint8, d int32) {
	a.used[sku] += d
	for _, p := range a.pools {
		if p.mask>>sku&1 != 0 {
			p.change(f.now, -d)
		}
	}
}

// account returns the account of a VC, a new one when it has none.
func (f *Fold) account(name cell.VCName) *account {
	if a := f.vcOf[name]; a != nil {
		return a
	}
	a := &account{name: name, gone: true, last: f.now}
	a.quota, a.used = make([]int32, len(f.leaves.skus)), make([]int32, len(f.leaves.skus))
	f.vcs = append(f.vcs, a)
	f.vcOf[name] = a
	return a
}

// anySKU is the mask of a gang that may run on every kind of leaf.
const anySKU = ^uint64(0)

// maxPools bounds the sets of SKUs that are kept apart for one VC. Gangs with a further set
// are measured against all its leaves.
const maxPools = 64

// poolOf returns the pool that a gang with these SKUs draws on: the free part of its VC's
// guarantee, or for an opportunistic gang idle leaves anywhere.
func (f *Fold) poolOf(a *account, p cell.Priority, mask uint64) *pool {
	list, total, used := &a.pools, a.quota, a.used
	if p < cell.MinGuaranteed {
		list, total, used = &f.leaves.pools, f.leaves.idleBy, nil
	}
	for _, q := range *list {
		if q.mask == mask {
			return q
		}
	}
	if len(*list) >= maxPools && mask != anySKU {
		return f.poolOf(a, p, anySKU)
	}
	q := &pool{mask: mask, last: f.now}
	size := int32(0)
	for i, n := range total {
		if mask>>i&1 == 0 {
			continue
		}
		q.free += n
		if used == nil {
			n = f.leaves.totalBy[i]
		} else {
			q.free -= used[i]
		}
		size += n
	}
	q.time = make([]int64, size+2)
	*list = append(*list, q)
	return q
}

// pool counts for how long how many leaves of a set were free. time is a Fenwick tree of
// microseconds by the number of free leaves. So the time during which fewer than n were free
// costs a few additions, however many gangs wait.
type pool struct {
	mask uint64 // SKUs, by index
	free int32  // may be below 0 after a configuration took cells away
	last model.Time
	time []int64 // Fenwick tree; time[i+1] belongs to i free leaves
}

// change integrates up to now and adds d to the free leaves.
func (p *pool) change(now model.Time, d int32) {
	if dt := int64(now - p.last); dt > 0 {
		for i := p.at() + 1; i < len(p.time); i += i & -i {
			p.time[i] += dt
		}
		p.last = now
	}
	p.free += d
}

// at is the index in time of the present number of free leaves.
func (p *pool) at() int { return min(max(int(p.free), 0), len(p.time)-2) }

// below returns for how long, up to an instant not before the last change, fewer
// than n leaves were free.
func (p *pool) below(n int32, now model.Time) model.Duration {
	end := min(int(n), len(p.time)-1)
	var t int64
	for i := end; i > 0; i -= 1 << bits.TrailingZeros(uint(i)) {
		t += p.time[i]
	}
	if p.at() < end {
		t += int64(now - p.last)
	}
	return model.Duration(t)
}

// backOffs is a heap of gangs that wait from a later time on, the earliest first.
type backOffs []backOff

// backOff says when a gang's back-off ends. Memory of gangs is reused, so job tells whether g
// is still the same gang.
type backOff struct {
	at  model.Time
	job model.JobID
	g   *gang
}

func (h backOffs) before(i, k int) bool {
	return h[i].at < h[k].at || h[i].at == h[k].at && h[i].job < h[k].job
}

func (h *backOffs) push(e backOff) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0 && s.before(i, (i-1)/2); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (h *backOffs) pop() backOff {
	s := *h
	top, n := s[0], len(s)-1
	s[0], s[n] = s[n], backOff{}
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if s.before(k, least) {
				least = k
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
