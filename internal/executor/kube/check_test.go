package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube"
)

// Namespaces are asked for side by side, and all that is wrong is told at once; of one that nothing
// is known of, this is said.
func TestCheckNamespaces(t *testing.T) {
	d := newDriver(t, 13)
	want := map[string]cell.VCName{"without": "a", "lost": "b", "mute": "c", "none": "d"}
	for i := range 12 {
		want[fmt.Sprint("good", i)] = "e"
	}
	var coming sync.WaitGroup // one after the other would wait for each other, until they are given up
	coming.Add(12)
	all, first := make(chan struct{}), sync.Map{}
	go func() { coming.Wait(); close(all) }()
	d.api.Review(func(space string) (allowed, answers bool) {
		good := strings.HasPrefix(space, "good")
		if _, before := first.LoadOrStore(space, true); good && !before {
			coming.Done()
		}
		if good {
			select {
			case <-all:
			case <-t.Context().Done():
			}
		}
		return good || space == "mute", space != "mute"
	})
	away, unasked, err := kube.CheckNamespaces(d.e, want, map[string]cell.VCName{"lost": "b", "good1": "e"}, false)
	if len(away) != 1 || !strings.HasPrefix(away[0], "lost: Comb lacks rights there") || !slices.Equal(unasked, []string{"mute"}) {
		t.Errorf("away are %q, nothing is known of %q", away, unasked)
	}
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "virtual cluster d: namespace none: Comb lacks rights") || !strings.HasPrefix(lines[1], "virtual cluster a: namespace without: Comb lacks rights") {
		t.Errorf("it is refused with %q", lines)
	}
}
