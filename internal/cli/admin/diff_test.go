package admin

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"", "", ""},
		{"a\n", "a\n", ""},
		{"a\n", "a", "@@ line 1 -> line 1 @@|-a|+a (no line end)"},
		{"", "a\nb\n", "@@ line 1 -> line 1 @@|+a|+b"},
		{"a\nb\nc\n", "a\nc\n", "@@ line 2 -> line 2 @@|-b"},
		{"a\nb\nc\nd\n", "a\nx\nc\ny\n", "@@ line 2 -> line 2 @@|-b|+x|@@ line 4 -> line 4 @@|-d|+y"},
		{"k: 1\nk: 1\n", "k: 1\nk: 1\nk: 1\n", "@@ line 3 -> line 3 @@|+k: 1"},
	} {
		if got := strings.Join(Diff(c.was, c.is), "|"); got != c.want {
			t.Errorf("%q to %q: %s; want %s", c.was, c.is, got, c.want)
		}
	}
	// Too much to compare: all that differs is told, and quickly.
	long := strings.Repeat("x\n", 1) + numbered(9000, "a") + "z\n"
	if n := len(Diff(long, strings.Repeat("x\n", 1)+numbered(9000, "b")+"z\n")); n != 18001 {
		t.Errorf("%d lines", n)
	}
}

func numbered(n int, with string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d\n", with, i)
	}
	return b.String()
}

// TestDiffApplies: what a difference says makes the one text of the other, and no more lines differ
// than must.
func TestDiffApplies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range r.IntN(12) {
			fmt.Fprintf(&b, "%c\n", 'a'+rune(r.IntN(3)))
		}
		return b.String()
	}
	for range 2000 {
		was, is := text(), text()
		left, at := lines(was), 0
		var got []string
		for _, l := range Diff(was, is) {
			var from, to int
			if n, _ := fmt.Sscanf(l, "@@ line %d -> line %d @@", &from, &to); n == 2 {
				for at < from-1 {
					got = append(got, left[at])
					at++
				}
				if len(got) != to-1 {
					t.Fatalf("%q to %q: line %d is said to be %d", was, is, len(got)+1, to)
				}
				continue
			}
			if l[0] == '+' {
				got = append(got, l[1:])
			} else if at++; left[at-1] != l[1:] {
				t.Fatalf("%q to %q: line %d is %q, not %q", was, is, at, left[at-1], l[1:])
			}
		}
		got = append(got, left[at:]...)
		if strings.Join(got, "") != strings.ReplaceAll(is, "\n", "") {
			t.Fatalf("%q to %q gives %q", was, is, got)
		}
	}
}
