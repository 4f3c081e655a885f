package policy

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/perf"
	"github.com/combsched/comb/internal/sched"
)

// hypersched is for experiments: sets of jobs, their trials, of which the best one counts at
// one deadline (Liaw et al., HyperSched, SoCC'19). The jobs of one app are an experiment, a
// job without one is alone in its own; its deadline is the first of its trials' last ones.
// A trial is as good as the loss that it reported last.
//
// Trials start with their least size. They are compared on rungs: where a trial has made
// one part in rf^k of its steps, its loss is recorded, and if it is not among the best
// one part in rf of those recorded there it is cut: it makes room for others, and goes on
// when it is among them after all. GPUs that no trial is to start on go to those that
// run, the best first. As the deadline nears no trial is started any more, so that they
// all go to the best.
//
// What it remembers of a trial are its losses at the rungs, and of the VC those of
// trials that ended (hypersched_record.go).
type hypersched struct {
	// rf=4: one part in so many goes on from a rung; the paper's reduction factor.
	rf int64
	// rungs=3: so many, at 1/rf, 1/rf^2 and so on of a trial's steps. (The paper names the
	// steps of the first instead.)
	rungs int64
	// share=uniform deals free GPUs out in turn, the best trial first; top gives the best
	// all that it can use. Both are the authors'.
	share string
	// gain=1.1 is how many times more a trial must get done until the deadline to be
	// resized; in thousandths, the authors' value.
	gain int64
	// restart=30 seconds that a resize costs (ours: the authors measure it).
	restart sched.Duration
	// round=60 seconds: how often trials that run are compared, and how long one runs
	// before it may be paused (ours: the authors compare at each report).
	round sched.Duration
	// end=false; true stops trials that report after the deadline, as the authors do.
	end bool
}

func newHypersched(a *args) sched.Policy {
	return &hypersched{
		rf:      a.number("rf", 4, 2, 64),
		rungs:   a.number("rungs", 3, 0, 8),
		share:   a.choice("share", "uniform", "top"),
		gain:    a.thousandths("gain", 1100, 1000, 10_000),
		restart: a.seconds("restart", 30, 0, 86_400),
		round:   a.seconds("round", 60, 1, 86_400),
		end:     a.flag("end", false),
	}
}

// trial is one gang of an experiment.
type trial struct {
	g      sched.GangView
	runs   bool
	loss   int64 // that it reported last; the largest before
	at     []int64
	cut    bool
	target int32 // members that it is to have; 0 is that it is not to run
}

// experiment is a set of trials.
type experiment struct {
	deadline sched.Time // 0 is none
	order    int64      // of the first trial
	trials   []*trial
	first    []*trial // the same, those that run first
	exploit  bool     // it starts no more of them
}

// least is the smallest size of a trial, of one size the only one.
func (t *trial) least() int32 { return max(t.g.Sizes.Least, 1) }

// gpus is how many a trial has with so many members.
func (t *trial) gpus(members int32) int64 {
	if t.g.Sizes.Most == 0 {
		return int64(t.g.Leaves)
	}
	return int64(gpusOf(&t.g, members))
}

// holds is how many it holds.
func (t *trial) holds() int64 { return t.gpus(max(t.g.Sizes.Live, t.least())) }

// speed is how fast it is with so many members; without a measure it grows with them.
func (t *trial) speed(members int32) int64 {
	if rate := perf.On(t.g.Speeds, declaredOn(&t.g), int32(t.gpus(members))); rate > 0 {
		return rate
	}
	return t.gpus(members)
}

// left is the time until an experiment's deadline, not below 0; a long time where it has
// none.
func (e *experiment) left(now sched.Time) int64 {
	if e.deadline == 0 {
		return maxLease * int64(sched.Second)
	}
	return max(int64(e.deadline-now), 0)
}

// urgency orders experiments: the first deadline first, then those without one, then those
// whose deadline has passed.
func (e *experiment) urgency(now sched.Time) int64 {
	switch {
	case e.deadline == 0:
		return math.MaxInt64 - 1
	case e.deadline <= now:
		return math.MaxInt64
	}
	return int64(e.deadline)
}

