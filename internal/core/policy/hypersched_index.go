package policy

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/model"
)

// What hypersched keeps of waiting trials (model.WaitIndexer), so that a look reads the running
// trials and what changed, however many wait.

// experimentKey is the key of an experiment: its app, or the only gang of one without an app.
type experimentKey struct {
	app string
	ref model.GangRef
}

func experimentKeyOf(g *model.GangView) experimentKey {
	if g.Hints.App != "" {
		return experimentKey{app: g.Hints.App}
	}
	return experimentKey{ref: g.Ref}
}

func (n experimentKey) compare(o experimentKey) int {
	return cmp.Or(cmp.Compare(n.app, o.app), cmp.Compare(n.ref.Job, o.ref.Job), cmp.Compare(n.ref.Gang, o.ref.Gang))
}

// rungs are the losses that trials had at each rung, rising.
type rungs [][]int64

// add adds the losses of a trial.
func (r *rungs) add(at []int64) {
	for k, loss := range at {
		if k == len(*r) {
			*r = append(*r, nil)
		}
		insertSorted(&(*r)[k], loss)
	}
}

// drop takes out the losses of a trial.
func (r *rungs) drop(at []int64) {
	for k, loss := range at {
		removeSorted(&(*r)[k], loss)
	}
	// a trial on a rung is on those below it, too
	for n := len(*r); n > 0 && len((*r)[n-1]) == 0; n-- {
		*r = removeAt(*r, n-1)
	}
}

// insertSorted inserts a number into an ascending list.
func insertSorted(list *[]int64, n int64) {
	i, _ := slices.BinarySearch(*list, n)
	*list = slices.Insert(*list, i, n)
}

// removeSorted removes a number that is in an ascending list.
func removeSorted(list *[]int64, n int64) {
	i, _ := slices.BinarySearch(*list, n)
	*list = removeAt(*list, i)
}

// removeAt removes the element at an index; a list that ends up empty is nil.
func removeAt[T any](list []T, i int) []T {
	if len(list) == 1 {
		return nil
	}
	return slices.Delete(list, i, i+1)
}

// last is the largest of rising numbers, 0 of none.
func last(list []int64) int64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1]
}

// at are the losses at a rung; none where no trial reached it.
func (r rungs) at(k int) []int64 {
	if k >= len(r) {
		return nil
	}
	return r[k]
}

// kth is the number at a place, from 0, of all in some lists of rising ones: the first up to
// which there are more than so many.
func kth(k int, lists ...[]int64) int64 {
	best := int64(math.MaxInt64)
	for _, list := range lists {
		i := sort.Search(len(list), func(i int) bool { return list[i] >= best || upTo(list[i], lists) > k })
		if i < len(list) {
			best = min(best, list[i])
		}
	}
	return best
}

// upTo is how many numbers in lists are not larger than one.
func upTo(n int64, lists [][]int64) int {
	sum := 0
	for _, list := range lists {
		sum += sort.Search(len(list), func(i int) bool { return list[i] > n })
	}
	return sum
}

// waitingTrials are the waiting trials of one experiment, without those that wait for an upgrade.
// All lists are ascending.
type waitingTrials struct {
	of     experimentKey
	trials []*trial // by turn
	rungs  rungs
	orders []int64 // of submission
	ran    []int64 // how long each ran
	lasts  []int64 // total run times, of those that declare one
	ends   []int64 // deadlines, of those that have one
	leasts []int64 // GPUs that each needs
}

// deadline is the first of all; 0 is none.
func (w *waitingTrials) deadline() model.Time {
	if len(w.ends) == 0 {
		return 0
	}
	return model.Time(w.ends[0])
}

