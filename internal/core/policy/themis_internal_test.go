package policy

import (
	"iter"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// GPU time of an app of two jobs of two tasks that run ten minutes: a task 10, a job
// 20, the app 40 GPU-minutes; and its finish-time fairness, worked out by hand.
func TestThemisApp(t *testing.T) {
	p := &themis{lease: 20 * model.Minute}
	var a app
	hints := &model.Hints{App: "search", Duration: 10 * model.Minute}
	job := model.GangView{Leaves: 2, Hints: hints}
	for range 2 {
		a.add(p, &job)
	}
	if m := int64(model.Minute); a.work != 40*m || a.left != 40*m || a.most != 4 || a.longest != 10*m {
		t.Errorf("work %d, left %d GPU-minutes, at most %d GPUs, longest %d minutes", a.work/m, a.left/m, a.most, a.longest/m)
	}
	minutes := func(got int64) int64 { return got / int64(model.Minute) }
	for _, c := range []struct{ total, apps, want int64 }{
		{4, 1, 10},  // alone on all four GPUs
		{4, 2, 20},  // on two of them
		{16, 4, 10}, // on four of sixteen
		{16, 2, 10}, // it cannot use more than four
	} {
		if got := minutes(a.independentTime(c.total, c.apps)); got != c.want {
			t.Errorf("on 1/%d of %d GPUs it takes %d minutes, want %d", c.apps, c.total, got, c.want)
		}
	}
	now := model.Time(5 * model.Minute) // since it was submitted, all of which it waited
	for _, c := range []struct{ gpus, slow, want int64 }{
		{4, 1000, 15}, // 5 + 40/4
		{2, 1000, 25}, // 5 + 40/2
		{2, 1500, 35}, // 5 + 1.5 * 40/2
		{0, 1000, 35}, // 5 + a lease, then 40/4
	} {
		if got := minutes(a.sharedTime(p, now, c.gpus, c.slow)); got != c.want {
			t.Errorf("with %d GPUs, %d/1000 slower, it takes %d minutes, want %d", c.gpus, c.slow, got, c.want)
		}
	}
	m := &market{marketNow: marketNow{t: p, now: now, total: 4, count: 2}}
	if got := m.fairness(&a, 2, 1000); got != 1_250_000 { // 25 of 20 minutes
		t.Errorf("rho is %d ppm, want 1250000", got)
	}
	// One job stops early: half of the work goes with it.
	var b app
	b.add(p, &job)
	if got := minutes(b.independentTime(4, 2)); got != 10 {
		t.Errorf("one job takes %d minutes on two GPUs, want 10", got)
	}
}

// The cells of a gang are offered by the first decision after a multiple of its lease since
// its start, and by no other.
func TestThemisLeases(t *testing.T) {
	p := &themis{lease: 20 * model.Minute}
	start := model.Time(1000 * model.Second)
	for _, c := range []struct {
		before, after model.Duration
		want          bool
	}{
		{0, 0, false}, {0, 19, false}, {19, 20, true}, {0, 20, true}, {20, 20, false}, {20, 21, false}, {19, 27, true},
		{22, 39, false}, {39, 40, true}, {22, 50, true}, {40, 50, false}, {10, 95, true},
	} {
		m := market{marketNow: marketNow{t: p, before: start.Add(c.before * model.Minute), now: start.Add(c.after * model.Minute)}}
		if got := m.offered(start); got != c.want {
			t.Errorf("%d min after the start, when the last decision was at %d: %v, want %v", c.after, c.before, got, c.want)
		}
	}
	m := market{marketNow: marketNow{t: p, now: start}}
	if m.offered(0) {
		t.Error("a gang that has not started has no lease")
	}
	// Its lease ends 20 minutes past. Whoever began to wait later finds it in another lease.
	m = market{marketNow: marketNow{t: p, before: start, now: start.Add(30 * model.Minute)}}
	for waits, want := range map[model.Duration]bool{19: true, 20: true, 21: false, 30: false} {
		m.waited = start.Add(waits * model.Minute)
		if got := m.offered(start); got != want {
			t.Errorf("somebody waits since %d min after the start: %v, want %v", waits, got, want)
		}
	}
}

// Leases that end in one round are taken at its end: one that ends at 21 minutes past is
// offered once it is 25, and until then no look is due for it.
func TestThemisRounds(t *testing.T) {
	p := &themis{lease: 20 * model.Minute, round: 5 * model.Minute}
	start := model.Time(model.Minute)
	for _, c := range []struct {
		before, now model.Duration
		want        bool
	}{{19, 20, false}, {20, 21, false}, {21, 24, false}, {21, 25, true}, {24, 29, true}, {25, 25, false}, {25, 30, false}, {25, 44, false}, {44, 45, true}} {
		m := market{marketNow: marketNow{t: p, before: model.Time(c.before * model.Minute), now: model.Time(c.now * model.Minute)}}
		if got := m.offered(start); got != c.want {
			t.Errorf("at %d min, after a decision at %d: %v, want %v", c.now, c.before, got, c.want)
		}
	}
	for _, c := range []struct{ now, want model.Duration }{{2, 25}, {20, 25}, {21, 25}, {24, 25}, {25, 45}, {41, 45}, {45, 65}} {
		v := running{now: model.Time(c.now * model.Minute), key: p.Stand(&model.GangView{Started: start, Hints: &model.Hints{}, Gangs: 1})}
		if got := p.NextChange(v); got != model.Time(c.want*model.Minute) {
			t.Errorf("at %d min the next look is at %d s, want %d min", c.now, got/model.Time(model.Second), c.want)
		}
	}
}

// running is a view of one gang that runs.
type running struct {
	model.View
	now model.Time
	key model.Key
}

func (r running) Now() model.Time { return r.now }
func (r running) RunningByKey() iter.Seq[model.Ranked] {
	return func(yield func(model.Ranked) bool) { yield(model.Ranked{Key: r.key}) }
}

// Who may not be stopped keeps its cells when its lease ends; of a job with several gangs
// so many are offered as may be stopped.
func TestThemisYields(t *testing.T) {
	p := &themis{lease: 20 * model.Minute}
	now := model.Time(40 * model.Minute)
	v := yielding{running: running{now: now}, left: map[model.JobID]int32{1: 1, 2: 0, 3: 2}}
	m := &market{marketNow: marketNow{t: p, v: v, now: now, before: now - 1}}
	for _, c := range []struct {
		job  model.JobID
		gang int32
		rank int64
		ran  model.Duration
		want bool
	}{
		{1, 0, 0, 20, true}, {1, 0, 0, 30, false}, {2, 0, 0, 20, false},
		{3, 0, 1, 20, true}, {3, 1, 1, 30, false}, {3, 2, 1, 20, true}, {3, 3, 1, 20, false},
	} {
		r := model.Ranked{Ref: model.GangRef{Job: c.job, Gang: c.gang}, Key: model.Key{Rank: c.rank, Then: int64(now.Add(-c.ran * model.Minute))}}
		if got := m.ended(&r); got != c.want {
			t.Errorf("gang %d of job %d after %d minutes: %v", c.gang, c.job, c.ran, got)
		}
	}
}

// yielding is a view of jobs that may be stopped so often.
type yielding struct {
	running
	left map[model.JobID]int32
}

func (y yielding) Yields(r model.GangRef) int32 { return y.left[r.Job] }

// Without a declared run time a gang counts with twice what it ran; one that outran
// its declaration is about to end.
func TestThemisLength(t *testing.T) {
	p := &themis{lease: 20 * model.Minute}
	for _, c := range []struct{ declared, ran, want model.Duration }{
		{0, 0, 20 * model.Minute}, {0, model.Hour, 2 * model.Hour}, {model.Hour, model.Minute, model.Hour}, {model.Minute, model.Hour, model.Hour + 1},
	} {
		g := model.GangView{Ran: c.ran, Hints: &model.Hints{Duration: c.declared}}
		if got := p.length(&g); got != int64(c.want) {
			t.Errorf("%d declared, %d ran: %d, want %d", c.declared, c.ran, got, c.want)
		}
	}
}

// Smaller gangs insist longer, each level in its turn.
func TestPhillyLevels(t *testing.T) {
	p := &philly{patience: [3]model.Duration{0, 60 * model.Second, 30 * model.Second}, small: 8}
	for _, c := range []struct {
		leaves int32
		waited model.Duration
		want   model.Within
		until  model.Duration
	}{
		{8, 0, model.OneNode, 60}, {8, 60, model.OneRack, 90}, {8, 90, model.Anywhere, 0}, {16, 59, model.OneNode, 60},
		{4, 60, model.OneNode, 120}, {4, 120, model.OneRack, 180}, {2, 170, model.OneNode, 180}, {1, 0, model.Anywhere, 0},
	} {
		since := model.Time(5 * model.Hour)
		g := model.GangView{Leaves: c.leaves, Since: since}
		want := model.Time(0)
		if c.until > 0 {
			want = since.Add(c.until * model.Second)
		}
		if w, until := p.within(&g, since.Add(c.waited*model.Second)); w != c.want || until != want {
			t.Errorf("%d leaves after %d s: %d until %d, want %d until %d", c.leaves, c.waited, w, until-since, c.want, want-since)
		}
	}
	p.patience[1] = -1
	g := model.GangView{Leaves: 4}
	if w, until := p.within(&g, model.Time(10_000*model.Hour)); w != model.OneNode || until != 0 {
		t.Errorf("never: %d until %d", w, until)
	}
}
