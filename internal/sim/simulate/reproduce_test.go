package simulate_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

var (
	resultsPage = flag.String("results", "", "run every published result, also the slow ones, and write this page")
	resultsPart = flag.String("part", "", "write only this part of the page: "+strings.Join(partNames(), ", "))
)

// figure is one published number with its tolerance, beside ours.
type figure struct {
	name              string
	want, slack, ours float64
}

func (f *figure) within() bool { return math.Abs(f.ours-f.want) <= f.slack }

// chronusRow is a row of the baselines on the Chronus trace: the miss rate of jobs
// with deadlines, and the mean latency of best effort in minutes.
type chronusRow struct {
	name, policy  string
	miss, latency float64
	// rule of the reference; it places on nodes what it chose by count, see reference.
	rule string
	// onNodes tells that ours is compared on nodes, not by count.
	onNodes, slow bool
	note          string
}

const held = "the reference places on nodes of 8, and holds the GPUs of a chosen job that does not fit; ours counts, and is that rule without the defect"

// A row is one line.
var chronusRows = []chronusRow{
	{"FIFO (head of line)", "fifo", 0.666, 2298, "fifo", true, false, "on nodes, as the reference does"},
	{"Yarn-CS (skips what does not fit)", "firstfit", 0.653, 1718, "firstfit", false, false, held},
	{"EDF, non-preemptive", "edf:preempt=no", 0.104, 762, "edf-stay", false, true, held},
	{"SRTF", "srtf", 0.017, 355, "srtf", false, true, ""},
	{"EDF, preemptive", "edf", 0.004, 1451, "edf", false, true, held},
	{"Tiresias, one limit at the median", "las:limits=median,order=submission", 0.303, 1094, "las", false, true, held},
	{"Fairness of finish times, leases of an hour, no auction", "themis:auction=off,lease=3600", 0.036, 352, "themis", false, true, held},
}

// compared is what came of a row: ours against the reference's figures, the
// reference's rule run here with its defect against these figures, and ours against
// that rule without the defect.
type compared struct {
	row                    chronusRow
	published, twin, alike []figure
}

// published is a policy as its paper has it: without the quantum within which nobody is
// stopped by his own priority, which the papers do not have.
func published(policy string) string {
	name, params, _ := strings.Cut(policy, ":")
	switch name {
	case "srtf", "srsf", "edf", "las", "gittins", "genie", "chronus":
		return name + ":" + strings.TrimPrefix(params+",quantum=0", ",")
	}
	return policy
}

func figures(wantMiss, wantLatency, miss, latency float64) []figure {
	return []figure{{"miss rate", wantMiss, max(0.05*wantMiss, 0.005), miss}, {"latency", wantLatency, 0.05 * wantLatency, latency}}
}

func within(list []figure) bool { return list[0].within() && list[1].within() }

// compareChronus runs a row. Where ours differs from the published figures, the rule
// run with the reference's defect must give these, and without it ours.
func compareChronus(t *testing.T, file string, row chronusRow) compared {
	t.Helper()
	s := simulate.Spec{Cluster: "120x8", Policy: published(row.policy), RestartCost: "log2:30"}
	if !row.onNodes {
		s.Placement = "count"
	}
	sum := run(t, file, s).Summary
	miss, latency := float64(sum.SLOMissRate), float64(sum.BELatencyAvg)/60
	c := compared{row: row, published: figures(row.miss, row.latency, miss, latency)}
	if within(c.published) {
		return c
	}
	m, l := referenceFigures(t, file, row.rule, true)
	c.twin = figures(row.miss, row.latency, m, l)
	m, l = referenceFigures(t, file, row.rule, false)
	c.alike = figures(m, l, miss, latency)
	if !within(c.twin) || !within(c.alike) {
		t.Errorf("%s differs from the reference, and its defect does not explain it: ours %+v, the rule with it %+v, ours against the rule without it %+v", row.policy, c.published, c.twin, c.alike)
	}
	return c
}

// The baselines of Chronus on its trace.
func TestChronusBaselines(t *testing.T) {
	file := data(t, "chronus/trace_job_Philly_MIX1.csv.gz")
	if file == "" || testing.Short() || *resultsPage != "" {
		return
	}
	for _, row := range chronusRows {
		if !row.slow {
			c := compareChronus(t, file, row)
			t.Logf("%s: %+v", row.policy, c.published)
		}
	}
}

// A part is one or more sections of docs/results.md; each begins with its heading.
type part struct {
	name  string
	write func(*testing.T) string
}

