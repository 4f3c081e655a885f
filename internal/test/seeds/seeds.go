// Package seeds says which random histories a test tries. One flag holds for the
// tests of all packages, so that a long run can be cut into slices that miss
// nothing and do nothing twice. It is for tests only; no other code imports it.
package seeds

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Unit is how many seeds a test has in `go test` by which all others are measured:
// one with half as many there gets half of what -seeds says.
const Unit = 200

// RangeEnv says what -seeds does, for all packages of a run at once; the flag goes before it.
const RangeEnv = "COMB_SEEDS"

var (
	which   = flag.String("seeds", "", fmt.Sprintf("seeds of the random tests: N is 1:N, A:B is A to B, as multiples of what is modest: %d; empty is that", Unit))
	covered = flag.String("covered", "", "file to which every random test adds a line that says what it tried")
)

// Range returns the first and the last seed for a test that tries `modest` many in
// `go test`, and a tenth in the short form. It notes what the test covers.
func Range(t testing.TB, modest uint64) (from, to uint64) {
	t.Helper()
	from, to, err := slice(chosen(), modest)
	if err != nil {
		t.Fatal(err)
	}
	if chosen() == "" && testing.Short() {
		to = max(1, modest/10)
	}
	Covered(t, "seeds %d to %d", from, to)
	return from, to
}

// chosen is what -seeds says, or the environment.
func chosen() string { return cmp.Or(*which, os.Getenv(RangeEnv)) }

// slice reads -seeds for one test. Ranges that follow each other give ranges that
// follow each other; a small one may give none, from after to.
func slice(which string, modest uint64) (from, to uint64, err error) {
	if which == "" {
		return 1, modest, nil
	}
	first, last, ok := strings.Cut(which, ":")
	if !ok {
		first, last = "1", which
	}
	const bits = 40 // so that no product overflows
	a, err1 := strconv.ParseUint(first, 10, bits)
	b, err2 := strconv.ParseUint(last, 10, bits)
	if err1 != nil || err2 != nil || a == 0 || a > b || modest > 1<<20 {
		return 0, 0, fmt.Errorf("-seeds %s: neither N nor A:B, with 1 <= A <= B < 2^%d", which, bits)
	}
	return (a-1)*modest/Unit + 1, b * modest / Unit, nil
}

// Flag is -seeds for one seed of a test that tries `modest` many in `go test`; a test
// with more than Unit has others in the same slice.
func Flag(seed, modest uint64) string {
	a := ((seed-1)*Unit+modest-1)/modest + 1
	if modest > Unit {
		a = (seed-1)*Unit/modest + 1
	}
	return fmt.Sprintf("-seeds %d:%d", a, (seed*Unit+modest-1)/modest)
}

// Of returns the seeds of Range one by one.
func Of(t testing.TB, modest uint64) iter.Seq[uint64] {
	t.Helper()
	from, to := Range(t, modest)
	return func(yield func(uint64) bool) {
		for seed := from; seed <= to && yield(seed); seed++ {
		}
	}
}

// Modest reports whether tests try their modest numbers in full: only then totals
// over all seeds say that a test still looks at what it should.
func Modest() bool { return chosen() == "" && !testing.Short() }

// Covered adds what a test tried, with its result and how long it took, to the file
// of -covered when the test ends.
func Covered(t testing.TB, format string, v ...any) {
	t.Helper()
	if *covered == "" {
		return
	}
	begin := time.Now()
	t.Cleanup(func() {
		result := map[bool]string{true: "FAILED", false: "passed"}[t.Failed()]
		where, _ := os.Getwd()
		line := fmt.Sprintf("%s %s: %s: %s in %s\n", filepath.Base(where), t.Name(), fmt.Sprintf(format, v...), result, time.Since(begin).Round(time.Second))
		f, err := os.OpenFile(*covered, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.WriteString(line)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Errorf("-covered: %v", err)
		}
	})
}
