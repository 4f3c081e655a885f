package policy

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy/leases"
)

// What chronus remembers of a job:
//
//	(nothing)                     its deadlines were not judged, or it has none
//	demoted [REASON]              it is best effort
//	promised OPTION SKU           one of its deadlines is guaranteed, since the last plan
//	planned OPTION SKU LEASES     and it has leases before it, such as 7-9/12
//	holds OPTION SKU LEASES       and it holds the one that runs
//	profiles SKU                  it is measured
//
// A job that was in the profiler's pool has "measured SECONDSs; " before that, with 0 where it
// reported too little, or "measured SECONDSs on GPUS SKU; " where it may take another time
// elsewhere. Then comes the extrapolated run time with "; ", if there is one
// (chronus_extrapolate.go). The note of the VC has "PRIORITY LEASE: ..." for each priority, a
// summary of its last plan, and "profiler ...", what profiles cost.

// noteKind is what a note says.
type noteKind uint8

const (
	noteUndecided noteKind = iota
	noteDemoted
	notePromised
	notePlanned
	noteHolds
	noteProfiles
)

// noteWords are how a kind is written.
var noteWords = [...]string{"", "demoted", "promised", "planned", "holds", "profiles"}

// chronusNote is a note about a job, read.
type chronusNote struct {
	kind   noteKind
	option int32 // index of the guaranteed deadline
	sku    cell.TypeName
	rest   []byte // the leases as written, or what else follows
	// profiled says that it was in the pool, or need not be; measured is its run time there, 0
	// for none.
	profiled bool
	measured int64
	where    place // where it was measured; no GPUs where it does not matter
	forecast       // what was extrapolated; nothing where takes is 0
}

func (r *chronusNote) guaranteed() bool {
	return r.kind == notePromised || r.kind == notePlanned || r.kind == noteHolds
}

// readChronusNote reads a note, and ignores what it does not understand.
func readChronusNote(note []byte) (r chronusNote) {
	if rest, ok := bytes.CutPrefix(note, []byte("measured ")); ok {
		var head []byte
		head, note, _ = bytes.Cut(rest, []byte("; "))
		seconds, at, _ := bytes.Cut(head, []byte("s"))
		n, _ := strconv.ParseInt(string(seconds), 10, 64)
		r.profiled, r.measured = true, min(max(n, 0), 1<<40)*int64(model.Second)
		if at, ok = bytes.CutPrefix(at, []byte(" on ")); ok {
			r.where = readPlace(at)
		}
	}
	if bytes.HasPrefix(note, []byte("takes ")) {
		r.forecast, note = readForecast(note)
	}
	word, rest, _ := bytes.Cut(note, []byte(" "))
	for i, w := range noteWords {
		if string(word) == w {
			r.kind = noteKind(i)
		}
	}
	if !r.guaranteed() {
		r.rest = rest
		return r
	}
	option, rest, _ := bytes.Cut(rest, []byte(" "))
	sku, rest, _ := bytes.Cut(rest, []byte(" "))
	n, _ := strconv.ParseInt(string(option), 10, 32)
	r.option, r.sku, r.rest = int32(n), cell.TypeName(sku), rest
	return r
}

// leases returns the leases from a first one on, which becomes lease 0.
func (r *chronusNote) leases(first int64) leases.Vector {
	var out leases.Vector
	for rest := r.rest; len(rest) > 0; {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte("/"))
		from, to, some := bytes.Cut(part, []byte("-"))
		a, _ := strconv.ParseInt(string(from), 10, 64)
		b := a
		if some {
			b, _ = strconv.ParseInt(string(to), 10, 64)
		}
		a, b = max(a, first)-first, min(b-first, leases.MaxLeases-1)
		if need := int(b/64) + 1 - len(out); a <= b && need > 0 {
			out = append(out, make(leases.Vector, need)...)
		}
		for t := a; t <= b; t++ {
			out[t/64] |= 1 << (t % 64)
		}
	}
	return out
}

// text writes a record with leases counted from a first one.
func (r *chronusNote) text(set leases.Vector, first int64) []byte {
	out := r.head()
	if !r.guaranteed() {
		if out = append(out, noteWords[r.kind]...); len(r.rest) > 0 {
			out = append(append(out, ' '), r.rest...)
		}
		return out
	}
	out = fmt.Appendf(out, "%s %d %s", noteWords[r.kind], r.option, r.sku)
	end, sep := set.End(), byte(' ')
	for t := 0; t < end; t++ {
		if !set.Has(t) {
			continue
		}
		from := t
		for set.Has(t + 1) {
			t++
		}
		out = strconv.AppendInt(append(out, sep), first+int64(from), 10)
		if t > from {
			out = strconv.AppendInt(append(out, '-'), first+int64(t), 10)
		}
		sep = '/'
	}
	return out
}

// head is the part of the note before the kind: what was measured and extrapolated.
func (r *chronusNote) head() []byte {
	var out []byte
	if r.profiled {
		out = fmt.Appendf(out, "measured %ds", (r.measured+int64(model.Second)-1)/int64(model.Second))
		if r.where.gpus > 0 {
			out = fmt.Appendf(out, " on %v", r.where)
		}
		out = append(out, "; "...)
	}
	return append(out, r.forecast.text()...)
}

// demote writes that a gang is best effort, and why; "" says nothing.
func (r *chronusNote) demote(why string) []byte {
	out := append(r.head(), noteWords[noteDemoted]...)
	if why != "" {
		out = append(append(out, ' '), why...)
	}
	return out
}

// equalSets reports whether two sets hold the same leases.
func equalSets(a, b leases.Vector) bool { return collections.EqualPadded(a, b) }

// leaseOf returns the lease for which the last plan of a priority was made; 0 is none.
func leaseOf(note []byte, prio cell.Priority) int64 {
	for len(note) > 0 {
		var entry []byte
		entry, note, _ = bytes.Cut(note, []byte("; "))
		p, rest, _ := bytes.Cut(entry, []byte(" "))
		if string(p) == strconv.Itoa(int(prio)) {
			rest, _, _ = bytes.Cut(rest, []byte(":"))
			n, _ := strconv.ParseInt(string(rest), 10, 64)
			return n
		}
	}
	return 0
}

// withLease replaces the entry of a priority.
func withLease(note []byte, prio cell.Priority, entry string) []byte {
	return withEntry(note, strconv.Itoa(int(prio)), entry)
}

// withEntry replaces the entry that begins with a word where it stands, or adds it. The order
// stays, so that an unchanged note is not written again.
func withEntry(note []byte, word, entry string) []byte {
	var out []byte
	entry = word + " " + entry
	for len(note) > 0 {
		var e []byte
		e, note, _ = bytes.Cut(note, []byte("; "))
		if w, _, _ := bytes.Cut(e, []byte(" ")); string(w) == word {
			e, entry = []byte(entry), ""
		}
		if len(e) > 0 {
			out = append(append(out, e...), "; "...)
		}
	}
	return bytes.TrimSuffix(append(out, entry...), []byte("; "))
}

// remember makes a wish that is a note about a job.
func remember(job model.JobID, data []byte) model.Wish {
	return model.Wish{Note: &model.Note{Job: job, Data: data}}
}
