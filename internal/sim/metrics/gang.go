package metrics

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const none = -1

// gang is one gang of a job that has not ended:
//
//	idle --JobSubmitted, JobRetried, TaskRetried--> waiting | backing off
//	waiting --Placed--> (holds leaves) --AttemptEnded--> idle
//	waiting --its job stops or completes--> idle
//
// While it holds leaves its time is cut into segments of one speed. Each change of speed, of
// neighbours or of saved work ends a segment.
type gang struct {
	job   *job
	index int32
	need  int32  // leaves
	skus  uint64 // mask of the SKUs that it may run on
	extra bool   // a member above the minimum: its waits are not counted

	wait  waitState
	since model.Time // when the wait or back-off began
	until model.Time // when the back-off ends
	pool  *pool      // the free leaves for which it waits
	mark  model.Duration
	// Time in the queue so far, by cause.
	fair, frag, backOff model.Duration

	slot            int32 // index in Fold.live; none when it holds no leaves
	n               int32 // number of its attempt
	tasks           []cell.Task
	leaves          int32
	lazy            bool
	sharesLeaves    bool            // it shares its leaves, which are counted for another gang
	turns           *model.Rotation // by which it runs; nil while it runs all the time
	ran             bool            // a task of the attempt started
	placed          model.Time      // begin of the attempt
	from            model.Time      // begin of the present segment
	speed           int64
	sharedNodes     int32  // how many of its nodes it shares with other gangs
	unsavedLeafTime uint64 // leaf-microseconds since its work was last saved
	unsavedWork     uint64 // microseconds of work, at full speed, since then
	kept            uint64 // microseconds of work that counted, of all attempts
	preempted       bool   // its last attempt was preempted
}

type waitState uint8

const (
	notWaiting waitState = iota
	inQueue
	backingOff
)

// beginWait puts a gang into the queue, at after if that is later.
func (f *Fold) beginWait(g *gang, after model.Time) {
	if g.extra || g.wait != notWaiting || g.slot != none {
		return
	}
	f.change(g.job.vc, waiting, 1)
	g.since = f.now
	if after > f.now {
		g.wait, g.until = backingOff, after
		f.backOffs.push(backOff{after, g.job.id, g})
		return
	}
	g.wait = inQueue
	f.resumeWait(g)
}

// resumeWait notes the state of the gang's pool, against which its wait is measured.
func (f *Fold) resumeWait(g *gang) {
	if g.wait != inQueue {
		return
	}
	g.pool = f.poolOf(g.job.vc, g.job.spec.Priority, g.skus)
	g.mark = g.pool.below(g.need, f.now)
	g.since = f.now
}

// backOffEnds puts a gang into the queue when its delay is over.
func (f *Fold) backOffEnds(e backOff) {
	g := e.g
	if g.job.id != e.job || g.wait != backingOff || g.until != e.at {
		return
	}
	g.backOff += model.Duration(e.at - g.since)
	g.wait, g.since = inQueue, e.at
	g.pool = f.poolOf(g.job.vc, g.job.spec.Priority, g.skus)
	g.mark = g.pool.below(g.need, e.at)
}

// pauseWait adds the time in the queue so far to its causes. The time in which the VC had too
// few free leaves counts as fair share, the rest as fragmentation (ATC'19, section 3.1).
func (f *Fold) pauseWait(g *gang) {
	if g.wait != inQueue {
		return
	}
	fair := g.pool.below(g.need, f.now) - g.mark
	g.fair += fair
	g.frag += model.Duration(f.now-g.since) - fair
}

// endWait takes a gang out of the queue.
func (f *Fold) endWait(g *gang) {
	switch g.wait {
	case notWaiting:
		return
	case backingOff:
		g.backOff += model.Duration(f.now - g.since)
	default:
		f.pauseWait(g)
	}
	g.wait, g.pool = notWaiting, nil
	f.change(g.job.vc, waiting, -1)
}

