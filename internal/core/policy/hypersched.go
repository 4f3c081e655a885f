package policy

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// hypersched is for experiments: sets of jobs, their trials, of which the best one counts at
// one deadline (Liaw et al., HyperSched, SoCC'19). The jobs of one app are an experiment, a
// job without one is alone in its own; its deadline is the first of its trials' last ones.
// A trial is as good as the loss that it reported last.
//
// Trials start with their least size. They are compared on rungs: where a trial has made one
// part in rf^k of its steps its loss is recorded, and if that is not among the best one part in
// rf of those recorded there the trial is cut (asynchronous successive halving). A cut trial
// makes room for others, and goes on when it is among the best after all. GPUs that no trial is
// to start on go to those that run, the best first. As the deadline nears no trial is started
// any more, so that all GPUs go to the best.
//
// The note of a trial has its losses at the rungs, that of the VC those of trials that ended
// (hypersched_record.go).
type hypersched struct {
	// rf=4: one part in rf of the trials goes on from a rung; the paper's reduction factor.
	rf int64
	// rungs=3: the number of rungs, at 1/rf, 1/rf^2 and so on of a trial's steps. (The paper
	// names the steps of the first instead.)
	rungs int64
	// share=uniform deals free GPUs out in turn, the best trial first; top gives the best
	// all that it can use. Both are the authors'.
	share string
	// gain=1.1 is how many times more a trial must get done until the deadline to be
	// resized; in thousandths, the authors' value.
	gain int64
	// restart=30 seconds that a resize costs (ours: the authors measure it).
	restart model.Duration
	// round=60 seconds: how often trials that run are compared, and how long one runs
	// before it may be paused (ours: the authors compare at each report).
	round model.Duration
	// end=false; true stops trials that report after the deadline, as the authors do.
	end bool
}

func newHypersched(a *args) model.Policy {
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
	g      model.GangView
	runs   bool
	loss   int64   // reported last; noLoss before
	at     []int64 // losses at the rungs that it reached
	target int32   // members that it is to have; 0 is not to run
}

func newTrial(g *model.GangView, runs bool) trial {
	t := trial{g: *g, runs: runs, loss: noLoss, at: readRungs(g.Note)}
	if g.Progress != nil && g.Progress.Loss != "" {
		t.loss = billionths(g.Progress.Loss)
	}
	return t
}

// byLoss orders trials, the best first.
func byLoss(a, b *trial) int {
	return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.g.Order, b.g.Order),
		cmp.Compare(a.g.Ref.Gang, b.g.Ref.Gang))
}

// byTurn orders trials as they are resumed: those on the highest rung first, then by loss.
func byTurn(a, b *trial) int { return cmp.Or(cmp.Compare(len(b.at), len(a.at)), byLoss(a, b)) }

