package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/spec/trace"
)

// maxSeconds bounds times in flags: a century.
const maxSeconds = 100 * 366 * 24 * 3600

// speeds reads the tables of how fast jobs run, and what restarts and migrations cost.
func (s *Spec) speeds(p *plan, wrong *mistakes) {
	m := perf.Model{Reference: s.GPU}
	var err error
	if m.Off, err = perf.ParseEffects(s.Without); err != nil {
		wrong.add("--without", err)
	}
	if s.Throughputs != "" {
		m.Throughputs, m.Factors, err = trace.ReadSpeeds(s.Throughputs)
		wrong.add("--throughputs", err)
	}
	if s.Spreads != "" {
		m.Spreads, err = trace.ReadSpreads(s.Spreads)
		wrong.add("--spreads", err)
	}
	if s.GPU != "" && s.Throughputs == "" {
		wrong.add("--gpu", errors.New("names a type of the table of speeds: give that with --throughputs, too"))
	}
	if t := m.Throughputs; t != nil && s.GPU != "" && !t.Has(s.GPU) {
		wrong.add("--gpu", fmt.Errorf("the table of throughputs has no type %q%s", s.GPU, document.DidYouMean(s.GPU, t.Workers())))
	}
	if m.Factors != nil {
		p.costs = m.Factors.Costs
	}
	if s.RestartCost != "" {
		p.costs.Restart, err = perf.ParseCost(s.RestartCost)
		wrong.add("--restart-cost", err)
	}
	if m.Off&perf.OnCosts != 0 {
		p.costs = perf.Costs{}
	}
	if m.Throughputs != nil || m.Factors != nil || m.Spreads != nil {
		p.model = &m
	}
}

// addThroughputs gives policies the model's throughputs by types and numbers of GPUs, unless the
// cluster file has some.
func (p *plan) addThroughputs(c *model.Config) {
	if p.model == nil || len(c.Throughputs) > 0 {
		return
	}
	var types []cell.TypeName
	for _, sku := range c.Cluster.SKUs {
		types = append(types, sku.Name)
	}
	c.Throughputs = p.model.PlanningTable(types)
}

// seconds reads a time in seconds.
func seconds(text string) (model.Duration, error) {
	var f float64
	var tail string
	if n, _ := fmt.Sscanf(text, "%g%s", &f, &tail); n != 1 || !(f >= 0 && f <= maxSeconds) {
		return 0, fmt.Errorf("%q is not a time in seconds", text)
	}
	return model.Duration(math.Round(f * 1e6)), nil
}

// parseNoise reads how wrong policies are about run times. survey draws from the errors that
// users make (trace.SurveyFactor). uniform:PERCENT draws evenly between that much less and
// that much more. The result maps the number of a job to its estimate, in thousandths of the
// truth.
func parseNoise(text string, seed uint64) (func(uint64) int64, error) {
	kind, param, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return nil, nil
	case text == "survey":
		return func(i uint64) int64 { return trace.SurveyFactor(mix(seed, i)) }, nil
	case kind == "uniform":
		n, err := number("the percentage", param, 99)
		if err != nil {
			return nil, fmt.Errorf("uniform:PERCENT: %w", err)
		}
		return func(i uint64) int64 { return 1000 - 10*n + int64(mix(seed, i)%uint64(20*n+1)) }, nil
	}
	return nil, fmt.Errorf("want survey or uniform:PERCENT, found %q", text)
}

