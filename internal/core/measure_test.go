package core_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// ranked is a gang's place in the list that the measure compares (decide/termination.go).
type ranked struct {
	oppo  bool
	vc    cell.VCName
	prio  cell.Priority
	extra bool
	job   model.JobID
	gang  int32
}

func (a ranked) compare(b ranked) int {
	return cmp.Or(compareFlag(a.oppo, b.oppo), cmp.Compare(a.vc, b.vc), cmp.Compare(b.prio, a.prio),
		compareFlag(a.extra, b.extra), cmp.Compare(a.job, b.job), cmp.Compare(a.gang, b.gang))
}

func compareFlag(a, b bool) int {
	if a == b {
		return 0
	}
	if b {
		return -1
	}
	return 1
}

// ledger follows the events and keeps the weights: 0 with cells, 1 with a
// promise; who is not in it has neither, 2.
type ledger struct {
	t       *testing.T
	jobs    map[model.JobID]*model.Job
	weight  map[ranked]int
	gained  map[model.AttemptID]bool // in the Decide that is read
	stopped map[model.AttemptID]bool
	suffers map[model.JobID]int // preemptions of full gangs
	before  map[ranked]int      // as the walk of this Decide began; nil before it
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, jobs: map[model.JobID]*model.Job{}, weight: map[ranked]int{}, gained: map[model.AttemptID]bool{},
		stopped: map[model.AttemptID]bool{}, suffers: map[model.JobID]int{}}
}

func (l *ledger) rank(id model.AttemptID) ranked {
	j := l.jobs[id.Job]
	return ranked{oppo: j.Priority < 0, vc: j.VC, prio: j.Priority, extra: j.Gangs[id.Gang].Extra, job: id.Job, gang: id.Gang}
}

func (l *ledger) gain(id model.AttemptID, weight int) {
	l.begin()
	l.weight[l.rank(id)] = weight
	l.gained[id] = true
}

// lose takes cells, a guarantee or a promise from an attempt for another's good.
func (l *ledger) lose(id model.AttemptID, by *model.AttemptID) {
	l.begin()
	if l.gained[id] {
		l.t.Fatalf("attempt %v gains and loses in one Decide", id)
	}
	if by != nil && l.rank(*by).compare(l.rank(id)) >= 0 && l.jobs[id.Job].Priority >= 0 && l.weight[l.rank(id)] < 2 && l.held(id) {
		l.t.Fatalf("attempt %v loses to %v, which stands behind it", id, *by)
	}
	delete(l.weight, l.rank(id))
}

// held reports whether a gang has what the measure counts: not what it lent.
func (l *ledger) held(id model.AttemptID) bool { _, ok := l.weight[l.rank(id)]; return ok }

func (l *ledger) begin() {
	if l.before == nil {
		l.before = maps.Clone(l.weight)
	}
}

func (l *ledger) read(r model.Record) {
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		l.jobs[e.ID] = e.Job
	case model.Placed:
		l.gain(e.Attempt, 0)
	case model.Upgraded:
		l.gain(e.Attempt, 0)
	case model.Reserved:
		l.gain(e.Attempt, 1)
	case model.LazilyPreempted:
		l.lose(e.Attempt, e.By)
	case model.Unreserved:
		if l.before != nil && e.Reason != "free cells appeared" {
			l.lose(e.Attempt, nil)
		} else {
			delete(l.weight, l.rank(e.Attempt))
		}
	case model.StopSent:
		l.stop(e)
	case model.AttemptEnded:
		delete(l.weight, l.rank(e.Attempt))
	case model.Decided:
		l.decided()
	}
}

func (l *ledger) stop(e model.StopSent) {
	if l.stopped[e.Attempt] {
		l.t.Fatalf("attempt %v is stopped twice", e.Attempt)
	}
	l.stopped[e.Attempt] = true
	if e.Cause != model.EndPreempted {
		delete(l.weight, l.rank(e.Attempt))
		return
	}
	l.lose(e.Attempt, e.By)
	if !l.rank(e.Attempt).extra {
		l.suffers[e.Attempt.Job]++
	}
}

// decided compares the measure before and after the walk of one Decide.
func (l *ledger) decided() {
	if l.before != nil {
		var changed []ranked
		for _, m := range []map[ranked]int{l.before, l.weight} {
			for k := range m {
				if l.of(l.before, k) != l.of(l.weight, k) {
					changed = append(changed, k)
				}
			}
		}
		if len(changed) > 0 {
			if first := slices.MinFunc(changed, ranked.compare); l.of(l.weight, first) > l.of(l.before, first) {
				l.t.Fatalf("the walk made the measure larger: %+v went from %d to %d", first, l.of(l.before, first), l.of(l.weight, first))
			}
		}
	}
	l.before = nil
	clear(l.gained)
}

