package policy_test

import (
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// profiled adds a gang of some user.
func (b *board) profiled(user model.Subject, leaves int32, run model.Duration, deadlines ...model.Duration) {
	b.dated(leaves, run, deadlines...)
	b.waiting[len(b.waiting)-1].User = user
}

// A pool of one node of 8. ann's second job waits for her first, since she has at most 4 GPUs
// of it; cid's waits for room. 4 GPUs are measured for 120 s: in 60 s one made 10 of 1000
// steps, so it takes 6000 s, not the 60 minutes that it declares. With 5 times 3 starts of 30 s
// and a tenth more that is 7095 s, 6 leases; 5 are left after the one that runs. bob's 60
// minutes are 4257 s, 4 leases.
func TestProfiler(t *testing.T) {
	p := make1(t, "chronus", "profiler=1")
	b := chronusBoard(16)
	b.profiled("ann", 4, 60*minutes, 6*lease)
	b.profiled("ann", 4, 10*minutes)
	b.profiled("bob", 4, 60*minutes, 6*lease)
	b.profiled("cid", 2, 60*minutes)
	is(t, "begin", b.look(p), "1!, (1 profiles gpu), 3!, (3 profiles gpu)")
	is(t, "cost", string(b.notes[0]), "0 833400: 0 guaranteed, 0 hold 0 GPUs, rounding wastes 0; profiler 2 started, 0 measured, 0 GPU-seconds")
	if at := p.(model.Timed).NextChange(b); at != b.now+model.Time(120*model.Second) {
		t.Errorf("the next look is at %d", at)
	}
	b.running[0].Progress = &model.TaskProgress{At: b.now + model.Time(110*model.Second), StepAt: b.now + model.Time(60*model.Second), Step: 10, Total: 1000}
	b.now += model.Time(120 * model.Second)
	for i := range b.running {
		b.running[i].Ran = 120 * model.Second
	}
	is(t, "end", b.look(p), "(1 measured 6000s; demoted), (3 measured 0s; promised 0 gpu), 2!, (2 profiles gpu), 4!, (4 profiles gpu)")
}

// A job that turns out to take at most five minutes stays in the pool until then; one
// that ends there was started and not measured.
func TestProfilerShort(t *testing.T) {
	p := make1(t, "chronus", "profiler=1")
	b := chronusBoard(16)
	b.profiled("ann", 1, 60*minutes)
	is(t, "begin", b.look(p), "1!, (1 profiles gpu)")
	b.free = 0
	b.profiled("bob", 1, 60*minutes) // somebody waits
	b.running[0].Progress = &model.TaskProgress{At: b.now + model.Time(10*model.Second), StepAt: b.now + model.Time(10*model.Second), Step: 1, Total: 20}
	b.now += model.Time(30 * model.Second)
	is(t, "after 30 s", b.look(p), "2<0")
	if at := p.(model.Timed).NextChange(b); at != b.running[0].Started+model.Time(300*model.Second) {
		t.Errorf("the next look is %d s after its start", (at-b.running[0].Started)/model.Time(model.Second))
	}
	b.now += model.Time(270 * model.Second)
	b.running[0].Ran = 300 * model.Second
	is(t, "after 5 min", b.look(p), "(1 measured 200s; ), 2<1")
}

// Who is larger than the pool is not measured. Best effort makes room for profiles, at any
// time; the pool is no part of what plans give away.
func TestProfilerRoom(t *testing.T) {
	p := make1(t, "chronus", "profiler=1")
	b := chronusBoard(16)
	b.profiled("ann", 16, 60*minutes)
	is(t, "too large", b.look(p), "(1 measured 0s; ), 1!")
	b.now += model.Time(minutes)
	b.profiled("bob", 8, 60*minutes, 20*lease)
	is(t, "it makes room", b.look(p), "2<1")
	b = chronusBoard(16)
	b.profiled("ann", 16, 60*minutes, 20*lease) // needs 16 of the 8 that plans have
	is(t, "not guaranteed", b.look(p), "(1 measured 0s; ), (1 measured 0s; demoted), 1!")
}

// gangOf adds one more gang to the job that came last.
func (b *board) gangOf(leaves int32) {
	first := b.waiting[len(b.waiting)-1]
	first.Ref.Gang, first.Leaves, first.Members = first.Ref.Gang+1, leaves, []cell.Member{{Tasks: 1, Leaves: leaves}}
	b.waiting = append(b.waiting, first)
}

// What is said of a job holds for all of its gangs: where the first is too large for the
// pool, the second is not measured either; and a job is started and measured once.
func TestProfilerGangs(t *testing.T) {
	p := make1(t, "chronus", "profiler=1")
	b := chronusBoard(16)
	b.profiled("ann", 16, 60*minutes)
	b.gangOf(1)
	is(t, "too large", b.look(p), "(1 measured 0s; ), 1!")
	b = chronusBoard(16)
	b.profiled("ann", 1, 60*minutes)
	b.gangOf(1)
	is(t, "begin", b.look(p), "1!, (1 profiles gpu), 1!")
	b.now += model.Time(30 * model.Second)
	for i := range b.running {
		b.running[i].Ran = 30 * model.Second
	}
	b.profiled("bob", 1, 60*minutes) // somebody waits
	is(t, "end", b.look(p), "(1 measured 0s; ), 2!, (2 profiles gpu)")
	is(t, "cost", string(b.notes[0]), "0 833400: 0 guaranteed, 0 hold 0 GPUs, rounding wastes 0; profiler 2 started, 1 measured, 30 GPU-seconds")
}
