package metrics_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
)

// stream builds records by hand: the cluster has nodes n0, n1, .. of gpus leaves
// each, and VCs that own nodes.
type stream struct {
	gpus    int32
	now     model.Time
	records []model.Record
}

func newStream(nodes, gpus int32, vcs ...string) *stream {
	s := &stream{gpus: gpus}
	s.add(0, model.Configured{Config: config(nodes, gpus, vcs...)})
	return s
}

// config gives each VC, named "name:nodes", so many nodes.
func config(nodes, gpus int32, vcs ...string) *model.Config {
	spec := cell.Spec{SKUs: []cell.SKU{{Name: "gpu", GPU: 1, Device: cell.NVIDIA}},
		Chains: []cell.ChainSpec{{Name: "node", Levels: []cell.LevelSpec{{Type: "gpu"}, {Type: "node", Fanout: gpus, IsNode: true}}}}}
	for n := range nodes {
		c := cell.CellSpec{Type: "node", Address: fmt.Sprintf("n%d", n)}
		for g := range gpus {
			c.Children = append(c.Children, cell.CellSpec{Type: "gpu", Address: fmt.Sprint(g)})
		}
		spec.Cells = append(spec.Cells, c)
	}
	for _, v := range vcs {
		name, n, _ := strings.Cut(v, ":")
		var number int32
		fmt.Sscan(n, &number)
		spec.VCs = append(spec.VCs, cell.VCSpec{Name: cell.VCName(name), Quota: []cell.QuotaSpec{{Chain: "node", Level: 2, Number: number}}})
	}
	return &model.Config{Cluster: spec}
}

// add appends events at a time in seconds.
func (s *stream) add(at float64, es ...model.Event) {
	s.now = model.Time(at * float64(model.Second))
	for _, e := range es {
		s.records = append(s.records, model.Record{Seq: uint64(len(s.records) + 1), Time: s.now, Event: e})
	}
}

// submit submits a job of one gang of "TASKSxLEAVES".
func (s *stream) submit(at float64, id model.JobID, vc, shape string, change ...func(*model.Job)) {
	var tasks, leaves int32
	fmt.Sscanf(shape, "%dx%d", &tasks, &leaves)
	j := &model.Job{Name: model.JobName(fmt.Sprintf("job%d", id)), User: "ann", VC: cell.VCName(vc),
		Roles: []model.Role{{Name: "w", Tasks: tasks, Leaves: leaves}}, Gangs: []model.Gang{{}}}
	for t := range tasks {
		j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, t)
	}
	for _, f := range change {
		f(j)
	}
	s.add(at, model.JobSubmitted{ID: id, Job: j})
}

func attempt(id model.JobID, n int32) model.AttemptID { return model.AttemptID{Job: id, N: n} }

// place starts an attempt; each range "from-to" of leaves is a task.
func (s *stream) place(at float64, a model.AttemptID, ranges ...string) {
	var p cell.Placement
	for _, r := range ranges {
		var from, to int32
		fmt.Sscanf(r, "%d-%d", &from, &to)
		t := cell.Task{Node: cell.NodeName(fmt.Sprintf("n%d", from/s.gpus)), SKU: "gpu"}
		for l := from; l <= to; l++ {
			t.Leaves, t.Devices = append(t.Leaves, cell.LeafID(l)), append(t.Devices, l%s.gpus)
		}
		p.Tasks = append(p.Tasks, t)
	}
	s.add(at, model.Placed{Attempt: a, Placement: p})
	for i := range ranges {
		s.add(at, model.TaskStarted{Attempt: a, Task: int32(i)})
	}
}

// end ends an attempt.
func (s *stream) end(at float64, a model.AttemptID, c model.EndCause) {
	s.add(at, model.AttemptEnded{Attempt: a, Cause: c})
}

// finish ends a job's only attempt and the job.
func (s *stream) finish(at float64, a model.AttemptID) {
	s.end(at, a, model.EndSucceeded)
	s.add(at, model.JobEnded{Job: a.Job, Phase: model.Succeeded, Cause: model.EndSucceeded})
}

