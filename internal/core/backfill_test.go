package core_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// work is one job of a played day: it is submitted, and runs so long once placed.
type work struct {
	at     model.Time
	vc     cell.VCName
	tasks  int32
	leaves int32
	limit  model.Duration // 0 is none
	run    model.Duration
	grace  model.Duration
	prio   cell.Priority
}

// day plays jobs on a State with exact ends, without an executor: what happens at
// one instant is one batch.
type day struct {
	t       *testing.T
	s       *core.State
	old     *core.State // as if there had been no restart
	now     model.Time
	jobs    []work
	started map[model.JobID]model.Time
	ends    map[model.JobID]model.Time
	booked  map[model.JobID][]model.Booked // as long as it waits
	log     []model.Record
	slow    model.Duration             // how long each start takes
	begins  map[model.JobID]model.Time // who is starting
}

func play(t *testing.T, c *model.Config, jobs []work) *day {
	t.Helper()
	return playSlow(t, c, jobs, 0)
}

// playSlow plays a day on which each start takes a while.
func playSlow(t *testing.T, c *model.Config, jobs []work, slow model.Duration) *day {
	t.Helper()
	d := &day{slow: slow, begins: map[model.JobID]model.Time{},
		t: t, s: core.New(policy.New), jobs: jobs, started: map[model.JobID]model.Time{}, ends: map[model.JobID]model.Time{},
		booked: map[model.JobID][]model.Booked{}}
	d.command(model.Reconfigure{Config: c})
	next := 0
	for d.decide(); next < len(jobs) || len(d.ends)+len(d.begins) > 0; d.decide() {
		if len(d.log)%7 == 0 {
			d.reload()
		}
		d.forward(next)
		d.beginAll()
		for id, end := range d.ends {
			if end == d.now {
				d.exit(id)
			}
		}
		for ; next < len(jobs) && jobs[next].at == d.now; next++ {
			d.submit(next)
		}
	}
	again := core.New(policy.New)
	for _, r := range d.log {
		again.Apply(r)
	}
	if again.Digest() != d.s.Digest() {
		t.Fatal("applied again, the events give another state")
	}
	return d
}

// reload goes on with what a restart would find.
func (d *day) reload() {
	d.t.Helper()
	s, err := core.Load(d.s.Save(), policy.New)
	if err != nil {
		d.t.Fatal(err)
	}
	d.old = d.s
	d.s = s
}

// compare checks that without the last restart the same would be decided.
func (d *day) compare(out []model.Record) {
	d.t.Helper()
	if d.old == nil {
		return
	}
	if was := d.old.Decide(d.now); !reflect.DeepEqual(was, out) {
		d.t.Fatalf("at %d it decides after a restart\n%+v\nand without it\n%+v", d.now, out, was)
	}
}

// forward goes to the next instant at which something happens.
func (d *day) forward(next int) {
	at := model.Time(1<<63 - 1)
	if next < len(d.jobs) {
		at = d.jobs[next].at
	}
	for _, end := range d.ends {
		at = min(at, end)
	}
	for _, begin := range d.begins {
		at = min(at, begin)
	}
	if w := d.s.Wake(); w > 0 {
		at = min(at, max(w, d.now))
	}
	d.now = at
}

func (d *day) apply(events []model.Event) {
	for _, e := range events {
		d.record(model.Record{Seq: d.s.Seq() + 1, Time: d.now, Event: e}, true)
	}
}

func (d *day) record(r model.Record, apply bool) {
	if apply {
		d.s.Apply(r)
		if d.old != nil {
			d.old.Apply(r)
		}
	}
	d.log = append(d.log, r)
	switch e := r.Event.(type) {
	case model.Booked:
		d.booked[e.Job] = append(d.booked[e.Job], e)
	case model.Placed:
		d.started[e.Attempt.Job] = r.Time
	}
}

func (d *day) command(c model.Command) {
	d.t.Helper()
	events, _, no := d.s.Check(c, d.now)
	if no != nil {
		d.t.Fatalf("refused: %s", no.Message)
	}
	d.apply(events)
}

func (d *day) submit(i int) {
	w := d.jobs[i]
	j := gangJob(fmt.Sprint("j", i+1), cmp.Or(w.vc, "a"), w.prio, w.tasks, w.leaves)
	j.TimeLimit, j.Grace = w.limit, w.grace
	d.command(model.Submit{Job: j})
}

