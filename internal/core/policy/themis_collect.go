package policy

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Leases end in different rounds, so a gang that wants much of a VC, or a whole node of
// one that is full of small gangs, may never be offered enough at once, however badly off
// it is. The paper says nothing of it: its apps take any number of GPUs.

// maxTries is for how many gangs cells are collected in vain at the end of one round.
const maxTries = 8

// crowded is a waiting gang for which the auction had no room.
type crowded struct {
	gang *model.GangView
	rho  int64
}

// aged is a gang that has run for a lease.
type aged struct {
	ref    model.GangRef
	leaves int32
	rho    int64
}

// collect serves, at the end of a round, one gang for which there was no room in it: the worst
// off of those that have waited for a lease, and are worse off for sharing (rho above 1). It
// may preempt all gangs that have run for a lease and are less badly off, in whatever round
// their last lease ended. It is false when no more wishes are heard.
func (m *market) collect(yield func(model.Wish) bool) bool {
	tries := 0
	for _, c := range m.crowd() {
		if len(m.aged) == 0 {
			m.age()
		}
		some := m.v.Free()
		n := 0
		for n < len(m.aged) && m.aged[n].rho < c.rho {
			some += int64(m.aged[n].leaves)
			n++
		}
		if some < int64(c.gang.Leaves) || m.v.Placed(c.gang.Ref) || m.v.FoundNothing(c.gang.Shape) {
			continue
		}
		over := func(yield func(model.GangRef) bool) {
			for i := range m.aged[:n] {
				if !yield(m.aged[i].ref) {
					return
				}
			}
		}
		if !yield(model.Wish{Gang: c.gang.Ref, Preemptible: over}) {
			return false
		}
		if tries++; tries == maxTries || m.v.Placed(c.gang.Ref) {
			break
		}
	}
	return true
}

// crowd lists the gangs for which there was no room, the worst off first.
func (m *market) crowd() []crowded {
	m.crowded, m.aged = m.crowded[:0], m.aged[:0]
	if !m.roundClosed {
		return nil
	}
	for _, g := range m.large {
		m.addCrowded(g, 0)
	}
	for _, g := range m.singles {
		m.addCrowded(g, 0)
	}
	for i := range m.apps {
		for _, g := range m.apps[i].waits {
			m.addCrowded(g, m.apps[i].rho)
		}
	}
	slices.SortFunc(m.crowded, func(a, b crowded) int { return cmp.Or(cmp.Compare(b.rho, a.rho), compareGangs(a.gang, b.gang)) })
	return m.crowded
}

// addCrowded adds a waiting gang to these if it has waited for a lease, finds no room, and has a
// rho above 1. A rho of 0 is computed: the gang is an app by itself.
func (m *market) addCrowded(g *model.GangView, rho int64) {
	if model.Duration(m.now-g.Since) < m.t.lease || int64(g.Leaves) > m.total {
		return
	}
	if fits(g, m.free+m.leaving) && !slices.ContainsFunc(g.Members, func(t cell.Member) bool { return t.Leaves > m.largest }) {
		return
	}
	if rho == 0 {
		rho = m.singleRho(g)
	}
	if rho > PPM {
		m.crowded = append(m.crowded, crowded{g, rho})
	}
}

// age lists the gangs that have run for a lease and may be preempted, the smallest rho first.
func (m *market) age() {
	for r := range m.v.RunningByKey() {
		if started := model.Time(r.Key.Then); started == 0 || m.now < started.Add(m.t.lease) || m.v.Yields(r.Ref) == 0 {
			continue
		}
		g := m.v.Gang(r.Ref)
		rho := int64(0)
		if r.Key.Rank > 0 {
			rho = m.app(&g).rho
		} else {
			rho = m.singleRho(&g)
		}
		m.aged = append(m.aged, aged{r.Ref, r.Leaves, rho})
	}
	slices.SortFunc(m.aged, func(a, b aged) int {
		return cmp.Or(cmp.Compare(a.rho, b.rho), cmp.Compare(b.ref.Job, a.ref.Job), cmp.Compare(b.ref.Gang, a.ref.Gang))
	})
}
