package leases

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
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

// Admission is the test by which Chronus guarantees a deadline between two plans:
// what the last plan left is filled, backwards from each deadline, with the jobs
// admitted since and the new one, large jobs first, then those with least slack. A
// promise, once given, is kept for the later tests: no job is moved to a later
// deadline for another's sake. The zero value needs a Reset.
type Admission struct {
	rules    Rules
	horizon  int
	full     int32
	leases   int // how many leases left has
	capacity []int32
	left     sliced
	promised []promise // in the order in which leases are given
	kept     int       // how many promises there were in all
	// marks are what is left of all leases before every markEvery-th promise gets its own, so that
	// a trial begins where the new job comes; marked is how many of them hold.
	marks  []uint64
	marked int
	// By lease: room is how many GPUs the leases before it have in all, need how many of these
	// the promises with no later deadline need.
	room, need []int64
	avail      []uint64
}

// markEvery is how many promises lie between two marks.
const markEvery = 32

// promise is a job with the one deadline that counts, and its number among all promises.
type promise struct {
	gpus, need, before int32
	number             int
	rejected           bool
}

// compare orders the largest first, then those with least slack.
func (p *promise) compare(q *promise) int {
	return cmp.Or(cmp.Compare(q.gpus, p.gpus), cmp.Compare(p.before-p.need, q.before-q.need), cmp.Compare(q.before, p.before))
}

// Reset starts anew after a plan. left is how many GPUs each lease has left, lease 0
// first, full how many a lease beyond has. Negative numbers count as 0.
func (a *Admission) Reset(left []int32, full int32, rules Rules) {
	a.rules, a.full, a.horizon = rules, min(max(full, 0), MaxGPUs), len(left)
	a.promised, a.kept = a.promised[:0], 0
	a.capacity = a.capacity[:0]
	for _, n := range left {
		a.capacity = append(a.capacity, min(max(n, 0), MaxGPUs))
	}
	a.leases, a.marked = 0, 0
}

// NextBatch forgets the rejected jobs that KeepRejected keeps.
func (a *Admission) NextBatch() {
	a.promised = slices.DeleteFunc(a.promised, func(p promise) bool { return p.rejected })
	a.marked = min(a.marked, 1)
	a.count()
}

// Admit tests a job and, when it packs, keeps the promise for the next tests. It returns the
// index of the deadline that the job is promised, -1 when none packs. A request with less than
// one GPU or lease, or beyond MaxGPUs and MaxLeases, is refused without a search.
func (a *Admission) Admit(r Request) int {
	if !r.valid() {
		return -1
	}
	for i, m := range r.Deadlines {
		p := promise{gpus: r.GPUs, need: r.Need, before: min(m, MaxLeases), number: a.kept}
		if p.before >= r.Need {
			if at, ok := a.packs(p); ok {
				a.insert(p, at)
				return i
			}
		}
		if a.rules.FirstDeadlineOnly {
			break
		}
	}
	if a.rules.KeepRejected && len(r.Deadlines) > 0 && r.Deadlines[len(r.Deadlines)-1] >= r.Need {
		a.keep(promise{gpus: r.GPUs, need: r.Need, before: min(r.Deadlines[0], MaxLeases), number: -1, rejected: true})
	}
	return -1
}

// valid reports whether a request is of a size that any lease could have.
func (r *Request) valid() bool {
	return r.GPUs >= 1 && r.Need >= 1 && r.GPUs <= MaxGPUs && r.Need <= MaxLeases
}

// Packs reports whether a job could be promised one of its deadlines, and keeps nothing.
func (a *Admission) Packs(r Request, option int) bool {
	if !r.valid() || option > 0 && a.rules.FirstDeadlineOnly {
		return false
	}
	p := promise{gpus: r.GPUs, need: r.Need, before: min(r.Deadlines[option], MaxLeases)}
	if p.before < r.Need {
		return false
	}
	at, ok := a.packs(p)
	a.unmark(at)
	return ok
}

// Keep keeps a promise that was given before, of the first deadline, for the next tests,
// whether or not it packs: what was promised is given to no other job. It needs no more leases
// than there are before that. It returns the number of the promise, which Fill knows it by.
func (a *Admission) Keep(r Request) int {
	m := min(r.Deadlines[0], MaxLeases)
	p := promise{gpus: min(max(r.GPUs, 1), MaxGPUs), need: min(max(r.Need, 1), m), before: m, number: a.kept}
	a.keep(p)
	return p.number
}

