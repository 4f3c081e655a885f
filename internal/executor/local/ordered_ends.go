package local

import (
	"cmp"
	"slices"
	"sync"

	"github.com/combsched/comb/internal/core/model"
)

// orderedEnds holds back the ends of an attempt's tasks that a new server finds, until it is known
// of each task whether it is over. Then they are told in the order in which they happened. A task
// that failed because another was gone must not be told before that other one.
type orderedEnds struct {
	mu        sync.Mutex
	undecided int // tasks from before the start that may or may not be over
	ends      []end
}

// end is the end of one task; its time is 0 where that is not known.
type end struct {
	task int32
	at   model.Time
	tell func()
}

// add tells the end of a task, or holds it back until its turn.
func (f *orderedEnds) add(e end) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.undecided > 0 {
		f.ends = append(f.ends, e)
		return
	}
	e.tell()
}

// decideOne counts one more task as settled: it is known whether it is over, or that cannot be
// known soon.
func (f *orderedEnds) decideOne() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.undecided--; f.undecided > 0 {
		return
	}
	slices.SortStableFunc(f.ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.task, b.task)) })
	for _, e := range f.ends {
		e.tell()
	}
	f.ends = nil
}
