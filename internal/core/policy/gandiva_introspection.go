package policy

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Gandiva's introspective mode: what it does about gangs that run. Gangs that take turns are
// profiled, and the two that use their devices least are packed into one turn when their memory
// fits. After a while a packed pair is judged by the rates of its gangs against those in turns
// of their own. The sum of these ratios must be at least 1, as by turns, or the pair is
// unpacked. When devices become free that no waiting gang takes, gangs migrate there from
// shared devices, or from several nodes to one. While a gang waits for which enough devices are
// free, but not together, a node that is almost free is emptied.

// runWindow is what is noted about a job with a gang that shares devices.
type runWindow struct {
	// The open window: when it began, and how long the gang had run and how many steps it had
	// done by then. An At of 0 is no window, as the steps are not known yet.
	At     model.Time     `json:"at"`
	Ran    model.Duration `json:"ran"`
	Step   int64          `json:"step"`
	Packed bool           `json:"packed,omitempty"`
	// What was seen of it in turns of its own: steps in a thousand seconds of running,
	// and use of its devices in thousandths.
	Rate int64 `json:"rate,omitempty"`
	Util int32 `json:"util,omitempty"`
	// Bad are the last few jobs with which packing did not pay.
	Bad []model.JobID `json:"bad,omitempty"`
}

// mostBad bounds how many such jobs are noted.
const mostBad = 8

// sharedGang is a gang on shared devices, as of a look.
type sharedGang struct {
	model.GangView
	runWindow
	fresh bool // the watch changed and is to be noted
	// lag is how long it ran since it reported its steps last; below 0 where that is not known,
	// or it reported none.
	lag model.Duration
}

// introspection is one look at the gangs that run.
type introspection struct {
	p     *gandiva
	v     model.View
	yield func(model.Wish) bool
}

// Tune implements model.Tuner.
func (p *gandiva) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		in := &introspection{p, v, yield}
		allocs := v.Allocations()
		for _, a := range allocs {
			if p.pack && a.Steady && len(a.Gangs) > 1 && in.seen(a) && !in.profile(a) {
				return
			}
		}
		if v.Elastic() && !in.resize(allocs) {
			return
		}
		if p.moves > 0 {
			in.migrate(allocs)
		}
	}
}

// NextChange implements model.Timed: when a job may grow, when devices are looked at next on
// which two gangs that may be packed report progress, and when a gang may move: it ran for long
// enough, or a move is an hour ago.
func (p *gandiva) NextChange(v model.View) model.Time {
	var next model.Time
	sooner := func(t model.Time) {
		if t > v.Now() && (next == 0 || t < next) {
			next = t
		}
	}
	sooner(p.nextGrowth(v))
	allocs := v.Allocations()
	in := &introspection{p: p, v: v}
	waits, known := false, false
	switch moves := v.Moves(); { // a move counts for an hour
	case p.moves > 0 && len(moves) >= int(p.moves):
		sooner(moves[len(moves)-int(p.moves)].Add(model.Hour))
	case p.moves > 0 && len(moves) > 0:
		if waits, known = in.somebodyWaits(), true; waits {
			sooner(moves[0].Add(model.Hour))
		}
	}
	for _, a := range allocs {
		packable := 0
		for i := range a.Sharers {
			g := &a.Sharers[i]
			if g.Reported && g.Hints.Packable && g.Gangs == 1 {
				packable++
			}
			settled := g.Started.Add(p.settle)
			if p.moves == 0 || !g.Hints.Checkpoint || g.Started == 0 || settled <= v.Now() {
				continue
			}
			if !known {
				waits, known = in.somebodyWaits(), true
			}
			if waits || len(a.Gangs) > 1 || len(a.Nodes) > 1 {
				sooner(settled)
			}
		}
		if p.pack && packable > 1 {
			sooner(a.Since.Add((model.Duration(v.Now()-a.Since)/p.window + 1) * p.window))
		}
	}
	return next
}

// seen reports whether there is anything to watch: a gang that is new here, or one that
// reported something.
func (in *introspection) seen(a *model.Allocation) bool {
	return slices.ContainsFunc(a.Sharers, func(g model.Sharer) bool { return g.Reported || g.Gangs == 1 && !g.HasNote })
}