// experiment is a set of trials.
type experiment struct {
	of       experimentKey
	deadline model.Time     // 0 is none
	order    int64          // of the first trial
	live     []*trial       // running trials, by turn
	upgrades []*trial       // those that wait for an upgrade, by turn
	waits    *waitingTrials // all others that wait
	past     rungs          // of trials that ended
	rungs    rungs          // of live and late ones
	cutoffs  []int64        // by rung: a trial with a larger loss there is cut
	starting []*trial       // waiting trials that are to start
	busy     bool           // some trial is to run
	exploit  bool           // no trial is started any more: the deadline is near
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

// holds is how many GPUs it holds.
func (t *trial) holds() int64 { return t.gpus(t.members()) }

// members is how many of its members hold cells, at least its least size.
func (t *trial) members() int32 { return max(t.g.Sizes.Live, t.least()) }

// cost is how many GPUs a trial with so many members takes from others. Bad ones do not count:
// no other trial could use them.
func (s *study) cost(t *trial, members int32) int64 {
	n := t.gpus(members)
	if t.runs {
		n -= s.v.BadHeld(t.g.Ref, members)
	}
	return n
}

// speed is how fast it is with so many members; linear in GPUs where the offline model knows
// nothing.
func (t *trial) speed(members int32) int64 {
	if rate := perf.RateOn(t.g.Speeds, declaredOn(&t.g), int32(t.gpus(members))); rate > 0 {
		return rate
	}
	return t.gpus(members)
}

// left is the time until an experiment's deadline, not below 0; a long time where it has
// none.
func (e *experiment) left(now model.Time) int64 {
	if e.deadline == 0 {
		return maxLease * int64(model.Second)
	}
	return max(int64(e.deadline-now), 0)
}

// urgency orders experiments: the first deadline first, then those without one, then those
// whose deadline has passed.
func (e *experiment) urgency(now model.Time) int64 {
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
	v      model.View
	kept   *kept
	all    []*experiment
	at     map[experimentKey]*experiment
	budget int64 // GPUs that no trial was given yet
	ready  int64 // GPUs that are free or about to be
	mem    *studyMemory
}

// newStudy takes the memory of the study before, which close gives back.
func (p *hypersched) newStudy(v model.View) *study {
	s := &study{p: p, v: v, at: map[experimentKey]*experiment{}}
	scratch := v.Scratch()
	if s.mem, _ = (*scratch).(*studyMemory); s.mem == nil {
		s.mem = &studyMemory{}
	}
	*scratch, s.mem.trials = nil, s.mem.trials[:0] // while it is in use
	return s
}

func (s *study) close() {
	for _, e := range s.all {
		for _, t := range e.starting {
			t.target = 0 // a waiting trial is kept for the next look
		}
	}
	*s.v.Scratch() = s.mem
}

// study reads the running trials and what is kept of the waiting ones, and plans.
func (p *hypersched) study(v model.View) *study {
	s := p.newStudy(v)
	s.ready = v.Guaranteed() - v.Bad()
	for _, n := range v.Holders(model.ByUser) {
		s.ready -= n
	}
	s.budget = s.ready
	for g := range v.Running() {
		t, e := s.add(&g, true)
		e.live = append(e.live, t)
		s.budget += s.cost(t, t.members())
	}
	kept, late := v.WaitIndex()
	for i := range late {
		t, e := s.add(&late[i], false)
		e.upgrades = append(e.upgrades, t)
		s.promised(t)
	}
	s.kept = asKept(kept)
	for _, t := range s.kept.singles {
		s.promised(t)
	}
	for _, w := range s.kept.all {
		e := s.experiment(w.of)
		e.waits = w
		e.began(w.orders[0], w.deadline())
	}
	past := s.mem.ended(v.VC(), v.Note(0))
	for _, e := range s.all {
		e.past = past[e.of.app]
		e.judge(p, v.Now())
	}
	slices.SortFunc(s.all, func(a, b *experiment) int {
		return cmp.Or(cmp.Compare(a.urgency(v.Now()), b.urgency(v.Now())), cmp.Compare(a.order, b.order), a.of.compare(b.of))
	})
	s.plan()
	return s
}

// promised adds to the budget the GPUs that a waiting trial was promised.
func (s *study) promised(t *trial) {
	if s.v.Placed(t.g.Ref) {
		s.budget += t.gpus(t.least())
	}
}

// experiment finds one by its name, or begins it.
func (s *study) experiment(of experimentKey) *experiment {
	e := s.at[of]
	if e == nil {
		e = &experiment{of: of, order: math.MaxInt64, waits: &waitingTrials{}}
		s.at[of] = e
		s.all = append(s.all, e)
	}
	return e
}

// add makes a trial that is not kept, and finds its experiment.
func (s *study) add(g *model.GangView, runs bool) (*trial, *experiment) {
	t, e := s.mem.trial(), s.experiment(experimentKeyOf(g))
	*t = newTrial(g, runs)
	d, _ := lastDeadline(g)
	e.began(g.Order, d)
	e.rungs.add(t.at)
	return t, e
}

// began notes the order and the deadline of a trial, 0 of one without.
func (e *experiment) began(order int64, deadline model.Time) {
	e.order = min(e.order, order)
	if deadline != 0 && (e.deadline == 0 || deadline < e.deadline) {
		e.deadline = deadline
	}
}

// judge computes by which losses trials are cut, and whether the experiment starts no more
// trials.
func (e *experiment) judge(p *hypersched, now model.Time) {
	slices.SortFunc(e.live, byTurn)
	slices.SortFunc(e.upgrades, byTurn)
	e.compare(p)
	longest := last(e.waits.ran)
	var lasts []int64 // total run times of trials
	for _, list := range [2][]*trial{e.live, e.upgrades} {
		for _, t := range list {
			longest = max(longest, int64(t.g.Ran))
			if d := cmp.Or(reportedRunTime(&t.g), int64(t.g.Hints.Duration)); d > 0 {
				insertSorted(&lasts, d)
			}
		}
	}
	e.exploit = e.deadline > 0 && e.left(now) < p.startsEnd(longest, lasts, e.waits.lasts)
}

// compare computes the bars. Trials that start while this look is taken do not change them.
func (e *experiment) compare(p *hypersched) {
	e.cutoffs = nil
	for k := 0; ; k++ {
		all := [3][]int64{e.past.at(k), e.rungs.at(k), e.waits.rungs.at(k)}
		n := len(all[0]) + len(all[1]) + len(all[2])
		if n == 0 {
			return
		}
		e.cutoffs = append(e.cutoffs, kth((n+int(p.rf)-1)/int(p.rf)-1, all[:]...))
	}
}

// cut reports whether a trial is not among the best of the last rung that it reached.
func (e *experiment) cut(t *trial) bool {
	rung := len(t.at) - 1
	return rung >= 0 && t.at[rung] > e.cutoffs[rung]
}

// waiting yields the waiting trials, by turn.
func (e *experiment) waiting(yield func(*trial) bool) {
	late := e.upgrades
	for _, t := range e.waits.trials {
		for ; len(late) > 0 && byTurn(late[0], t) < 0; late = late[1:] {
			if !yield(late[0]) {
				return
			}
		}
		if !yield(t) {
			return
		}
	}
	for _, t := range late {
		if !yield(t) {
			return
		}
	}
}

// least is how many GPUs the smallest waiting trial needs; MaxInt64 where none waits.
func (e *experiment) least() int64 {
	least := int64(math.MaxInt64)
	if len(e.waits.leasts) > 0 {
		least = e.waits.leasts[0]
	}
	for _, t := range e.upgrades {
		least = min(least, t.gpus(t.least()))
	}
	return least
}

// plan gives out the GPUs: the least size to each trial that is not cut, more to these as far
// as it pays, and the rest to cut trials. An experiment stops no trial of another that is not
// cut.
func (s *study) plan() {
	for _, e := range s.all {
		for _, t := range e.live {
			if !e.cut(t) {
				s.give(e, t)
			}
		}
	}
	for _, e := range s.all {
		least := e.least()
		for t := range e.waiting {
			if e.exploit || s.budget < least {
				break
			}
			if !e.cut(t) {
				s.give(e, t)
			}
		}
	}
	for _, e := range s.all {
		s.share(e)
	}
	for _, e := range s.all {
		s.giveRest(e)
	}
}

// giveRest gives what is left to the trials of an experiment that have nothing yet, those that run
// first.
func (s *study) giveRest(e *experiment) {
	for _, t := range e.live {
		if t.target == 0 {
			s.give(e, t)
		}
	}
	least := e.least()
	for t := range e.waiting {
		if s.budget < least || !s.may(e) {
			return
		}
		if t.target == 0 {
			s.give(e, t)
		}
	}
}

// give lets a trial run with its least size, if there is room.
func (s *study) give(e *experiment, t *trial) {
	n := s.cost(t, t.least())
	if n > s.budget || !t.runs && s.v.Gang(t.g.Ref).Delayed {
		return
	}
	t.target, e.busy = t.least(), true
	s.budget -= n
	if !t.runs {
		e.starting = append(e.starting, t)
	}
}

// share gives GPUs to the trials of an experiment that are to run, the best first.
func (s *study) share(e *experiment) {
	all := slices.Concat(e.live, e.starting)
	slices.SortFunc(all, byLoss)
	for again := true; again; {
		again = false
		for _, t := range all {
			for t.target > 0 && t.target < t.g.Sizes.Most && s.more(t) <= s.budget && t.speed(t.target+1) > t.speed(t.target) {
				s.budget -= s.more(t)
				t.target++
				if again = true; s.p.share == "uniform" {
					break
				}
			}
		}
	}
	left := e.left(s.v.Now())
	for _, t := range e.live {
		now := t.g.Sizes.Now
		if t.target <= now || s.p.pays(t, left) {
			continue
		}
		s.budget += s.cost(t, t.target) - s.cost(t, max(now, t.least()))
		t.target = max(now, t.least())
	}
}

// more is what one member more takes.
func (s *study) more(t *trial) int64 { return s.cost(t, t.target+1) - s.cost(t, t.target) }

// pays reports whether resizing a running trial, at the cost of restart, gets gain times as
// much done in the time left.
func (p *hypersched) pays(t *trial, left int64) bool {
	after := scale(max(left-int64(p.restart), 0), t.speed(t.target), max(t.speed(t.g.Sizes.Now), 1))
	return after > scale(left, p.gain, 1000)
}

// size is the size to wish for; 0 for a gang of one size.
func (t *trial) size() int32 {
	if t.g.Sizes.Most == 0 {
		return 0
	}
	return t.target
}

// Rank implements model.Policy: the trials that are to start first, then any that fit, where
// those found no place.
func (p *hypersched) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		s := p.study(v)
		defer s.close()
		missed, waits, rest := false, false, make([][]*trial, len(s.all))
		for i, e := range s.all {
			if v.Free() >= e.least() { // else nothing will be left to them
				rest[i] = slices.Collect(e.waiting)
			}
		}
		for _, e := range s.all {
			// GPUs that a trial is to grow by are not for cut trials, either
			for _, t := range e.live {
				missed = missed || t.target > 0 && t.gpus(t.target) > t.holds()
			}
			slices.SortFunc(e.starting, byTurn)
			for _, t := range e.starting {
				if !yield(model.Wish{Gang: t.g.Ref, Size: t.size()}) {
					return
				}
				waits = waits || !v.Placed(t.g.Ref)
			}
		}
		makes := false
		for range s.makeRoom {
			makes = waits
			break
		}
		for i, e := range s.all {
			if !s.rest(e, rest[i], missed || waits, yield) {
				return
			}
		}
		// Tune makes room for it at once: a lower priority that started now would be preempted
		// by the next look
		if makes {
			yield(model.Wish{Last: true})
		}
	}
}

