package leases

import (
	"cmp"
	"math/bits"
	"slices"
)

// Rules are the two places where the published admission test does more, or less,
// than its text says. The zero value is what Comb does.
type Rules struct {
	// FirstDeadlineOnly admits a job only if its first deadline packs, although any
	// of its deadlines is worth something to a soft job. Off, the deadlines are tried
	// in turn, and the job is promised the first that packs.
	FirstDeadlineOnly bool
	// KeepRejected leaves jobs that were rejected in the test of those after them
	// until the next batch, which makes it too strict.
	KeepRejected bool
}

// PublishedRules is how the published artifact behaves, for comparisons.
func PublishedRules() Rules { return Rules{FirstDeadlineOnly: true, KeepRejected: true} }

// Request is a job that asks to be guaranteed.
type Request struct {
	// GPUs is what it is planned with (g'), Need how many leases it needs (r).
	GPUs, Need int32
	// Deadlines is how many leases end before each of its deadlines, earliest first.
	Deadlines []int32
}

// Verdict is what Admit says.
type Verdict struct {
	// Option is the index of the deadline that the job is promised, -1 when none packs.
	Option int
	// Extended is, for a job that is not admitted, the smallest number of leases that
	// a binary search finds to be enough for it; 0 when none is.
	Extended int32
}

// Admitted reports whether the job is promised a deadline.
func (v Verdict) Admitted() bool { return v.Option >= 0 }

// Admission is the test by which Chronus guarantees a deadline between two plans:
// what the last plan left is filled, backwards from each deadline, with the jobs
// admitted since and the new one, large jobs first, then those with least slack. A
// promise, once given, is kept for the later tests: no job is moved to a later
// deadline for another's sake. The zero value needs a Reset.
type Admission struct {
	rules    Rules
	horizon  int
	full     int32
	leases   int // of left
	capacity []int32
	left     sliced
	start    []uint64
	promised []promise
	kept     int // how many promises there were in all
	rejected int // promises at the end that stand for rejected jobs
	trial    []promise
	avail    []uint64
}

// promise is a job with the one deadline that counts, and its number among all promises.
type promise struct {
	gpus, need, before int32
	number             int
}

// Reset starts anew after a plan. left is how many GPUs each lease has left, lease 0
// first, full how many a lease beyond has. Negative numbers count as 0.
func (a *Admission) Reset(left []int32, full int32, rules Rules) {
	a.rules, a.full, a.horizon = rules, min(max(full, 0), MaxGPUs), len(left)
	a.promised, a.rejected, a.kept = a.promised[:0], 0, 0
	a.capacity = a.capacity[:0]
	for _, n := range left {
		a.capacity = append(a.capacity, min(max(n, 0), MaxGPUs))
	}
	a.leases = 0
}

// NextBatch forgets the rejected jobs that KeepRejected keeps.
func (a *Admission) NextBatch() {
	a.promised = a.promised[:len(a.promised)-a.rejected]
	a.rejected = 0
}

// Admit tests a job and, when it packs, keeps the promise for the next tests. A
// request with less than one GPU or lease, or beyond MaxGPUs and MaxLeases, is
// refused without a search.
func (a *Admission) Admit(r Request) Verdict {
	if r.GPUs < 1 || r.Need < 1 || r.GPUs > MaxGPUs || r.Need > MaxLeases {
		return Verdict{Option: -1}
	}
	for i, m := range r.Deadlines {
		if m > MaxLeases {
			m = MaxLeases
		}
		if p := (promise{r.GPUs, r.Need, m, a.kept}); m >= r.Need && a.packs(p) {
			a.promise(p)
			return Verdict{Option: i}
		}
		if a.rules.FirstDeadlineOnly {
			break
		}
	}
	v := Verdict{Option: -1, Extended: a.extend(r)}
	if a.rules.KeepRejected && len(r.Deadlines) > 0 && r.Deadlines[len(r.Deadlines)-1] >= r.Need {
		a.promised = append(a.promised, promise{r.GPUs, r.Need, min(r.Deadlines[0], MaxLeases), -1})
		a.rejected++
	}
	return v
}

