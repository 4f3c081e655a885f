package perf

import (
	"github.com/combsched/comb/internal/core/model"
)

// Pace is how the work of one run goes: at one speed since an instant, with what was
// done before. A run works from when it began, and on shared leaves in the turns of its
// attempt; NewPace begins one.
type Pace struct {
	from    model.Time
	startUp model.Duration // that passes from then on before work goes on
	did     model.Duration // work before it, and millionths of a microsecond of it
	part    model.Duration
	speed   Speed
	turns   *model.Rotation // nil is all the time
	id      model.AttemptID // whose turns count
}

// NewPace begins a run that works at a speed when its start-up is over. Speed 0 is
// full speed.
func NewPace(from model.Time, startUp model.Duration, speed Speed) Pace {
	if speed == 0 {
		speed = FullSpeed
	}
	return Pace{from: from, startUp: startUp, speed: speed}
}

// ran is how long the run ran since the last change.
func (p *Pace) ran(now model.Time) model.Duration {
	if p.turns == nil {
		return model.Duration(now - p.from)
	}
	return p.turns.Ran(p.id, p.from, now)
}

// Done is the work that is done at an instant, in time at full speed, rounded down.
func (p *Pace) Done(now model.Time) model.Duration {
	did, _ := p.done(now)
	return did
}

// full is the unit of speeds.
const full = model.Duration(FullSpeed)

// done is the work with its fraction.
func (p *Pace) done(now model.Time) (did, part model.Duration) {
	ran := max(p.ran(now)-p.startUp, 0)
	if p.speed == FullSpeed {
		return p.did + ran, p.part
	}
	speed := model.Duration(p.speed)
	part = ran%full*speed + p.part
	return p.did + ran/full*speed + part/full, part % full
}

// never is how long work takes that is not done in any time worth counting.
const never = model.Duration(1) << 60

// Takes is how long it takes from the last change on until so much work is done in
// all, rounded up; the turns of others are part of it, and however many they are, the
// answer is arithmetic.
func (p *Pace) Takes(work model.Duration) model.Duration {
	d := p.running(work)
	if p.turns == nil {
		return d
	}
	return min(model.Duration(p.turns.After(p.id, p.from, d)-p.from), never)
}

// running is how much of that the run runs.
func (p *Pace) running(work model.Duration) model.Duration {
	work = max(work-p.did, 0)
	if work == 0 {
		return p.startUp
	}
	if p.speed == FullSpeed {
		return p.startUp + work // a part of a microsecond that is done saves none
	}
	// Millionths of work over the speed, rounded up, in steps that do not overflow.
	speed := model.Duration(p.speed)
	whole, rest := work/speed, work%speed
	if whole > never/full {
		return never
	}
	return p.startUp + whole*full + (rest*full-p.part+speed-1)/speed
}

// Change goes on at another speed, at least 1. What was done counts at the speed that
// it had.
func (p *Pace) Change(now model.Time, speed Speed) {
	p.did, p.part = p.done(now)
	p.startUp = max(p.startUp-p.ran(now), 0)
	p.from, p.speed = now, max(speed, 1)
}

// Rotate goes on at another speed and in the turns of an attempt; nil turns are all the
// time.
func (p *Pace) Rotate(now model.Time, speed Speed, turns *model.Rotation, id model.AttemptID) {
	p.Change(now, speed)
	p.turns, p.id = turns, id
}