// outcome is all that a fold gives, as text.
type outcome struct {
	*metrics.Result
	rows    map[model.JobID]metrics.Row
	summary string
	jobs    string
	times   string
}

func fold(t *testing.T, o metrics.Options, batches [][]model.Record, at model.Time) outcome {
	t.Helper()
	out := outcome{rows: map[model.JobID]metrics.Row{}}
	var jobs, sum, times bytes.Buffer
	w := metrics.NewJobsWriter(&jobs, o.Origin)
	o.Ended = func(r *metrics.Row) {
		out.rows[r.ID] = *r
		w.Write(r)
	}
	f := metrics.New(o)
	for _, b := range batches {
		f.Add(b)
	}
	var err error
	if out.Result, err = f.Finish(at); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Summary.WriteJSON(&sum); err != nil {
		t.Fatal(err)
	}
	if err := out.Timeline.WriteCSV(&times); err != nil {
		t.Fatal(err)
	}
	out.jobs, out.summary, out.times = jobs.String(), sum.String(), times.String()
	return out
}

func (s *stream) fold(t *testing.T, o metrics.Options) outcome {
	t.Helper()
	return fold(t, o, [][]model.Record{s.records}, s.now)
}

// same compares a figure with what was computed by hand.
func same(t *testing.T, what string, got metrics.Number, want float64) {
	t.Helper()
	if d := float64(got) - want; !got.Defined() || d > 1e-9 || d < -1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func none(t *testing.T, what string, got metrics.Number) {
	t.Helper()
	if got.Defined() {
		t.Errorf("%s is %v, want none", what, got)
	}
}

// Two nodes of two GPUs. Job 1 takes one node for 100 s, job 2 both for 50 s
// behind it, job 3 one GPU for 10 s beside it.
func threeJobs() *stream {
	s := newStream(2, 2, "a:2")
	s.submit(10, 1, "a", "1x2")
	s.place(10, attempt(1, 1), "0-1")
	s.submit(20, 2, "a", "2x2")
	s.submit(30, 3, "a", "1x1")
	s.place(30, attempt(3, 1), "2-2")
	s.finish(40, attempt(3, 1))
	s.finish(110, attempt(1, 1))
	s.place(110, attempt(2, 1), "0-1", "2-3")
	s.finish(160, attempt(2, 1))
	return s
}

func TestTimes(t *testing.T) {
	f := threeJobs().fold(t, metrics.Options{Policy: "fifo"}).Summary
	// Completion times: 100, 140, 10.
	same(t, "jct_avg_s", f.JCTAvg, 250.0/3)
	same(t, "jct_p50_s", f.JCTP50, 100)
	same(t, "jct_p95_s", f.JCTP95, 100+0.9*40) // rank 1.9 of 10, 100, 140
	same(t, "jct_p99_s", f.JCTP99, 100+0.98*40)
	same(t, "makespan_s", f.Makespan, 150)
	same(t, "throughput_jobs_per_h", f.Throughput, 3*3600/150.0)
	// Only job 2 waits, for 90 s. It needs 4 leaves, so its VC never had the quota.
	same(t, "queue_avg_s", f.QueueAvg, 30)
	same(t, "queue_fair_share_avg_s", f.QueueFairShareAvg, 30)
	same(t, "queue_fragmentation_avg_s", f.QueueFragmentationAvg, 0)
	if f.Jobs != 3 || f.Finished != 3 || f.Events != 9 || f.Policy != "fifo" {
		t.Errorf("jobs %d, finished %d, events %d, policy %q", f.Jobs, f.Finished, f.Events, f.Policy)
	}
}

func TestUtilization(t *testing.T) {
	f := threeJobs().fold(t, metrics.Options{}).Summary
	// 2x100 + 1x10 + 4x50 = 410 of 4x150.
	same(t, "gpu_utilization", f.GPUUtilization, 410.0/600)
	same(t, "gpu_effective_utilization", f.GPUEffective, 410.0/600)
	same(t, "gpu_utilization of a", f.VC["a"].GPUUtilization, 410.0/600)
	// Idle: 2 for 100 s, less 1 for 10 s = 190. For those 10 s one leaf is idle on
	// a node that is not wholly idle.
	same(t, "fragmentation", f.Fragmentation, 10.0/190)
	none(t, "fragmentation of a", f.VC["a"].Fragmentation)
}

// The third node breaks while nobody uses it, and a leaf breaks in use: it counts
// as in use until its attempt is over, then as bad.
func TestBadLeavesAreNotIdle(t *testing.T) {
	s := newStream(3, 2, "a:3")
	s.submit(0, 1, "a", "1x1")
	s.place(0, attempt(1, 1), "0-0")
	s.add(10, model.NodeHealth{Node: "n2", Up: false})
	s.add(20, model.LeafHealth{Node: "n0", SKU: "gpu", Device: 0})
	s.submit(30, 2, "a", "1x1")
	s.finish(30, attempt(1, 1))
	s.place(30, attempt(2, 1), "1-1")
	s.add(40, model.NodeHealth{Node: "n2", Up: true}, model.NodeCordoned{Node: "n1", On: true})
	s.add(50, model.LeafHealth{Node: "n0", SKU: "gpu", Device: 0, Good: true}, model.NodeSuspected{Node: "n1", Until: 9})
	s.add(60, model.NodeCordoned{Node: "n1"})
	s.finish(70, attempt(2, 1))
	o := s.fold(t, metrics.Options{Width: 10 * model.Second})
	want := []float64{0, 2, 2, 3, 3, 2, 0} // mean bad leaves in each 10 s
	for i, step := range o.Timeline.Steps {
		same(t, fmt.Sprintf("bad leaves in step %d", i), step[0].Bad, want[i])
		same(t, fmt.Sprintf("idle leaves in step %d", i), step[0].Idle, 5-want[i])
	}
	if len(o.Timeline.Steps) != len(want) {
		t.Errorf("%d steps, want %d", len(o.Timeline.Steps), len(want))
	}
	same(t, "gpu_utilization", o.Summary.GPUUtilization, 70/(70+350.0-120))
	// One leaf of n0 is idle on a node that is not wholly idle: its neighbour is in
	// use for 30 s, then bad and itself in use for 20, then idle beside it for 20.
	same(t, "fragmentation", o.Summary.Fragmentation, (30+20)/(350.0-120))
}

// VC a has 4 leaves on two nodes. A gang of 4 waits while 3 are free: fair share;
// while all 4 are free: fragmentation; and nothing while its back-off runs.
func TestCausesOfWaiting(t *testing.T) {
	s := newStream(2, 2, "a:2")
	s.submit(0, 1, "a", "1x1")
	s.place(0, attempt(1, 1), "0-0")
	s.submit(5, 2, "a", "2x2")
	s.finish(25, attempt(1, 1)) // 20 s behind job 1
	s.place(32, attempt(2, 1), "0-1", "2-3")
	s.end(40, attempt(2, 1), model.EndPlatform)
	s.add(40, model.TaskRetried{Job: 2, After: model.Time(50 * model.Second)})
	s.submit(45, 3, "a", "1x1")
	s.place(45, attempt(3, 1), "0-0")
	s.finish(53, attempt(3, 1))
	s.place(54, attempt(2, 2), "0-1", "2-3")
	s.finish(60, attempt(2, 2))
	r := s.fold(t, metrics.Options{}).rows[2]
	if r.FairShare != 23*model.Second || r.Fragmentation != 8*model.Second || r.BackOff != 10*model.Second {
		t.Errorf("fair share %d, fragmentation %d, back-off %d", r.FairShare, r.Fragmentation, r.BackOff)
	}
	// 8 s on 4 leaves were lost with the platform; what counted ran for 6 s.
	if r.Wasted != uint64(32*model.Second) || r.GPU != uint64(56*model.Second) || r.Duration != 6*model.Second || r.Attempts != 2 {
		t.Errorf("wasted %d, gpu %d, duration %d, attempts %d", r.Wasted, r.GPU, r.Duration, r.Attempts)
	}
}

// An opportunistic gang waits for idle leaves of the cluster, whoever owns them.
func TestOpportunisticWaits(t *testing.T) {
	oppo := func(j *model.Job) { j.Priority = cell.Opportunistic }
	s := newStream(2, 2, "a:1", "b:1")
	s.submit(0, 1, "a", "1x2")
	s.place(0, attempt(1, 1), "0-1")
	s.submit(0, 2, "b", "2x2", oppo)
	s.finish(10, attempt(1, 1))
	s.place(13, attempt(2, 1), "0-1", "2-3")
	s.finish(20, attempt(2, 1))
	o := s.fold(t, metrics.Options{})
	if r := o.rows[2]; r.FairShare != 10*model.Second || r.Fragmentation != 3*model.Second {
		t.Errorf("fair share %d, fragmentation %d", r.FairShare, r.Fragmentation)
	}
	// 28 of the 40 leaf-seconds of b's guarantee: 4 leaves for 7 s.
	same(t, "gpu_utilization of b", o.Summary.VC["b"].GPUUtilization, 28.0/40)
}

func TestPreemptionsAndMigrations(t *testing.T) {
	saves := func(j *model.Job) { j.Hints.Checkpoint = true }
	s := newStream(2, 2, "a:2")
	s.submit(0, 1, "a", "1x1", saves)
	s.submit(0, 2, "a", "1x1")
	s.place(0, attempt(1, 1), "0-0")
	s.place(0, attempt(2, 1), "1-1")
	s.add(4, model.Progress{Attempt: attempt(2, 1), Checkpoint: true})
	for id := model.JobID(1); id <= 2; id++ {
		s.end(10, attempt(id, 1), model.EndPreempted)
		s.add(10, model.TaskRetried{Job: id})
	}
	s.place(20, attempt(1, 2), "1-1") // the same node
	s.place(20, attempt(2, 2), "2-2") // another
	s.finish(30, attempt(1, 2))
	s.finish(30, attempt(2, 2))
	o := s.fold(t, metrics.Options{})
	if f := o.Summary; f.Preemptions != 2 || f.Migrations != 1 || f.Suspends != 0 {
		t.Errorf("preemptions %d, migrations %d, suspends %d", f.Preemptions, f.Migrations, f.Suspends)
	}
	// Job 1 saves its work when it must stop; job 2 loses 6 s since its checkpoint.
	if a, b := o.rows[1], o.rows[2]; a.Wasted != 0 || a.Duration != 20*model.Second || b.Wasted != uint64(6*model.Second) || b.Duration != 14*model.Second {
		t.Errorf("wasted %d and %d, durations %d and %d", a.Wasted, b.Wasted, a.Duration, b.Duration)
	}
	same(t, "queue_avg_s", o.Summary.QueueAvg, (10+16)/2)
}

// Two jobs share a node for 10 of 30 s and run at half speed meanwhile; then one
// is suspended for 5 s.
func TestSpeedAndSharing(t *testing.T) {
	s := newStream(1, 2, "a:1")
	s.submit(0, 1, "a", "1x1")
	s.place(0, attempt(1, 1), "0-0")
	f := metrics.New(metrics.Options{Ended: func(r *metrics.Row) {
		if r.ID == 1 && (r.Shared != uint64(10*model.Second) || r.Effective != uint64(20*model.Second) || r.Suspends != 1) {
			t.Errorf("shared %d, effective %d, suspends %d", r.Shared, r.Effective, r.Suspends)
		}
		if r.ID == 1 && r.Duration != 20*model.Second {
			t.Errorf("derived duration %d", r.Duration)
		}
	}})
	s.submit(10, 2, "a", "1x1")
	s.place(10, attempt(2, 1), "1-1")
	f.Add(s.records)
	f.SetSpeed(s.now, attempt(1, 1), metrics.FullSpeed/2)
	f.SetSpeed(s.now, attempt(2, 1), metrics.FullSpeed/2)
	seen := len(s.records)
	s.finish(20, attempt(2, 1))
	f.Add(s.records[seen:])
	f.SetSpeed(s.now, attempt(1, 1), 0)
	f.SetSpeed(s.now.Add(5*model.Second), attempt(1, 1), metrics.FullSpeed)
	seen = len(s.records)
	s.finish(30, attempt(1, 1))
	f.Add(s.records[seen:])
	r, err := f.Finish(s.now)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "gpu_utilization", r.Summary.GPUUtilization, 40.0/60)
	same(t, "gpu_effective_utilization", r.Summary.GPUEffective, 25.0/60)
	if r.Summary.Suspends != 1 {
		t.Errorf("%d suspends", r.Summary.Suspends)
	}
}

