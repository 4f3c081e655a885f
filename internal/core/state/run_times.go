package state

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// EstimateSteps bounds an estimate: so many times a decision is taken on the
// copy, in each of its runs.
const EstimateSteps = 400

const (
	kept      = 32     // parts of a key: the last ones
	keys      = 1_000  // the one to which nothing was added for longest makes room
	enough    = 16     // parts of a key say something
	wholePart = 10_000 // the part of what took all that was declared
	never     = 60_000 // more is not told apart
)

// HabitOf says of what time a part is.
type HabitOf int8

// The times that are declared of work.
const (
	ofAny   HabitOf = iota // the one that says most
	OfLimit                // an attempt may take no more
	OfDuration
)

// HabitWork is the virtual cluster, the user and the model of some work; empty is any.
type HabitWork struct {
	VC    cell.VCName   `json:"vc,omitempty"`
	User  model.Subject `json:"user,omitempty"`
	Model string        `json:"model,omitempty"`
}

// levels are the keys that parts of a time count to, the nearest first: the last ones are of any
// time.
func (w HabitWork) levels(of HabitOf) []key {
	all := [...]key{{w, of}, {HabitWork{VC: w.VC, Model: w.Model}, of}, {HabitWork{VC: w.VC, User: w.User}, of},
		{HabitWork{VC: w.VC}, of}, {HabitWork{}, of}, {HabitWork{VC: w.VC}, ofAny}, {HabitWork{}, ofAny}}
	if w.Model == "" {
		return all[2:]
	}
	return all[:]
}

// key is whose parts of what a row keeps.
type key struct {
	HabitWork
	Of HabitOf `json:"of"`
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.VC, o.VC), cmp.Compare(k.User, o.User), cmp.Compare(k.Model, o.Model),
		cmp.Compare(k.Of, o.Of))
}

// habitRow are the last parts of a key, the newest last. It is never changed: copies of a table
// share it.
type habitRow struct {
	key
	At    int64    `json:"at"` // how many were added to the table until its last one
	Parts []uint16 `json:"parts"`
}

// Habits holds at most 1,000 keys, sorted, with at most 32 parts of each.
type Habits struct {
	rows []*habitRow
	at   int64
}

// Clone returns a copy, which shares what never changes.
func (t Habits) Clone() Habits { return Habits{slices.Clone(t.rows), t.at} }

// Add notes how long work took of a time that was declared; most says that no other says more of
// it.
func (t *Habits) Add(w HabitWork, of HabitOf, took, declared model.Duration, most bool) {
	if took <= 0 || declared <= 0 || took > 1<<50 {
		return
	}
	p := uint16(min(int64(took)/max(int64(declared)/wholePart, 1), never))
	if took == declared {
		p = wholePart
	}
	t.at++
	for _, k := range w.levels(of) {
		if k.Of == of || most {
			t.add(k, p)
		}
	}
}

func (t *Habits) find(k key) (int, bool) {
	return slices.BinarySearchFunc(t.rows, k, func(r *habitRow, k key) int { return r.compare(k) })
}