// study is what a look sees: all experiments, the first deadline first, with what is to
// become of their trials.
type study struct {
	p      *hypersched
	v      sched.View
	all    []*experiment
	apps   map[string]*experiment
	budget int64 // GPUs that nobody was given yet
	ready  int64 // of all, those that are free or about to be
	mem    *searches
}

// newStudy takes the memory of the study before, which close gives back.
func (p *hypersched) newStudy(v sched.View) *study {
	s := &study{p: p, v: v, apps: map[string]*experiment{}}
	scratch := v.Scratch()
	if s.mem, _ = (*scratch).(*searches); s.mem == nil {
		s.mem = &searches{}
	}
	*scratch, s.mem.trials = nil, s.mem.trials[:0] // while it is in use
	return s
}

func (s *study) close() { *s.v.Scratch() = s.mem }

// study reads the view and plans.
func (p *hypersched) study(v sched.View) *study {
	s := p.newStudy(v)
	s.ready = v.Guaranteed() - v.Bad()
	for _, n := range v.Holders(sched.ByUser) {
		s.ready -= n
	}
	s.budget = s.ready
	for g := range v.Running() {
		t := s.add(&g, true)
		s.budget += t.holds()
	}
	for g := range v.Waiting() {
		if t := s.add(&g, false); v.Placed(g.Ref) { // it was promised so many
			s.budget += t.gpus(t.least())
		}
	}
	past := s.mem.ended(v.Note(0))
	for _, e := range s.all {
		e.judge(p, past[e.trials[0].g.Hints.App], v.Now())
	}
	slices.SortFunc(s.all, func(a, b *experiment) int {
		return cmp.Or(cmp.Compare(a.urgency(v.Now()), b.urgency(v.Now())), cmp.Compare(a.order, b.order))
	})
	s.plan()
	return s
}

// add adds a trial to its experiment.
func (s *study) add(g *sched.GangView, runs bool) *trial {
	t := s.mem.trial()
	*t = trial{g: *g, runs: runs, loss: noLoss, at: readRungs(g.Note)}
	if g.Progress != nil && g.Progress.Loss != "" {
		t.loss = billionths(g.Progress.Loss)
	}
	e := s.apps[g.Hints.App]
	if e == nil || g.Hints.App == "" {
		e = &experiment{order: g.Order}
		s.apps[g.Hints.App] = e
		s.all = append(s.all, e)
	}
	e.order = min(e.order, g.Order)
	if d, ok := lastDeadline(g); ok && (e.deadline == 0 || d < e.deadline) {
		e.deadline = d
	}
	e.trials = append(e.trials, t)
	return t
}

// judge says who is cut, and whether the experiment starts no more trials.
func (e *experiment) judge(p *hypersched, ended [][]int64, now sched.Time) {
	slices.SortFunc(e.trials, func(a, b *trial) int {
		return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.g.Order, b.g.Order), cmp.Compare(a.g.Ref.Gang, b.g.Ref.Gang))
	})
	var longest int64
	var lasts []int64 // of whole trials
	for _, t := range e.trials {
		t.cut = p.cut(e, ended, t)
		longest = max(longest, int64(t.g.Ran))
		if d := cmp.Or(shows(&t.g), int64(t.g.Hints.Duration)); d > 0 {
			lasts = append(lasts, d)
		}
	}
	until := times(longest, int32(p.rf))
	if len(lasts) > 0 {
		slices.Sort(lasts)
		until = min(until, lasts[len(lasts)/2])
	}
	e.exploit = e.deadline > 0 && e.left(now) < until
	e.first = e.firstRunning()
}

// cut reports whether a trial is not among the best of the last rung that it reached.
func (p *hypersched) cut(e *experiment, ended [][]int64, t *trial) bool {
	rung := len(t.at) - 1
	if rung < 0 {
		return false
	}
	n, better := 0, 0
	see := func(at []int64) {
		if len(at) > rung {
			n++
			if at[rung] < t.at[rung] {
				better++
			}
		}
	}
	for _, at := range ended {
		see(at)
	}
	for _, o := range e.trials {
		see(o.at)
	}
	return int64(better) >= (int64(n)+p.rf-1)/p.rf
}

