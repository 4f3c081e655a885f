package script_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/seeds"
)

// Histories that must come out alike although something about them differs.
// Fewer than of the plain seeds: each runs several times.
const alikeSeeds = 25

// told runs the steps of a scenario and returns all that was printed.
func told(t *testing.T, steps []step) (string, *scenario) {
	t.Helper()
	sc := begin(plain)
	defer sc.s.Close()
	sc.check.blind = true // TestSeeds checks what these are held against
	var out strings.Builder
	for _, st := range steps {
		out.WriteString(sc.do(st))
		out.WriteByte('\n')
	}
	if sc.err != nil {
		t.Fatalf("%v\n%s", sc.err, render(steps))
	}
	return out.String(), sc
}

// renaming gives other names and takes them back.
type renaming struct {
	what        string
	there, back func(string) string
}

var (
	jobName  = regexp.MustCompile(`\bj(\d+)\b`)
	itsName  = regexp.MustCompile(`\bname(\d+)\b`)
	nodeName = regexp.MustCompile(`\b([xy])(\d+)\b`)
	ownsVC   = regexp.MustCompile(`(?m)(\bvc=|\bparent=|^vc )([abc])\b`)
)

// renamings change names: of jobs against their order, which decides nothing; of
// nodes, so that those of one chain come before those of the other; of VCs in
// their order, which decides who is served first.
func renamings() []renaming {
	upside := func(digits string) string {
		n, _ := strconv.Atoi(digits)
		return strconv.Itoa(1000 - n)
	}
	return []renaming{
		{"jobs", func(s string) string {
			return jobName.ReplaceAllStringFunc(s, func(m string) string { return "name" + upside(m[1:]) })
		}, func(s string) string {
			return itsName.ReplaceAllStringFunc(s, func(m string) string { return "j" + upside(m[4:]) })
		}},
		{"nodes", func(s string) string {
			s = strings.NewReplacer("prefix=x", "prefix=hostx", "prefix=y", "prefix=aty").Replace(s)
			return nodeName.ReplaceAllStringFunc(s, func(m string) string { return map[byte]string{'x': "host", 'y': "at"}[m[0]] + m })
		}, strings.NewReplacer("hostx", "x", "aty", "y").Replace},
		{"virtual clusters", func(s string) string {
			return ownsVC.ReplaceAllString(s, "${1}team-${2}")
		}, strings.NewReplacer("team-", "").Replace},
	}
}

// Renaming jobs, nodes or VCs changes nothing but names.
func TestRenaming(t *testing.T) {
	for seed := range seeds.Of(t, alikeSeeds) {
		steps, sc := generate(seed, plain)
		if sc.err != nil {
			continue // TestSeeds tells of it
		}
		plain, _ := told(t, steps)
		for _, r := range renamings() {
			other := make([]step, len(steps))
			for i, st := range steps {
				other[i] = step{line: r.there(st.line), block: r.there(st.block)}
			}
			renamed, _ := told(t, other)
			if got := r.back(renamed); got != plain {
				t.Errorf("seed %d: with other names of %s the run differs:\n%s", seed, r.what, difference(plain, got))
			}
		}
	}
}

// difference shows the first lines that differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("line %d\n  was %s\n  is  %s", i+1, strings.Join(x[i:min(i+4, len(x))], "\n      "), strings.Join(y[min(i, len(y)):min(i+4, len(y))], "\n      "))
		}
	}
	return "the one goes on after the other's end"
}

// The same history on one and on sixteen processors gives the same bytes.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range seeds.Of(t, alikeSeeds) {
		runtime.GOMAXPROCS(1)
		steps, one := generate(seed, plain)
		if one.err != nil {
			continue // TestSeeds tells of it
		}
		runtime.GOMAXPROCS(16)
		if many := replay(steps, plain); one.check.sum() != many.check.sum() {
			t.Errorf("seed %d: one processor and sixteen give different journals", seed)
		}
	}
}