// movable reports whether a gang there may ever be moved.
func movable(a *model.Allocation) bool {
	return slices.ContainsFunc(a.Sharers, func(g model.Sharer) bool { return g.Hints.Checkpoint })
}

// profile watches the gangs of one allocation, and packs or parts them.
func (in *introspection) profile(a *model.Allocation) bool {
	turns := make([][]*sharedGang, len(a.Turns))
	var all []*sharedGang
	for i, turn := range a.Turns {
		for _, ref := range turn {
			g := in.guest(a, i, ref)
			turns[i], all = append(turns[i], g), append(all, g)
		}
	}
	changed := in.unpack(turns)
	if changed == nil {
		for _, g := range all {
			in.learn(g)
		}
		changed = in.pack(a, turns)
	}
	for _, g := range all {
		if g.fresh && !in.yield(model.Wish{Note: g.note()}) {
			return false
		}
	}
	return changed == nil || in.yield(model.Wish{Gang: a.Gangs[0], Turns: changed, Quantum: in.p.quantum})
}

// guest reads what is known of a gang in a turn of an allocation, and opens a window when
// none is open for how it runs now.
func (in *introspection) guest(a *model.Allocation, turn int, r model.GangRef) *sharedGang {
	g := &sharedGang{GangView: in.v.Gang(r), lag: -1}
	if p := g.Progress; p != nil && p.Step > 0 && p.StepAt >= a.Since {
		g.lag = inTurn(a, turn, in.v.Now()) - inTurn(a, turn, p.StepAt)
	}
	packed := len(a.Turns[turn]) > 1
	if len(g.Note) == 0 || json.Unmarshal(g.Note, &g.runWindow) != nil || g.Packed != packed || g.At == 0 {
		g.open(in.v.Now(), packed, g.Rate)
	}
	return g
}

// inTurn is how long a turn of an allocation ran until an instant, since its turns are as
// they are.
func inTurn(a *model.Allocation, turn int, until model.Time) model.Duration {
	past := model.Duration(until - a.Since)
	if len(a.Turns) < 2 || a.Quantum <= 0 {
		return past
	}
	round := a.Quantum * model.Duration(len(a.Turns))
	return past/round*a.Quantum + min(max(past%round-a.Quantum*model.Duration(turn), 0), a.Quantum)
}

// open begins a window. Steps that were not reported yet are estimated by a rate. Where none is
// known (0) the window begins with the steps reported last, or with the job.
func (g *sharedGang) open(now model.Time, packed bool, rate int64) {
	was := g.runWindow
	g.Packed, g.At, g.runWindow.Ran, g.Step = packed, now, 0, 0
	switch {
	case g.lag >= 0 && rate > 0:
		g.runWindow.Ran, g.Step = g.GangView.Ran, g.step()+scale(int64(g.lag), rate, 1000*int64(model.Second))
	case g.lag >= 0:
		g.runWindow.Ran, g.Step = g.GangView.Ran-g.lag, g.step()
	case g.step() > 0 || g.RanBefore > 0:
		g.At = 0
	}
	g.fresh = g.fresh || len(g.Note) == 0 || !g.same(&was)
}

// same reports whether a watch says the same, which need not be noted again.
func (w *runWindow) same(o *runWindow) bool {
	return w.At == o.At && w.Ran == o.Ran && w.Step == o.Step && w.Packed == o.Packed && w.Rate == o.Rate
}

func (g *sharedGang) step() int64 {
	if g.Progress == nil {
		return 0
	}
	return g.Progress.Step
}

// note is the watch as it is noted; jobs with several gangs have none.
func (g *sharedGang) note() *model.Note {
	data, err := json.Marshal(g.runWindow)
	if err != nil || g.Gangs > 1 {
		return &model.Note{Job: g.Ref.Job}
	}
	return &model.Note{Job: g.Ref.Job, Data: data}
}

