package hunt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/hunt"
)

// most is how many steps one check or decision may take; a test never asks for the time.
const most = 300_000

// ends is how many steps the decision may take in which all of so many gangs lose their place under
// las: each is given cells anew, among as many nodes.
func ends(nodes int64) int64 { return 3 * nodes * nodes }

// What stalled the loop once does not, and the gangs of these workloads get what there is for them.
func TestKnownWorkloads(t *testing.T) {
	for _, nodes := range []int{120, 1000} {
		for _, c := range hunt.Known(nodes) {
			found, err := hunt.Run(c)
			if err != nil {
				t.Error(err)
				continue
			}
			limit := int64(most)
			if strings.HasPrefix(c.Name, "S3/") {
				limit = ends(int64(nodes))
			}
			if strings.HasPrefix(c.Name, "nolend/") {
				limit = int64(nodes) * int64(nodes) // once for all that wait: each cell by itself, among as many nodes
			}
			if w := hunt.Worst(found, 1, false)[0]; w.Steps > limit {
				t.Errorf("%d steps are more than %d\n%s", w.Steps, limit, w)
			}
		}
	}
}

// Workloads of many kinds of jobs do not stall it either, though many gangs are looked at in one
// decision.
func TestMixedWorkloads(t *testing.T) {
	for _, c := range hunt.Mixed(120) {
		found, err := hunt.Run(c)
		if err != nil {
			t.Error(err)
			continue
		}
		if w := hunt.Worst(found, 1, false)[0]; w.Steps > most {
			t.Errorf("%d steps are more than %d\n%s", w.Steps, most, w)
		}
	}
}

// A quota of single GPUs serves a gang of any number of tasks that fit it by number.
func TestQuotaOfGPUsServesManyTasks(t *testing.T) {
	for _, tasks := range []int{512, 513, 571} {
		c := hunt.Case{Name: fmt.Sprint(tasks), Lines: []string{
			"cluster nodes=1000 gpus=8 switch=4 racks=125 vcs=a:4000xgpu",
			fmt.Sprintf("submit l vc=a worker=%dx7", tasks),
			"assert l phase=Active",
		}}
		if _, err := hunt.Run(c); err != nil {
			t.Error(err)
		}
	}
}

// Random workloads stay within the budget, and what is too much is shown by a small script.
func TestRandomWorkloads(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		for _, nodes := range []int{30, 120} {
			found, err := hunt.Run(hunt.Random(seed, nodes))
			if err != nil {
				t.Fatal(err)
			}
			if w := hunt.Worst(found, 1, false)[0]; w.Steps > most {
				t.Errorf("%d steps are more than %d\n%s", w.Steps, most, hunt.Shrink(w, 20))
			}
		}
	}
}

// A case is the same for the same seed, and a smaller script still causes most of the steps.
func TestShrink(t *testing.T) {
	a, b := hunt.Random(3, 30), hunt.Random(3, 30)
	if !slices.Equal(a.Lines, b.Lines) {
		t.Fatal("one seed made two workloads")
	}
	found, err := hunt.Run(a)
	if err != nil {
		t.Fatal(err)
	}
	w := hunt.Worst(found, 1, false)[0]
	less := hunt.Shrink(w, 30)
	if len(less.Case.Lines) >= len(w.Case.Lines) || less.Line() != w.Line() || less.Steps*10 < w.Steps*6 {
		t.Errorf("%d lines and %d steps became %d lines and %d steps", len(w.Case.Lines), w.Steps, len(less.Case.Lines), less.Steps)
	}
}