// Themis: T_id = N x W / min(R_cluster, R_max), N averaged over the app's life.
func TestFairness(t *testing.T) {
	s := newStream(1, 2, "a:1")
	s.submit(0, 1, "a", "1x2")
	s.place(0, attempt(1, 1), "0-1")
	s.submit(10, 2, "a", "1x2")
	s.finish(20, attempt(1, 1))
	s.place(20, attempt(2, 1), "0-1")
	s.finish(30, attempt(2, 1))
	o := s.fold(t, metrics.Options{})
	// Job 1: alone for 10 s, one of two for 10: N = 1.5; rho = 20/(1.5x20).
	same(t, "rho of job 1", o.rows[1].Rho, 20/30.0)
	// Job 2: N = 1.5 over 20 s; rho = 20/(1.5x10).
	same(t, "rho of job 2", o.rows[2].Rho, 20/15.0)
	same(t, "rho_max", o.Summary.RhoMax, 4/3.0)
	same(t, "rho_p95", o.Summary.RhoP95, 2/3.0+0.95*2/3)
	same(t, "jain_rho", o.Summary.JainRho, 4/(2*(4/9.0+16/9.0)))
}

// The two jobs of an app count once; its work is spread over the VC's two leaves,
// though both jobs together could use four.
func TestFairnessOfApps(t *testing.T) {
	of := func(app string) func(*model.Job) { return func(j *model.Job) { j.Hints.App = app } }
	s := newStream(1, 2, "a:1")
	s.submit(0, 1, "a", "1x2", of("search"))
	s.submit(0, 2, "a", "1x2", of("search"))
	s.submit(0, 3, "a", "1x1")
	s.place(0, attempt(1, 1), "0-1")
	s.finish(10, attempt(1, 1))
	s.place(10, attempt(2, 1), "0-1")
	s.finish(30, attempt(2, 1))
	s.place(30, attempt(3, 1), "0-0")
	s.finish(40, attempt(3, 1))
	o := s.fold(t, metrics.Options{})
	// search: W = 2x10 + 2x20 = 60, over 2 leaves 30 s, N = 2: rho = 30/60.
	// job 3: W = 10, N = (2x30 + 10)/40: rho = 40/(1.75x10).
	same(t, "rho_max", o.Summary.RhoMax, 40/17.5)
	same(t, "jain_rho", o.Summary.JainRho, (0.5+40/17.5)*(0.5+40/17.5)/(2*(0.25+(40/17.5)*(40/17.5))))
	same(t, "rho of job 1 alone", o.rows[1].Rho, 10/(2*10.0))
}

