package core_test

import (
	"math/rand/v2"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// withPolicies gives every VC of every configuration one of all policies, with some
// parameters and limits to its preemption. Backfill is left to the random scenarios:
// bookings behind who has not started move with time.
func withPolicies(r *rand.Rand, cfgs []*model.Config) []*model.Config {
	for _, cfg := range cfgs {
		if r.IntN(2) == 0 { // what genie chooses sizes by
			cfg.Throughputs = []model.Throughput{{Model: model.AnyModel, GPUs: 1, Rate: 10}, {Model: model.AnyModel, GPUs: 2, Rate: 19}, {Model: model.AnyModel, GPUs: 4, Rate: 34}}
		}
		for i := range cfg.VCs {
			drawPolicy(r, &cfg.VCs[i])
		}
	}
	return cfgs
}

func drawPolicy(r *rand.Rand, v *model.VCConfig) {
	names := policy.Names()
	v.Policy = names[r.IntN(len(names))]
	params := map[string][]model.Param{
		"fifo":     {{Key: "preempt", Value: "true"}},
		"capacity": {{Key: "preempt", Value: "true"}, {Key: "queues", Value: "p:60:80/d:40"}, {Key: "round", Value: "0.5"}},
		"edf":      {{Key: "preempt", Value: "no"}},
		"las":      {{Key: "limits", Value: "20/200"}},
		"gittins":  {{Key: "delta", Value: "30"}, {Key: "limits", Value: "50/500"}},
		"offers":   {{Key: "hoard", Value: "true"}},
	}
	if r.IntN(2) == 0 {
		v.Params = params[v.Policy]
	}
	if r.IntN(3) == 0 {
		v.MinRun = model.Duration(1+r.IntN(60)) * model.Second
	}
	if r.IntN(3) == 0 {
		budget := r.Int32N(3)
		v.Budget = &budget
	}
}

// hint declares for a job what policies go by, where they were drawn.
func hint(r *rand.Rand, j *model.Job, cfgs []*model.Config) {
	if cfgs[0].VCs[0].Policy == "" {
		return
	}
	if r.IntN(4) > 0 {
		j.Hints.Duration = model.Duration(1+r.IntN(300)) * model.Second
	}
	if r.IntN(3) == 0 {
		first := model.Duration(1+r.IntN(600)) * model.Second
		j.Hints.Deadlines = []model.Deadline{{After: first, Value: 2}, {After: first + model.Minute, Value: 1}}
	}
	if r.IntN(3) == 0 {
		j.TimeLimit = model.Duration(1+r.IntN(600)) * model.Second
	}
	j.Hints.Queue = []string{"", "p", "d"}[r.IntN(3)]
	j.Hints.App = []string{"", "m"}[r.IntN(2)]
}
