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

// EstimateSteps bounds an estimate: how many decisions each of its runs takes on its copy.
const EstimateSteps = 400

const (
	partsPerKey = 32     // run times per key: the latest
	maxKeys     = 1_000  // a new key displaces the one to which nothing was added for longest
	minParts    = 16     // run times that a key needs to say something
	wholePart   = 10_000 // the part that is all of the declared time
	maxPart     = 60_000 // larger parts are not told apart
)

// DeclaredTime is the declared time that a part is of.
type DeclaredTime int8

// The times that a job may declare.
const (
	ofAny   DeclaredTime = iota // of those declared, the one that says most
	OfLimit                     // the time limit of an attempt
	OfDuration
)

// RunTimeWork is the virtual cluster, user and model of some work; empty means any.
type RunTimeWork struct {
	VC    cell.VCName   `json:"vc,omitempty"`
	User  model.Subject `json:"user,omitempty"`
	Model string        `json:"model,omitempty"`
}

// levels are the keys under which a part counts, the most specific first; the last two are of any
// declared time.
func (w RunTimeWork) levels(of DeclaredTime) []runTimeKey {
	all := [...]runTimeKey{{w, of}, {RunTimeWork{VC: w.VC, Model: w.Model}, of},
		{RunTimeWork{VC: w.VC, User: w.User}, of},
		{RunTimeWork{VC: w.VC}, of}, {RunTimeWork{}, of}, {RunTimeWork{VC: w.VC}, ofAny}, {RunTimeWork{}, ofAny}}
	if w.Model == "" {
		return all[2:]
	}
	return all[:]
}

// runTimeKey is the work and the declared time that the parts of a row are of.
type runTimeKey struct {
	RunTimeWork
	Of DeclaredTime `json:"of"`
}

func (k runTimeKey) compare(o runTimeKey) int {
	return cmp.Or(cmp.Compare(k.VC, o.VC), cmp.Compare(k.User, o.User), cmp.Compare(k.Model, o.Model),
		cmp.Compare(k.Of, o.Of))
}

// runTimeRow is the latest parts of a key, the newest last, in ten-thousandths of the declared
// time. It is never changed: copies of a table share it.
type runTimeRow struct {
	runTimeKey
	At    int64    `json:"at"` // how many parts the table had got in all by its last one
	Parts []uint16 `json:"parts"`
}

// RunTimes is a table of the parts of their declared times that earlier attempts ran: at most 1,000
// keys, sorted, with at most 32 parts each.
type RunTimes struct {
	rows []*runTimeRow
	at   int64
}

// Clone returns a copy, which shares what never changes.
func (t RunTimes) Clone() RunTimes { return RunTimes{slices.Clone(t.rows), t.at} }

