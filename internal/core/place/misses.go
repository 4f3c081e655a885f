package place

import (
	"slices"

	"github.com/combsched/comb/internal/base/budget"
)

// Miss is a gang that found no cells.
type Miss struct {
	SKUs  string // of all its tasks; it answers only for gangs with the same
	Load  budget.Load
	Rank  int32 // its priority; it answers for this and lower ones
	Level bool  // it answers only for the same rank
}

// Answers reports whether another gang finds nothing either, since this one did not.
func (o *Miss) Answers(other *Miss) bool {
	return o.SKUs == other.SKUs && (other.Rank == o.Rank || other.Rank < o.Rank && !o.Level) &&
		o.Load.Within(other.Load)
}

// most bounds how many are kept. None of them answers for another.
const most = 32

// Misses are the gangs that found nothing in one state.
type Misses struct {
	list  []Miss
	state uint64
}

// Clear forgets all.
func (n *Misses) Clear() { n.list = n.list[:0] }

// Answered reports whether a gang finds nothing because one of these did not. Misses of another
// state are dropped first.
func (n *Misses) Answered(of *Miss, state uint64) bool {
	if n.state != state {
		n.list, n.state = n.list[:0], state
	}
	return slices.ContainsFunc(n.list, func(o Miss) bool { return o.Answers(of) })
}

// Add keeps a miss in place of those that it answers for.
func (n *Misses) Add(o Miss) {
	n.list = slices.DeleteFunc(n.list, func(old Miss) bool { return o.Answers(&old) })
	if len(n.list) < most {
		n.list = append(n.list, o)
	}
}