func (d *day) exit(id model.JobID) {
	j, _ := d.s.Job(id)
	for o, t := range j.Tasks {
		d.apply(d.s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: id, Gang: t.Gang, N: t.Attempt}, Task: int32(o)}))
	}
	delete(d.ends, id)
}

// decide lets the core decide until it has nothing more to do at this instant.
func (d *day) decide() {
	d.t.Helper()
	for {
		out := d.s.Decide(d.now)
		d.compare(out)
		var placed []model.JobID
		for _, r := range out {
			d.record(r, false)
			if e, ok := r.Event.(model.Placed); ok {
				placed = append(placed, e.Attempt.Job)
			}
		}
		if err := d.s.Verify(); err != nil {
			d.t.Fatal(err)
		}
		for _, id := range placed {
			d.begins[id] = d.now.Add(d.slow)
		}
		d.beginAll()
		if len(out) == 0 {
			return
		}
	}
}

// beginAll begins whose start took long enough.
func (d *day) beginAll() {
	for id := range model.JobID(len(d.jobs) + 1) {
		if at, starts := d.begins[id]; starts && at == d.now {
			delete(d.begins, id)
			d.begin(id)
		}
	}
}

func (d *day) begin(id model.JobID) {
	j, _ := d.s.Job(id)
	for o, t := range j.Tasks {
		d.apply(d.s.Accept(model.TaskStarted{Attempt: model.AttemptID{Job: id, Gang: t.Gang, N: t.Attempt}, Task: int32(o)}))
	}
	d.ends[id] = d.now.Add(d.jobs[id-1].run)
}

// flat is one node of n leaves that one VC owns.
func flat(n int, mode string) *model.Config {
	node := cell.CellSpec{Type: "NODE", Address: "n0"}
	for l := range n {
		node.Children = append(node.Children, cell.CellSpec{Type: "G", Address: fmt.Sprint(l)})
	}
	return &model.Config{
		Cluster: cell.Spec{
			SKUs:   []cell.SKU{{Name: "G", GPU: 1, Device: cell.NVIDIA}},
			Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "NODE", Fanout: int32(n), IsNode: true}}}},
			Cells:  []cell.CellSpec{node},
			VCs:    []cell.VCSpec{{Name: "a", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: 1}}}},
		},
		VCs: []model.VCConfig{{Name: "a", Backfill: mode}},
	}
}

const minute = model.Time(model.Minute)

// starts runs jobs that need so many leaves of a flat cluster at once and returns
// when each started, in minutes.
func starts(t *testing.T, n int, mode string, jobs ...work) []int {
	t.Helper()
	d := play(t, flat(n, mode), jobs)
	var out []int
	for i := range jobs {
		out = append(out, int(d.started[model.JobID(i+1)]/minute))
	}
	return out
}

func need(leaves int32, minutes int) work {
	d := model.Duration(minutes) * model.Minute
	return work{tasks: 1, leaves: leaves, limit: d, run: d}
}

// The textbook's examples, by hand: 10 processors.
func TestBackfillByHand(t *testing.T) {
	// 1 runs on 6 until 10; 2 needs 8 and waits for it. 3 (4 for 10) ends in time;
	// 4 (2 for 20) uses what 2 leaves, but only when nobody else is there.
	jobs := []work{need(6, 10), need(8, 10), need(4, 10), need(2, 20)}
	for _, c := range []struct {
		mode string
		want []int
	}{{"", []int{0, 10, 20, 20}}, {"none", []int{0, 10, 20, 20}}, {"easy", []int{0, 10, 0, 10}}, {"conservative", []int{0, 10, 0, 10}}} {
		if got := starts(t, 10, c.mode, jobs...); !slices.Equal(got, c.want) {
			t.Errorf("backfill %q: starts %v, want %v", c.mode, got, c.want)
		}
	}
	// 1: 5 for 10. 2: all for 10, at 10. 3: 6 for 10, at 20. 4: 5 for 30, at 30. 5: 5
	// for 10, at once.
	jobs = []work{need(5, 10), need(10, 10), need(6, 10), need(5, 30), need(5, 10)}
	if got, want := starts(t, 10, "conservative", jobs...), []int{0, 10, 20, 30, 0}; !slices.Equal(got, want) {
		t.Errorf("conservative: starts %v, want %v", got, want)
	}
}

