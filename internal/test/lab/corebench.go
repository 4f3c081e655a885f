package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// coreWorld drives the decision core alone, in memory: what a server does between
// reading its inputs and writing its journal. Events go to a ring in memory.
type coreWorld struct {
	s      *core.State
	rng    *rand.Rand
	now    model.Time
	next   model.JobID
	log    []model.Record
	vcs    []coreVC
	jobs   map[model.JobID]*coreJob
	shapes map[coreShape]*model.Job
	// told are the facts that the next step hands over: tasks that were stopped.
	told []model.Event

	clock   func() time.Duration
	cost    time.Duration // what reading the clock takes, which is left out
	busy    time.Duration // in Apply and Decide
	placed  int           // gangs
	members int
	preempt int // attempts stopped for another
	waited  int // gangs that were not placed at once
	spare   int // opportunistic jobs that wait
	took    []time.Duration
	first   time.Duration // what the last submission took alone
}

// coreVC is what one VC holds and waits for, in leaves.
type coreVC struct {
	name    cell.VCName
	quota   int
	demand  int // of guaranteed jobs, running or waiting
	running []*coreJob
}

// coreJob is one gang that has not ended.
type coreJob struct {
	id      model.JobID
	spec    *model.Job
	vc      int
	leaves  int
	attempt model.AttemptID // of the present attempt; N is 0 while it waits
	at      int             // place among the running ones of its list
	spent   time.Duration   // in the steps that submitted and placed it
}

// coreShape says what a job looks like: jobs of one shape share their description
// except for the name, as the core only reads it.
type coreShape struct {
	vc, gpus int // GPUs of the gang, or of each task if there are tasks
	tasks    int // 0: as few as will do
	prio     cell.Priority
}

const (
	coreVCs      = 8
	coreLog      = 1 << 16
	corePerNode  = 8
	coreRackSize = 8
	coreLoad     = 0.9
	coreSeed     = 1
	testPriority = 10
	prodPriority = 100
)

// coreSizes are the gangs' sizes in GPUs with their weights: up to 8 GPUs one
// task, above that tasks of 8 GPUs.
var coreSizes = []struct{ gpus, weight int }{{1, 30}, {2, 15}, {4, 15}, {8, 18}, {16, 10}, {32, 7}, {64, 5}}

// coreCells makes nodes of GPU, 2-GPU switch, 4-GPU socket and node, so many of
// them a rack.
func coreCells(nodes, rack int) cell.Spec {
	spec := cell.Spec{SKUs: []cell.SKU{{Name: "GPU", GPU: 1, MilliCPU: 4000, MemoryMB: 65536, Device: cell.NVIDIA}},
		Chains: []cell.ChainSpec{{Name: "RACK", Levels: []cell.LevelSpec{{Type: "GPU"}, {Type: "SWITCH", Fanout: 2},
			{Type: "SOCKET", Fanout: 2}, {Type: "NODE", Fanout: 2, IsNode: true}, {Type: "RACK", Fanout: int32(rack)}}}}}
	var build func(l int, address string) cell.CellSpec
	node, device := 0, 0
	build = func(l int, address string) cell.CellSpec {
		level := spec.Chains[0].Levels[l]
		switch l {
		case 0:
			address = strconv.Itoa(device % corePerNode)
			device++
		case 3:
			address = fmt.Sprintf("n%05d", node)
			node++
		}
		c := cell.CellSpec{Type: level.Type, Address: address}
		for i := range level.Fanout {
			c.Children = append(c.Children, build(l-1, strconv.Itoa(int(i))))
		}
		return c
	}
	for r := range nodes / rack {
		spec.Cells = append(spec.Cells, build(4, fmt.Sprintf("r%04d", r)))
	}
	return spec
}

// coreConfig divides the racks equally among eight VCs of one policy.
func coreConfig(nodes int, order string) *model.Config {
	cfg := &model.Config{Cluster: coreCells(nodes, coreRackSize)}
	for i := range coreVCs {
		name := cell.VCName(fmt.Sprintf("vc%d", i))
		quota := cell.QuotaSpec{Chain: "RACK", Level: 5, Number: int32(nodes / coreRackSize / coreVCs)}
		cfg.Cluster.VCs = append(cfg.Cluster.VCs, cell.VCSpec{Name: name, Quota: []cell.QuotaSpec{quota}})
		cfg.VCs = append(cfg.VCs, model.VCConfig{Name: name, Policy: order})
	}
	return cfg
}