// placed begins an attempt. A guest shares leaves that another gang holds.
func (f *Fold) placed(e *model.Placed, guest bool) {
	j := f.find(e.Attempt.Job)
	if j == nil || int(e.Attempt.Gang) >= len(j.gangs) || j.gangs[e.Attempt.Gang].slot != none {
		f.fail("attempt %v is placed and does not wait", e.Attempt)
		return
	}
	g := &j.gangs[e.Attempt.Gang]
	f.endWait(g)
	if j.attempts++; j.attempts == 1 {
		j.started = f.now
	}
	if g.preempted && f.moves(g, e.Placement.Tasks) {
		j.migrated++
		j.vc.ended.migrations++
	}
	g.preempted, g.ran, g.lazy, g.n, g.placed = false, false, false, e.Attempt.N, f.now
	g.turns, g.sharesLeaves = nil, guest
	g.slot = f.newSlot(g)
	f.change(j.vc, running, 1)
	f.occupy(g, &e.Placement)
}

func (f *Fold) newSlot(g *gang) int32 {
	if n := len(f.slots); n > 0 {
		slot := f.slots[n-1]
		f.slots = f.slots[:n-1]
		f.live[slot] = g
		return slot
	}
	f.live = append(f.live, g)
	return int32(len(f.live) - 1)
}

// moves reports whether a placement uses a node that the gang's last attempt did not use.
func (f *Fold) moves(g *gang, tasks []cell.Task) bool {
	r := &f.leaves
	r.stamp++
	for i := range g.tasks {
		if len(g.tasks[i].Leaves) > 0 {
			r.nodes[r.nodeLeaves[r.nodeLeavesOf[g.tasks[i].Leaves[0]]].node].stamp = r.stamp
		}
	}
	for i := range tasks {
		if len(tasks[i].Leaves) > 0 && r.nodes[r.nodeLeaves[r.nodeLeavesOf[tasks[i].Leaves[0]]].node].stamp != r.stamp {
			return true
		}
	}
	return false
}

// occupy makes a gang hold the leaves of a placement.
func (f *Fold) occupy(g *gang, p *cell.Placement) {
	for i := range p.Tasks {
		for _, l := range p.Tasks[i].Leaves {
			if int(l) >= len(f.leaves.nodeLeavesOf) || l < 0 {
				f.fail("attempt %d.%d.%d is placed on leaf %d, which does not exist", g.job.id, g.index, g.n, l)
				return
			}
		}
	}
	g.tasks, g.leaves, g.from, g.speed, g.sharedNodes = p.Tasks, 0, f.now, FullSpeed, 0
	if f.o.Speed != nil {
		own := *p // the callee may keep it; without a callee nothing is allocated
		g.speed = f.o.Speed(model.AttemptID{Job: g.job.id, Gang: g.index, N: g.n}, g.job.spec, &own)
	}
	for i := range g.tasks {
		if n := len(g.tasks[i].Leaves); n > 0 {
			f.hold(g.tasks[i].Leaves)
			g.leaves += int32(n)
		}
	}
	f.countGang(g, 1)
	f.joinNodes(g)
}

// vacate is the inverse of occupy. A gang that holds nothing forgets its last nodes.
func (f *Fold) vacate(g *gang) {
	if g.slot == none {
		g.tasks, g.preempted = nil, false // a new configuration may number leaves anew
		return
	}
	f.cut(g)
	f.leaveNodes(g)
	f.countGang(g, -1)
	for i := range g.tasks {
		if len(g.tasks[i].Leaves) > 0 {
			f.release(g.tasks[i].Leaves)
		}
	}
	g.leaves = 0
}