// rate is how many steps a gang did in a thousand seconds of running, from the beginning of its
// window until it last reported steps; false when the window is not over, or the gang reported
// nothing lately. A packed gang that reports no step for two windows does none.
func (in *introspection) rate(g *sharedGang) (int64, bool) {
	now := in.v.Now()
	if g.At == 0 || g.Progress == nil || g.Gangs > 1 || now < g.At.Add(in.p.window) || g.Progress.At.Add(in.p.window/5) < now {
		return 0, false
	}
	ran := g.GangView.Ran - g.lag - g.runWindow.Ran
	known := g.lag >= 0 && ran >= model.Second
	if !known || g.step() <= g.Step {
		none := known || g.Progress.StepAt <= g.At
		return 0, none && g.Packed && now >= g.At.Add(2*in.p.window)
	}
	steps := min(g.step()-g.Step, 1<<30)
	return steps * 1_000_000 / int64(ran/model.Millisecond), true
}

// learn closes the window of a gang that has turns of its own, when it is over.
func (in *introspection) learn(g *sharedGang) {
	rate, ok := in.rate(g)
	if !ok || g.Packed {
		return
	}
	g.Rate = max(rate, 1)
	if g.Progress.Use != nil {
		g.Util = g.Progress.Use.Util
	}
	g.open(in.v.Now(), false, g.Rate)
}

// unpack returns the turns with the first pair unpacked that does less together than by turns;
// nil when there is none.
func (in *introspection) unpack(turns [][]*sharedGang) [][]model.GangRef {
	for i, turn := range turns {
		if len(turn) != 2 || turn[0].Rate == 0 || turn[1].Rate == 0 {
			continue
		}
		x, y := turn[0], turn[1]
		a, enough := in.rate(x)
		b, also := in.rate(y)
		if !enough || !also || a*1000/x.Rate+b*1000/y.Rate >= 1000 {
			continue
		}
		x.spoil(y.Ref.Job)
		y.spoil(x.Ref.Job)
		x.open(in.v.Now(), false, a)
		y.open(in.v.Now(), false, b)
		return refsOf(slices.Concat(turns[:i], [][]*sharedGang{{x}, {y}}, turns[i+1:]))
	}
	return nil
}

func (g *sharedGang) spoil(with model.JobID) {
	g.Bad = append(g.Bad, with)
	g.Bad = g.Bad[max(len(g.Bad)-mostBad, 0):]
}

// pack returns the turns with the two gangs in one that use their devices least, if they
// may be packed; nil when there are none.
func (in *introspection) pack(a *model.Allocation, turns [][]*sharedGang) [][]model.GangRef {
	var free []int // turns of one gang of which enough is known
	for i, turn := range turns {
		if g := turn[0]; len(turn) == 1 && g.Hints.Packable && g.Gangs == 1 && g.Rate > 0 {
			free = append(free, i)
		}
	}
	slices.SortStableFunc(free, func(x, y int) int { return cmp.Compare(turns[x][0].Util, turns[y][0].Util) })
	for n, i := range free {
		for _, k := range free[n+1:] {
			x, y := turns[i][0], turns[k][0]
			if slices.Contains(x.Bad, y.Ref.Job) || !fitTogether(a, x, y) {
				continue
			}
			x.open(in.v.Now(), true, x.Rate)
			y.open(in.v.Now(), true, y.Rate)
			pair := []*sharedGang{x, y}
			rest := slices.Clone(turns)
			rest[min(i, k)] = pair
			return refsOf(slices.Delete(rest, max(i, k), max(i, k)+1))
		}
	}
	return nil
}

// fitTogether reports whether two gangs fit into the memory of an allocation's devices,
// as far as is known. The core judges.
func fitTogether(a *model.Allocation, x, y *sharedGang) bool {
	m, n := x.memory(), y.memory()
	return m > 0 && n > 0 && m+n <= a.Memory
}

func (g *sharedGang) memory() int64 {
	n := g.Hints.GPUMemoryMB
	if g.Progress != nil && g.Progress.Use != nil {
		n = max(n, g.Progress.Use.MemoryMB)
	}
	return n
}

