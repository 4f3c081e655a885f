package trace

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

func generated(t testing.TB, s Spec) []Job {
	t.Helper()
	jobs, err := Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(jobs)
}

// TestSameSeedSameBytes holds a trace of each kind to the bytes that it had when
// the generator was written: they must be the same on every machine and for ever.
func TestSameSeedSameBytes(t *testing.T) {
	want := map[string]string{
		"philly":  "e5375d4b5cc1ac90",
		"helios":  "2e16bbb8a5317844",
		"alibaba": "d875a531a8f45513",
		"chronus": "cd276120c9c766d8",
		"poisson": "e2194cbc1279d2e4",
	}
	for _, k := range Kinds() {
		s := Spec{Kind: k.Name, Jobs: 2000, Seed: 7, LoadMilli: 800, Cluster: []NodeGroup{{Nodes: 16, GPUs: 8}}, Survey: true}
		text, _ := written(t, Comb, generated(t, s))
		if got := fmt.Sprintf("%x", sha256.Sum256(text))[:16]; got != want[k.Name] {
			t.Errorf("%s: the digest is %q, not %q", k.Name, got, want[k.Name])
		}
		s.Seed++
		if other, _ := written(t, Comb, generated(t, s)); string(other) == string(text) {
			t.Errorf("%s: another seed gives the same trace", k.Name)
		}
	}
}

// TestGeneratedAreJobs reads what was generated with the checks of the comb format
// and looks at what every kind must keep.
func TestGeneratedAreJobs(t *testing.T) {
	for _, k := range Kinds() {
		jobs := generated(t, Spec{Kind: k.Name, Jobs: 5000, Seed: 1, Survey: true})
		text, _ := written(t, Comb, jobs)
		if again := read(t, string(text), Options{}); len(again) != 5000 {
			t.Errorf("%s: %d jobs read again", k.Name, len(again))
		}
		for i, j := range jobs {
			if j.Duration < model.Second || j.Duration%model.Second != 0 || j.Submit%model.Time(model.Second) != 0 || j.Estimate < model.Second ||
				i > 0 && j.Submit < jobs[i-1].Submit || j.Class == "" || (j.Class == BestEffort) != (len(j.Deadlines) == 0) {
				t.Fatalf("%s: %+v", k.Name, j)
			}
		}
	}
}