// Fill yields the leases with which all promises are kept, by their numbers; a set is valid
// until the next. It ends with the first promise that does not pack.
func (a *Admission) Fill(yield func(number int, set Vector)) {
	if len(a.promised) == 0 {
		return
	}
	a.restore(0)
	for i := range a.promised {
		p := &a.promised[i]
		set, ok := a.give(p)
		if !ok {
			return
		}
		yield(p.number, Vector(set))
	}
}

// keep inserts a promise that may not pack.
func (a *Admission) keep(p promise) {
	a.cover(int(max(p.before, 0)))
	at := a.place(&p)
	a.unmark(at)
	a.insert(p, at)
}

// insert puts a promise into its place.
func (a *Admission) insert(p promise, at int) {
	a.promised = slices.Insert(a.promised, at, p)
	if !p.rejected {
		a.kept++
	}
	a.needs(&p)
}

// needs adds what a promise needs to that of all leases from its deadline on.
func (a *Admission) needs(p *promise) {
	for t := int(max(p.before, 0)); t < len(a.need); t++ {
		a.need[t] += int64(p.gpus) * int64(p.need)
	}
}

// count makes the sums anew by which enough judges.
func (a *Admission) count() {
	a.room, a.need = grown(a.room, a.leases+1), grown(a.need, a.leases+1)
	clear(a.need)
	a.room[0] = 0
	for t := range a.leases {
		a.room[t+1] = a.room[t] + int64(a.capacity[t])
	}
	for i := range a.promised {
		a.needs(&a.promised[i])
	}
}

// enough reports whether the GPUs before each deadline are as many as the promises up to it
// need, with one job more: else no order packs them.
func (a *Admission) enough(more *promise) bool {
	n := int64(more.gpus) * int64(more.need)
	for t := int(more.before); t < len(a.need); t++ {
		if a.need[t]+n > a.room[t] {
			return false
		}
	}
	return true
}

// place is the index at which a promise is inserted, behind those that are equal.
func (a *Admission) place(p *promise) int {
	return sort.Search(len(a.promised), func(i int) bool { return p.compare(&a.promised[i]) < 0 })
}

// packs fills backwards with all promises and one more, and says where that one stands; the marks
// are then those with it, until unmark.
func (a *Admission) packs(more promise) (at int, ok bool) {
	a.cover(int(more.before))
	at = a.place(&more)
	if !a.enough(&more) || !a.markTo(at) {
		a.unmark(at)
		return at, false
	}
	a.unmark(at)
	from := at / markEvery
	a.restore(from)
	for i := from * markEvery; i <= len(a.promised); i++ {
		if i == a.marked*markEvery {
			a.mark()
		}
		p := &more
		if i < at {
			p = &a.promised[i]
		} else if i > at {
			p = &a.promised[i-1]
		}
		if _, ok := a.give(p); !ok {
			a.unmark(at)
			return at, false
		}
	}
	return at, true
}

// markTo makes the marks up to a promise; false is that one before it finds too few leases.
func (a *Admission) markTo(at int) bool {
	for a.marked <= at/markEvery {
		a.restore(a.marked - 1)
		for i := (a.marked - 1) * markEvery; i < a.marked*markEvery; i++ {
			if _, ok := a.give(&a.promised[i]); !ok {
				return false
			}
		}
		a.mark()
	}
	return true
}

// mark keeps a copy of what is left now.
func (a *Admission) mark() {
	a.marks = append(a.marks[:a.marked*len(a.left.bits)], a.left.bits...)
	a.marked++
}

// unmark forgets the marks behind a promise.
func (a *Admission) unmark(at int) { a.marked = min(a.marked, at/markEvery+1) }

// restore goes back to a mark.
func (a *Admission) restore(mark int) {
	n := len(a.left.bits)
	copy(a.left.bits, a.marks[mark*n:][:n])
}

// give gives a promise the latest leases before its deadline that have room, in memory of the next.
func (a *Admission) give(p *promise) ([]uint64, bool) {
	avail := a.avail[:(p.before+63)/64]
	a.left.atLeast(p.gpus, avail)
	keepBefore(p.before, avail)
	if countBefore(p.before, avail) < p.need {
		return nil, false
	}
	keepLatest(int(p.need), avail)
	a.left.sub(p.gpus, avail)
	return avail, true
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
		a.avail = grown(a.avail, a.left.words)
		a.marked = 0
		a.mark()
		a.count()
	}
}
