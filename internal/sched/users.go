package sched

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Users implements View.
func (v view) Users() []UserGangs {
	s := v.s
	s.askLines(v.space)
	var users []*userGangs
	at := map[Subject]*userGangs{}
	user := func(name Subject) *userGangs {
		u := at[name]
		if u == nil {
			u = &userGangs{v: v, name: name, merge: merge{s: s, space: v.space, prio: v.prio}}
			at[name] = u
			users = append(users, u)
		}
		return u
	}
	if up := s.lineup(v.space, v.prio); up != nil {
		free := v.roomFor()
		for i := range up.lines {
			if l := &up.lines[i]; !l.extra && len(l.gangs) > 0 && (l.shape == "" || int64(s.leavesIn(l)) <= free) {
				user(l.user).merge.add(i, l)
			}
		}
	}
	for _, e := range s.laziesAt(v.space, v.prio, false) {
		u := user(s.jobs[e.slot].spec.User)
		u.lazies = append(u.lazies, e)
	}
	out := make([]UserGangs, len(users))
	for i, u := range users {
		u.merge.order()
		out[i] = UserGangs{u.name, u.next}
	}
	return out
}

// userGangs reads the gangs of one user: those that wait, and those that wait for
// an upgrade.
type userGangs struct {
	v      view
	name   Subject
	merge  merge
	read   bool // what the merge comes to was returned
	lazies []queued
}

func (u *userGangs) next() (GangView, bool) {
	if u.read {
		u.merge.next()
		u.read = false
	}
	e, ok := u.merge.first(u.v.w.fruitless())
	if len(u.lazies) > 0 && (!ok || u.lazies[0].compare(e) < 0) {
		e, u.lazies = u.lazies[0], u.lazies[1:]
		return u.v.s.gangView(e), true
	}
	if !ok {
		return GangView{}, false
	}
	u.read = true
	return u.v.s.gangView(e), true
}

// roomFor bounds the leaves of the gangs that grant could place.
func (v view) roomFor() int64 {
	if v.w == nil || v.w.outlook != nil {
		return math.MaxInt64
	}
	return v.Free()
}

// fruitless returns the shapes of which grant passes over all gangs.
func (w *walker) fruitless() map[string]bool {
	if w == nil || w.outlook != nil { // bookings are made for who cannot start
		return nil
	}
	return w.failed
}

// holding is how many leaves of one chain a user's gangs hold in a VC.
type holding struct {
	user   Subject
	chain  int16
	leaves int64
}

func (h holding) compare(o holding) int {
	return cmp.Or(strings.Compare(string(h.user), string(o.user)), cmp.Compare(h.chain, o.chain))
}

// Share implements View: DRF's dominant share (NSDI'11), of a VC's guarantee.
func (v view) Share(user Subject) int64 {
	s := v.s
	t := &s.tallies[v.space]
	if t.guaranteed == nil {
		s.askHoldings(v.space)
	}
	used := make([]int64, len(t.guaranteed))
	i, _ := slices.BinarySearchFunc(t.holdings, holding{user: user}, holding.compare)
	for ; i < len(t.holdings) && t.holdings[i].user == user; i++ {
		s.addResources(used, int(t.holdings[i].chain), t.holdings[i].leaves)
	}
	var share int64
	for i, of := range t.guaranteed {
		if of > 0 {
			share = max(share, used[i]*1_000_000/of)
		}
	}
	return share
}

// addResources adds leaves of a chain to sums of GPUs, thousandths of cores and
// MiB, with one more entry for each chain's leaves.
func (s *State) addResources(to []int64, chain int, n int64) {
	sku := s.cl.SKU(s.cl.Forest().Chains[chain].SKU)
	to[0] += n * sku.GPU
	to[1] += n * sku.MilliCPU
	to[2] += n * sku.MemoryMB
	to[3+chain] += n
}

// askHoldings sums a VC's guarantee and begins to count what its users hold; from
// now on that is kept.
func (s *State) askHoldings(space int32) {
	f, t := s.cl.Forest(), &s.tallies[space]
	t.guaranteed = make([]int64, 3+len(f.Chains))
	sp := s.cl.Space(space)
	for i := range sp.Roots {
		r := &sp.Roots[i]
		s.addResources(t.guaranteed, int(r.Chain), int64(f.Chains[r.Chain].LeavesAt(r.Level)))
	}
	for a := range s.holding(space) {
		s.countHoldings(t, a, 1)
	}
}

// countHoldings adds an attempt's leaves to what its user holds, or with -1 takes
// them away.
func (s *State) countHoldings(t *tally, a *attempt, sign int64) {
	f := s.cl.Forest()
	h := holding{user: s.jobs[a.job].spec.User}
	for _, task := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range task.Leaves {
			if chain := f.Cells[f.Leaves[l]].Chain; chain != h.chain {
				t.hold(h)
				h.chain, h.leaves = chain, 0
			}
			h.leaves += sign
		}
	}
	t.hold(h)
}

// hold adds to what a user holds.
func (t *tally) hold(h holding) {
	if h.leaves == 0 {
		return
	}
	i, found := slices.BinarySearchFunc(t.holdings, h, holding.compare)
	if !found {
		t.holdings = slices.Insert(t.holdings, i, h)
		return
	}
	if t.holdings[i].leaves += h.leaves; t.holdings[i].leaves == 0 {
		t.holdings = slices.Delete(t.holdings, i, i+1)
	}
}
