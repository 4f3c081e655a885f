package model

import (
	"math/bits"
)

// EndBasis is what the expected end of an attempt rests on.
type EndBasis int8

// The bases. The usual part is how much of a declared time earlier attempts took.
const (
	BasisNone          EndBasis = iota
	BasisLimit                  // its time limit
	BasisDuration               // its declared duration
	BasisEarlierRuns            // the run times of earlier jobs of its name
	BasisSteps                  // the steps that it reports
	BasisStop                   // it was told to stop
	BasisUsualDuration          // the usual part of its declared duration
	BasisUsualLimit             // the usual part of its time limit
)

// noun is the noun for a basis in a count, in the singular and the plural.
func (b EndBasis) noun() (one, many string) {
	switch b {
	case BasisLimit:
		return "time limit", "time limits"
	case BasisDuration:
		return "declared duration", "declared durations"
	case BasisEarlierRuns:
		return "earlier run time", "earlier run times"
	case BasisSteps:
		return "job's reported steps", "jobs' reported steps"
	case BasisUsualDuration:
		return "usual part of a duration", "usual parts of durations"
	case BasisUsualLimit:
		return "usual part of a time limit", "usual parts of time limits"
	}
	return "stop", "stops"
}

// Text is the basis in words.
func (b EndBasis) Text() string {
	switch b {
	case BasisLimit:
		return "the time limit"
	case BasisDuration:
		return "the declared duration"
	case BasisEarlierRuns:
		return "the run times of earlier jobs of that name"
	case BasisSteps:
		return "the reported steps"
	case BasisUsualDuration:
		return "the usual part of the declared duration"
	case BasisUsualLimit:
		return "the usual part of the time limit"
	case BasisStop:
		return "its stop"
	}
	return "nothing"
}

// BasisTally counts ends by what they rest on.
type BasisTally struct{ counts []basisCount }

type basisCount struct {
	EndBasis
	n int32
}

// Only reports whether b was counted, and no other basis.
func (t *BasisTally) Only(b EndBasis) bool { return len(t.counts) == 1 && t.counts[0].EndBasis == b }

// Any reports whether anything was counted.
func (t *BasisTally) Any() bool { return len(t.counts) > 0 }

// Add counts one end.
func (t *BasisTally) Add(b EndBasis) {
	for i := range t.counts {
		if t.counts[i].EndBasis == b {
			t.counts[i].n++
			return
		}
	}
	t.counts = append(t.counts, basisCount{b, 1})
}

// Text lists the counts in the order in which they first came: "2 time limits and 1 declared
// duration".
func (t *BasisTally) Text() string {
	var parts []string
	for _, k := range t.counts {
		one, many := k.noun()
		parts = append(parts, Plural(k.n, one, many))
	}
	return JoinAnd(parts)
}

// MulDiv is d*n/m without overflow, at most 2^50 us (35 years). m must be positive.
func MulDiv(d Duration, n, m int64) Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	if hi >= uint64(m) {
		return 1 << 50
	}
	q, _ := bits.Div64(hi, lo, uint64(m))
	return Duration(min(q, 1<<50))
}