// rest wishes for waiting trials of an experiment that are not planned to start, as long as
// leaves are free; false when no more wishes are heard.
func (s *study) rest(e *experiment, rest []*trial, missed bool, yield func(model.Wish) bool) bool {
	for _, t := range rest {
		if s.v.Free() == 0 || !s.may(e) {
			break
		}
		again := e.cut(t) && (missed || s.v.Now() < t.g.Since.Add(s.p.round))
		if t.target > 0 || again || t.gpus(t.least()) > s.v.Free() {
			continue
		}
		t.target, e.busy, e.starting = t.least(), true, append(e.starting, t)
		if !yield(model.Wish{Gang: t.g.Ref, Size: t.size()}) {
			return false
		}
	}
	return true
}

// may reports whether a trial that waits may start at all.
func (s *study) may(e *experiment) bool {
	return !e.exploit || !e.busy || e.left(s.v.Now()) == 0
}

// DefersReports implements model.DefersReports.
func (*hypersched) DefersReports() {}

// WhyHeldBack implements model.HoldsBack.
func (p *hypersched) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	s := p.study(v)
	defer s.close()
	g := v.Gang(ref)
	e := s.at[experimentKeyOf(&g)]
	if e == nil {
		return "", 0
	}
	for t := range e.waiting {
		switch {
		case t.g.Ref != ref || t.target > 0:
		case e.cut(t):
			return fmt.Sprintf("its loss of %s at rung %d is not among the best of its experiment: it goes on when that changes or GPUs are idle", amount(t.at[len(t.at)-1]), len(t.at)), 0
		case e.exploit:
			return "its experiment starts no new trials before its deadline", e.deadline
		}
	}
	return "", 0
}
