package simulate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

const headlinesHead = `
## What the papers say of themselves

The sentence that each is known for, and what came of it here; where ours is less, why.

| paper | headline | here | why it differs |
|---|---|---|---|
`

// headlines is the section that holds the papers' own words against our figures.
func headlines(t *testing.T) string {
	t.Helper()
	synth, slow, table := data(t, "tiresias/480_synth_job.csv"), data(t, "chronus/model_info.json"), data(t, "gavel/simulation_throughputs.json.gz")
	if synth == "" || slow == "" || table == "" {
		return ""
	}
	jct := func(p string) float64 {
		return float64(run(t, synth, simulate.Spec{Cluster: "15x4", Placement: "count", Policy: published(p)}).Summary.JCTAvg)
	}
	las := jct("las")
	file := searches(t, 7)
	contended := func(p string) *metrics.Summary { return &run(t, file, searchSpec(p, slow, "")).Summary }
	themis, other, srtf := contended("themis"), contended(tiresias), contended("srtf")
	rho := func(s *metrics.Summary) float64 { return float64(s.RhoMax / themis.RhoMax) }
	spec, jobs, _ := overloaded(t, table)
	_, together := packed(t, spec, jobs)
	spec.Policy += ",pack=no"
	_, turns := packed(t, spec, jobs)
	var b strings.Builder
	b.WriteString(headlinesHead)
	fmt.Fprintf(&b, "| Tiresias (NSDI'19) | mean JCT up to 5.5 times lower than YARN's capacity scheduler | 480 jobs on 15x4: %.1f times lower than `fifo`, %.2f than `firstfit` | the gain is that over a line whose head holds up all others, and grows with the load; passing over what does not fit has most of it |\n", jct("fifo")/las, jct("firstfit")/las)
	fmt.Fprintf(&b, "| Themis (NSDI'20) | finish-time fairness more than 2.25 times better, 5 to 250 %% more efficient | contended trace with slow-down: largest rho %.1f times lower than Tiresias', %.1f than SRTF's; effective utilization %+.0f %% and %+.0f %% | two of five apps suffer from being spread, and twice at most; apps of equal trials leave Tiresias less to be unfair with |\n",
		rho(other), rho(srtf), 100*(float64(themis.GPUEffective/other.GPUEffective)-1), 100*(float64(themis.GPUEffective/srtf.GPUEffective)-1))
	fmt.Fprintf(&b, "| Gandiva (OSDI'18) | 26 %% more utilization on 180 GPUs | twice as many jobs as GPUs by Gavel's table of pairs: %.0f %% more work done until the mean job ends than by turns alone; on the contended trace nothing | packing is all of it: that trace does not say how jobs use GPUs, so nobody is packed |\n", 100*(float64(turns.JCTAvg/together.JCTAvg)-1))
	return b.String()
}

// The rows of the page are what comes out now. That of Themis rests on the contended trace,
// whose other figures "make reproduce" alone writes.
func TestHeadlines(t *testing.T) {
	if testing.Short() {
		return
	}
	text := headlines(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(text) {
		if *resultsPage == "" && !strings.HasPrefix(row, "| Themis") && !strings.Contains(string(page), row) {
			t.Errorf("docs/results.md lacks this; make reproduce writes it:\n%s", row)
		}
	}
}
