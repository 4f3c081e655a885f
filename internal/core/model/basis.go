package model

import (
	"math/bits"
)

// HabitBasis is what the expected end of an attempt rests on.
type HabitBasis int8

// The bases. The usual part is how much of a declared time earlier attempts took.
const (
	ByNothing  HabitBasis = iota
	ByLimit               // its time limit
	ByDeclared            // its declared duration
	ByMeasured            // the run times of earlier jobs of its name
	ByReported            // the steps that it reports
	ByStop                // it was told to stop
	ByUsual               // the usual part of its declared duration
	ByPart                // the usual part of its time limit
)

// one is the noun for a basis in a count, in the singular and the plural.
func (b HabitBasis) one() (one, many string) {
	switch b {
	case ByLimit:
		return "time limit", "time limits"
	case ByDeclared:
		return "declared duration", "declared durations"
	case ByMeasured:
		return "earlier run time", "earlier run times"
	case ByReported:
		return "job's reported steps", "jobs' reported steps"
	case ByUsual:
		return "usual part of a duration", "usual parts of durations"
	case ByPart:
		return "usual part of a time limit", "usual parts of time limits"
	}
	return "stop", "stops"
}

// Text is the basis in words.
func (b HabitBasis) Text() string {
	switch b {
	case ByLimit:
		return "the time limit"
	case ByDeclared:
		return "the declared duration"
	case ByMeasured:
		return "the run times of earlier jobs of that name"
	case ByReported:
		return "the reported steps"
	case ByUsual:
		return "the usual part of the declared duration"
	case ByPart:
		return "the usual part of the time limit"
	case ByStop:
		return "its stop"
	}
	return "nothing"
}

// HabitTally counts ends by what they rest on.
type HabitTally struct{ kinds []counted }

type counted struct {
	HabitBasis
	n int32
}

// Only reports whether b was counted, and no other basis.
func (t *HabitTally) Only(b HabitBasis) bool { return len(t.kinds) == 1 && t.kinds[0].HabitBasis == b }

// Any reports whether anything was counted.
func (t *HabitTally) Any() bool { return len(t.kinds) > 0 }

// Add counts one end.
func (t *HabitTally) Add(b HabitBasis) {
	for i := range t.kinds {
		if t.kinds[i].HabitBasis == b {
			t.kinds[i].n++
			return
		}
	}
	t.kinds = append(t.kinds, counted{b, 1})
}

// Text lists the counts in the order in which they first came: "2 time limits and 1 declared
// duration".
func (t *HabitTally) Text() string {
	var parts []string
	for _, k := range t.kinds {
		one, many := k.one()
		parts = append(parts, Plural(k.n, one, many))
	}
	return JoinAnd(parts)
}

// Portion is d*n/m without overflow, at most 2^50 us (35 years). m must be positive.
func Portion(d Duration, n, m int64) Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	if hi >= uint64(m) {
		return 1 << 50
	}
	q, _ := bits.Div64(hi, lo, uint64(m))
	return Duration(min(q, 1<<50))
}