// countGang counts a gang's leaves for its VC, as guaranteed or not.
func (f *Fold) countGang(g *gang, sign int32) {
	a := g.job.vc
	if g.sharesLeaves {
		return
	}
	if g.lazy || g.job.spec.Priority < cell.MinGuaranteed {
		f.change(a, opportunistic, int64(sign*g.leaves))
		return
	}
	f.change(a, guaranteed, int64(sign*g.leaves))
	run, sku := int32(0), uint8(0)
	for i := range g.tasks {
		if len(g.tasks[i].Leaves) == 0 {
			continue
		}
		if s := f.leaves.nodeLeaves[f.leaves.nodeLeavesOf[g.tasks[i].Leaves[0]]].sku; s != sku {
			f.use(a, sku, sign*run)
			run, sku = 0, s
		}
		run += int32(len(g.tasks[i].Leaves))
	}
	if run > 0 {
		f.use(a, sku, sign*run)
	}
}

// joinNodes counts a gang on its nodes.
func (f *Fold) joinNodes(g *gang) {
	r := &f.leaves
	r.stamp++
	var nodes int32
	for i := range g.tasks {
		if len(g.tasks[i].Leaves) == 0 {
			continue
		}
		n := &r.nodes[r.nodeLeaves[r.nodeLeavesOf[g.tasks[i].Leaves[0]]].node]
		if n.stamp == r.stamp {
			continue
		}
		n.stamp = r.stamp
		nodes++
		if n.count == 1 {
			f.countShared(f.live[n.sum], 1)
		}
		if n.count > 0 {
			g.sharedNodes++
		}
		n.count++
		n.sum += int64(g.slot)
	}
	g.job.nodes = max(g.job.nodes, nodes)
}

// leaveNodes is the inverse of joinNodes.
func (f *Fold) leaveNodes(g *gang) {
	r := &f.leaves
	r.stamp++
	for i := range g.tasks {
		if len(g.tasks[i].Leaves) == 0 {
			continue
		}
		n := &r.nodes[r.nodeLeaves[r.nodeLeavesOf[g.tasks[i].Leaves[0]]].node]
		if n.stamp == r.stamp {
			continue
		}
		n.stamp = r.stamp
		n.count--
		n.sum -= int64(g.slot)
		if n.count == 1 {
			f.countShared(f.live[n.sum], -1)
		}
	}
}

// rotated sets the turns of gangs that share leaves. From now on each gang gets only its own
// turns counted. The leaves count once, for the first gang.
func (f *Fold) rotated(e *model.Rotated) {
	first := e.Turns[0][0]
	for _, turn := range e.Turns {
		for _, id := range turn {
			if id.Job < first.Job || id.Job == first.Job && id.Gang < first.Gang {
				first = id
			}
		}
	}
	for _, turn := range e.Turns {
		for _, id := range turn {
			g := f.liveGang(id)
			if g == nil {
				continue
			}
			f.cut(g)
			g.turns = &e.Rotation
			f.countGang(g, -1)
			g.sharesLeaves = id != first
			f.countGang(g, 1)
		}
	}
}

// countShared adds d to the number of a gang's nodes that it shares.
func (f *Fold) countShared(g *gang, d int32) {
	if g.sharedNodes == 0 || g.sharedNodes+d == 0 {
		f.cut(g)
	}
	g.sharedNodes += d
}

// cut ends a segment: its time counts with the speed and the neighbours that it had.
func (f *Fold) cut(g *gang) {
	dt := uint64(f.now - g.from)
	j := g.job
	if g.turns != nil && dt > 0 {
		id := model.AttemptID{Job: j.id, Gang: g.index, N: g.n}
		dt = uint64(g.turns.Ran(id, g.from, f.now))
		n := g.turns.Suspensions(id, g.from, f.now)
		j.suspended += int32(n)
		j.vc.ended.suspends += n
	}
	g.from = f.now
	if dt == 0 {
		return
	}
	gpu := dt * uint64(g.leaves)
	j.gpu += gpu
	j.effective += scale(gpu, g.speed)
	g.unsavedLeafTime += gpu
	if g.sharedNodes > 0 {
		j.shared += gpu
	}
	if g.ran {
		g.unsavedWork += scale(dt, g.speed)
	}
}

