package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

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
	all := [...]key{{w, of}, {HabitWork{VC: w.VC, Model: w.Model}, of}, {HabitWork{VC: w.VC, User: w.User}, of}, {HabitWork{VC: w.VC}, of}, {HabitWork{}, of}, {HabitWork{VC: w.VC}, ofAny}, {HabitWork{}, ofAny}}
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
	return cmp.Or(cmp.Compare(k.VC, o.VC), cmp.Compare(k.User, o.User), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Of, o.Of))
}

// row are the last parts of a key, the newest last. It is never changed: copies of a table share
// it.
type habitRow struct {
	key
	At    int64    `json:"at"` // how many were added to the table until its last one
	Parts []uint16 `json:"parts"`
}

// Table holds at most 1,000 keys, sorted, with at most 32 parts of each.
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

// Read is a table with these rows.
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
	h := Hash(1)
	h.Num(work)
	h.Num(part)
	stride, from := 1+uint64(h)%uint64(d.Of-1), uint64(h)>>32%uint64(d.Of)
	return int32((from + uint64(d.K)*stride) % uint64(d.Of))
}
