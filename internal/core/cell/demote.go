package cell

import (
	"slices"
	"sort"
)

// Searches in which allocations are demoted: they give up their guarantee and keep their leaves.

// FitsDemoting reports whether a gang would fit if the given allocations were demoted, in their
// order, and stayed. It returns the shortest prefix that suffices, without those that turn out to
// be superfluous. One that is tied to another, which stands behind it, is kept as long as that
// is. None of them may be leaving, and what the request may preempt must not hold the VC's
// guarantee. If the steps end first, the prefix may not be the shortest. The cluster is
// unchanged.
func (c *Cluster) FitsDemoting(r *Request, lazies []AllocID, tied func(AllocID) AllocID) ([]AllocID, Result, bool) {
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
	c.work.Restore(had)
	if ok {
		done, res = c.fewerDemoted(r, done, res, tied)
	}
	for i := len(done) - 1; i >= 0; i-- {
		c.undemote(done[i])
	}
	if !ok && len(done) < len(lazies) {
		return c.FitsClearing(r, lazies, tied) // all of them, and then by halves
	}
	return done, res, ok
}

// DemoteTemporarily demotes allocations, and returns what makes them guaranteed again while nothing
// else has changed.
func (c *Cluster) DemoteTemporarily(ids []AllocID) (back func()) {
	for _, id := range ids {
		c.Demote(id)
	}
	return func() {
		for _, id := range slices.Backward(ids) {
			c.undemote(id)
		}
	}
}

// fewerDemoted gives the guarantee back to demoted allocations that the gang does not need, the
// last first; the very last is needed. It returns the others and the gang's result with them.
// found is the result with all of them. The fewest victims are looked for only at the end.
func (c *Cluster) fewerDemoted(r *Request, done []AllocID, found Result, tied func(AllocID) AllocID) ([]AllocID,
	Result) {
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
	return done, c.MinimizeVictims(r, found)
}

// demotedTries bounds how many are tried for being superfluous and are not.
const demotedTries = 64

// FitsClearing is FitsDemoting where the allocations, like all that the request may preempt, may be
// made to leave: the gang may get their leaves as well, and each cell that was bound for them may
// be bound elsewhere. It tries all of them first, since most often that tells that none help.
func (c *Cluster) FitsClearing(r *Request, ids []AllocID, tied func(AllocID) AllocID) ([]AllocID, Result, bool) {
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