// parts are those behind the page's title, in order.
func parts() []part {
	return []part{{"chronus", chronusPart}, {"tiresias", tiresiasPart}, {"sharing", sharing}, {"moving", moving}, {"savings", savingsPart},
		{"contended", contended}, {"headlines", headlines}}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// TestReproduce writes docs/results.md, or a part of it.
func TestReproduce(t *testing.T) {
	if *resultsPage == "" {
		return
	}
	was, err := os.ReadFile(*resultsPage)
	if *resultsPart != "" && err != nil {
		t.Fatal(err)
	}
	text := resultsHead
	for _, p := range parts() {
		if *resultsPart == "" {
			text += p.write(t)
		} else if p.name == *resultsPart {
			text = replaced(t, string(was), p.write(t))
		}
	}
	if text == resultsHead {
		t.Fatalf("-part is one of %v, not %q", partNames(), *resultsPart)
	}
	if err := os.WriteFile(*resultsPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sectionMark begins a section of a page.
const sectionMark = "\n## "

// replaced puts sections in the place of those on a page that have the same headings.
func replaced(t *testing.T, page, sections string) string {
	t.Helper()
	heading, _, _ := strings.Cut(strings.TrimPrefix(sections, sectionMark), "\n")
	before, rest, found := strings.Cut(page, sectionMark+heading+"\n")
	if !found {
		t.Fatalf("the page has no section %q", heading)
	}
	for range strings.Count(sections, sectionMark) - 1 {
		_, rest, _ = strings.Cut(rest, sectionMark)
	}
	if i := strings.Index(rest, sectionMark); i >= 0 {
		sections += rest[i:]
	}
	return before + sections
}

// TestReplaced replaces each section of a page, and two at once.
func TestReplaced(t *testing.T) {
	const page = "# T\n\n## a\n\n1\n### x\n\n## b\n\n2\n\n## c\n\n3\n"
	for sections, want := range map[string]string{
		"\n## a\nnew\n":          "# T\n\n## a\nnew\n\n## b\n\n2\n\n## c\n\n3\n",
		"\n## c\nnew\n":          "# T\n\n## a\n\n1\n### x\n\n## b\n\n2\n\n## c\nnew\n",
		"\n## b\nB\n\n## c\nC\n": "# T\n\n## a\n\n1\n### x\n\n## b\nB\n\n## c\nC\n",
	} {
		if got := replaced(t, page, sections); got != want {
			t.Errorf("%q gives %q, want %q", sections, got, want)
		}
	}
}

func chronusPart(t *testing.T) string {
	file := data(t, "chronus/trace_job_Philly_MIX1.csv.gz")
	var b strings.Builder
	b.WriteString(chronusHead)
	for _, row := range chronusRows {
		c := compareChronus(t, file, row)
		writeRow(&b, &c)
	}
	b.WriteString(genieRows(t, file))
	b.WriteString(chronusItself(t, file))
	return b.String()
}

func savingsPart(t *testing.T) string {
	text, _ := savings(t)
	return text
}

func tiresiasPart(t *testing.T) string {
	text := tiresiasHead
	for _, c := range tiresiasRows(t) {
		file := data(t, "tiresias/"+c.trace)
		text += c.rows(&run(t, file, simulate.Spec{Cluster: c.cluster, Placement: "count", Policy: published(c.policy)}).Summary)
	}
	return text
}

const tiresiasHead = `
## Tiresias' simulator

The trace of 60 jobs and the synthetic one of 480, ` + "`--placement count`" + `, no restart cost. Times are in seconds. The test asks for the average JCT within
0.05 % where nobody waits, 1 % under ` + "`srsf`" + ` on 4x4 (where an independent simulation gives 195.0, too), 3 % under ` + "`las:limits` and `gittins`" + `, and
0.5 % elsewhere; the median and the queueing by as many seconds, the p95 by as many percent of its own; and equal preemptions and makespans but under ` + "`las:limits` and `gittins`" + `,
where the reference mixes seconds and GPU-seconds when it computes when a job leaves its queue.

| trace | cluster | policy | figure | expected | ours | difference |
|---|---|---|---|---|---|---|
`

// rows are those of the page: what is expected, ours, and the difference, in percent
// where something else than none is expected.
func (c *tiresiasRow) rows(s *metrics.Summary) string {
	name, _, _ := strings.Cut(c.policy, ",history")
	text := ""
	for _, f := range []struct {
		name       string
		want, ours float64
		digits     int
	}{{"average JCT", c.avg, float64(s.JCTAvg), 1}, {"median JCT", c.p50, float64(s.JCTP50), 1}, {"p95 of the JCT", c.p95, float64(s.JCTP95), 1},
		{"makespan", c.makespan, float64(s.Makespan), 1}, {"average queueing", c.q, float64(s.QueueAvg), 1},
		{"preemptions", float64(c.preempted), float64(s.Preemptions), 0}} {
		difference := fmt.Sprintf("%+.*f", f.digits, f.ours-f.want)
		if f.want != 0 {
			difference = fmt.Sprintf("%+.2f %%", 100*(f.ours/f.want-1))
		}
		text += fmt.Sprintf("| %s | %s | `%s` | %s | %.*f | %.*f | %s |\n", c.trace, c.cluster, name, f.name, f.digits, f.want, f.digits, f.ours, difference)
	}
	return text
}

const resultsHead = `# Results

"make reproduce" writes this page from the public traces: what was published, ours, and
the difference. Where a policy has a ` + "[`quantum`](policies.md#the-quantum)" + ` all runs of this page set it to 0, as the papers have none.
`

const chronusHead = `
## Baselines of Chronus

The trace Philly_MIX1 of its artifact, 120 nodes of 8 GPUs, ` + "`--restart-cost log2:30`, `--placement count`" + `
where nothing else is said (` + "`fifo`" + ` is on nodes). The miss rate is over jobs with deadlines; the latency is the mean
completion time of best-effort jobs in minutes. The tolerance is 5 %, or 0.005 of the miss rate.

The reference chooses jobs by counting GPUs, but then places them on nodes, and holds the GPUs of a chosen job
that does not fit there: nobody else gets them. That is a defect of the reference, which ours does not copy. Where it
matters the test runs the reference's rule with and without it: with it, the published figures; without it, ours.

GENIE's rule there has a second one: best effort waits as long as a job with a deadline does, whatever is free. Its tolerance is 15 %, as
it draws errors. With both defects the rule gives the published figures; without, it misses as many deadlines as ours. Our latency lies
between those of the rule where best effort fills what is free, and where it waits: ours ends nobody, so who is late takes GPUs as well.

| system | ours | figure | expected | ours | difference | |
|---|---|---|---|---|---|---|
`

func writeRow(b *strings.Builder, c *compared) {
	for i, f := range c.published {
		word := "within tolerance"
		if !f.within() {
			word = fmt.Sprintf("the reference's rule with its defect: %.4g, without it: %.4g", c.twin[i].ours, c.alike[i].want)
		}
		fmt.Fprintf(b, "| %s | `%s` | %s | %.4g | %.4g | %+.1f %% | %s |\n", c.row.name, c.row.policy, f.name, f.want, f.ours, 100*(f.ours/f.want-1), word)
	}
}

// sharingRuns are the comparisons of the section on sharing.
func sharingRuns() []simulate.Spec {
	var out []simulate.Spec
	for _, cluster := range []string{"64x8", "56x8", "80x8"} {
		for _, policy := range []string{"fifo", "las", "gandiva"} {
			out = append(out, simulate.Spec{Cluster: cluster, Policy: policy}, simulate.Spec{Cluster: cluster, Policy: policy, Quota: "count"})
		}
	}
	slices.SortStableFunc(out, func(a, b simulate.Spec) int { return cmp.Compare(a.Quota, b.Quota) })
	return out
}

// sharing is the section on the sharing anomaly.
func sharing(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n## The sharing anomaly\n\nEvery virtual cluster of the Philly trace, alone on its share of the nodes and in the shared cluster: how many jobs start or end at another instant, and by how many hours in all they end later and earlier.\n\n| cluster | policy | quota | jobs | differ | hours later | hours earlier |\n|---|---|---|---|---|---|---|\n")
	for _, s := range sharingRuns() {
		jobs, differ, late, early := 0, 0, 0.0, 0.0
		name := s.Policy
		s.Policy = published(name)
		list := isolated(t, data(t, "philly/philly_jobs.csv.gz"), s)
		if s.Quota != "count" {
			equal(t, list)
		}
		for _, d := range list {
			jobs, differ = jobs+d.Jobs, differ+d.Different
			late, early = late+minutes(int64(d.Late))/60, early+minutes(int64(d.Early))/60
		}
		quota := s.Quota
		if quota == "" {
			quota = "cells"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %d | %d | %.0f | %.0f |\n", s.Cluster, name, quota, jobs, differ, late, early)
	}
	return b.String()
}
