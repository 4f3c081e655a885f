package trace

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
)

// orderBlock is how many jobs share an entry of an Order.
const orderBlock = 1024

// Order is what a first reading of a trace tells a second reading that returns the jobs in
// order of submission: 8 bytes for each orderBlock jobs. The second reading holds a job only
// until the last job that was submitted before it has been read. So of a file in order it
// holds nothing, and of one that is nearly in order very little.
type Order struct {
	// earliest is the first submission in each block of the file. After finish it is the
	// first in that block and all that follow.
	earliest []model.Time
	latest   model.Time
	jobs     int64
	unsorted bool
}

func (o *Order) add(at model.Time) {
	if o.jobs%orderBlock == 0 {
		o.earliest = append(o.earliest, at)
	}
	if last := &o.earliest[len(o.earliest)-1]; at < *last {
		*last = at
	}
	o.unsorted = o.unsorted || o.jobs > 0 && at < o.latest
	if o.jobs == 0 || at > o.latest {
		o.latest = at
	}
	o.jobs++
}

// finish turns the minima of the blocks into minima from each block to the end of the file.
func (o *Order) finish() {
	for i := len(o.earliest) - 2; i >= 0; i-- {
		o.earliest[i] = min(o.earliest[i], o.earliest[i+1])
	}
}

// behind is the earliest submission after the first n jobs of the file; n is a number of full
// blocks.
func (o *Order) behind(n int64) model.Time {
	if i := n / orderBlock; i < int64(len(o.earliest)) && n < o.jobs {
		return o.earliest[i]
	}
	return math.MaxInt64
}

// InOrder returns the jobs by Submit, those of one time in the file's order. Where time 0 is
// a date or unknown (see Rebased), the first job is moved to 0. A format that is in order
// (see Ordered) streams. A file of another format is read twice: first to check all rows and
// to learn their order, so that all errors come first, then for the jobs. Only jobs that are
// too early in the file are held. A stream of OpenStream is read the same way. One of
// NewReader cannot be read twice, and is held.
func (r *Reader) InOrder() iter.Seq2[Job, error] {
	switch {
	case r.Ordered():
		return r.Follow(nil)
	case r.again == nil:
		return r.gathered
	}
	return func(yield func(Job, error) bool) {
		for _, err := range r.Jobs() {
			if err != nil && !yield(Job{}, err) {
				return
			}
		}
		if r.order == nil {
			return // it could not be read to its end
		}
		second, err := r.again()
		if err != nil {
			yield(Job{}, err)
			return
		}
		defer second.Close()
		second.lenient = true // bad rows were reported
		second.Follow(r.order)(yield)
	}
}

// Ordered reports whether Jobs returns the jobs in order of submission. A comb trace is in
// that order, and alibaba2020 gathers all jobs before it returns the first.
func (r *Reader) Ordered() bool { return r.format == Comb || r.format == Alibaba2020 }

// Order is the argument of Follow; nil before Jobs came to the end of the file.
func (r *Reader) Order() *Order { return r.order }

// Follow does what InOrder does, in one reading, with the Order that another reader of the
// same file has learnt. An Ordered format needs no Order.
func (r *Reader) Follow(o *Order) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		w := reorderBuffer{order: o, yield: yield, rebase: formatNamed(r.format).rebase}
		if r.Ordered() || o == nil {
			w.order = &Order{jobs: -1}
		}
		for j, err := range r.Jobs() {
			if err != nil {
				if !yield(Job{}, err) {
					return
				}
				continue
			}
			if !w.take(&j) {
				return
			}
		}
		if r.order != nil && w.release(math.MaxInt64) && w.order.jobs >= 0 && w.read != w.order.jobs {
			yield(Job{}, &Error{File: r.file, Kind: "changed",
				Text: fmt.Sprintf("the file had %d jobs and now has %d: it changed while it was read; try again when it is complete", w.order.jobs, w.read)})
		}
	}
}

// reorderBuffer holds the jobs that are in a file before others that were submitted earlier.
type reorderBuffer struct {
	order *Order
	yield func(Job, error) bool
	held  collections.Heap[entry]
	read  int64
	// rebase moves all jobs so that the first that is returned is submitted at 0. zero is
	// that job's time in the file.
	rebase, begun bool
	zero          model.Time
}

// take adds the next job of the file, and yields the jobs that need not be held any more.
// False ends the reading.
func (w *reorderBuffer) take(j *Job) bool {
	if w.read++; !w.order.unsorted {
		return w.emit(j)
	}
	held := *j
	w.held.Push(entry{&held, w.read})
	return w.read%orderBlock != 0 || w.release(w.order.behind(w.read))
}

// release yields the held jobs that were submitted by until.
func (w *reorderBuffer) release(until model.Time) bool {
	for len(w.held) > 0 && w.held[0].job.Submit <= until {
		if !w.emit(w.held.Pop().job) {
			return false
		}
	}
	return true
}

func (w *reorderBuffer) emit(j *Job) bool {
	if !w.begun && w.rebase {
		w.zero = j.Submit
	}
	w.begun = true
	rebase(j, w.zero)
	return w.yield(*j, nil)
}

// rebase moves all times so that zero becomes 0.
func rebase(j *Job, zero model.Time) {
	j.Submit -= zero
	for i := range j.Attempts {
		j.Attempts[i].Start -= zero
	}
}

// entry is a job and its place in the file.
type entry struct {
	job *Job
	at  int64
}

// Before orders by submission, then by place in the file.
func (e entry) Before(o entry) bool {
	return cmp.Or(cmp.Compare(e.job.Submit, o.job.Submit), cmp.Compare(e.at, o.at)) < 0
}

// all reads the jobs into memory and sorts them. Errors go to bad; where it returns true the
// jobs after them are read too.
func (r *Reader) all(bad func(error) bool) ([]*Job, bool) {
	var all []*Job
	var block []Job // jobs are large: they are not moved
	for j, err := range r.Jobs() {
		if err != nil {
			if !bad(err) {
				return nil, false
			}
			continue
		}
		if len(block) == cap(block) {
			block = make([]Job, 0, 512)
		}
		block = append(block, j)
		all = append(all, &block[len(block)-1])
	}
	slices.SortStableFunc(all, func(a, b *Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return all, true
}

// gathered is InOrder in one reading.
func (r *Reader) gathered(yield func(Job, error) bool) {
	all, ok := r.all(func(err error) bool { return yield(Job{}, err) })
	if !ok {
		return
	}
	w := reorderBuffer{yield: yield, rebase: formatNamed(r.format).rebase}
	for i, j := range all {
		all[i] = nil
		if !w.emit(j) {
			return
		}
	}
}
