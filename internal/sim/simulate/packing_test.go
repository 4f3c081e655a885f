package simulate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// together follows who is packed with whom, and for how long.
type together struct {
	names map[model.JobID]string
	since map[[2]model.JobID]model.Time
	over  map[model.JobID]bool
	// parted are pairs that were parted while both lived, with how long they were together;
	// kept are those one of which ended.
	parted, kept map[string]model.Duration
}

func (p *together) see(r model.Record) {
	now := map[[2]model.JobID]bool{}
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		p.names[e.ID] = string(e.Job.Name)
	case model.JobEnded:
		p.over[e.Job] = true
	case model.TaskExited:
		p.over[e.Attempt.Job] = true
	case model.Rotated:
		members := map[model.JobID]bool{}
		for _, turn := range e.Rotation.Turns {
			for _, a := range turn {
				members[a.Job] = true
			}
			if len(turn) == 2 {
				now[[2]model.JobID{turn[0].Job, turn[1].Job}] = true
			}
		}
		for pair, since := range p.since {
			switch name := p.names[pair[0]] + "+" + p.names[pair[1]]; {
			case !members[pair[0]] && !members[pair[1]] || now[pair] || now[[2]model.JobID{pair[1], pair[0]}]:
				continue
			case p.over[pair[0]] || p.over[pair[1]]:
				p.kept[name] = model.Duration(r.Time - since)
			default:
				p.parted[name] = model.Duration(r.Time - since)
			}
			delete(p.since, pair)
		}
		for pair := range now {
			if _, was := p.since[pair]; !was && p.since[[2]model.JobID{pair[1], pair[0]}] == 0 {
				p.since[pair] = r.Time
			}
		}
	}
}