// newCoreWorld starts a core with a configuration.
func newCoreWorld(cfg *model.Config) *coreWorld {
	w := &coreWorld{s: core.New(policy.New), rng: rand.New(rand.NewPCG(coreSeed, coreSeed)), now: 1, next: 1,
		log: make([]model.Record, coreLog), jobs: map[model.JobID]*coreJob{}, shapes: map[coreShape]*model.Job{}}
	w.timeBy(coreClock)
	for _, v := range cfg.Cluster.VCs {
		c := coreVC{name: v.Name}
		for _, q := range v.Quota {
			for _, ch := range cfg.Cluster.Chains {
				n := int(q.Number)
				for _, l := range ch.Levels[1:q.Level] {
					n *= int(l.Fanout)
				}
				c.quota += n
			}
		}
		w.vcs = append(w.vcs, c)
	}
	w.step(model.Configured{Config: cfg})
	return w
}

// step applies events and decides; only that is timed. It returns the decisions
// and what it took.
func (w *coreWorld) step(events ...model.Event) ([]model.Record, time.Duration) {
	w.now += 1000
	began := w.clock()
	for _, e := range events {
		r := model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e}
		w.s.Apply(r)
		w.log[r.Seq%coreLog] = r
	}
	out := w.s.Decide(w.now)
	for _, r := range out {
		w.log[r.Seq%coreLog] = r
	}
	took := max(0, w.clock()-began-w.cost)
	w.busy += took
	return out, took
}

// round is a step, with what follows from its decisions: stopped tasks exit in
// the next step, and so on until nothing is left to do. first, if any, is the job
// that the events submit.
func (w *coreWorld) round(first *coreJob, events ...model.Event) {
	for len(events) > 0 {
		out, took := w.step(events...)
		if first != nil {
			first.spent += took
			w.first = took
		}
		w.told = w.told[:0]
		for _, r := range out {
			w.note(r.Event, took, first)
		}
		if first != nil && first.attempt.N == 0 {
			w.waited++
		}
		first, events = nil, w.told
	}
	w.s.TakeEnded()
}

// note keeps the books on one decision.
func (w *coreWorld) note(e model.Event, took time.Duration, first *coreJob) {
	switch e := e.(type) {
	case model.Placed:
		j := w.jobs[e.Attempt.Job]
		if j != first {
			j.spent += took
		}
		w.count(j, -1)
		j.attempt = e.Attempt
		j.at = len(w.vcs[j.vc].running)
		w.vcs[j.vc].running = append(w.vcs[j.vc].running, j)
		w.placed++
		w.members += len(e.Placement.Tasks)
		w.took = append(w.took, j.spent)
		j.spent = 0
	case model.StopSent:
		j := w.jobs[e.Attempt.Job]
		w.preempt++
		w.told = w.exits(w.told, j, model.Exit{Code: 143, Signal: 15})
		w.leave(j)
		w.count(j, 1)
	case model.JobEnded:
		j := w.jobs[e.Job]
		if j.spec.Priority >= cell.MinGuaranteed {
			w.vcs[j.vc].demand -= j.leaves
		}
		delete(w.jobs, e.Job)
	}
}

// count keeps count of the opportunistic jobs that wait.
func (w *coreWorld) count(j *coreJob, sign int) {
	if j.spec.Priority < cell.MinGuaranteed {
		w.spare += sign
	}
}

// exits appends the facts that prove the death of all of a job's tasks.
func (w *coreWorld) exits(to []model.Event, j *coreJob, x model.Exit) []model.Event {
	for t := range j.spec.Gangs[0].Tasks {
		to = append(to, model.TaskExited{Attempt: j.attempt, Task: int32(t), Exit: x})
	}
	return to
}

// leave takes a job out of the list of those that run.
func (w *coreWorld) leave(j *coreJob) {
	list := w.vcs[j.vc].running
	last := list[len(list)-1]
	list[j.at], last.at = last, j.at
	w.vcs[j.vc].running = list[:len(list)-1]
	j.attempt.N = 0
}

// end lets a running job succeed.
func (w *coreWorld) end(j *coreJob) {
	events := w.exits(nil, j, model.Exit{})
	w.leave(j)
	w.round(nil, events...)
}

