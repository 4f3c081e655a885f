package policy

import (
	"iter"

	"github.com/combsched/comb/internal/core/model"
)

// drf serves the user with the smallest dominant share first (Dominant Resource Fairness,
// Ghodsi et al., NSDI'11, Algorithm 1, and weights as in section 4.3): the largest fraction of
// any resource that the VC is guaranteed, divided by the weight. The gangs of one user are in
// order of submission; equal shares go in order of the next gangs. What does not fit is passed
// over: no gang is held up, and none is preempted.
//
// Resources are GPUs, GPU memory, cores, memory and the leaves of each SKU. A share counts what
// the leaves carry that a user holds, not what the tasks on them ask for: no other user can use
// the rest of a leaf.
type drf struct {
	// by=user (default) or by=team, which is the queue that a job names: the
	// paper's users are either.
	by model.By
	// weights=ann:2/bob:1 are of users or teams; all others weigh 1.
	weights map[string]int64
}

func newDRF(a *args) drf {
	return drf{by: newBy(a), weights: a.weights("weights")}
}

// newBy reads whether users or teams share.
func newBy(a *args) model.By {
	if a.choice("by", "user", "team") == "team" {
		return model.ByQueue
	}
	return model.ByUser
}

// IgnoresMisses implements model.IgnoresMisses.
func (drf) IgnoresMisses() {}

// Rank implements model.Policy.
func (p drf) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		free := v.Free()
		for all := p.waiting(v, false); len(all) > 0; {
			at := nextAccount(all)
			u := &all[at]
			next := u.gangs.NextShape
			if fits(&u.head, free) {
				if !yield(model.Wish{Gang: u.head.Ref}) {
					return
				}
				next = u.gangs.Next
				if v.Placed(u.head.Ref) {
					free = v.Free()
					p.weigh(v, all)
				}
			}
			var more bool
			if u.head, more = next(); !more {
				all = append(all[:at], all[at+1:]...)
			}
		}
	}
}

// account is one user or team with its waiting gangs.
type account struct {
	gangs  model.PartyGangs
	head   model.GangView // the next of them
	share  int64          // parts per million
	weight int64
}

func (a *account) before(b *account) bool {
	x, y := a.share*b.weight, b.share*a.weight
	return x < y || x == y && a.head.Order < b.head.Order
}

// weigh reads all shares again after a gang got cells: these may have been promised to gangs of
// a lower priority, whose shares fall.
func (p drf) weigh(v model.View, all []account) {
	for i := range all {
		all[i].share = v.Share(p.by, all[i].gangs.Party)
	}
}

// nextAccount returns the index of the account with the smallest weighted share, which is served
// next.
func nextAccount(all []account) int {
	at := 0
	for i := range all {
		if all[i].before(&all[at]) {
			at = i
		}
	}
	return at
}

// waiting returns the accounts with waiting gangs; with all also those that ask for more than
// is free.
func (p drf) waiting(v model.View, all bool) []account {
	parties := v.Parties(p.by, all)
	out := make([]account, 0, len(parties))
	for _, gs := range parties {
		if head, ok := gs.Next(); ok {
			out = append(out, account{gs, head, v.Share(p.by, gs.Party), weightOf(p.weights, gs.Party)})
		}
	}
	return out
}

// fits reports whether a wish for a gang may find anything with so many leaves free.
func fits(g *model.GangView, free int64) bool { return int64(g.Leaves) <= free || g.Shape == "" }

// weightOf is the weight of a party, which has one of queue, user and app.
func weightOf(weights map[string]int64, p model.Party) int64 {
	if w := weights[p.Queue+string(p.User)+p.App]; w > 0 {
		return w
	}
	return 1
}
