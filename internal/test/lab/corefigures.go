package lab

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/test/hunt"
)

// BenchCore measures the decision core alone, through Apply and Decide, with
// events written to memory. Times are those that the core's thread spent on a
// processor.
func BenchCore(ctx context.Context, o Options) error {
	b := &bench{Figures: Figures{o.Out}}
	runtime.LockOSThread() // whose clock is read
	defer runtime.UnlockOSThread()
	for _, f := range coreFigures() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.Contains(f.name, o.Only) {
			f.run(b)
			runtime.GC() // what one figure leaves must not slow the next
		}
	}
	return nil
}

type coreFigure struct {
	name string
	run  func(*bench)
}

func coreFigures() []coreFigure {
	var all []coreFigure
	for _, n := range []int{64, 512, 4096, 16384, 65536} {
		all = append(all, coreFigure{fmt.Sprintf("load-%d", n), func(b *bench) { b.load(n) }})
	}
	all = append(all, coreFigure{"preempt-4096", func(b *bench) { b.preempting(4096) }})
	all = append(all, coreFigure{"ailing-4096", func(b *bench) { b.ailing(4096) }},
		coreFigure{"ailing-waiting-4096", func(b *bench) { b.ailingWaiting(4096) }})
	for _, order := range []string{"fifo", "drf"} {
		for _, n := range []int{1_000, 10_000} {
			all = append(all, coreFigure{fmt.Sprintf("waiting-%d-%s", n, order), func(b *bench) { b.waiting(n, order) }})
		}
	}
	all = append(all, coreFigure{"start", func(b *bench) { b.startUp(16384) }})
	for _, n := range []int{500, 1000} {
		all = append(all, coreFigure{fmt.Sprintf("reclaim-%d", n), func(b *bench) { b.reclaim(n) }})
	}
	for _, n := range []int{0, 10_000, 60_000} {
		all = append(all, coreFigure{fmt.Sprintf("deep-%d", n), func(b *bench) { b.deep(n) }})
	}
	for _, n := range []int{120, 960} {
		for _, of := range []int{2, 6, 12, 13, 40} {
			all = append(all, coreFigure{fmt.Sprintf("holders-%d-%d", n, of), func(b *bench) { b.holders(n, of) }})
		}
	}
	for _, n := range []int{1000, 4096} {
		all = append(all, coreFigure{fmt.Sprintf("known-%d", n), func(b *bench) { b.known(n) }})
	}
	return append(all, coreFigure{"clone", func(b *bench) { b.clone(4096, 10_000) }})
}

const (
	coreFor  = 5 * time.Second // of measuring, at most
	coreMost = 100_000         // gangs that are measured, at most
)

// LoadedCore returns a function that lets one gang arrive, under the steady load
// of the issue or with opportunistic filling and preempting arrivals; for
// benchmarks and profiles.
func LoadedCore(nodes int, preempting bool) (arrive func(), members func() int) {
	w := newCoreWorld(coreConfig(nodes, "fifo"))
	w.warm(preempting)
	return func() { w.arrival(preempting) }, func() int { return w.members }
}

// warm fills the cluster to its load.
func (w *coreWorld) warm(preempting bool) {
	sum := func() (demand, quota int) {
		for _, v := range w.vcs {
			demand, quota = demand+v.demand, quota+v.quota
		}
		return
	}
	for {
		if demand, quota := sum(); float64(demand) > 0.8*float64(quota) || w.placed > 4*quota {
			break
		}
		w.arrive(testPriority)
	}
	for range len(w.jobs) / 2 { // until ends and arrivals have mixed
		w.arrival(preempting)
	}
	w.reset()
	runtime.GC()
}

// arrival is one gang: every tenth is a prod gang when some preempt, and
// opportunistic gangs come until one of every VC waits.
func (w *coreWorld) arrival(preempting bool) {
	if !preempting {
		w.arrive(testPriority)
		return
	}
	prio := cell.Priority(testPriority)
	if w.rng.IntN(10) == 0 {
		prio = prodPriority
	}
	w.arrive(prio)
	for w.spare < len(w.vcs) {
		w.submit(coreShape{vc: w.rng.IntN(len(w.vcs)), gpus: w.size(corePerNode), prio: cell.Opportunistic})
	}
}