// Chronus: a job is worth what its first deadline met is worth, against the first.
func TestDeadlines(t *testing.T) {
	due := func(class string, steps ...int64) func(*model.Job) {
		return func(j *model.Job) {
			j.Hints.Class = class
			for i := 0; i < len(steps); i += 2 {
				j.Hints.Deadlines = append(j.Hints.Deadlines, model.Deadline{After: model.Duration(steps[i]) * model.Second, Value: steps[i+1]})
			}
		}
	}
	s := newStream(4, 2, "a:4")
	s.submit(0, 1, "a", "1x1", due("strict", 10, 10))            // met, exactly
	s.submit(0, 2, "a", "1x1", due("soft", 5, 10, 12, 8, 20, 5)) // the second: 0.2 lost
	s.submit(0, 3, "a", "1x1", due("soft", 5, 10, 8, 8))         // none: 1 lost
	s.submit(0, 4, "a", "1x1", due("besteffort", 1, 10))         // none of ours
	s.submit(0, 5, "a", "1x1")                                   // no deadline
	s.submit(0, 6, "a", "1x1", due("strict", 9, 10))             // never ends, is late already
	s.submit(0, 7, "a", "1x1", due("soft", 9, 10, 100, 5))       // never ends, may still be worth something
	for id := model.JobID(1); id <= 5; id++ {
		s.place(0, attempt(id, 1), fmt.Sprintf("%d-%d", id, id))
	}
	for id := model.JobID(1); id <= 4; id++ {
		s.finish(10, attempt(id, 1))
	}
	s.finish(20, attempt(5, 1))
	o := s.fold(t, metrics.Options{})
	same(t, "slo_miss_rate", o.Summary.SLOMissRate, (0+0.2+1+1)/4)
	same(t, "be_latency_avg_s", o.Summary.BELatencyAvg, 15)
	none(t, "miss of job 4", o.rows[4].Miss)
	none(t, "miss of job 7", o.rows[7].Miss)
	if o.Summary.Jobs != 7 || o.Summary.Finished != 5 || o.rows[6].Phase != model.Waiting {
		t.Errorf("%d jobs, %d finished, job 6 is %s", o.Summary.Jobs, o.Summary.Finished, o.rows[6].Phase)
	}
}

