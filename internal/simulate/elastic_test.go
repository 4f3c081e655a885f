package simulate_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/combsched/comb/internal/simulate"
)

// An hour on 4 GPUs at 34, 19 and 10 steps on 4, 2 and 1: genie gives a job 2 when that meets
// its deadline, fifo its usual 4. Worked out by hand.
func TestElasticSizesByHand(t *testing.T) {
	table := written(t, "speeds.json", `{"comb_speeds": 1, "gpus": {"m": {"1": 10, "2": 19, "4": 34}}}`)
	job := func(more string) string {
		return line("a", 0, 3400, 4, `,"gpus_min":1,"gpus_max":4,"model":"m","class":"strict"`+more)
	}
	spec := simulate.Spec{Cluster: "1x8", Throughputs: table}
	takes := func(job string, want float64) { // but for speeds in millionths
		t.Helper()
		got, _ := ends(t, spec, job)
		var end float64
		if n, _ := fmt.Sscanf(got, "a %g", &end); n != 1 || math.Abs(end/want-1) > 1e-5 {
			t.Errorf("%s: got %s, want a %g", spec.Policy, got, want)
		}
	}
	for _, c := range []struct {
		policy, more string
		want         float64
	}{
		{"fifo", `,"deadlines":[{"after_us":7000000000,"value":1}]`, 3400},
		{"genie", `,"deadlines":[{"after_us":3500000000,"value":1}]`, 3400},
		{"genie", `,"deadlines":[{"after_us":7000000000,"value":1}]`, 3400.0 * 34 / 19},
		{"genie", `,"deadlines":[{"after_us":12000000000,"value":1}]`, 3400.0 * 34 / 10},
	} {
		spec.Policy = c.policy
		takes(job(c.more), c.want)
	}
	// More than its usual size: 2 GPUs on which it takes 3400 s become 4.
	spec.Policy = "genie"
	fast := line("a", 0, 3400, 2, `,"gpus_min":1,"gpus_max":4,"model":"m","class":"strict","deadlines":[{"after_us":2000000000,"value":1}]`)
	takes(fast, 1900)
}