// plan gives out the GPUs: the least size to who is not cut, what is left to these as far as
// it serves them, and the rest to who is cut.
func (s *study) plan() {
	for _, runs := range [2]bool{true, false} { // an experiment stops no trial of another
		for _, e := range s.all {
			for _, t := range e.first {
				if !t.cut && t.runs == runs && (runs || !e.exploit) {
					s.give(t)
				}
			}
		}
	}
	for _, e := range s.all {
		s.share(e)
	}
	for _, e := range s.all {
		for _, t := range e.first {
			if t.target == 0 && (t.runs || s.may(e, t)) {
				s.give(t)
			}
		}
	}
}

// firstRunning are the trials: those that run, then those that wait and were farther, and
// then by loss and submission.
func (e *experiment) firstRunning() []*trial {
	if len(e.trials) == 1 {
		return e.trials
	}
	out := slices.Clone(e.trials)
	slices.SortStableFunc(out, func(a, b *trial) int {
		if a.runs != b.runs {
			if a.runs {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(b.at), len(a.at))
	})
	return out
}

// give lets a trial run with its least size, if there is room.
func (s *study) give(t *trial) {
	if n := t.gpus(t.least()); n <= s.budget && (t.runs || !t.g.Delayed) {
		t.target = t.least()
		s.budget -= n
	}
}

// share gives GPUs to the trials of an experiment that are to run, the best first.
func (s *study) share(e *experiment) {
	for again := true; again; {
		again = false
		for _, t := range e.trials {
			for t.target > 0 && t.target < t.g.Sizes.Most && int64(t.g.Sizes.Each) <= s.budget && t.speed(t.target+1) > t.speed(t.target) {
				t.target++
				s.budget -= int64(t.g.Sizes.Each)
				if again = true; s.p.share == "uniform" {
					break
				}
			}
		}
	}
	left := e.left(s.v.Now())
	for _, t := range e.trials {
		now := t.g.Sizes.Now
		if !t.runs || t.target <= now || s.p.pays(t, left) {
			continue
		}
		s.budget += t.gpus(t.target) - t.gpus(max(now, t.least()))
		t.target = max(now, t.least())
	}
}

// pays reports whether a trial that runs gets so much more done by another size.
func (p *hypersched) pays(t *trial, left int64) bool {
	after := scale(max(left-int64(p.restart), 0), t.speed(t.target), max(t.speed(t.g.Sizes.Now), 1))
	return after > scale(left, p.gain, 1000)
}

// size is what a trial is wished; a gang of one size is wished none.
func (t *trial) size() int32 {
	if t.g.Sizes.Most == 0 {
		return 0
	}
	return t.target
}

// Rank implements sched.Policy: who is to start, and then who fits though it is not, where
// the others found no place.
func (p *hypersched) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		s := p.study(v)
		defer s.close()
		missed := false
		for _, e := range s.all {
			for _, t := range e.first {
				if t.runs || t.target == 0 { // what a trial is to grow by is not for who is cut, either
					missed = missed || t.target > 0 && t.gpus(t.target) > t.holds()
					continue
				}
				if !yield(sched.Wish{Gang: t.g.Ref, Size: t.size()}) {
					return
				}
				missed = missed || !v.Placed(t.g.Ref)
			}
		}
		for _, e := range s.all {
			for _, t := range e.first {
				again := t.cut && (missed || v.Now() < t.g.Since.Add(p.round))
				if t.runs || t.target > 0 || again || !s.may(e, t) || t.gpus(t.least()) > v.Free() {
					continue
				}
				if t.target = t.least(); !yield(sched.Wish{Gang: t.g.Ref, Size: t.size()}) {
					return
				}
			}
		}
	}
}

// may reports whether a trial that waits may start at all.
func (s *study) may(e *experiment, t *trial) bool {
	busy := slices.ContainsFunc(e.trials, func(o *trial) bool { return o.target > 0 })
	return !e.exploit || !busy || e.left(s.v.Now()) == 0
}