// measure lets gangs arrive for a while, to count them.
func (w *coreWorld) measure(preempting bool) {
	took := w.took
	w.took = nil
	w.steadily(func() { w.gangs(preempting, coreMost) })
	w.took = took
}

// latencies lets gangs arrive, to time each alone.
func (w *coreWorld) latencies(preempting bool) {
	w.gangs(preempting, coreMost/5)
	took := w.took
	w.took = nil
	w.reset()
	w.took = took
}

func (w *coreWorld) gangs(preempting bool, most int) {
	for began := time.Now(); time.Since(began) < coreFor && w.placed < most; {
		w.arrival(preempting)
	}
}

// report prints what was measured.
func (b *bench) report(w *coreWorld, suffix string, nodes int) {
	label := []string{"nodes", strconv.Itoa(nodes)}
	b.Print("comb_core_members_per_s"+suffix, float64(w.members)/w.busy.Seconds(), "1/s", label...)
	b.Print("comb_core_gangs_per_s"+suffix, float64(w.placed)/w.busy.Seconds(), "1/s", label...)
	b.fine("comb_core_gang_latency"+suffix, w.took, label...)
	used, quota := 0, 0
	for _, v := range w.vcs {
		quota += v.quota
		for _, j := range v.running {
			used += j.leaves
		}
	}
	b.Print("comb_core_load"+suffix, 100*float64(used)/float64(quota), "percent", label...)
	b.Print("comb_core_gangs_that_waited"+suffix, 100*float64(w.waited)/float64(w.placed), "percent", label...)
}

// fine prints quantiles in microseconds.
func (b *bench) fine(name string, all []time.Duration, labels ...string) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	for _, q := range []struct {
		label string
		at    int
	}{{"0.5", len(all) / 2}, {"0.99", len(all) * 99 / 100}, {"1", len(all) - 1}} {
		b.Print(name, float64(all[q.at].Nanoseconds())/1000, "us", append(labels, "quantile", q.label)...)
	}
}

