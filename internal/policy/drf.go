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
			ref := u.jobs[0].Ref
			if !yield(sched.Wish{Gang: ref}) {
				return
			}
			u.jobs = u.jobs[1:]
			if v.Placed(ref) {
				u.share = v.Share(u.user)
			}
			if len(u.jobs) == 0 {
				users = append(users[:at], users[at+1:]...)
			}
		}
	}
}

// account is one user with what he waits for.
type account struct {
	user  sched.Subject
	share int64 // parts per million
	jobs  []sched.GangView
}

func (a *account) before(b *account) bool {
	return a.share < b.share || a.share == b.share && a.jobs[0].Order < b.jobs[0].Order
}

// byUser groups the waiting gangs, users in order of their first gang.
func byUser(v sched.View) []account {
	var users []account
	at := map[sched.Subject]int{}
	for g := range v.Waiting() {
		i, ok := at[g.User]
		if !ok {
			i = len(users)
			at[g.User] = i
			users = append(users, account{user: g.User, share: v.Share(g.User)})
		}
		users[i].jobs = append(users[i].jobs, g)
	}
	return users
}

// NextChange implements sched.Policy: shares change only with events.
func (drf) NextChange(sched.View) sched.Time { return 0 }