// Easy lets a long job pass the second that waits, conservative does not: that is
// all their difference.
func TestEasyDelaysTheSecond(t *testing.T) {
	// 10 leaves. 1: 4 until 10. 2: 4 until 20. 3 needs 8 and waits until 20. 4: 6 for
	// 10, could go at 10 and be gone in time. 5: 2 for 30. Easy lets it in at once,
	// since 3 can spare 2, and then 4 finds 4 and must wait for 3; conservative has
	// promised 4 its 6.
	jobs := []work{need(4, 10), need(4, 20), need(8, 10), need(6, 10), need(2, 30)}
	if got, want := starts(t, 10, "conservative", jobs...), []int{0, 0, 20, 10, 20}; !slices.Equal(got, want) {
		t.Errorf("conservative: starts %v, want %v", got, want)
	}
	if got, want := starts(t, 10, "easy", jobs...), []int{0, 0, 20, 30, 0}; !slices.Equal(got, want) {
		t.Errorf("easy: starts %v, want %v", got, want)
	}
}

// Without backfill a large gang waits, but nobody passes it; with it a stream of
// small jobs cannot hold it up either.
func TestLargeGangIsNotStarved(t *testing.T) {
	for _, mode := range []string{"none", "easy", "conservative"} {
		jobs := []work{need(4, 7), need(8, 10)}
		for i := range 60 {
			w := need(int32(1+i%3), 5+i%4)
			w.at = model.Time(i) * minute
			jobs = append(jobs, w)
		}
		slices.SortStableFunc(jobs, func(a, b work) int { return cmp.Compare(a.at, b.at) })
		d := play(t, flat(8, mode), jobs)
		if got := d.started[2]; got > 7*minute {
			t.Errorf("%s: the large gang started at %d", mode, got/minute)
		}
	}
}

// twinEasy is EASY backfill on a number of processors, after Lifka (1995).
func twinEasy(procs int32, jobs []work) []model.Time {
	start := make([]model.Time, len(jobs))
	for i := range start {
		start[i] = -1
	}
	type running struct {
		n      int32
		end    model.Time // really
		latest model.Time // as declared
	}
	var run []running
	var queue []int
	now, next, free := model.Time(0), 0, procs
	begin := func(i int) {
		start[i] = now
		free -= jobs[i].leaves
		run = append(run, running{jobs[i].leaves, now.Add(jobs[i].run), now.Add(jobs[i].limit)})
	}
	for {
		for ; next < len(jobs) && jobs[next].at <= now; next++ {
			queue = append(queue, next)
		}
		for len(queue) > 0 && jobs[queue[0]].leaves <= free {
			begin(queue[0])
			queue = queue[1:]
		}
		if len(queue) > 0 {
			slices.SortStableFunc(run, func(a, b running) int { return cmp.Compare(a.latest, b.latest) })
			then, shadow := free, model.Time(0)
			for _, r := range run {
				if then >= jobs[queue[0]].leaves && r.latest > shadow {
					break
				}
				then += r.n
				shadow = r.latest
			}
			extra := then - jobs[queue[0]].leaves
			rest := queue[:1:1]
			for _, i := range queue[1:] {
				switch inTime := now.Add(jobs[i].limit) <= shadow; {
				case jobs[i].leaves > free || !inTime && jobs[i].leaves > extra:
					rest = append(rest, i)
					continue
				case !inTime:
					extra -= jobs[i].leaves
				}
				begin(i)
			}
			queue = rest
		}
		soon := model.Time(1<<63 - 1)
		if next < len(jobs) {
			soon = jobs[next].at
		}
		for _, r := range run {
			soon = min(soon, r.end)
		}
		if next == len(jobs) && len(run) == 0 {
			return start
		}
		now = soon
		run = slices.DeleteFunc(run, func(r running) bool {
			if r.end <= now {
				free += r.n
				return true
			}
			return false
		})
	}
}

func randomDay(r *rand.Rand, n, most int32, exact bool) []work {
	jobs := make([]work, n)
	at := model.Time(0)
	for i := range jobs {
		limit := model.Duration(1+r.IntN(12)) * model.Minute
		run := limit
		if !exact {
			run = max(model.Minute, limit*model.Duration(1+r.IntN(4))/4)
		}
		jobs[i] = work{at: at, tasks: 1, leaves: 1 + r.Int32N(most), limit: limit, run: run}
		if r.IntN(3) == 0 {
			at += model.Time(r.IntN(6)) * minute
		}
	}
	return jobs
}