// Add notes that work ran for took of a declared time. most says that no other declared time of
// the job says more.
func (t *RunTimes) Add(w RunTimeWork, of DeclaredTime, took, declared model.Duration, most bool) {
	if took <= 0 || declared <= 0 || took > 1<<50 {
		return
	}
	p := uint16(min(int64(took)/max(int64(declared)/wholePart, 1), maxPart))
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

func (t *RunTimes) find(k runTimeKey) (int, bool) {
	return slices.BinarySearchFunc(t.rows, k, func(r *runTimeRow, k runTimeKey) int { return r.compare(k) })
}

func (t *RunTimes) add(k runTimeKey, p uint16) {
	i, found := t.find(k)
	if found {
		old := t.rows[i].Parts
		t.rows[i] = &runTimeRow{k, t.at, append(slices.Clone(old[max(0, len(old)+1-partsPerKey):]), p)}
		return
	}
	t.rows = slices.Insert(t.rows, i, &runTimeRow{k, t.at, []uint16{p}})
	if len(t.rows) > maxKeys { // of equally old keys the first goes
		oldest := slices.MinFunc(t.rows, func(a, b *runTimeRow) int { return cmp.Compare(a.At, b.At) })
		i, _ := t.find(oldest.runTimeKey)
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// RunTimeRows is a table as a snapshot keeps it.
type RunTimeRows []*runTimeRow

// Rows returns the rows of a table; ReadRunTimes makes a table of them.
func (t RunTimes) Rows() RunTimeRows { return t.rows }

// ReadRunTimes is the table with these rows.
func ReadRunTimes(rows RunTimeRows) RunTimes {
	t := RunTimes{rows: rows}
	for _, r := range rows {
		t.at = max(t.at, r.At)
	}
	return t
}

// Usual is what parts of its declared time such work took in all, where it ran for longer than
// what the work at hand has run.
type Usual struct {
	parts []uint16 // sorted
	past  int64    // the part that the work at hand has run
	N     int      // number of earlier attempts, shorter ones included
}

// Of returns what is known of work that has run for took of a declared time. It takes the most
// specific key with enough parts of which some are not smaller. If no key has such, Usual has no
// parts: the work may end at any time until all is used. It is false if no key has enough parts,
// or the work has run for all of its declared time.
func (t RunTimes) Of(w RunTimeWork, of DeclaredTime, took, declared model.Duration) (Usual, bool) {
	past, known := portion(took, declared), 0
	for _, k := range w.levels(of) {
		i, found := t.find(k)
		if !found || len(t.rows[i].Parts) < minParts {
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

// portion is took as a part of a declared time, in ten-thousandths.
func portion(took, declared model.Duration) int64 {
	return int64(took) / max(int64(declared)/wholePart, 1)
}

// Takes is the run time in all at one of n places of equal chance, from 0, the shortest. The parts
// divide what may happen into equal chances, with one more below the least and one above the
// largest.
func (u Usual) Takes(declared model.Duration, place, n int32) model.Duration {
	m := len(u.parts)
	if m == 0 {
		return model.Duration((u.past + (wholePart-u.past)*int64(place)/int64(n-1)) * max(int64(declared)/wholePart, 1))
	}
	step := int64(0)
	if m > 1 {
		step = (int64(u.parts[m-1]) - int64(u.parts[0])) / int64(m-1)
	}
	at := func(i int) int64 { // the i-th of m+2 parts
		switch {
		case i == 0:
			return max(int64(u.parts[0])-step, u.past)
		case i > m:
			return int64(u.parts[m-1]) + step
		}
		return int64(u.parts[i-1])
	}
	num, den := int64(place)*int64(m+1), int64(n-1) // place 0 is the least part, place n-1 the largest
	i := int(num / den)
	low, high := at(i), at(min(i+1, m+1))
	part := low + (high-low)*(num%den)/den
	if part == wholePart {
		return declared
	}
	return model.Duration(part * max(int64(declared)/wholePart, 1))
}

// RunTimeDraw is number K, from 0, of Of draws. Of is prime.
type RunTimeDraw struct{ K, Of int32 }

// Place is which of Of equal chances a part of some work takes in a draw. Over all draws it takes
// each once, in an order of its own.
func (d RunTimeDraw) Place(work, part int64) int32 {
	h := model.Hash(1)
	h.Num(work)
	h.Num(part)
	stride, from := 1+uint64(h)%uint64(d.Of-1), uint64(h)>>32%uint64(d.Of)
	return int32((from + uint64(d.K)*stride) % uint64(d.Of))
}

// The part of its declared time that an attempt ran is noted when the attempt ends by itself or by
// its user; what was stopped for other work goes on later. Estimates draw from these parts how
// long attempts may run.

// noteTaken notes the run time of an attempt that ends.
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
	if cause == model.EndTimeLimit { // the grace of its stop does not count
		of = j.Spec.TimeLimit
	}
	s.RunTimes.Add(WorkOf(j), OfLimit, of, j.Spec.TimeLimit, j.Spec.Hints.Duration == 0)
	s.RunTimes.Add(WorkOf(j), OfDuration, took, j.Spec.Hints.Duration, true)
}

// WorkOf is the key by which the run times of a job are known.
func WorkOf(j *tables.Job) RunTimeWork {
	return RunTimeWork{VC: j.Spec.VC, User: j.Spec.User, Model: j.Spec.Hints.Model}
}

// WorkedBy is how long an attempt has run, plus what earlier attempts saved for it.
func WorkedBy(s *index.Index, a *tables.Attempt) model.Duration {
	return s.RanFor(a) + SavedBy(&s.Tables, a)
}

// SavedBy is how long earlier attempts of the gang ran, if their work is kept in checkpoints; else
// 0.
func SavedBy(s *tables.Tables, a *tables.Attempt) model.Duration {
	if !s.Jobs[a.Job].Spec.Hints.Checkpoint {
		return 0
	}
	return s.Jobs[a.Job].Gangs[a.ID.Gang].Ran
}

// Draws is how many copies of the state run forward with different ends: the chances of each
// attempt are divided into Draws equal ones, and each copy takes another. What really happens is
// equally likely to fall anywhere among so many draws, so it is outside of all in 2 of Draws + 1
// cases. Draws and FewDraws are prime.
const (
	Draws      = 13
	FewDraws   = 7     // where copies are expensive
	LargeState = 2_000 // from so many jobs on copies are
	DrawSteps  = 3 * EstimateSteps
)

// DrawnEnd is when an attempt ends in one draw; At 0 is not before its limit.
type DrawnEnd struct {
	At     model.Time
	By     model.EndBasis
	Spread bool // another draw may say something else
	Open   bool // nothing but its limit is known
	Of     int  // on how many earlier attempts that rests
}

// OneOf is a place among Of equal chances, from 0.
type OneOf struct{ Place, Of int32 }

// Low is the place taken where copies do not draw: one attempt in ten is shorter.
var Low = OneOf{1, 11}
