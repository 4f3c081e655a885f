package exit_test

import (
	"testing"

	"github.com/combsched/comb/internal/core/exit"
)

// A task's end is told by what ended it: a signal, the platform, or itself; with what is known
// beside it.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		seen exit.Observed
		want string
	}{
		{exit.Observed{Code: 7}, "task ps-2 failed with exit code 7"},
		{exit.Observed{Code: 137, Signal: 9, LastLine: "killed"}, "task ps-2 was ended by signal 9: killed"},
		{exit.Observed{Cause: "node lost", LastLine: "its node was declared dead"}, "task ps-2 ended: node lost: its node was declared dead"},
		{exit.Observed{Code: 137, Cause: "out of memory"}, "task ps-2 failed with exit code 137"},
	} {
		if got := exit.Words("ps", 2, c.seen); got != c.want {
			t.Errorf("%+v: %q, want %q", c.seen, got, c.want)
		}
	}
}