// change puts a trial's numbers into all lists, or takes them out.
func (w *waitingTrials) change(t *trial, do func(*[]int64, int64)) {
	do(&w.orders, t.g.Order)
	do(&w.ran, int64(t.g.Ran))
	do(&w.leasts, t.gpus(t.least()))
	if d := int64(t.g.Hints.Duration); d > 0 {
		do(&w.lasts, d)
	}
	if d, ok := lastDeadline(&t.g); ok && d != 0 {
		do(&w.ends, int64(d))
	}
}

// kept is model.WaitIndex of hypersched.
type kept struct {
	at      map[model.GangRef]*trial
	all     []*waitingTrials // in order of their names; none is empty
	singles []*trial         // those that may have been promised cells, by turn
}

// NewWaitIndex implements model.WaitIndexer.
func (*hypersched) NewWaitIndex() model.WaitIndex { return &kept{at: map[model.GangRef]*trial{}} }

// asKept is what is kept, empty where nothing is.
func asKept(k model.WaitIndex) *kept {
	if k, ok := k.(*kept); ok {
		return k
	}
	return &kept{}
}

func (k *kept) find(of experimentKey) (int, bool) {
	return slices.BinarySearchFunc(k.all, of, func(w *waitingTrials, of experimentKey) int { return w.of.compare(of) })
}

// Add implements model.WaitIndex.
func (k *kept) Add(g *model.GangView) {
	t := newTrial(g, false)
	i, found := k.find(experimentKeyOf(g))
	if !found {
		k.all = slices.Insert(k.all, i, &waitingTrials{of: experimentKeyOf(g)})
	}
	w := k.all[i]
	w.change(&t, insertSorted)
	w.rungs.add(t.at)
	addTrial(&w.trials, &t)
	if g.Shape == "" {
		addTrial(&k.singles, &t)
	}
	k.at[g.Ref] = &t
}

// Drop implements model.WaitIndex.
func (k *kept) Drop(ref model.GangRef) {
	t := k.at[ref]
	if t == nil {
		return
	}
	delete(k.at, ref)
	i, _ := k.find(experimentKeyOf(&t.g))
	w := k.all[i]
	w.change(t, removeSorted)
	w.rungs.drop(t.at)
	dropTrial(&w.trials, t)
	if t.g.Shape == "" {
		dropTrial(&k.singles, t)
	}
	if len(w.trials) == 0 {
		k.all = removeAt(k.all, i)
	}
}

func addTrial(list *[]*trial, t *trial) {
	i, _ := slices.BinarySearchFunc(*list, t, byTurn)
	*list = slices.Insert(*list, i, t)
}

func dropTrial(list *[]*trial, t *trial) {
	i, _ := slices.BinarySearchFunc(*list, t, byTurn)
	*list = removeAt(*list, i)
}

// NextChange implements model.Timed: the end of the round while trials run. An experiment whose
// trials all wait ceases to start trials at one time, and comes to its deadline at another.
func (p *hypersched) NextChange(v model.View) model.Time {
	next, runs := model.Time(0), map[experimentKey]bool{}
	for g := range v.Running() {
		runs[experimentKeyOf(&g)] = true
	}
	kept, late := v.WaitIndex()
	for i := range late {
		runs[experimentKeyOf(&late[i])] = true
	}
	if len(runs) > 0 {
		next = (v.Now()/model.Time(p.round) + 1) * model.Time(p.round)
	}
	for _, w := range asKept(kept).all {
		if w.deadline() == 0 || runs[w.of] {
			continue
		}
		for _, at := range [2]model.Time{w.deadline() - model.Time(p.startsEnd(last(w.ran), w.lasts)) + 1,
			w.deadline()} {
			if at > v.Now() && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

// startsEnd is how long before its deadline an experiment ceases to start trials: rf times as long
// as its longest trial ran, but at most the median of the total run times that are known.
func (p *hypersched) startsEnd(longest int64, lasts ...[]int64) int64 {
	until, n := times(longest, int32(p.rf)), 0
	for _, list := range lasts {
		n += len(list)
	}
	if n > 0 {
		until = min(until, kth(n/2, lasts...))
	}
	return until
}
