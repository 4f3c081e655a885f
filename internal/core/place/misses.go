package place

import (
	"slices"

	"github.com/combsched/comb/internal/base/budget"
)

// Miss is a gang that found nothing.
type Miss struct {
	SKUs  string // of all its tasks: it answers for gangs of the same
	Load  budget.Load
	Rank  int32 // it answers for gangs of the same, and of lower ones
	Level bool  // and only of the same
}

// Answers reports whether one answers for another.
func (o *Miss) Answers(other *Miss) bool {
	return o.SKUs == other.SKUs && (other.Rank == o.Rank || other.Rank < o.Rank && !o.Level) &&
		o.Load.Within(other.Load)
}

// most bounds how many are kept: of those that ask for more than another none is.
const most = 32

// Misses are those since one state of things.
type Misses struct {
	list  []Miss
	state uint64
}

// Clear forgets all.
func (n *Misses) Clear() { n.list = n.list[:0] }

// Answered reports whether one of them answers for another. All of another state are forgotten.
func (n *Misses) Answered(of *Miss, state uint64) bool {
	if n.state != state {
		n.list, n.state = n.list[:0], state
	}
	return slices.ContainsFunc(n.list, func(o Miss) bool { return o.Answers(of) })
}

// Add keeps one, and not those for which it answers.
func (n *Misses) Add(o Miss) {
	n.list = slices.DeleteFunc(n.list, func(old Miss) bool { return o.Answers(&old) })
	if len(n.list) < most {
		n.list = append(n.list, o)
	}
}