func (b *bench) load(nodes int) {
	w := newCoreWorld(coreConfig(nodes, "fifo"))
	w.warm(false)
	w.latencies(false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.measure(false)
	runtime.ReadMemStats(&after)
	b.report(w, "", nodes)
	label := []string{"nodes", strconv.Itoa(nodes)}
	b.Print("comb_core_allocations_per_gang", float64(after.Mallocs-before.Mallocs)/float64(w.placed), "1", label...)
	b.Print("comb_core_allocated_per_gang", float64(after.TotalAlloc-before.TotalAlloc)/float64(w.placed), "B", label...)
	w.reset()
	defer debug.SetGCPercent(debug.SetGCPercent(simulate.GCPercent))
	w.measure(false)
	b.Print("comb_core_members_per_s", float64(w.members)/w.busy.Seconds(), "1/s", append(label, "gogc", strconv.Itoa(simulate.GCPercent))...)
}

func (b *bench) preempting(nodes int) {
	w := newCoreWorld(coreConfig(nodes, "fifo"))
	w.warm(true)
	w.latencies(true)
	w.measure(true)
	b.report(w, "_preempting", nodes)
	b.Print("comb_core_preempted_per_gang", float64(w.preempt)/float64(w.placed), "1", "nodes", strconv.Itoa(nodes))
}

// ailing is the load on a cluster that is owed whole while one node of a hundred is
// cordoned, so that bad hardware is charged to VCs.
func (b *bench) ailing(nodes int) {
	w := ailingWorld(nodes)
	w.warm(false)
	w.measure(false)
	b.report(w, "_ailing", nodes)
}

// ailingWaiting measures Decide in such a cluster after the exit of one gang, when one
// VC is full, a thousand wait in it and the others are idle.
func (b *bench) ailingWaiting(nodes int) {
	w := ailingWorld(nodes)
	for w.waited == 0 {
		w.submit(coreShape{vc: 0, gpus: 4, prio: prodPriority})
	}
	for range 1000 {
		w.submit(coreShape{vc: 0, gpus: 128, prio: testPriority})
	}
	var all []time.Duration
	for range 1000 {
		had := w.busy
		w.end(w.vcs[0].running[0])
		all = append(all, w.busy-had)
		w.submit(coreShape{vc: 0, gpus: 4, prio: prodPriority})
	}
	b.fine("comb_core_decide_after_exit_ailing", all, "nodes", strconv.Itoa(nodes), "waiting", "1000")
}

func ailingWorld(nodes int) *coreWorld {
	w := newCoreWorld(coreConfig(nodes, "fifo"))
	for n := 50; n < nodes; n += 100 {
		w.step(model.NodeCordoned{Node: cell.NodeName(fmt.Sprintf("n%05d", n)), On: true})
	}
	return w
}

// waiting measures Decide after the exit of one gang when many wait, none of which
// fits into what it left.
func (b *bench) waiting(gangs int, order string) {
	const nodes = 512
	w := newCoreWorld(coreConfig(nodes, order))
	for range 2 * nodes { // 4 GPUs each: the cluster is full
		w.submit(coreShape{vc: w.emptiest(), gpus: 4, prio: prodPriority})
	}
	for i := range gangs {
		w.submit(coreShape{vc: i % coreVCs, gpus: 8 << w.rng.IntN(4), prio: cell.Priority(w.rng.IntN(3)) + testPriority})
	}
	seen := map[cell.NodeName]bool{}
	w.reset()
	var all []time.Duration
	for id := model.JobID(1); id <= 2*nodes; id++ {
		st, _ := w.s.Job(id)
		if j := w.jobs[id]; j != nil && j.attempt.N > 0 && !seen[st.Tasks[0].Node] {
			seen[st.Tasks[0].Node] = true
			had := w.busy
			w.end(j)
			all = append(all, w.busy-had)
		}
	}
	b.fine("comb_core_decide_after_exit", all, "waiting", strconv.Itoa(gangs), "policy", order)
	b.Print("comb_core_decide_after_exit_placed", float64(w.placed), "gangs", "waiting", strconv.Itoa(gangs), "policy", order)
}

// emptiest is the VC with the least demand.
func (w *coreWorld) emptiest() int {
	at := 0
	for i := range w.vcs {
		if w.vcs[i].demand < w.vcs[at].demand {
			at = i
		}
	}
	return at
}

// startUp measures the time from a configuration in memory to a core that can
// decide, and what that holds.
func (b *bench) startUp(nodes int) {
	cfg := coreConfig(nodes, "fifo")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	began := coreClock()
	w := newCoreWorld(cfg)
	took := coreClock() - began
	label := []string{"nodes", strconv.Itoa(nodes)}
	b.Print("comb_core_start_up", took.Seconds(), "s", label...)
	after := heap()
	b.Print("comb_core_heap", float64(after-before)/1e6, "MB", append(label, "with", "the core")...)
	began = coreClock()
	_, _, no := w.s.Check(model.Reconfigure{Config: cfg}, w.now)
	if no == nil {
		b.Print("comb_core_check_of_a_configuration", (coreClock() - began).Seconds(), "s", label...)
	}
	runtime.KeepAlive(w)
	w.warm(false)
	b.Print("comb_core_heap", float64(heap()-before)/1e6, "MB", append(label, "with", fmt.Sprintf("%d jobs", len(w.jobs)))...)
	runtime.KeepAlive(cfg)
}

// reclaim lets one gang of 8-GPU tasks take back a cluster that is full of another
// VC's opportunistic 1-GPU jobs.
func (b *bench) reclaim(nodes int) {
	cfg := &model.Config{Cluster: coreCells(nodes, 4)} // which divides 500
	quota := cell.QuotaSpec{Chain: "RACK", Level: 4, Number: int32(nodes)}
	cfg.Cluster.VCs = []cell.VCSpec{{Name: "borrower"}, {Name: "owner", Quota: []cell.QuotaSpec{quota}}}
	cfg.VCs = []model.VCConfig{{Name: "borrower"}, {Name: "owner"}}
	w := newCoreWorld(cfg)
	for range nodes * corePerNode {
		w.submit(coreShape{vc: 0, gpus: 1, prio: cell.Opportunistic})
	}
	label := []string{"nodes", strconv.Itoa(nodes)}
	b.Print("comb_core_filled", float64(w.placed), "jobs", label...)
	w.reset()
	runtime.GC()
	gang := w.submit(coreShape{vc: 1, gpus: nodes * corePerNode, prio: testPriority})
	b.Print("comb_core_reclaim_whole", float64(w.busy.Microseconds())/1000, "ms", label...)
	b.Print("comb_core_reclaim_preempted", float64(w.preempt), "jobs", label...)
	if gang.attempt.N == 0 {
		b.Print("comb_core_reclaim_failed", 1, "gangs", label...)
	}
	b.Print("comb_core_reclaim_decide", float64(w.first.Microseconds())/1000, "ms", label...)
}

// holders measures the decision on a gang that preempts where a few gangs hold all nodes.
func (b *bench) holders(nodes, holders int) {
	cfg := &model.Config{Cluster: coreCells(nodes, 4)}
	quota := cell.QuotaSpec{Chain: "RACK", Level: 5, Number: int32(nodes / 4)}
	cfg.Cluster.VCs = []cell.VCSpec{{Name: "owner", Quota: []cell.QuotaSpec{quota}}}
	cfg.VCs = []model.VCConfig{{Name: "owner"}}
	w := newCoreWorld(cfg)
	for i := range holders {
		w.submit(coreShape{gpus: []int{8, 4, 5, 3, 8, 6}[i%6], tasks: nodes / holders, prio: testPriority})
	}
	w.reset()
	w.submit(coreShape{gpus: 5, tasks: 3 * nodes / 4, prio: prodPriority})
	label := []string{"nodes", strconv.Itoa(nodes), "holders", strconv.Itoa(holders)}
	b.Print("comb_core_preempt_few_holders", float64(w.first.Microseconds())/1000, "ms", label...)
	b.Print("comb_core_preempt_few_holders_stopped", float64(w.preempt), "gangs", label...)
}

// known measures the workloads in which decisions were slow once: the slowest command of each, with
// all that follows from it.
func (b *bench) known(nodes int) {
	for _, c := range hunt.Known(nodes) {
		found, err := hunt.Run(c)
		name, _, _ := strings.Cut(c.Name, "/")
		label := []string{"case", name, "nodes", strconv.Itoa(nodes)}
		if err != nil {
			b.Print("comb_core_known_failed", 1, "cases", label...)
			continue
		}
		b.Print("comb_core_known", float64(hunt.Worst(found, 1, true)[0].CPU.Microseconds())/1000, "ms", label...)
		b.Print("comb_core_known_steps", float64(hunt.Worst(found, 1, false)[0].Steps), "steps", label...)
	}
}

// clone measures a copy of a state with many jobs.
func (b *bench) clone(nodes, jobs int) {
	w := newCoreWorld(coreConfig(nodes, "fifo"))
	for range jobs {
		w.submit(coreShape{vc: w.emptiest(), gpus: min(w.size(64), 2), prio: testPriority})
	}
	var all []time.Duration
	for range 30 {
		began := coreClock()
		c := w.s.Clone()
		all = append(all, coreClock()-began)
		runtime.KeepAlive(c)
		runtime.GC()
	}
	b.fine("comb_core_clone", all, "nodes", strconv.Itoa(nodes), "jobs", strconv.Itoa(len(w.jobs)))
}