func refsOf(turns [][]*sharedGang) [][]model.GangRef {
	var out [][]model.GangRef
	for _, turn := range turns {
		var refs []model.GangRef
		for _, g := range turn {
			refs = append(refs, g.Ref)
		}
		out = append(out, refs)
	}
	return out
}

// migrate moves gangs as long as the budget of moves lasts.
func (in *introspection) migrate(allocs []*model.Allocation) {
	if in.v.Free() <= 0 || in.left() <= 0 {
		return
	}
	free := in.v.Free()
	for _, a := range allocs {
		w := model.Wish{Move: true}
		switch apart := len(a.Nodes) > 1 && in.oneNode(a); {
		case !a.Steady || int64(a.Leaves) > free || !movable(a):
			continue
		case len(a.Turns) > 1: // it shares leaves: it moves to leaves of its own
		case len(a.Gangs) == 1 && apart:
			w.Within = model.OneNode
		default:
			continue
		}
		moved, goOn := in.move(a, w)
		if !goOn {
			return
		}
		if moved {
			free -= int64(a.Leaves)
		}
	}
	in.defragment()
}

// oneNode reports whether a gang on several nodes would have room on one.
func (in *introspection) oneNode(a *model.Allocation) bool {
	return slices.ContainsFunc(a.Nodes, func(n int32) bool { _, of := in.v.Idle(n); return of >= int64(a.Leaves) })
}

// defragment lets gangs move off nodes that are almost free (defragmentation), for waiting gangs
// for which enough is free, but not in one place.
func (in *introspection) defragment() {
	var waiting []model.GangRef
	shapes := map[string]bool{}
	in.fittingByNumber(func(g *model.GangView) bool {
		if !g.Delayed && !in.v.Placed(g.Ref) && !shapes[g.Shape] {
			waiting, shapes[g.Shape] = append(waiting, g.Ref), true
		}
		return len(waiting) < mostTried
	})
	if len(waiting) == 0 {
		return
	}
	f, almost := readOccupancy(in.v), cell.NodeSet{}
	for n := range in.v.Machines() {
		if free, of := in.v.Idle(n); f.used[n] == nil || free*1000 >= in.p.free*of {
			almost = almost.Add(n)
		}
	}
	for _, ref := range waiting {
		if in.left() <= 0 || !in.yield(model.Wish{Gang: ref, OnlyNodes: almost, MoveOthers: &model.MoveOthers{MinRun: in.p.settle, MaxMoves: in.left()}}) {
			return
		}
	}
}

// fittingByNumber yields the waiting gangs for which enough is free by number, also delayed ones:
// when their delay ends NextChange is not asked again.
func (in *introspection) fittingByNumber(yield func(*model.GangView) bool) {
	q, free := in.v.Queue(), in.v.Free()
	for g, more := q.Next(); more; {
		fits := g.Leaves > 1 && int64(g.Leaves) <= free
		if fits && !yield(&g) {
			return
		}
		if !fits && g.Shape != "" {
			g, more = q.NextShape()
		} else {
			g, more = q.Next()
		}
	}
}

// somebodyWaits reports whether fittingByNumber yields any gang.
func (in *introspection) somebodyWaits() (some bool) {
	in.fittingByNumber(func(*model.GangView) bool {
		some = true
		return false
	})
	return some
}

// move asks to move one gang of an allocation, the one that ran least first; it reports whether
// one is on its way, and whether more may be moved.
func (in *introspection) move(a *model.Allocation, w model.Wish) (moved, goOn bool) {
	var of []model.GangView
	for _, ref := range a.Gangs {
		if g := in.v.Gang(ref); g.Hints.Checkpoint && g.Started > 0 && g.Started.Add(in.p.settle) <= in.v.Now() {
			of = append(of, g)
		}
	}
	slices.SortStableFunc(of, func(x, y model.GangView) int { return cmp.Compare(x.Ran, y.Ran) })
	if len(of) == 0 {
		return false, true
	}
	w.Gang = of[0].Ref
	if !in.yield(w) {
		return false, false
	}
	return in.v.Gang(w.Gang).Moved, in.left() > 0
}

// left is how many gangs may still move within this hour.
func (in *introspection) left() int { return int(in.p.moves) - len(in.v.Moves()) }