// TestPublishedFigures compares large generated traces with the figures that their
// kinds are made of.
func TestPublishedFigures(t *testing.T) {
	within := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%s: %g, published %g", what, got, want)
		}
	}
	summary := func(kind string) *Summary {
		jobs, err := Generate(Spec{Kind: kind, Jobs: 200_000, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(func(yield func(Job, error) bool) { jobs(func(j Job) bool { return yield(j, nil) }) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	philly := summary("philly")
	within("philly: median", philly.DurationS.P50, 1144, 0.05)
	within("philly: 90th percentile", philly.DurationS.P90, 11264, 0.15)
	within("philly: jobs a day", float64(philly.Jobs)/philly.SpanS*86400, 755, 0.02)
	within("philly: largest VC", float64(philly.VCs[0].Jobs)/200_000, 0.5012, 0.02)
	within("philly: single GPUs", float64(philly.Sizes[0].Jobs)/200_000, 0.9317, 0.01)
	within("philly: passed", float64(philly.Outcomes[2].N)/200_000, 0.693, 0.01)
	helios := summary("helios")
	within("helios: median", helios.DurationS.P50, 206, 0.05)
	within("helios: mean", helios.DurationS.Mean, 6652, 0.1)
	within("helios: GPUs", helios.MeanGPUs, 3.72, 0.03)
	if helios.DurationS.Max > 50*86400 {
		t.Errorf("helios: %g s", helios.DurationS.Max)
	}
	alibaba := summary("alibaba")
	within("alibaba: median", alibaba.DurationS.P50, 1380, 0.03)
	within("alibaba: 90th percentile", alibaba.DurationS.P90, 16200, 0.03)
	poisson := summary("poisson")
	within("poisson: 80th percentile is 1000 minutes", poisson.DurationS.P75, math.Pow(10, 1.5+1.5*.75/.8)*60, 0.03)
	within("poisson: four GPUs", float64(poisson.Sizes[2].Jobs)/200_000, 0.15, 0.03)
	chronus := summary("chronus")
	within("chronus: median", chronus.DurationS.P50, 3600, 0.07)
	within("chronus: strict", float64(chronus.Classes[2].N)/200_000, 0.35, 0.02)
}

// TestLoad checks that a trace asks for what it was told to, and that its shapes
// do not depend on it.
func TestLoad(t *testing.T) {
	cluster := []NodeGroup{{Nodes: 16, GPUs: 8}}
	base := generated(t, Spec{Kind: "philly", Jobs: 20_000, Seed: 2, Cluster: cluster})
	for _, milli := range []int64{300, 900, 2500} {
		jobs := generated(t, Spec{Kind: "philly", Jobs: 20_000, Seed: 2, Cluster: cluster, LoadMilli: milli})
		work := gpuTime(0)
		for i, j := range jobs {
			work.add(timeOf(&j))
			if j.Duration != base[i].Duration || j.GPUs != base[i].GPUs || j.User != base[i].User {
				t.Fatalf("job %d changed with the load", i)
			}
		}
		span := float64(jobs[len(jobs)-1].Submit) / 1e6
		if load := work.hours() * 3600 / span / 128; math.Abs(load*1000/float64(milli)-1) > 0.05 {
			t.Errorf("load %g, asked for %d/1000", load, milli)
		}
	}
	for _, j := range generated(t, Spec{Kind: "philly", Jobs: 20_000, Seed: 2, Cluster: []NodeGroup{{Nodes: 1, GPUs: 2}}}) {
		if j.GPUs > 2 {
			t.Fatalf("%d GPUs on a cluster of 2", j.GPUs)
		}
	}
}

// TestApps checks that an app's jobs come together and are alike, that apps have
// the wanted sizes, and that the load is kept.
func TestApps(t *testing.T) {
	jobs := generated(t, Spec{Kind: "poisson", Jobs: 30_000, Seed: 6, AppJobs: 9, LoadMilli: 900, Cluster: []NodeGroup{{Nodes: 16, GPUs: 8}}})
	sizes := map[string]int{}
	work := gpuTime(0)
	for i, j := range jobs {
		work.add(timeOf(&j))
		sizes[j.App]++
		if i == 0 || jobs[i-1].App != j.App {
			continue
		}
		if p := jobs[i-1]; p.Submit != j.Submit || p.User != j.User || p.VC != j.VC || p.GPUs != j.GPUs {
			t.Fatalf("%+v and %+v are one app", p, j)
		}
	}
	most := 0
	for _, n := range sizes {
		most = max(most, n)
	}
	if mean := 30_000 / float64(len(sizes)); math.Abs(mean-5) > 0.15 || most != 9 {
		t.Errorf("apps of %g jobs, at most %d", mean, most)
	}
	if load := work.hours() * 3600 * 1e6 / float64(jobs[len(jobs)-1].Submit) / 128; math.Abs(load/0.9-1) > 0.05 {
		t.Errorf("load %g", load)
	}
}

// TestElastic checks that jobs stay what they were, with sizes around theirs.
func TestElastic(t *testing.T) {
	spec := Spec{Kind: "poisson", Jobs: 1000, Seed: 6, Cluster: []NodeGroup{{Nodes: 2, GPUs: 8}}}
	plain := generated(t, spec)
	spec.Elastic, spec.Loss = 4, true
	seen := map[[3]int32]bool{}
	for i, j := range generated(t, spec) {
		seen[[3]int32{j.MinGPUs, j.GPUs, j.MaxGPUs}] = true
		if c := j.Loss; c.At(0) != c.First || c.At(j.Duration) >= c.First || c.At(j.Duration) <= c.Last {
			t.Fatalf("job %s of %d us has the loss %+v", j.ID, j.Duration, *c)
		}
		j.MinGPUs, j.MaxGPUs, j.Loss = 0, 0, nil
		if fmt.Sprint(plain[i]) != fmt.Sprint(j) {
			t.Fatalf("%+v became %+v", plain[i], j)
		}
	}
	for _, want := range [][3]int32{{1, 1, 4}, {1, 2, 8}, {1, 4, 16}, {2, 8, 16}} {
		if !seen[want] {
			t.Errorf("no job of %v GPUs; there are %v", want, seen)
		}
	}
}

// TestHours checks that the busiest hours and days get their part of the jobs.
func TestHours(t *testing.T) {
	var hour [24]float64
	var day [7]float64
	n := 0.0
	week := model.Time(wholeWeek)
	for _, j := range generated(t, Spec{Kind: "philly", Jobs: 150_000, Seed: 3}) {
		if j.Submit < 28*week { // whole weeks
			hour[j.Submit/model.Time(model.Hour)%24]++
			day[j.Submit/model.Time(24*model.Hour)%7]++
			n++
		}
	}
	k := phillyKind()
	for h, want := range k.hours {
		if got := hour[h] * 24 / n * 100; math.Abs(got-float64(want)) > 6 {
			t.Errorf("hour %d: %.0f, want %d hundredths of the mean", h, got, want)
		}
	}
	for d, want := range k.days {
		if got := day[d] * 7 / n * 100; math.Abs(got-float64(want)) > 4 {
			t.Errorf("day %d: %.0f, want %d hundredths of the mean", d, got, want)
		}
	}
}

// TestSurvey holds deadlines and estimates to the rules that they come from.
func TestSurvey(t *testing.T) {
	var errors [4]float64
	n, under := 0.0, 0.0
	for _, j := range generated(t, Spec{Kind: "poisson", Jobs: 50_000, Seed: 9, Survey: true, Mix: [3]int64{1, 1, 0}}) {
		if j.Class == BestEffort {
			t.Fatal("a best-effort job with weight 0")
		}
		first := j.Deadlines[0].After
		end := model.Duration(j.Submit) + first
		hour := end/model.Hour - model.Duration(j.Submit)/model.Hour
		if end%model.Minute != 0 || hour < 1 || first < j.Duration/10*12-model.Minute || first > 2*j.Duration+model.Hour+model.Minute {
			t.Fatalf("%+v", j)
		}
		if want := map[string]int{Strict: 1, Soft: 4}[j.Class]; len(j.Deadlines) != want {
			t.Fatalf("%+v", j)
		}
		if j.Class == Soft && (j.Deadlines[3].After != first/10*15 || j.Deadlines[3].Value != 2 || j.Deadlines[1].Value != 8) {
			t.Fatalf("%+v", j)
		}
		e := math.Abs(float64(j.Estimate)/float64(j.Duration) - 1)
		switch {
		case e < 0.1:
			errors[0]++
		case e < 0.25:
			errors[1]++
		case e < 0.5:
			errors[2]++
		default:
			errors[3]++
		}
		n++
		if j.Estimate < j.Duration {
			under++
		}
	}
	for i, want := range []float64{0.21, 0.38, 0.29, 0.12} {
		if got := errors[i] / n; math.Abs(got-want) > 0.01 {
			t.Errorf("errors of class %d: %g of the users, the survey has %g", i, got, want)
		}
	}
	if math.Abs(under/n-0.5) > 0.01 {
		t.Errorf("%g estimate too short", under/n)
	}
}

// TestLongJobs checks the rule for deadlines of jobs that run for more than 7 days.
func TestLongJobs(t *testing.T) {
	for _, days := range []int64{8, 11, 13, 20} {
		for _, word := range []uint64{0, 1 << 63, math.MaxUint64} {
			d := model.Duration(days) * 24 * model.Hour
			got := firstDeadline(&Job{Duration: d}, word)
			if most := max(d/10*12, 14*24*model.Hour); got < d/10*12 || got > most+model.Minute {
				t.Errorf("%d days: %v", days, got)
			}
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	good := Spec{Kind: "philly", Jobs: 10}
	cases := []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Kind = "phily" }, `there is no kind of trace "phily"; did you mean philly?`},
		{func(s *Spec) { s.Jobs = 0 }, "0 jobs: want 1 to 100000000"},
		{func(s *Spec) { s.LoadMilli = -1 }, "the load must be above 0 and at most 1000"},
		{func(s *Spec) { s.LoadMilli = 900 }, "a load needs the cluster that it is for"},
		{func(s *Spec) { s.LoadMilli, s.PerDay, s.Cluster = 900, 5, []NodeGroup{{Nodes: 1, GPUs: 1}} }, "exclude each other"},
		{func(s *Spec) { s.PerDay = -1 }, "-1 jobs a day: want 1 to 4294967296"},
		{func(s *Spec) { s.PerDay, s.Jobs = 1, 100_000 }, "over more than 50 years; ask for fewer jobs or a higher load"},
		{func(s *Spec) { s.AppJobs = -1 }, "-1 jobs in an app: want 1 to 1000000"},
		{func(s *Spec) { s.Mix[1] = -3 }, "must be 0 to 1000000"},
	}
	for _, c := range cases {
		s := good
		c.change(&s)
		if _, err := Generate(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	for _, text := range []string{"", "1/2", "1/2/3/4", "a/1/1", "-1/1/1", "0/0/0"} {
		if _, err := ParseMix(text); err == nil {
			t.Errorf("%q is no mix", text)
		}
	}
	if m, err := ParseMix("1/0/2"); err != nil || m != [3]int64{1, 0, 2} {
		t.Error(m, err)
	}
}

// TestFixedPoint compares the integer logarithm and power with those of math.
func TestFixedPoint(t *testing.T) {
	p := newPowers()
	r := newRandom(1, 2)
	for range 100_000 {
		x := r.pcg.Uint64() >> r.below(63)
		if x == 0 {
			continue
		}
		if got, want := float64(log2(x))/(1<<fracBits), math.Log2(float64(x)); math.Abs(got-want) > 1e-6 {
			t.Fatalf("log2(%d) is %g, not %g", x, got, want)
		}
		e := r.below(50 << fracBits)
		got, want := float64(p.exp2(e)), math.Exp2(float64(e)/(1<<fracBits))
		if math.Abs(got-want) > 0.5+want*1e-9 {
			t.Fatalf("2^%g is %g, not %g", float64(e)/(1<<fracBits), got, want)
		}
	}
	if p.exp2(-1) != 0 || p.exp2(70<<fracBits) != 1<<61 {
		t.Error("the ends of exp2")
	}
	sum, least := 0.0, int64(math.MaxInt64)
	for range 200_000 {
		e := r.exponential()
		sum += float64(e) / (1 << fracBits)
		least = min(least, e)
	}
	if mean := sum / 200_000; math.Abs(mean-1) > 0.01 || least < 0 {
		t.Errorf("exponential: mean %g, least %d", mean, least)
	}
	counts := make([]float64, 3)
	w := newWeights(1, 0, 3)
	for range 40_000 {
		counts[w.pick(r)]++
	}
	if counts[1] != 0 || math.Abs(counts[0]/10_000-1) > 0.05 {
		t.Error(counts)
	}
}
