package cell

import (
	"slices"
	"sort"
)

// Searches in which allocations give up their guarantee.

// DemotedFits reports whether a gang would fit without lifting anybody if the given allocations
// became opportunistic, in their order; it returns the shortest prefix that suffices, without those
// that turn out superfluous. One that is tied to another, which stands behind it, stays among them
// as long as that does. They must not be about to leave, and what the request lifts must not hold
// the VC's guarantee. Where the steps end first it is some prefix that suffices. The cluster is
// unchanged.
func (c *Cluster) DemotedFits(r *Request, lazies []AllocID, tied func(AllocID) AllocID) ([]AllocID, Result, bool) {
	var done []AllocID
	var res Result
	ok, short, had := false, r.Leaves()-victims{c}.unheld(r), c.work.Within(c.work.Left(gangSteps)/4)
	for _, a := range lazies {
		if c.work.Over() {
			break
		}
		if (victims{c}).owns(r, a) {
			short -= victims{c}.leavesOf(a)
		}
		c.Demote(a)
		done = append(done, a)
		if short > 0 {
			continue // by numbers alone that is too little of the guarantee
		}
		if res, ok = c.Try(r); ok {
			break
		}
	}
	c.work.Until(had)
	if ok {
		done, res = c.fewerDemoted(r, done, res, tied)
	}
	for i := len(done) - 1; i >= 0; i-- {
		c.undemote(done[i])
	}
	if !ok && len(done) < len(lazies) {
		return c.ClearedFits(r, lazies, tied) // all of them, and then by halves
	}
	return done, res, ok
}

// Demoted makes allocations opportunistic, and returns what makes them guaranteed again while
// nothing else has changed.
func (c *Cluster) Demoted(ids []AllocID) (back func()) {
	for _, id := range ids {
		c.Demote(id)
	}
	return func() {
		for _, id := range slices.Backward(ids) {
			c.undemote(id)
		}
	}
}

// fewerDemoted gives those of the demoted allocations but the last their cells back, the last
// first, without which a gang fits; it returns the others, and what the gang gets then, which
// found says with all of them. Only for that it asks for the fewest victims.
func (c *Cluster) fewerDemoted(r *Request, done []AllocID, found Result, tied func(AllocID) AllocID) ([]AllocID, Result) {
	for i, missed := len(done)-2, 0; i >= 0 && missed < demotedTries && !c.work.Over(); i-- {
		if to := tied(done[i]); to != None && slices.Contains(done, to) {
			continue
		}
		c.undemote(done[i])
		if less, still := c.Try(r); still {
			done, found = slices.Delete(done, i, i+1), less
			continue
		}
		c.Demote(done[i])
		missed++
	}
	return done, c.Settle(r, found)
}

// demotedTries bounds how many are tried in vain for being superfluous.
const demotedTries = 64

// ClearedFits is DemotedFits where all of these, and what the request may lift besides, may be
// made to leave: the gang may get their leaves as well, and each cell that was bound for them
// may be bound elsewhere. It tries all of them first, since most often that tells that none help.
func (c *Cluster) ClearedFits(r *Request, ids []AllocID, tied func(AllocID) AllocID) ([]AllocID, Result, bool) {
	n := 0 // how many are demoted
	demote := func(to int) {
		for ; n < to; n++ {
			c.Demote(ids[n])
		}
		for ; n > to; n-- {
			c.undemote(ids[n-1])
		}
	}
	demote(len(ids))
	all, ok := c.Try(r)
	if !ok {
		demote(0)
		return nil, all, false
	}
	enough := sort.Search(len(ids), func(k int) bool {
		demote(k)
		_, fits := c.Try(r)
		return fits
	})
	demote(enough)
	res := all
	if enough < len(ids) {
		res, ok = c.Try(r)
	}
	done := slices.Clone(ids[:enough])
	if ok {
		done, res = c.fewerDemoted(r, done, res, tied)
	}
	for i := len(done) - 1; i >= 0; i-- {
		c.undemote(done[i])
	}
	return done, res, ok
}