// Tune implements sched.Tuner: trials grow, and who is to have less makes room as far as
// somebody is to have more.
func (p *hypersched) Tune(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		s := p.study(v)
		defer s.close()
		needed := -s.ready
		for t := range s.each {
			switch more := t.gpus(t.target) - t.holds(); {
			case t.target == 0:
			case !t.runs:
				needed += t.gpus(t.target)
			case more > 0:
				if needed += more; !yield(sched.Wish{Gang: t.g.Ref, Size: t.size()}) {
					return
				}
			}
		}
		for t := range s.worst {
			w, frees := p.less(t, v.Now())
			if needed <= 0 || frees == 0 {
				continue
			}
			if needed -= frees; !yield(w) {
				return
			}
		}
	}
}

// each yields all trials.
func (s *study) each(yield func(*trial) bool) {
	for _, e := range s.all {
		for _, t := range e.trials {
			if !yield(t) {
				return
			}
		}
	}
}

// worst yields all trials, the last of the last experiment first.
func (s *study) worst(yield func(*trial) bool) {
	for _, e := range slices.Backward(s.all) {
		for _, t := range slices.Backward(e.trials) {
			if !yield(t) {
				return
			}
		}
	}
}

// less is the wish by which a trial that runs comes to what it is to have, and how many
// GPUs that frees: 0 where it is not to have less, would lose its work, or is to stop and
// has not run for a round yet.
func (p *hypersched) less(t *trial, now sched.Time) (sched.Wish, int64) {
	switch {
	case !t.runs || t.target == 0 && !t.g.Hints.Checkpoint:
		return sched.Wish{}, 0
	case t.target == 0 && (t.g.Started == 0 || t.g.Started.Add(p.round) > now):
		return sched.Wish{}, 0
	case t.target == 0:
		return sched.Wish{Gang: t.g.Ref, Size: sched.Pause}, t.holds()
	}
	return sched.Wish{Gang: t.g.Ref, Size: t.size()}, max(t.holds()-t.gpus(t.target), 0)
}

// NextChange implements sched.Timed: trials that run are compared once in a round.
func (p *hypersched) NextChange(v sched.View) sched.Time {
	for range v.Running() {
		return (v.Now()/sched.Time(p.round) + 1) * sched.Time(p.round)
	}
	return 0
}

// Paced implements sched.Paced.
func (*hypersched) Paced() {}

// Restrains implements sched.Restrainer.
func (p *hypersched) Restrains(v sched.View, ref sched.GangRef) (string, sched.Time) {
	if !p.judged(v, ref) {
		return "", 0
	}
	s := p.study(v)
	defer s.close()
	for _, e := range s.all {
		for _, t := range e.trials {
			switch {
			case t.g.Ref != ref || t.target > 0:
			case t.cut:
				return fmt.Sprintf("its loss of %s at rung %d is not among the best of its experiment: it goes on when it is, or when others leave GPUs", amount(t.at[len(t.at)-1]), len(t.at)), 0
			case e.exploit:
				return "its experiment starts no more trials before its deadline", e.deadline
			}
		}
	}
	return "", 0
}

// judged reports whether a trial is cut, or its experiment starts no more: else nothing but
// room keeps it waiting. It looks at the trials of that experiment alone.
func (p *hypersched) judged(v sched.View, ref sched.GangRef) bool {
	s := p.newStudy(v)
	defer s.close()
	of := v.Gang(ref)
	app := of.Hints.App
	add := func(g *sched.GangView, runs bool) {
		if g.Hints.App == app && (app != "" || g.Ref == ref) {
			s.add(g, runs)
		}
	}
	for g := range v.Running() {
		add(&g, true)
	}
	for g := range v.Waiting() {
		add(&g, false)
	}
	e := s.apps[app]
	if e == nil {
		return false
	}
	e.judge(p, s.mem.ended(v.Note(0))[app], v.Now())
	at := slices.IndexFunc(e.trials, func(t *trial) bool { return t.g.Ref == ref })
	return at >= 0 && (e.trials[at].cut || e.exploit)
}
