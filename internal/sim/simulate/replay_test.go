package simulate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// life is when a job was submitted, began and ended, how long it was in the queue and
// how often it was preempted or suspended.
type life struct {
	submit, start, end model.Time
	queue              model.Duration
	breaks             int32
	phase              model.Phase
}

// lives gathers the jobs of a run by their name in what was replayed.
func lives(into map[string]life, name func(*metrics.Row) string) func(*metrics.Row) {
	return func(r *metrics.Row) {
		into[name(r)] = life{r.Submit, r.Start, r.End, r.FairShare + r.Fragmentation, r.Preemptions + r.Suspends, r.Phase}
	}
}

func byID(r *metrics.Row) string      { return fmt.Sprint(r.ID) }
func byTraceID(r *metrics.Row) string { return r.TraceID }

// crowded writes a trace of Philly's kind, at a load that makes jobs wait.
func crowded(t *testing.T, jobs int64, load int64) string {
	t.Helper()
	return generatedTrace(t, trace.Spec{Kind: "philly", Jobs: jobs, Seed: 7, LoadMilli: load, Cluster: []trace.NodeGroup{{Nodes: 12, GPUs: 4}}, Survey: true, Mix: [3]int64{35, 35, 30}})
}

// generatedTrace writes a generated trace.
func generatedTrace(t *testing.T, spec trace.Spec) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	w, err := trace.Create(file, trace.Comb)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trace.Generate(spec)
	if err != nil {
		t.Fatal(err)
	}
	for j := range all {
		if err := w.Write(&j); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// recorded simulates a trace and gives its journal and its jobs.
func recorded(t *testing.T, spec simulate.Spec, file string) (*simulate.Journal, map[string]life) {
	t.Helper()
	mem, was := engine.NewMemory(), map[string]life{}
	_, err := simulate.Run(context.Background(), spec, &simulate.Trace{Path: file},
		simulate.Options{Policies: policy.New, Journal: mem, Ended: lives(was, byID)})
	if err != nil {
		t.Fatal(err)
	}
	return &simulate.Journal{Path: "run.journal", Replay: mem.Replay}, was
}

// What a simulation without faults journalled happens again as it did: every job is
// submitted, starts and ends at the same instant, also where it was preempted and every
// start cost something.
func TestReplayIsWhatHappened(t *testing.T) {
	file := crowded(t, 400, 1500)
	for _, spec := range []simulate.Spec{
		{Policy: "fifo"},
		{Policy: "srtf", RestartCost: "log2:30"},
		{Policy: "las:limits=3250/7200", RestartCost: "60", Shape: simulate.GPUShape},
		{Policy: "chronus:profiler=off,lease=1200", RestartCost: "20"},
		{Policy: "themis:lease=1200"},
		{Policy: "gandiva", RestartCost: "30"},
	} {
		t.Run(spec.Policy, func(t *testing.T) {
			spec.Cluster, spec.Seed = "6x4", 1
			j, was := recorded(t, spec, file)
			is := map[string]life{}
			r, err := simulate.Replay(context.Background(), simulate.Spec{RestartCost: spec.RestartCost}, j,
				simulate.Options{Policies: policy.New, Ended: lives(is, byTraceID)})
			if err != nil {
				t.Fatal(err)
			}
			if len(is) != len(was) || len(was) < 390 || r.Refused != 0 || r.Replayed.Censored+r.Replayed.LeftOut+len(r.Replayed.NotRepeated) != 0 {
				t.Fatalf("%d jobs, then %d; %+v", len(is), len(was), r.Replayed)
			}
			waited := 0
			for id := range was {
				if was[id] != is[id] {
					t.Fatalf("job %s: %+v, then %+v", id, was[id], is[id])
				}
				if was[id].queue > 0 || was[id].breaks > 0 {
					waited++
				}
			}
			if waited < 15 {
				t.Errorf("only %d jobs waited: that checks nothing", waited)
			}
		})
	}
}

// Under another policy the same work is done, and the policy does what it is for: of
// what fifo journalled, srtf makes shorter completion times.
func TestReplayUnderAnotherPolicy(t *testing.T) {
	j, was := recorded(t, simulate.Spec{Cluster: "12x4", Policy: "fifo", Seed: 1}, crowded(t, 400, 1500))
	is := map[string]life{}
	var work, ran uint64
	r, err := simulate.Replay(context.Background(), simulate.Spec{Policy: "srtf", Noise: "uniform:0"}, j,
		simulate.Options{Policies: policy.New, Ended: func(r *metrics.Row) {
			lives(is, byTraceID)(r)
			work += uint64(r.Duration) * uint64(r.GPUs)
			ran += r.Effective
		}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after model.Duration
	for id := range was {
		if is[id].submit != was[id].submit || is[id].phase != model.Succeeded {
			t.Fatalf("job %s: %+v, then %+v", id, was[id], is[id])
		}
		before += model.Duration(was[id].end - was[id].submit)
		after += model.Duration(is[id].end - is[id].submit)
	}
	if after*10 > before*9 {
		t.Errorf("completion times sum to %d s under fifo and %d s under srtf", before/model.Second, after/model.Second)
	}
	if work != ran {
		t.Errorf("jobs did %d of %d GPU-us of work", ran, work)
	}
	if r.Summary.Policy != "srtf" {
		t.Errorf("the summary names %q", r.Summary.Policy)
	}
}

// liveJournal is the journal of a server's life: jobs that succeed, fail and are
// retried, are stopped by their users, hit by nodes that go away or reboot, by a bad
// device and by refused starts; and it ends in the middle of it, with jobs that run,
// that wait, and a name that was used again.
func liveJournal(t *testing.T) (*store.Store, *liveRun) {
	t.Helper()
	s, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "data"), store.Options{ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l := &liveRun{t: t, rng: rand.New(rand.NewPCG(1, 2))}
	l.world = sim.New(sim.Options{Start: liveStart, Behave: l.behave, Idle: l.idle})
	e, err := engine.Open(context.Background(), engine.Options{Inputs: l.world, Executor: l.world, Journal: s, Policies: policy.New, Epoch: s.Epoch()})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, l
}

const (
	liveStart = model.Time(1_760_000_000 * model.Second)
	liveSteps = 120
)

// liveRun is what users and machines do.
type liveRun struct {
	t     *testing.T
	rng   *rand.Rand
	world *sim.World
	step  int
	ids   []model.JobID
}

func (l *liveRun) behave(t sim.Task) sim.Behavior {
	b := sim.Behavior{RunFor: t.Job.Hints.Duration + model.Duration(t.Start.Task), StartDelay: 300 * model.Millisecond, StopDelay: model.Second}
	switch {
	case t.Job.Hints.Model == "fails" && t.Retry == 0:
		b.Code, b.RunFor = 7, 5*model.Second
	case t.Job.Hints.Model == "hangs":
		b.RunFor = 0
	}
	return b
}

func (l *liveRun) give(c model.Command) {
	l.world.Give(engine.Input{Command: c, Reply: func(r engine.Reply) {
		if r.Err != nil {
			l.t.Error(r.Err)
		}
		if _, ok := c.(model.Submit); ok && r.Refusal == nil {
			l.ids = append(l.ids, r.Answer.Job)
		}
	}})
}

func (l *liveRun) idle() bool {
	l.step++
	at := l.step % 30
	node := cell.NodeName(fmt.Sprintf("m1-n%05d", 1+l.rng.IntN(4)))
	switch {
	case l.step == 1:
		c, err := (&simulate.Layout{}).Cluster([]trace.NodeGroup{{Nodes: 4, GPUs: 4}}, []simulate.Share{{Name: "a", Own: []int32{3}}, {Name: "b", Own: []int32{1}}}, model.VCConfig{Policy: "fifo"})
		if err != nil {
			l.t.Fatal(err)
		}
		l.give(model.Reconfigure{Config: c})
	case at == 7 && len(l.ids) > 0:
		l.give(model.Stop{Job: l.ids[len(l.ids)-1], Reason: "not needed"})
	case at == 12:
		l.world.Down(node, "no answer")
	case at == 14:
		l.world.Heal()
	case at == 18:
		l.world.Down(node, "no answer")
		l.world.Reboot(node)
	case at == 21:
		l.world.Leaf(model.LeafHealth{Node: node, SKU: "GPU", Device: 2, Reason: "ECC"})
	case at == 24:
		l.world.Refuse(node, "no such image", 2, false)
	default:
		l.submit()
	}
	l.world.Extend(l.world.Now().Add(20 * model.Second))
	return l.step < liveSteps
}

func (l *liveRun) submit() {
	n := l.step % 10 // names are used again
	j := &model.Job{Name: model.JobName(fmt.Sprintf("train-%d", n)), User: "ann", VC: []cell.VCName{"a", "a", "b"}[l.step%3], Priority: 10,
		Roles: []model.Role{{Name: "worker", Tasks: 1 + int32(l.step%2), Leaves: 1 + int32(l.rng.IntN(4)), MinFailed: 1, MinSucceeded: -1,
			Launch: model.Launch{Command: []string{"true"}}}},
		Retries: 1, Grace: 30 * model.Second,
		Hints: model.Hints{Duration: model.Duration(10+l.rng.IntN(200)) * model.Second, Checkpoint: l.step%4 > 0, Model: []string{"", "", "fails", "hangs"}[l.step%4]}}
	for i := range j.Roles[0].Tasks {
		j.Gangs = append(j.Gangs[:0], model.Gang{Name: "all", Tasks: append(append([]int32{}, first(j.Gangs)...), i)})
	}
	l.give(model.Submit{Job: j})
}

func first(g []model.Gang) []int32 {
	if len(g) == 0 {
		return nil
	}
	return g[0].Tasks
}

// The journal of a live server happens again, under its own policy and under every
// other; what had not ended is counted.
func TestReplayOfALiveJournal(t *testing.T) {
	s, l := liveJournal(t)
	if err := l.world.Err(); err != nil {
		t.Fatal(err)
	}
	phases := map[model.Phase]int{}
	submitted := 0
	err := s.Replay(context.Background(), 0, func(r model.Record) error {
		switch e := r.Event.(type) {
		case model.JobSubmitted:
			submitted++
		case model.JobEnded:
			phases[e.Phase]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := phases[model.Succeeded] + phases[model.Failed] + phases[model.Stopped]
	if phases[model.Succeeded] < 5 || phases[model.Stopped] < 2 || ended >= submitted {
		t.Fatalf("of %d jobs ended %v: that checks little", submitted, phases)
	}
	j := &simulate.Journal{Path: "data", Replay: s.Replay}
	for _, p := range append([]string{""}, policy.Names()...) {
		rows := map[string]life{}
		r, err := simulate.Replay(context.Background(), simulate.Spec{Policy: p}, j, simulate.Options{Policies: policy.New, Ended: lives(rows, byTraceID)})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		c := r.Replayed
		if c.Jobs != submitted || c.Censored+c.LeftOut != submitted-ended || r.Refused != 0 || r.Submitted != c.Jobs-c.LeftOut || len(rows) != r.Submitted {
			t.Errorf("%s: %d submitted, %d ended then; now %d submitted, %d refused (%v), %d told of, %+v", p, submitted, ended, r.Submitted, r.Refused, r.Refusals, len(rows), c)
		}
		if c.NodeFaults < 4 || c.LeafFaults < 2 || c.Stops < 2 || len(c.NotRepeated) == 0 {
			t.Errorf("%s: counted %+v", p, c)
		}
		if p == "" {
			compareLives(t, s, rows)
		}
	}
}

// compareLives compares with the journal: jobs that succeeded or failed by themselves
// do so again, and those that users stopped are stopped again, all but a few whose work
// the faults of then took away or other starts gave time for.
func compareLives(t *testing.T, s *store.Store, rows map[string]life) {
	t.Helper()
	all, same := 0, 0
	err := s.Replay(context.Background(), 0, func(r model.Record) error {
		if e, ok := r.Event.(model.JobEnded); ok {
			if all++; rows[fmt.Sprint(e.Job)].phase == e.Phase {
				same++
			}
		}
		return nil
	})
	if err != nil || same*10 < all*9 {
		t.Errorf("%d of %d jobs end as they did: %v", same, all, err)
	}
}