func (t *Habits) add(k key, p uint16) {
	i, found := t.find(k)
	if found {
		old := t.rows[i].Parts
		t.rows[i] = &habitRow{k, t.at, append(slices.Clone(old[max(0, len(old)+1-kept):]), p)}
		return
	}
	t.rows = slices.Insert(t.rows, i, &habitRow{k, t.at, []uint16{p}})
	if len(t.rows) > keys { // of equally old ones the first
		oldest := slices.MinFunc(t.rows, func(a, b *habitRow) int { return cmp.Compare(a.At, b.At) })
		i, _ := t.find(oldest.key)
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// HabitRows are what a snapshot keeps of a table.
type HabitRows []*habitRow

// Rows returns them; Read makes a table of them.
func (t Habits) Rows() HabitRows { return t.rows }

// ReadHabits is a table with these rows.
func ReadHabits(rows HabitRows) Habits {
	t := Habits{rows: rows}
	for _, r := range rows {
		t.at = max(t.at, r.At)
	}
	return t
}

// Usual is what parts of a time such work takes that goes on after a part of it.
type Usual struct {
	parts []uint16 // sorted
	past  int64
	N     int // of earlier work, also what took less
}

// Of returns what is known of work that took so long of a time, by the nearest key that has
// enough parts, some of them larger, or else by none: it may end at any time until all is taken.
// It is false where no key has enough, or it took more than all.
func (t Habits) Of(w HabitWork, of HabitOf, took, declared model.Duration) (Usual, bool) {
	past, known := portion(took, declared), 0
	for _, k := range w.levels(of) {
		i, found := t.find(k)
		if !found || len(t.rows[i].Parts) < enough {
			continue
		}
		parts := slices.Sorted(slices.Values(t.rows[i].Parts))
		n := len(parts)
		parts = parts[sort.Search(n, func(i int) bool { return int64(parts[i]) >= past }):]
		if len(parts) > 0 {
			return Usual{parts, past, n}, true
		}
		known = max(known, n)
	}
	return Usual{past: past, N: known}, known > 0 && past < wholePart
}

// portion is what part of a time was taken.
func portion(took, declared model.Duration) int64 {
	return int64(took) / max(int64(declared)/wholePart, 1)
}

// Takes is how much of a time work takes in all at a place among n, from 0: the parts divide what
// may be into equal chances, one below the least and one above the largest as well.
func (u Usual) Takes(declared model.Duration, place, n int32) model.Duration {
	m := len(u.parts)
	if m == 0 {
		return model.Duration((u.past + (wholePart-u.past)*int64(place)/int64(n-1)) * max(int64(declared)/wholePart, 1))
	}
	step := int64(0)
	if m > 1 {
		step = (int64(u.parts[m-1]) - int64(u.parts[0])) / int64(m-1)
	}
	at := func(i int) int64 { // the i-th of m+2
		switch {
		case i == 0:
			return max(int64(u.parts[0])-step, u.past)
		case i > m:
			return int64(u.parts[m-1]) + step
		}
		return int64(u.parts[i-1])
	}
	num, den := int64(place)*int64(m+1), int64(n-1) // the first place is the least, the last one the most
	i := int(num / den)
	low, high := at(i), at(min(i+1, m+1))
	part := low + (high-low)*(num%den)/den
	if part == wholePart {
		return declared
	}
	return model.Duration(part * max(int64(declared)/wholePart, 1))
}

// HabitDraw is one of several draws, from 0. How many there are is prime.
type HabitDraw struct{ K, Of int32 }

// Place is which of as many equal chances some work takes in a draw: in all draws each one once, in
// an order of its own.
func (d HabitDraw) Place(work, part int64) int32 {
	h := model.Hash(1)
	h.Num(work)
	h.Num(part)
	stride, from := 1+uint64(h)%uint64(d.Of-1), uint64(h)>>32%uint64(d.Of)
	return int32((from + uint64(d.K)*stride) % uint64(d.Of))
}

// What part of the time that it declared work took is noted when an attempt ends by itself or by
// its user; what was stopped for others goes on later. Estimates draw from it how long others may
// take.

// noteTaken notes an attempt that ends.
func noteTaken(s *State, a *tables.Attempt, cause model.EndCause) {
	j := &s.Jobs[a.Job]
	took := WorkedBy(&s.Index, a)
	switch cause {
	case model.EndSucceeded, model.EndFailed, model.EndCompleted, model.EndStopped, model.EndEarly, model.EndTimeLimit:
	default:
		return
	}
	if a.Started == 0 || a.Orphaned || s.IsExtra(a) {
		return
	}
	of := took
	if cause == model.EndTimeLimit { // which the grace of its stop is no part of
		of = j.Spec.TimeLimit
	}
	s.Habits.Add(WorkOf(j), OfLimit, of, j.Spec.TimeLimit, j.Spec.Hints.Duration == 0)
	s.Habits.Add(WorkOf(j), OfDuration, took, j.Spec.Hints.Duration, true)
}

// WorkOf says whose work a job is, and of which model: what is known of run times is known of that.
func WorkOf(j *tables.Job) HabitWork {
	return HabitWork{VC: j.Spec.VC, User: j.Spec.User, Model: j.Spec.Hints.Model}
}

// WorkedBy is how long an attempt has run, with what those before it saved.
func WorkedBy(s *index.Index, a *tables.Attempt) model.Duration {
	return s.RanFor(a) + SavedBy(&s.Tables, a)
}

// SavedBy is how long attempts before ran, where their work is kept.
func SavedBy(s *tables.Tables, a *tables.Attempt) model.Duration {
	if !s.Jobs[a.Job].Spec.Hints.Checkpoint {
		return 0
	}
	return s.Jobs[a.Job].Gangs[a.ID.Gang].Ran
}

// draws is how many copies of the state run forward with other ends: the chances of each attempt
// are divided into as many equal ones, of which each copy takes another. So many draws and what
// happens are in any order, and what happens is outside all of them in 2 of draws + 1 cases. It is
// prime, as fewDraws is.
const (
	Draws      = 13
	FewDraws   = 7     // where copies are dear
	LargeState = 2_000 // jobs
	DrawSteps  = 3 * EstimateSteps
)

// DrawnEnd is when an attempt ends in one draw; 0 is not before its limit.
type DrawnEnd struct {
	At     model.Time
	By     model.HabitBasis
	Spread bool // another draw may say something else
	Open   bool // nothing but its limit is known
	Of     int  // earlier attempts like it say so
}

// OneOf is a place among equal chances, from 0.
type OneOf struct{ Place, Of int32 }

// Low is where copies do not draw: one attempt in ten takes less.
var Low = OneOf{1, 11}