func (l *ledger) of(m map[ranked]int, k ranked) int {
	if w, ok := m[k]; ok {
		return w
	}
	return 2
}

// The measure falls with every walk, and when nothing is submitted and nothing
// ends by itself, the cluster comes to rest: no circle of preemptions, nobody
// preempted more often than the budget between two submissions.
func TestMeasure(t *testing.T) {
	seen := map[string]int{}
	for seed := range seeds.Of(t, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { measured(t, seed, seen) })
	}
	for _, what := range []string{"Upgraded", "LazilyPreempted", "over", "extra stopped", "extra placed"} {
		if seen[what] < 10 && seeds.Modest() {
			t.Errorf("the runs saw %q only %d times", what, seen[what])
		}
	}
	t.Log(seen)
}

// sight counts what the runs are about.
func (l *ledger) sight(e model.Event, seen map[string]int) {
	switch e := e.(type) {
	case model.Upgraded, model.LazilyPreempted:
		seen[string(model.KindOf(e))]++
	case model.Placed:
		if l.rank(e.Attempt).extra {
			seen["extra placed"]++
		}
	case model.StopSent:
		if l.rank(e.Attempt).extra {
			seen["extra stopped"]++
		} else if e.By != nil && l.jobs[e.By.Job].Priority == l.jobs[e.Attempt.Job].Priority {
			seen["over"]++
		}
	}
}

func measured(t *testing.T, seed uint64, seen map[string]int) {
	r := rand.New(rand.NewPCG(seed, 7))
	cfg := cluster(4, map[cell.VCName]int32{"a": 2, "b": 1})
	for i := range cfg.VCs {
		cfg.VCs[i].Params = []model.Param{{Key: "preempt", Value: "true"}}
		cfg.VCs[i].Budget = new(int32)
		*cfg.VCs[i].Budget = 2
	}
	w := newWorld(t, cfg)
	l := newLedger(t)
	read := 0
	catchUp := func() {
		for ; read < len(w.log); read++ {
			l.read(w.log[read])
			l.sight(w.log[read].Event, seen)
		}
	}
	for step := range 40 {
		w.now += model.Time(r.IntN(60_000_000))
		if r.IntN(3) > 0 {
			w.apply(w.accepted(randomJob(r, step)))
		} else if jobs := w.s.Jobs(); len(jobs) > 0 {
			w.exit(jobs[r.IntN(len(jobs))].ID, 0)
		}
		catchUp()
		clear(l.suffers)
		rest(t, w, catchUp)
		for id, n := range l.suffers {
			if n > 3 {
				t.Fatalf("job %d was preempted %d times after one submission", id, n)
			}
		}
	}
}

func (w *world) accepted(j *model.Job) []model.Event {
	events, _, _ := w.s.Check(model.Submit{Job: j}, w.now)
	return events
}

// rest starts what was placed and ends what was told to stop until nothing moves.
func rest(t *testing.T, w *world, catchUp func()) {
	for round := 0; ; round++ {
		before := w.s.Seq()
		for _, j := range w.s.Jobs() {
			w.start(j.ID)
			for o, task := range j.Tasks {
				if task.State == model.TaskStopping {
					w.tell(model.TaskExited{Attempt: model.AttemptID{Job: j.ID, Gang: task.Gang, N: task.Attempt}, Task: int32(o), Exit: model.Exit{Code: 143}})
				}
			}
		}
		catchUp()
		if w.s.Seq() == before {
			return
		}
		if round > 60 {
			t.Fatal("the cluster does not come to rest")
		}
	}
}

// randomJob makes a job: full or partial, lazily preemptible or not.
func randomJob(r *rand.Rand, step int) *model.Job {
	prios := []cell.Priority{-1, 0, 10, 10, 10, 100}
	j := gangJob(fmt.Sprintf("j%d", step), []cell.VCName{"a", "b"}[r.IntN(2)], prios[r.IntN(len(prios))], 1+int32(r.IntN(3)), 1+int32(r.IntN(4)))
	j.LazyPreempt = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		j.Roles[0].Tasks += int32(1 + r.IntN(3))
		for o := int32(len(j.Gangs[0].Tasks)); o < j.Roles[0].Tasks; o++ {
			j.Gangs = append(j.Gangs, model.Gang{Name: fmt.Sprint(o), Tasks: []int32{o}, Extra: true})
		}
	}
	return j
}