// Facts of the trace come before what attempts show.
func TestFacts(t *testing.T) {
	o := metrics.Options{Facts: func(id model.JobID, j *model.Job) metrics.Facts {
		return metrics.Facts{Duration: 7 * model.Second, TraceID: "t" + string(j.Name), App: "x", Model: "vgg"}
	}}
	s := newStream(1, 2, "a:1")
	s.submit(0, 1, "a", "1x2")
	s.place(0, attempt(1, 1), "0-1")
	s.finish(10, attempt(1, 1))
	out := s.fold(t, o)
	if r := out.rows[1]; r.Duration != 7*model.Second || r.TraceID != "tjob1" || r.App != "x" || r.Model != "vgg" {
		t.Errorf("got %+v", r)
	}
	same(t, "queue_avg_s", out.Summary.QueueAvg, 3)
}

// A run without jobs has no figures, but has the keys.
func TestNothing(t *testing.T) {
	o := newStream(1, 2, "a:1").fold(t, metrics.Options{})
	if !strings.Contains(o.summary, `"jct_avg_s": null`) || strings.Contains(o.summary, "NaN") {
		t.Error(o.summary)
	}
	f := metrics.New(metrics.Options{})
	f.Add([]model.Record{{Seq: 1, Time: 1, Event: model.JobEnded{Job: 4}}})
	if _, err := f.Finish(2); err == nil || !strings.Contains(err.Error(), "record 1: job 4") {
		t.Errorf("an end without a job gives %v", err)
	}
}

// A timeline has a bounded number of rows, and all area is in it.
func TestTimelineIsBounded(t *testing.T) {
	s := newStream(1, 2, "a:1")
	s.submit(3, 1, "a", "1x1")
	s.place(103, attempt(1, 1), "0-0")
	s.finish(100_003, attempt(1, 1))
	o := s.fold(t, metrics.Options{Steps: 16})
	n := len(o.Timeline.Steps)
	if n < 8 || n > 16 {
		t.Errorf("%d steps: %s", n, o.Timeline.Describe())
	}
	var area float64
	for i, step := range o.Timeline.Steps {
		next := o.Timeline.End
		if i+1 < n {
			next = o.Timeline.Steps[i+1][0].At
		}
		area += float64(step[1].Guaranteed) * float64(next-step[0].At) / float64(model.Second)
	}
	if area < 99_899.9 || area > 99_900.1 {
		t.Errorf("the timeline holds %v GPU-seconds, want 99900", area)
	}
}
