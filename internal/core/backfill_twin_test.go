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

// slots is conservative backfill drawn on paper: a line for each processor, what
// is drawn on it is taken from one time to another, and nothing overlaps.
type slots struct {
	now    model.Time
	jobs   []work
	start  []model.Time
	lines  [][]stretch // by processor
	queue  []int
	booked map[int]model.Time
}

// stretch is a job on one processor's line.
type stretch struct {
	job      int
	from, to model.Time
	booked   bool
}

func twinConservative(procs int32, jobs []work) []model.Time {
	p := &slots{jobs: jobs, start: make([]model.Time, len(jobs)), lines: make([][]stretch, procs), booked: map[int]model.Time{}}
	for next := 0; ; {
		for ; next < len(jobs) && jobs[next].at == p.now; next++ {
			p.queue = append(p.queue, next)
		}
		for p.round() {
		}
		soon := model.Time(1<<63 - 1)
		if next < len(jobs) {
			soon = jobs[next].at
		}
		p.each(func(_ int, s stretch) {
			if !s.booked && s.to > p.now {
				soon = min(soon, s.to)
			}
		})
		if soon == 1<<63-1 {
			return p.start
		}
		p.now = soon
	}
}

func (p *slots) each(f func(proc int, s stretch)) {
	for i, line := range p.lines {
		for _, s := range line {
			f(i, s)
		}
	}
}

// round goes through the queue once; it reports whether anything changed.
func (p *slots) round() bool {
	changed := p.sooner()
	for _, job := range slices.Clone(p.queue) {
		_, has := p.booked[job]
		if p.draw(job, p.now, false) {
			p.start[job] = p.now
			p.queue = slices.DeleteFunc(p.queue, func(j int) bool { return j == job })
			delete(p.booked, job)
			changed = true
			continue
		}
		for _, t := range p.instants(job) {
			if !has && p.draw(job, t, true) {
				p.booked[job] = t
				changed = true
				break
			}
		}
	}
	return changed
}

// sooner moves the first booking forward.
func (p *slots) sooner() bool {
	first := -1
	for _, job := range slices.Sorted(maps.Keys(p.booked)) {
		if p.booked[job] > p.now {
			first = job
			break
		}
	}
	if first < 0 {
		return false
	}
	times := p.instants(first)
	for _, t := range times[:min(len(times), 8)] {
		if t < p.booked[first] && p.draw(first, t, true) {
			p.booked[first] = t
			return true
		}
	}
	return false
}