// describe makes a job's description; those of one shape share all but the name.
func (w *coreWorld) describe(sh coreShape, id model.JobID) *model.Job {
	shared := w.shapes[sh]
	if shared == nil {
		tasks, leaves := int32(1), int32(sh.gpus)
		if sh.tasks > 0 {
			tasks = int32(sh.tasks)
		} else if sh.gpus > corePerNode {
			tasks, leaves = int32(sh.gpus/corePerNode), corePerNode
		}
		shared = &model.Job{User: model.Subject(fmt.Sprintf("user%d", sh.gpus%5)), VC: w.vcs[sh.vc].name, Priority: sh.prio, Grace: 30 * model.Second,
			Roles: []model.Role{{Name: "worker", Tasks: tasks, Leaves: leaves, SKUs: []cell.TypeName{"GPU"}, MinFailed: 1, MinSucceeded: -1,
				Launch: model.Launch{Command: []string{"python train.py"}, Image: "train"}}}}
		g := model.Gang{Name: "worker"}
		for t := range tasks {
			g.Tasks = append(g.Tasks, t)
		}
		shared.Gangs = []model.Gang{g}
		w.shapes[sh] = shared
	}
	job := *shared
	job.Name = model.JobName("job-" + strconv.Itoa(int(id)))
	return &job
}

// submit hands a job over and lets the core decide.
func (w *coreWorld) submit(sh coreShape) *coreJob {
	id := w.next
	w.next++
	j := &coreJob{id: id, spec: w.describe(sh, id), vc: sh.vc, leaves: sh.gpus * max(1, sh.tasks)}
	w.jobs[id] = j
	w.count(j, 1)
	if sh.prio >= cell.MinGuaranteed {
		w.vcs[sh.vc].demand += j.leaves
	}
	w.round(j, model.JobSubmitted{ID: id, Job: j.spec})
	return j
}

// size draws a gang's GPUs.
func (w *coreWorld) size(most int) int {
	for {
		sum := 0
		for _, s := range coreSizes {
			sum += s.weight
		}
		at := w.rng.IntN(sum)
		for _, s := range coreSizes {
			if at -= s.weight; at < 0 && s.gpus <= most {
				return s.gpus
			} else if at < 0 {
				break
			}
		}
	}
}

// arrive submits one gang to a random VC. Before, random gangs of the VC end until
// its load stays within nine tenths; a prod gang takes its room from others.
func (w *coreWorld) arrive(prio cell.Priority) {
	sh := coreShape{vc: w.rng.IntN(len(w.vcs)), gpus: w.size(64), prio: prio}
	v := &w.vcs[sh.vc]
	for prio != prodPriority && v.demand+sh.gpus > int(coreLoad*float64(v.quota)) && w.endGuaranteed(v) {
	}
	w.submit(sh)
}

// endGuaranteed ends a random guaranteed job of a VC; false when none runs.
func (w *coreWorld) endGuaranteed(v *coreVC) bool {
	if n := len(v.running); n > 0 {
		from := w.rng.IntN(n)
		for i := range n {
			if j := v.running[(from+i)%n]; j.spec.Priority >= cell.MinGuaranteed {
				w.end(j)
				return true
			}
		}
	}
	return false
}

// reset forgets what was measured, so that only what follows counts.
func (w *coreWorld) reset() {
	w.busy, w.placed, w.members, w.preempt, w.waited, w.took = 0, 0, 0, 0, 0, w.took[:0]
}

// timeBy says which clock steps are timed by.
func (w *coreWorld) timeBy(clock func() time.Duration) {
	w.clock = clock
	all := make([]time.Duration, 1001)
	for i := range all {
		began := clock()
		all[i] = clock() - began
	}
	slices.Sort(all)
	w.cost = all[len(all)/2]
}

// steadily counts what work does whose steps are so short that asking the kernel for the
// thread's time, before and after each, would be a good part of them and push what
// they use out of the caches. So steps are timed by the clock on the wall, which costs
// a tenth of that, and the part of the time in which the thread had no processor is
// taken off their sum, as it fell on steps and on what lies between them alike.
func (w *coreWorld) steadily(work func()) {
	w.timeBy(coreWall)
	wall, had, before := coreWall(), coreClock(), w.busy
	work()
	wall, had = coreWall()-wall, coreClock()-had
	if had < wall {
		w.busy = before + time.Duration(float64(w.busy-before)*float64(had)/float64(wall))
	}
	w.timeBy(coreClock)
}

// coreClock is the processor time of this thread, so that what else runs on the
// machine does not count. (Collecting garbage is done by other threads.)
func coreClock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano()) // of another clock, yet as good for differences
	}
	return time.Duration(t.Nano())
}

// coreWall is the time since this program began.
func coreWall() time.Duration { return time.Since(coreBegan) }

var coreBegan = time.Now()