// Packs reports whether a job could be promised one of its deadlines, and keeps nothing.
func (a *Admission) Packs(r Request, option int) bool {
	if r.GPUs < 1 || r.Need < 1 || r.GPUs > MaxGPUs || r.Need > MaxLeases || option > 0 && a.rules.FirstDeadlineOnly {
		return false
	}
	m := min(r.Deadlines[option], MaxLeases)
	return m >= r.Need && a.packs(promise{r.GPUs, r.Need, m, -1})
}

// Keep keeps a promise that was given before, of the first deadline, for the next tests, whether
// or not it packs: what was promised is given to nobody else. It needs no more leases than
// there are before that. It returns the number of the promise, which Fill knows it by.
func (a *Admission) Keep(r Request) int {
	m := min(r.Deadlines[0], MaxLeases)
	p := promise{min(max(r.GPUs, 1), MaxGPUs), min(max(r.Need, 1), m), m, a.kept}
	a.cover(int(max(m, 0)))
	a.promise(p)
	return p.number
}

// Fill yields the leases with which all promises are kept, by their numbers; a set is valid
// until the next. It yields none of those that do not pack, nor of any behind these.
func (a *Admission) Fill(yield func(number int, set Vector)) {
	a.trial = append(a.trial[:0], a.promised...)
	a.fill(yield)
}

// promise inserts before the rejected ones, so that NextBatch can cut those off.
func (a *Admission) promise(p promise) {
	a.promised = slices.Insert(a.promised, len(a.promised)-a.rejected, p)
	a.kept++
}

// extend searches for the smallest deadline that packs. Behind everything that is
// planned or promised any job fits that fits into the chain at all.
func (a *Admission) extend(r Request) int32 {
	high := max(int32(a.horizon), r.Need)
	for _, p := range a.promised {
		high = max(high, p.before)
	}
	high = min(high+r.Need, MaxLeases)
	if !a.packs(promise{r.GPUs, r.Need, high, -1}) {
		return 0
	}
	low := r.Need - 1 // does not pack
	for low+1 < high {
		if m := low + (high-low)/2; a.packs(promise{r.GPUs, r.Need, m, -1}) {
			high = m
		} else {
			low = m
		}
	}
	return high
}

// packs fills backwards with all promises and one more.
func (a *Admission) packs(more promise) bool {
	a.trial = append(append(a.trial[:0], a.promised...), more)
	a.cover(int(more.before))
	return a.fill(nil)
}

// fill fills backwards with the promises of a trial, the largest first, and yields what each
// gets; false is that one finds too few leases.
func (a *Admission) fill(yield func(number int, set Vector)) bool {
	slices.SortStableFunc(a.trial, func(p, q promise) int {
		return cmp.Or(cmp.Compare(q.gpus, p.gpus), cmp.Compare(p.before-p.need, q.before-q.need), cmp.Compare(q.before, p.before))
	})
	copy(a.left.bits, a.start)
	for _, p := range a.trial {
		avail := a.avail[:(p.before+63)/64]
		a.left.atLeast(p.gpus, avail)
		first(p.before, avail)
		if countBefore(p.before, avail) < p.need {
			return false
		}
		latest(int(p.need), avail)
		a.left.sub(p.gpus, avail)
		if yield != nil {
			yield(p.number, Vector(avail))
		}
	}
	return true
}

// cover makes left reach as many leases as a promise may use.
func (a *Admission) cover(before int) {
	if n := max(before, a.horizon); n > a.leases {
		most := a.full
		for t := a.horizon; t < n; t++ {
			a.capacity = append(a.capacity[:t], a.full)
		}
		for _, c := range a.capacity {
			most = max(most, c)
		}
		a.leases = n
		a.left.set(a.capacity, bits.Len32(uint32(most)))
		a.start = append(a.start[:0], a.left.bits...)
		a.avail = grown(a.avail, a.left.words)
	}
}
