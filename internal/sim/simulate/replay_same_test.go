package simulate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
	"github.com/combsched/comb/internal/test/seeds"
)

// day is a random day of a server: jobs of gangs that take their time to start, use some
// or all of their grace, finish in it or ignore the signal, fail and are retried, cannot be
// started at all, run out of their time limit, take turns, and are stopped by their users.
type day struct {
	t      *testing.T
	rng    *rand.Rand
	world  *sim.World
	policy string
	step   int
	ids    []model.JobID
}

// daySteps is how often something happens from outside in a day.
const daySteps = 60

// some is a random time in microseconds, so that no two things happen at one instant.
func (d *day) some(most model.Duration) model.Duration {
	return 1 + model.Duration(d.rng.Int64N(int64(most)))
}

// behave is drawn for each start anew.
func (d *day) behave(t sim.Task) sim.Behavior {
	b := sim.Default(t)
	b.StartDelay, b.StopDelay, b.Stubborn = d.some(2*model.Second), d.some(40*model.Second), d.rng.IntN(4) == 0
	if d.rng.IntN(3) == 0 { // saved, and says so by its exit code
		b.Stopped = &model.Exit{Code: int32(d.rng.IntN(2)) * 3}
		b.StopDelay = min(b.StopDelay, t.Job.Grace-d.some(model.Second))
	}
	switch t.Job.Hints.Model {
	case "fails once": // both tasks of a gang within a short time
		if b.OwnEnd = true; t.Retry == 0 {
			b.Code, b.RunFor, b.StopDelay = 1, 10*model.Second+d.some(model.Second), 20*model.Second+d.some(model.Second)
		}
	case "fails at random":
		b.RunFor = d.some(60 * model.Second)
		b.Code = int32(d.rng.IntN(2))
	case "refused":
		b.Refuse, b.RefuseJob = "no such directory", true
	case "hangs":
		b.RunFor = 0
	}
	return b
}

func (d *day) give(c model.Command) {
	d.world.Give(engine.Input{Command: c, Reply: func(r engine.Reply) {
		if r.Err != nil {
			d.t.Error(r.Err)
		}
		if _, ok := c.(model.Submit); ok && r.Refusal == nil {
			d.ids = append(d.ids, r.Answer.Job)
		}
	}})
}

func (d *day) idle() bool {
	d.step++
	switch {
	case d.step == 1:
		c, err := (&simulate.Layout{}).Cluster([]trace.NodeGroup{{Nodes: 3, GPUs: 4}}, []simulate.Share{{Name: "a", Own: []int32{2}}, {Name: "b", Own: []int32{1}}}, model.VCConfig{Policy: d.policy})
		if err != nil {
			d.t.Fatal(err)
		}
		d.give(model.Reconfigure{Config: c})
	case d.step > daySteps: // the rest of the day is quiet; who still runs is stopped
		for _, id := range d.ids {
			d.world.Give(engine.Input{Command: model.Stop{Job: id}, Reply: func(engine.Reply) {}})
		}
		d.world.Extend(d.world.Now().Add(10 * model.Hour))
		return d.step <= daySteps+2
	case d.rng.IntN(6) == 0 && len(d.ids) > 0:
		id := d.ids[d.rng.IntN(len(d.ids))]
		d.world.Give(engine.Input{Command: model.Stop{Job: id}, Reply: func(engine.Reply) {}})
	default:
		d.give(model.Submit{Job: d.job()})
	}
	d.world.Extend(d.world.Now().Add(d.some(40 * model.Second)))
	return true
}

func (d *day) job() *model.Job {
	tasks := 1 + int32(d.rng.IntN(3))
	j := &model.Job{Name: model.JobName(fmt.Sprintf("job-%d", d.step)), User: "ann", VC: []cell.VCName{"a", "b"}[d.rng.IntN(2)], Priority: cell.Priority(10 * d.rng.IntN(3)),
		Roles: []model.Role{{Name: "worker", Tasks: tasks, Leaves: 1 + int32(d.rng.IntN(2)), MinFailed: 1, MinSucceeded: -1,
			Launch: model.Launch{Command: []string{"true"}}}},
		Retries: int32(d.rng.IntN(3)), Grace: 30 * model.Second,
		Hints: model.Hints{Duration: d.some(200 * model.Second), Checkpoint: d.rng.IntN(2) == 0, Suspendable: true,
			Model: []string{"", "", "", "fails once", "fails once", "fails at random", "refused", "hangs"}[d.rng.IntN(8)]}}
	if d.rng.IntN(5) == 0 {
		j.TimeLimit = d.some(100 * model.Second)
	}
	if d.rng.IntN(4) == 0 { // each task by itself, with retries of its own
		j.Roles[0].TaskRetries, j.Roles[0].MinFailed = int32(d.rng.IntN(2)), 2
		for o := range tasks {
			j.Gangs = append(j.Gangs, model.Gang{Name: "worker", Tasks: []int32{o}})
		}
		return j
	}
	g := model.Gang{Name: "all"}
	for o := range tasks {
		g.Tasks = append(g.Tasks, o)
	}
	j.Gangs = append(j.Gangs, g)
	return j
}