// mix hashes a seed and a number into 64 bits (the last step of SplitMix64).
func mix(seed, i uint64) uint64 {
	x := seed*0x9E3779B97F4A7C15 + i + 0x632BE59BD9B4E019
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// faults are failures of nodes and of leaves. Each node and leaf fails by itself, at
// exponentially distributed intervals, and is repaired after a fixed time.
type faults struct {
	node, leaf *failureTimes // nil is never
	seed       uint64
}

// failureTimes is the mean time between failures of one thing, and how long its repair takes.
type failureTimes struct{ mtbf, repair model.Duration }

// parseFaults reads MTBF,REPAIR of nodes and leaf:MTBF,REPAIR of leaves; both are
// joined by a slash.
func parseFaults(text string, seed uint64) (*faults, error) {
	if text == "" {
		return nil, nil
	}
	f := &faults{seed: seed}
	for part := range strings.SplitSeq(text, "/") {
		to := &f.node
		if rest, ok := strings.CutPrefix(part, "leaf:"); ok {
			part, to = rest, &f.leaf
		} else {
			part = strings.TrimPrefix(part, "node:")
		}
		mtbf, repair, ok := strings.Cut(part, ",")
		a, err1 := seconds(mtbf)
		b, err2 := seconds(repair)
		if !ok || err1 != nil || err2 != nil || a < model.Second || b < model.Second || *to != nil {
			return nil, fmt.Errorf("want MTBF,REPAIR of nodes in seconds, each at least 1, or leaf:MTBF,REPAIR of devices, or both joined by a slash, found %q", text)
		}
		*to = &failureTimes{a, b}
	}
	return f, nil
}

// leafSeeds keeps the seeds of leaves apart from those of nodes.
const leafSeeds = 1 << 32

// schedule lets the nodes and leaves of a world fail as long as busy reports true. A node that
// fails takes its tasks with it when it is rebooted. What runs on a bad leaf goes on, and
// nothing starts there until it is repaired.
func (f *faults) schedule(w *sim.World, c *model.Config, busy func() bool) {
	if f.node != nil {
		for i, name := range nodesOf(c.Cluster.Cells, c) {
			f.node.schedule(w, rand.New(rand.NewPCG(f.seed, uint64(i))), busy,
				func() { w.Down(name, "it failed") }, func() { w.Reboot(name) })
		}
	}
	cl, err := cell.New(&c.Cluster)
	if f.leaf == nil || err != nil { // the core will refuse the configuration and say why
		return
	}
	forest := cl.Forest()
	for l, id := range forest.Leaves {
		leaf := cell.LeafID(l)
		h := model.LeafHealth{Node: forest.Nodes[forest.Cells[id].Node].Name, SKU: forest.ChainOf(leaf).SKU,
			Device: forest.Device(leaf), Part: forest.Part(leaf), Reason: "it failed"}
		good := h
		good.Good, good.Reason = true, ""
		f.leaf.schedule(w, rand.New(rand.NewPCG(f.seed, leafSeeds+uint64(l))), busy, func() { w.Leaf(h) }, func() { w.Leaf(good) })
	}
}

// schedule lets one thing fail and be repaired again and again.
func (f *failureTimes) schedule(w *sim.World, rng *rand.Rand, busy func() bool, down, up func()) {
	var fail func()
	fail = func() {
		if !busy() {
			return
		}
		down()
		w.At(f.repair, func() {
			up()
			w.At(f.next(rng), fail)
		})
	}
	w.At(f.next(rng), fail)
}

func (f *failureTimes) next(rng *rand.Rand) model.Duration {
	return max(model.Duration(math.Round(-math.Log(1-rng.Float64())*float64(f.mtbf))), 1)
}

// failures are jobs of a trace that are drawn to fail although the trace does not say so.
type failures struct {
	percent uint64
	mean    model.Duration // after which they fail, exponentially distributed
	retries int32          // of every job; a job that fails once fails again after the same time
	seed    uint64
}

// maxRetries bounds how often a job of a simulation is retried.
const maxRetries = 1000

// parseFailures reads PERCENT,SECONDS[,RETRIES]; "" is no failures.
func parseFailures(text string, seed uint64) (*failures, error) {
	if text == "" {
		return nil, nil
	}
	percent, rest, _ := strings.Cut(text, ",")
	after, again, retried := strings.Cut(rest, ",")
	var wrong problems
	n, err := number("the percentage", percent, 100)
	wrong.add(err)
	mean, err := seconds(after)
	wrong.add(err)
	f := &failures{percent: uint64(n), mean: mean, seed: seed}
	if retried {
		k, err := number("how often jobs are retried", again, maxRetries)
		wrong.add(err)
		f.retries = int32(k)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("want PERCENT,SECONDS[,RETRIES], found %q: %s", text, strings.Join(wrong, "; "))
	}
	return f, nil
}

// retriesOf is how often each job is retried.
func (f *failures) retriesOf() int32 {
	if f == nil {
		return 0
	}
	return f.retries
}

// failureSeeds keeps what is drawn for failures apart from other draws of a job.
const failureSeeds = 0x5bd1e995

// failsAfter is after how long a job fails; 0 is never. It is drawn from the job's name, so a job
// fails alike in every part of the trace.
func (f *failures) failsAfter(id string) model.Duration {
	if f == nil {
		return 0
	}
	x := mix(f.seed^failureSeeds, hashText(id))
	if x%100 >= f.percent {
		return 0
	}
	u := (float64(mix(x, f.seed)>>11) + 0.5) / (1 << 53)
	return max(model.Duration(math.Round(-math.Log(u)*float64(f.mean))), 1)
}
