// Package habit remembers what part of the time that was declared of work it took, for a user, a
// model, a virtual cluster and all, and says from that how long such work may take. It must not know
// what attempts are, nor what is estimated with it.
package habit

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/jobs"
	"github.com/combsched/comb/internal/mix"
)

const (
	kept   = 32     // parts of a key: the last ones
	keys   = 1_000  // the one to which nothing was added for longest makes room
	enough = 16     // parts of a key say something
	whole  = 10_000 // the part of what took all that was declared
	never  = 60_000 // more is not told apart
)

// Of says of what time a part is.
type Of int8

// The times that are declared of work.
const (
	any   Of = iota // the one that says most
	Limit           // an attempt may take no more
	Duration
)

// Work is the virtual cluster, the user and the model of some work; empty is any.
type Work struct {
	VC    cell.VCName  `json:"vc,omitempty"`
	User  jobs.Subject `json:"user,omitempty"`
	Model string       `json:"model,omitempty"`
}

// levels are the keys that parts of a time count to, the nearest first: the last ones are of any time.
func (w Work) levels(of Of) []key {
	all := [...]key{{w, of}, {Work{VC: w.VC, Model: w.Model}, of}, {Work{VC: w.VC, User: w.User}, of}, {Work{VC: w.VC}, of}, {Work{}, of}, {Work{VC: w.VC}, any}, {Work{}, any}}
	if w.Model == "" {
		return all[2:]
	}
	return all[:]
}

// key is whose parts of what a row keeps.
type key struct {
	Work
	Of Of `json:"of"`
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.VC, o.VC), cmp.Compare(k.User, o.User), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Of, o.Of))
}

// row are the last parts of a key, the newest last. It is never changed: copies of a table share it.
type row struct {
	key
	At    int64    `json:"at"` // how many were added to the table until its last one
	Parts []uint16 `json:"parts"`
}

// Table holds at most 1,000 keys, sorted, with at most 32 parts of each.
type Table struct {
	rows []*row
	at   int64
}

// Clone returns a copy, which shares what never changes.
func (t Table) Clone() Table { return Table{slices.Clone(t.rows), t.at} }

// Add notes how long work took of a time that was declared; most says that no other says more of it.
func (t *Table) Add(w Work, of Of, took, declared jobs.Duration, most bool) {
	if took <= 0 || declared <= 0 || took > 1<<50 {
		return
	}
	p := uint16(min(int64(took)/max(int64(declared)/whole, 1), never))
	if took == declared {
		p = whole
	}
	t.at++
	for _, k := range w.levels(of) {
		if k.Of == of || most {
			t.add(k, p)
		}
	}
}

func (t *Table) find(k key) (int, bool) {
	return slices.BinarySearchFunc(t.rows, k, func(r *row, k key) int { return r.compare(k) })
}

func (t *Table) add(k key, p uint16) {
	i, found := t.find(k)
	if found {
		old := t.rows[i].Parts
		t.rows[i] = &row{k, t.at, append(slices.Clone(old[max(0, len(old)+1-kept):]), p)}
		return
	}
	t.rows = slices.Insert(t.rows, i, &row{k, t.at, []uint16{p}})
	if len(t.rows) > keys { // of equally old ones the first
		oldest := slices.MinFunc(t.rows, func(a, b *row) int { return cmp.Compare(a.At, b.At) })
		i, _ := t.find(oldest.key)
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// Rows are what a snapshot keeps of a table.
type Rows []*row

// Rows returns them; Read makes a table of them.
func (t Table) Rows() Rows { return t.rows }

// Read is a table with these rows.
func Read(rows Rows) Table {
	t := Table{rows: rows}
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
func (t Table) Of(w Work, of Of, took, declared jobs.Duration) (Usual, bool) {
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
	return Usual{past: past, N: known}, known > 0 && past < whole
}

// portion is what part of a time was taken.
func portion(took, declared jobs.Duration) int64 {
	return int64(took) / max(int64(declared)/whole, 1)
}

// Takes is how much of a time work takes in all at a place among n, from 0: the parts divide what
// may be into equal chances, one below the least and one above the largest as well.
func (u Usual) Takes(declared jobs.Duration, place, n int32) jobs.Duration {
	m := len(u.parts)
	if m == 0 {
		return jobs.Duration((u.past + (whole-u.past)*int64(place)/int64(n-1)) * max(int64(declared)/whole, 1))
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
	if part == whole {
		return declared
	}
	return jobs.Duration(part * max(int64(declared)/whole, 1))
}

// Draw is one of several draws, from 0. How many there are is prime.
type Draw struct{ K, Of int32 }

// Place is which of as many equal chances some work takes in a draw: in all draws each one once, in an order of its own.
func (d Draw) Place(work, part int64) int32 {
	h := mix.Hash(1)
	h.Num(work)
	h.Num(part)
	stride, from := 1+uint64(h)%uint64(d.Of-1), uint64(h)>>32%uint64(d.Of)
	return int32((from + uint64(d.K)*stride) % uint64(d.Of))
}