// told writes what happened to jobs, in order: what was decided, how tasks ended, when.
func told(events []string, rec model.Record) []string {
	id := func(a model.AttemptID) string { return fmt.Sprint(a.Job, a.Gang, a.N) }
	text := ""
	switch e := rec.Event.(type) {
	case model.JobSubmitted:
		text = fmt.Sprint("submitted ", e.ID)
	case model.Placed:
		text = fmt.Sprint("placed ", id(e.Attempt), e.Placement.Tasks[0].Node, e.Placement.Tasks[0].Devices)
	case model.StopSent:
		text = fmt.Sprint("stop ", id(e.Attempt), e.Cause, e.Grace)
	case model.TaskStarted:
		text = fmt.Sprint("started ", id(e.Attempt), e.Task)
	case model.TaskExited:
		text = fmt.Sprint("exited ", id(e.Attempt), e.Task, e.Exit)
	case model.TaskRefused:
		text = fmt.Sprint("refused ", id(e.Attempt), e.Task, e.Reason)
	case model.AttemptEnded:
		text = fmt.Sprint("over ", id(e.Attempt), e.Cause)
	case model.Rotated:
		text = fmt.Sprint("turns of ", e.Rotation.Turns, e.Rotation.Quantum, e.Rotation.Epoch)
	case model.JobRetried:
		text = fmt.Sprint("retried ", e.Job, e.Counted, e.After)
	case model.TaskRetried:
		text = fmt.Sprint("task retried ", e.Job, e.Gang, e.Counted, e.After)
	case model.JobEnded:
		text = fmt.Sprint("ended ", e.Job, e.Phase, e.Cause, e.Exit.Code)
	default:
		return events
	}
	events = append(events, fmt.Sprintf("%d %s", rec.Time, text))
	// Tasks of one gang that end at one instant, such as those that waited for their turn
	// together, are told of in any order.
	for i := len(events) - 1; i > 0 && exit(events[i]) && exit(events[i-1]) && events[i] < events[i-1]; i-- {
		events[i], events[i-1] = events[i-1], events[i]
	}
	return events
}

func exit(event string) bool { return strings.Contains(event, " exited ") }

// lived lets a random day happen, and gives its journal.
func lived(t *testing.T, seed uint64, p string) *engine.Memory {
	t.Helper()
	mem := engine.NewMemory()
	d := &day{t: t, rng: rand.New(rand.NewPCG(seed, 7)), policy: p}
	d.world = sim.New(sim.Options{Start: liveStart, Behave: d.behave, Idle: d.idle})
	e, err := engine.Open(context.Background(), engine.Options{Inputs: d.world, Executor: d.world, Journal: mem, Policies: policy.New, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return mem
}

// A day happens again as it did, to the microsecond: under its own policies every job
// starts, is stopped, retried and ends as it did, by the same exits of its tasks.
func TestReplayOfADayIsThatDay(t *testing.T) {
	seen := map[string]int{}
	for seed := range seeds.Of(t, 40) {
		for _, p := range []string{"fifo", "gandiva", "las", "srtf"} {
			mem := lived(t, seed, p)
			var was, is []string
			_ = mem.Replay(context.Background(), 0, func(r model.Record) error { was = told(was, r); return nil })
			r, err := simulate.Replay(context.Background(), simulate.Spec{}, &simulate.Journal{Path: "day", Replay: mem.Replay},
				simulate.Options{Policies: policy.New, OnBatch: func(b engine.Batch) {
					for _, rec := range b.Records {
						is = told(is, rec)
					}
				}})
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, p, err)
			}
			if r.Refused+r.Replayed.Censored+r.Replayed.LeftOut+len(r.Replayed.NotRepeated) > 0 || r.Summary.QueueAvg < 0 {
				t.Errorf("seed %d, %s: %d refused, %+v, %v s in the queue", seed, p, r.Refused, r.Replayed, r.Summary.QueueAvg)
			}
			at := 0
			for at < len(was) && at < len(is) && was[at] == is[at] {
				at++
			}
			if at < max(len(was), len(is)) {
				t.Fatalf("seed %d, %s: event %d of %d is\n%v\nand was\n%v", seed, p, at, len(was), is[max(at-3, 0):min(at+2, len(is))], was[max(at-3, 0):min(at+2, len(was))])
			}
			count(seen, was)
		}
	}
	for _, word := range []string{"ended", "refused", "retried", "stop", "task", "turns"} {
		if seen[word] < 20 {
			t.Errorf("%d times %q: that checks little", seen[word], word)
		}
	}
}

// count counts the words of what happened.
func count(seen map[string]int, events []string) {
	for _, e := range events {
		var at int64
		var word string
		if _, err := fmt.Sscan(e, &at, &word); err == nil {
			seen[word]++
		}
	}
}