// instants are when something that is drawn for others ends.
func (p *slots) instants(job int) []model.Time {
	var out []model.Time
	p.each(func(_ int, s stretch) {
		if s.job != job && s.to > p.now {
			out = append(out, s.to)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// draw puts a job on lines that are empty for all its time, if there are enough.
// For later it takes those that are in use longest now, for now those that have
// something drawn for later; then the first.
func (p *slots) draw(job int, from model.Time, booked bool) bool {
	w := p.jobs[job]
	to := from.Add(w.limit)
	var procs []int
	score := make([]model.Time, len(p.lines))
	for i, line := range p.lines {
		empty := true
		for _, s := range line {
			switch {
			case s.job == job:
			case s.from < to && s.to > from:
				empty = false
			case booked && !s.booked && s.to > p.now:
				score[i] = s.to
			case !booked && s.booked:
				score[i] = 1
			}
		}
		if empty {
			procs = append(procs, i)
		}
	}
	if len(procs) < int(w.leaves) {
		return false
	}
	for i := range p.lines {
		p.lines[i] = slices.DeleteFunc(p.lines[i], func(s stretch) bool { return s.job == job })
	}
	slices.SortStableFunc(procs, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	for _, i := range procs[:w.leaves] {
		p.lines[i] = append(p.lines[i], stretch{job, from, to, booked})
	}
	return true
}

// On one flat cell conservative backfill is what it is on paper, job by job.
func TestConservativeAgreesWithTwin(t *testing.T) {
	for seed := range seeds.Of(t, 150) {
		r := rand.New(rand.NewPCG(seed, 8))
		procs := 3 + r.Int32N(8)
		jobs := randomDay(r, 20, procs, true)
		d := play(t, flat(int(procs), "conservative"), jobs)
		for i, want := range twinConservative(procs, jobs) {
			if got := d.started[model.JobID(i+1)]; got != want {
				t.Fatalf("seed %d: job %d on %d processors starts at %d, the twin says %d\n%s", seed, i+1, procs, got/minute, want/minute, table(jobs))
			}
		}
	}
}

// promises checks that everybody who was given a time started by the first one, or as
// much later as slow starts make it.
func (d *day) promises() error {
	late := d.slow * model.Duration(len(d.jobs))
	for id := range model.JobID(len(d.jobs) + 1) {
		said := d.booked[id]
		if len(said) == 0 || said[0].Start == 0 {
			continue
		}
		if got := d.started[id]; got > said[0].Start.Add(late) {
			return fmt.Errorf("job %d started at %d s and was first booked for %d s: %+v", id, got/1e6, said[0].Start/1e6, said)
		}
	}
	return nil
}

// mixedDay is a day on racks of nodes: gangs of one to eight leaves in tasks of one
// to four, of two VCs, with graces.
func mixedDay(r *rand.Rand, n int, early bool) []work {
	jobs := make([]work, n)
	at := model.Time(0)
	for i := range jobs {
		w := work{at: at, vc: "a", tasks: 1, leaves: []int32{1, 1, 2, 3, 4}[r.IntN(5)]}
		if r.IntN(4) == 0 {
			w.vc = "b"
		}
		if w.leaves == 4 || r.IntN(3) == 0 {
			w.tasks = 1 + r.Int32N(3)
		}
		w.grace = model.Duration(r.IntN(3)) * 10 * model.Second
		w.limit = model.Duration(1+r.IntN(12)) * model.Minute
		w.run = w.limit + w.grace
		if early {
			w.run = max(model.Second, w.limit*model.Duration(r.IntN(5))/4)
		}
		jobs[i] = w
		if r.IntN(3) == 0 {
			at += model.Time(r.IntN(5)) * minute
		}
	}
	return jobs
}

// Whoever is booked starts by the first time he was told, however early or late
// the others end within their limits.
func TestFirstPromiseIsKept(t *testing.T) {
	for seed := range seeds.Of(t, 300) {
		keepsPromises(t, seed, 0, smooth)
	}
}

// Who waits behind a slow start is as much later, and nobody jumps the queue for it; also
// where a start takes longer than the run.
func TestSlowStartsDelayAsMuch(t *testing.T) {
	for seed := range seeds.Of(t, 300) {
		keepsPromises(t, seed, []model.Duration{model.Second, 20 * model.Second, 5 * model.Minute}[seed%3], smooth)
	}
}

// Days on which somebody started elsewhere than where he was booked, and later.
func TestFirstPromiseIsKeptElsewhere(t *testing.T) {
	keepsPromises(t, 310196, 0, smooth)
	keepsPromises(t, 310209, 0, smooth)
}

// The same where each start takes a second and some jobs declare no limit, or leave a little
// later than they were told: whoever was given a time starts within seconds of it, and is not
// passed by those who came later.
func TestPromisesOnRoughDays(t *testing.T) {
	for seed := range seeds.Of(t, 300) {
		keepsPromises(t, seed, model.Second, []roughness{endless, overdue}[seed/2%2])
	}
}

// roughness is what goes otherwise on a day than limits say.
type roughness int

const (
	smooth  roughness = iota
	endless           // some declare no limit
	overdue           // some leave up to two seconds after their grace
)

func (how roughness) apply(r *rand.Rand, jobs []work) {
	for i := range jobs {
		switch w := &jobs[i]; {
		case how == endless && r.IntN(5) == 0:
			w.limit = 0
		case how == overdue && r.IntN(3) == 0:
			w.run = w.limit + w.grace + model.Duration(1+r.IntN(20))*model.Second/10
		}
	}
}

// Gangs that pass one for which cells are kept must be gone when it was told to begin: a stream
// of them, each of which takes its time to start, makes it later by one such start and no more.
func TestNobodyIsPassedForEver(t *testing.T) {
	for _, mode := range []string{"easy", "conservative"} {
		for _, slow := range []model.Duration{5 * model.Second, 90 * model.Second} {
			jobs := []work{need(2, 30), need(16, 10)}
			for i := range 600 {
				w := need(1, 2)
				w.at = minute + model.Time(i)*model.Time(10*model.Second)
				jobs = append(jobs, w)
			}
			d := playSlow(t, flat(16, mode), jobs, slow)
			if told, got := 30*minute, d.started[2]; got == 0 || got > told.Add(2*slow) {
				t.Errorf("%s, starts of %d s: who was told %d s started at %d s", mode, slow/model.Second, told/1e6, got/1e6)
			}
		}
	}
}

// keepsPromises plays a day and looks for a promise that was broken.
func keepsPromises(t *testing.T, seed uint64, slow model.Duration, how roughness) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 9))
	mode := []string{"easy", "conservative"}[seed%2]
	cfg := cluster(4+2*r.IntN(2), map[cell.VCName]int32{"a": 2 + r.Int32N(2), "b": 1})
	if seed%5 == 0 { // a is part of a larger VC
		cfg.Cluster.VCs = append(cfg.Cluster.VCs, cell.VCSpec{Name: "c", Quota: cfg.Cluster.VCs[0].Quota})
		cfg.Cluster.VCs[0].Parent = "c"
		cfg.VCs = append(cfg.VCs, model.VCConfig{Name: "c"})
	}
	for i := range cfg.VCs {
		cfg.VCs[i].Backfill = mode
	}
	jobs := mixedDay(r, 30, seed%4 > 1)
	fits := map[cell.VCName]int32{"a": 2, "b": 1}
	for i := range jobs {
		jobs[i].tasks = min(jobs[i].tasks, fits[jobs[i].vc]*4/max(jobs[i].leaves, 1))
		if jobs[i].leaves == 3 {
			jobs[i].tasks = min(jobs[i].tasks, fits[jobs[i].vc])
		}
	}
	how.apply(r, jobs)
	d := playSlow(t, cfg, jobs, slow)
	if len(d.started) != len(jobs) {
		t.Fatalf("seed %d: %d of %d jobs started", seed, len(d.started), len(jobs))
	}
	if err := d.promises(); err != nil {
		t.Errorf("seed %d (%s): %v\n%s", seed, mode, err, table(jobs))
	}
}