// liveGang returns the gang that runs as attempt id, else nil.
func (f *Fold) liveGang(id model.AttemptID) *gang {
	j := f.find(id.Job)
	if j == nil || int(id.Gang) >= len(j.gangs) {
		return nil
	}
	if g := &j.gangs[id.Gang]; g.slot != none && g.n == id.N {
		return g
	}
	return nil
}

// SetSpeed changes the speed of an attempt, in millionths of full speed, from now on: its
// neighbours changed, or it was suspended (0, counted as such) or resumed. now must not be
// before the last record.
func (f *Fold) SetSpeed(now model.Time, id model.AttemptID, speed int64) {
	if now > f.now {
		f.advance(now)
	}
	if g := f.liveGang(id); g != nil {
		f.cut(g)
		if speed == 0 && g.speed > 0 {
			g.job.suspended++
			g.job.vc.ended.suspends++
		}
		g.speed = speed
	}
}

// started begins the work of an attempt, which only held its leaves until then.
func (f *Fold) started(id model.AttemptID) {
	if g := f.liveGang(id); g != nil && !g.ran {
		f.cut(g)
		g.ran = true
	}
}

// checkpoint counts all work of an attempt up to now as saved.
func (f *Fold) checkpoint(id model.AttemptID) {
	if g := f.liveGang(id); g != nil {
		f.cut(g)
		g.kept += g.unsavedWork
		g.unsavedLeafTime, g.unsavedWork = 0, 0
	}
}

func (f *Fold) setLazy(id model.AttemptID, lazy bool) {
	if g := f.liveGang(id); g != nil {
		f.countGang(g, -1)
		g.lazy = lazy
		f.countGang(g, 1)
	}
}

func (f *Fold) setAllLazy(ids []model.AttemptID, lazy bool) {
	for _, id := range ids {
		f.setLazy(id, lazy)
	}
}

func (f *Fold) attemptEnded(e *model.AttemptEnded) {
	if g := f.liveGang(e.Attempt); g != nil {
		f.endAttempt(g, e.Cause)
	}
}

// endAttempt gives the leaves back and counts the work as kept or lost.
func (f *Fold) endAttempt(g *gang, cause model.EndCause) {
	j := g.job
	tasks := g.tasks
	f.vacate(g)
	f.live[g.slot] = nil
	f.slots = append(f.slots, g.slot)
	g.slot, g.tasks = none, tasks
	f.change(j.vc, running, -1)
	lost, failed := loses(cause, j.spec), cause == model.EndFailed || cause == model.EndTimeLimit || cause == model.EndEarly
	if lost {
		j.wasted += g.unsavedLeafTime
	}
	if !lost || failed { // a failed attempt is lost, but its work is what the job needed
		g.kept += g.unsavedWork
	}
	g.unsavedLeafTime, g.unsavedWork = 0, 0
	if (cause == model.EndPreempted || cause == model.EndResized) && !g.extra {
		g.preempted = true
		j.preempted++
		j.vc.ended.preemptions++
	}
	g.preempted = g.preempted || cause == model.EndMigrated
	if !g.extra {
		j.bars = addBar(j.bars, Bar{g.placed, f.now, cause})
	}
}

// loses reports whether an attempt with this end loses the work since its last checkpoint. A
// job that saves its work when it is asked to stop loses nothing by a preemption. What a user
// stopped, or did not need any more, is not lost.
func loses(c model.EndCause, spec *model.Job) bool {
	switch c {
	case model.EndSucceeded, model.EndCompleted, model.EndStopped:
		return false
	case model.EndPreempted, model.EndMigrated, model.EndResized, model.EndRequeued, model.EndDrained:
		return !spec.Hints.Checkpoint
	}
	return true
}