// packed runs jobs under a policy and tells who was packed with whom.
func packed(t *testing.T, spec simulate.Spec, jobs []string) (*together, *metrics.Summary) {
	t.Helper()
	p := &together{names: map[model.JobID]string{}, since: map[[2]model.JobID]model.Time{}, over: map[model.JobID]bool{},
		parted: map[string]model.Duration{}, kept: map[string]model.Duration{}}
	file := written(t, "jobs.jsonl", `{"comb_trace":1}`+"\n"+strings.Join(jobs, "\n"))
	r, err := simulate.Run(context.Background(), spec, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New, OnBatch: func(b engine.Batch) {
		for _, rec := range b.Records {
			p.see(rec)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p, &r.Summary
}

// Two jobs on one GPU that do 0.7 each together stay packed, and end sooner than by turns;
// two that do 0.3 each, or nothing, are tried and parted.
func TestPackingBySpeed(t *testing.T) {
	table := written(t, "speeds.json", `{"comb_speeds": 1, "beside": {"good": {"*": 0.7}, "bad": {"*": 0.3}}}`)
	gavels := written(t, "gavel.json", `{"gpu": {"('none', 1)": {"null": 10, "('none', 1)": [0, 0]}}}`)
	for _, c := range []struct {
		model, policy, kept, parted string
		table                       string
		windows                     model.Duration // within which they are parted
		slower, faster              float64        // bounds of the makespan, of two hours of work
	}{
		{"good", "gandiva", "a+b", "", table, 0, 1.40, 1.50},
		{"bad", "gandiva", "", "a+b", table, 2, 2.0, 2.12},
		{"none", "gandiva", "", "a+b", gavels, 3, 2.0, 2.4}, // Gavel's 0 is that they do not fit together
		{"good", "gandiva:pack=no", "", "", table, 0, 2.0, 2.01},
	} {
		more := fmt.Sprintf(`,"model":%q`, c.model)
		p, s := packed(t, simulate.Spec{Cluster: "1x1", Policy: c.policy, Throughputs: c.table}, []string{line("a", 0, 3600, 1, more), line("b", 0, 3600, 1, more)})
		kept, parted := fmt.Sprint(keys(p.kept)), fmt.Sprint(keys(p.parted))
		if kept != "["+c.kept+"]" || parted != "["+c.parted+"]" {
			t.Errorf("%s under %s: %s stayed packed, %s were parted", c.model, c.policy, kept, parted)
		}
		if hours := float64(s.Makespan) / 3600; hours < c.slower || hours > c.faster {
			t.Errorf("%s under %s: both end after %.3f hours, want %.2f to %.2f", c.model, c.policy, hours, c.slower, c.faster)
		}
		if d := p.parted[c.parted]; d > c.windows*300*model.Second {
			t.Errorf("%s were parted after %v", c.parted, d)
		}
	}
}

func keys(m map[string]model.Duration) []string {
	var out []string
	for k := range m {
		out = append(out, strings.Join(sorted(strings.Split(k, "+")), "+"))
	}
	return out
}

// Gandiva's arithmetic: four jobs of one GPU for each of 16 GPUs, in turns of 60 s that
// cost a second. All have run within the first round, each gets a quarter of a GPU within
// 2 %, and the switches cost no more than 2 %.
func TestQuarters(t *testing.T) {
	var jobs []string
	for i := range 64 {
		jobs = append(jobs, line(fmt.Sprintf("j%d", i), 0, 3600, 1, ""))
	}
	table := written(t, "speeds.json", `{"comb_speeds": 1, "costs": {"suspend": "1"}}`)
	file := written(t, "jobs.jsonl", `{"comb_trace":1}`+"\n"+strings.Join(jobs, "\n"))
	var rows []metrics.Row
	r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "2x8", Policy: "gandiva:moves=0", Throughputs: table}, &simulate.Trace{Path: file},
		simulate.Options{Policies: policy.New, Ended: func(r *metrics.Row) { rows = append(rows, *r) }})
	if err != nil || len(rows) != 64 {
		t.Fatalf("%d jobs ended: %v", len(rows), err)
	}
	for i := range rows {
		// An hour of work by quarters of a GPU, of which a second each turn is lost.
		took := float64(rows[i].JCT()) / 1e6
		if want := 4 * 3600 * 60 / 59.0; took < 0.98*want || took > 1.02*want {
			t.Errorf("job %s took %.0f s, want %.0f within 2 %%", rows[i].TraceID, took, want)
		}
		if first := float64(rows[i].Start-rows[i].Submit) / 1e6; first > 240 {
			t.Errorf("job %s ran first after %.0f s", rows[i].TraceID, first)
		}
	}
	if u := float64(r.Summary.GPUEffective / r.Summary.GPUUtilization); u < 0.98 || u >= 1 {
		t.Errorf("%.4f of the GPU-time was worked in", u)
	}
}

// overloaded is twice as many jobs as GPUs, of all models of Gavel's table, each with another
// on its GPU.
func overloaded(t *testing.T, table string) (spec simulate.Spec, jobs []string, sum func(pair string) float64) {
	t.Helper()
	speeds, err := trace.ReadThroughputs(table)
	if err != nil {
		t.Fatal(err)
	}
	var works []perf.Work
	for _, a := range speeds.Alone {
		if a.Worker == "v100" && a.Work.Scale == 1 {
			works = append(works, a.Work)
		}
	}
	model := map[string]perf.Work{}
	for i := range 2 * len(works) { // the second half joins the first, each another model
		w, id := works[(i+i/len(works)*7)%len(works)], fmt.Sprint("j", i)
		model[id] = w
		jobs = append(jobs, line(id, i/len(works), 7200, 1, fmt.Sprintf(`,"model":%q`, w.Model)))
	}
	sum = func(pair string) float64 {
		a, b, _ := strings.Cut(pair, "+")
		x, y, ok := speeds.Together("v100", model[a], model[b])
		aloneX, _ := speeds.Rate("v100", model[a])
		aloneY, _ := speeds.Rate("v100", model[b])
		if !ok {
			return 2 // nothing is known of them: each has full speed
		}
		return float64(x)/float64(aloneX) + float64(y)/float64(aloneY)
	}
	return simulate.Spec{Cluster: fmt.Sprintf("1x%d:v100", len(works)), Throughputs: table, GPU: "v100", Policy: "gandiva:moves=0"}, jobs, sum
}

// Gavel's table, with twice as many jobs as GPUs: every pair that stays packed does more
// together than by turns, every one that does less is parted within two windows, and all
// of them end no later than by turns alone.
func TestPackingByGavelsTable(t *testing.T) {
	table := data(t, "gavel/simulation_throughputs.json.gz")
	if table == "" {
		return
	}
	spec, jobs, sum := overloaded(t, table)
	p, s := packed(t, spec, jobs)
	spec.Policy += ",pack=no"
	_, turns := packed(t, spec, jobs)
	for pair := range p.kept {
		if sum(pair) < 0.995 {
			t.Errorf("%s stayed packed, and do %.3f together", pair, sum(pair))
		}
	}
	for pair, d := range p.parted {
		if sum(pair) > 1.005 || d > 2*300*model.Second {
			t.Errorf("%s, which do %.3f together, were parted after %d s", pair, sum(pair), d/model.Second)
		}
	}
	t.Logf("%d pairs stayed packed, %d were parted; the mean completion time is %.0f s, by turns alone %.0f", len(p.kept), len(p.parted), s.JCTAvg, turns.JCTAvg)
	if len(p.kept) < 5 || len(p.parted) < 2 || s.JCTAvg > turns.JCTAvg || float64(s.Makespan) > 1.05*float64(turns.Makespan) {
		t.Errorf("makespan %.0f s, by turns alone %.0f", s.Makespan, turns.Makespan)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
