package policy

import (
	"iter"

	"github.com/combsched/comb/internal/sched"
)

// fifo serves strictly in order of submission: whoever cannot start makes those
// behind it wait for the chains that it could use.
type fifo struct{}

// Rank implements sched.Policy.
func (fifo) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		for g := range v.Waiting() {
			if !yield(sched.Wish{Gang: g.Ref, Strict: true}) {
				return
			}
		}
	}
}

// NextChange implements sched.Policy: the order never changes by itself.
func (fifo) NextChange(sched.View) sched.Time { return 0 }
