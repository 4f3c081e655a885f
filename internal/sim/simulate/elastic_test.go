package simulate_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/combsched/comb/internal/sim/simulate"
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

// Eight trials of four hours each on 4 GPUs, to be compared in six hours; the seventh is the
// best, and reports that from early on. In order of submission it ends after eight hours;
// hypersched finds it, and gives it what the others leave.
func TestExperimentFindsItsBest(t *testing.T) {
	table := written(t, "speeds.json", `{"comb_speeds": 1, "gpus": {"m": {"1": 1, "2": 1.9, "4": 3.4}}}`)
	var trials []string
	for i, id := range []string{"p", "q", "r", "s", "t", "u", "a", "v"} {
		last := 0.5 + 0.05*float64(i)
		if id == "a" {
			last = 0.1
		}
		trials = append(trials, line(id, i, 4*3600, 1, fmt.Sprintf(`,"gpus_min":1,"gpus_max":4,"model":"m","app":"x","class":"strict","deadlines":[{"after_us":%d,"value":1}],"loss":{"first":2,"last":%g,"half_us":600000000}`, int64(6*3600)*1_000_000, last)))
	}
	took := func(policy string) (end float64) {
		got, _ := ends(t, simulate.Spec{Cluster: "1x4", Throughputs: table, Policy: policy}, trials...)
		if n, _ := fmt.Sscanf(got, "a %g", &end); n != 1 {
			t.Fatalf("%s: got %q", policy, got)
		}
		return end
	}
	if slow := took("fifo"); slow < 8*3600 {
		t.Errorf("in order of submission the best trial ends after %g s", slow)
	}
	// At least its own 4 hours on one GPU, at the speed of 4 that is 1.18 hours.
	fast := took("hypersched")
	if t.Logf("hypersched ends it after %g s", fast); fast > 3*3600 || fast < 4*3600/3.4 {
		t.Errorf("hypersched ends the best trial after %g s", fast)
	}
}