// On one flat cell easy backfill is what it is on counts, job by job.
func TestEasyAgreesWithTwin(t *testing.T) {
	for seed := range seeds.Of(t, 150) {
		r := rand.New(rand.NewPCG(seed, 7))
		procs := 4 + r.Int32N(9)
		jobs := randomDay(r, 20, procs, seed%2 == 0)
		d := play(t, flat(int(procs), "easy"), jobs)
		for i, want := range twinEasy(procs, jobs) {
			if got := d.started[model.JobID(i+1)]; got != want {
				t.Fatalf("seed %d: job %d of %d starts at %d, the twin says %d\n%s", seed, i+1, procs, got/minute, want/minute, table(jobs))
			}
		}
	}
}

func table(jobs []work) string {
	out := ""
	for i, w := range jobs {
		out += fmt.Sprintf("%d: at %d needs %d of %s for %d, runs %d\n", i+1, w.at/minute, w.tasks*w.leaves, w.vc, w.limit/model.Minute, w.run/model.Minute)
	}
	return out
}

// What is booked is journalled once while nothing changes: also where one that must leave stays for
// longer than its grace, and what is booked behind that begins later with each moment.
func TestBookingIsToldOnce(t *testing.T) {
	booked := 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 42))
		w := varied(t, r)
		for i := range 8 {
			w.runTo(w.now.Add(model.Duration(1+r.IntN(20))*model.Minute), nil)
			w.arrives(r, 40+i)
		}
		n, again := toldAgain(w.log)
		booked += n
		for _, r := range again {
			t.Errorf("seed %d: it is told again what is booked, while nothing happens: %s", seed, encoded(t, r))
		}
	}
	if t.Logf("%d bookings", booked); seeds.Modest() && booked < 150 {
		t.Error("too little was tried")
	}
}

// toldAgain counts the bookings of a history, and returns those of the same cells that were told
// within a minute in which nothing else happened. One more is no fault: that a victim stays for
// longer than its grace is no event.
func toldAgain(log []model.Record) (booked int, again []model.Record) {
	told, late := map[model.GangRef]model.Booked{}, map[model.GangRef]bool{}
	var at model.Time // when something else happened last
	for _, rec := range log {
		switch e := rec.Event.(type) {
		case model.Decided, model.Noted, model.Sized:
		case model.Booked:
			ref := model.GangRef{Job: e.Job, Gang: e.Gang}
			was, ok := told[ref]
			same := ok && e.Over == "" && slices.Equal(was.Leaves, e.Leaves) && slices.Equal(was.After, e.After)
			if booked++; same && rec.Time > at && rec.Time < at.Add(model.Minute) {
				if late[ref] {
					again = append(again, rec)
				}
				late[ref] = true
			}
			told[ref] = e
		default:
			at = rec.Time
			clear(told)
			clear(late)
		}
	}
	return booked, again
}

// The same in a history of its own: the victim of a promise does not leave, and others are booked
// behind the promise.
func TestBookingBehindLateVictim(t *testing.T) {
	cfg := cluster(2, map[cell.VCName]int32{"a": 1})
	cfg.VCs[0].Backfill = "conservative"
	w := newWorld(t, cfg)
	w.once = true
	w.start(w.submit(limited(gangJob("low", "a", 10, 1, 4), model.Hour)))
	w.submit(limited(gangJob("high", "a", 100, 1, 4), 10*model.Minute))
	w.do(model.Requeue{Job: 1, Hold: true}) // else it comes back before what is booked
	waits := w.submit(limited(gangJob("waits", "a", 10, 1, 2), 5*model.Minute))
	e, _ := w.s.Explain(waits)
	if e.Gangs[0].ReservedAt == 0 {
		t.Fatalf("it is not booked: %+v", e.Gangs[0])
	}
	w.now += model.Time(2 * model.Minute) // long after the grace
	w.submit(gangJob("other", "a", -1, 1, 1))
	n := len(w.log)
	for i := range 20 {
		w.now += model.Time(model.Second)
		w.submit(gangJob(fmt.Sprint("other", i), "a", -1, 1, 1))
	}
	told := 0
	for _, r := range w.log[n:] {
		if _, ok := r.Event.(model.Booked); ok {
			told++
		}
	}
	if told > 1 { // a minute may begin meanwhile
		t.Errorf("its booking is told %d times in 20 s", told)
	}
}
