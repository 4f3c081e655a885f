package policy

import (
	"iter"

	"github.com/combsched/comb/internal/sched"
)

// drf serves the user with the smallest dominant share first (Dominant Resource
// Fairness, Ghodsi et al., NSDI'11, Algorithm 1): the user's largest fraction of
// any resource that the VC is guaranteed. A user's own jobs are in order of
// submission; equal shares in order of the users' next jobs. A job that
// does not fit is passed over, so nobody is held up.
type drf struct{}

// Rank implements sched.Policy.
func (drf) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		users := byUser(v)
		for len(users) > 0 {
			at := 0
			for i := range users {
				if users[i].before(&users[at]) {
					at = i
				}
			}
			u := &users[at]
			ref := u.head.Ref
			if !yield(sched.Wish{Gang: ref}) {
				return
			}
			if v.Placed(ref) {
				u.share = v.Share(u.gangs.User)
			}
			var more bool
			if u.head, more = u.gangs.Next(); !more {
				users = append(users[:at], users[at+1:]...)
			}
		}
	}
}

// account is one user with what he waits for.
type account struct {
	gangs sched.UserGangs
	head  sched.GangView // the next of them
	share int64          // parts per million
}

func (a *account) before(b *account) bool {
	return a.share < b.share || a.share == b.share && a.head.Order < b.head.Order
}

// byUser returns the users with gangs that wait.
func byUser(v sched.View) []account {
	var users []account
	for _, gs := range v.Users() {
		if head, ok := gs.Next(); ok {
			users = append(users, account{gs, head, v.Share(gs.User)})
		}
	}
	return users
}
