package simulate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// movesRuns are the policies whose gangs wait for a place, without and with moves.
func movesRuns() []string {
	return []string{"fifo", "fifo:defragmentation=10", "firstfit", "firstfit:defragmentation=10"}
}

// Who waits for a place though enough GPUs are free waits less where others move for it.
func TestOthersMoveForWhoWaits(t *testing.T) {
	file := generated(t, 3000)
	var all []metrics.Summary
	for _, p := range movesRuns() {
		all = append(all, run(t, file, simulate.Spec{Cluster: "40x8", Policy: p, VCs: "from-trace", RestartCost: "60"}).Summary)
	}
	for i := 0; i < len(all); i += 2 {
		without, with := &all[i], &all[i+1]
		if without.Migrations != 0 || with.Migrations == 0 {
			t.Errorf("%s: %d moves; without defragmentation %d", movesRuns()[i], with.Migrations, without.Migrations)
		}
		if with.QueueFragmentationAvg >= without.QueueFragmentationAvg {
			t.Errorf("%s: jobs wait for a place for %v s with moves, and %v s without", movesRuns()[i], with.QueueFragmentationAvg, without.QueueFragmentationAvg)
		}
	}
}

// moving is the section on moves for those who wait.
func moving(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n## Making room by moving\n\nThe Philly trace with `--vcs from-trace --restart-cost 60`: at most ten gangs of a virtual cluster move in an hour, so that one that waits gets its place. " +
		"What a gang waits for a place, while enough GPUs are free, almost ends under `firstfit`; under `fifo` it is what those behind wait for, too.\n\n" +
		"| cluster | policy | average JCT, s | average wait | of it for a place | moves | utilization |\n|---|---|---|---|---|---|---|\n")
	for _, cluster := range []string{"64x8", "56x8"} {
		for _, p := range movesRuns() {
			s := run(t, data(t, "philly/philly_jobs.csv.gz"), simulate.Spec{Cluster: cluster, Policy: p, VCs: "from-trace", RestartCost: "60"}).Summary
			fmt.Fprintf(&b, "| %s | `%s` | %.0f | %.0f | %.0f | %d | %.3f |\n", cluster, p, s.JCTAvg, s.QueueAvg, s.QueueFragmentationAvg, s.Migrations, s.GPUUtilization)
		}
	}
	return b.String()
}
