package perf

import (
	"github.com/combsched/comb/internal/core/model"
)

// Pace is the work of one run: it goes on at one speed since an instant, after what was done
// before. A run works from its start on; on shared leaves it works in the turns of its attempt.
// NewPace begins one.
type Pace struct {
	from    model.Time
	startUp model.Duration // time from then on that passes without work
	did     model.Duration // work before from; part is millionths of a microsecond of it
	part    model.Duration
	speed   Speed
	turns   *model.Rotation // nil: it runs all the time
	id      model.AttemptID // the attempt that turns are of
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

// Takes is how long it takes from the last change until so much work is done in all, rounded up.
// It includes the turns of others. It is computed without a loop over turns.
func (p *Pace) Takes(work model.Duration) model.Duration {
	d := p.running(work)
	if p.turns == nil {
		return d
	}
	return min(model.Duration(p.turns.RunReachedAt(p.id, p.from, d)-p.from), never)
}

// running is how much of that time the run itself runs.
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

// Change continues at another speed, at least 1. Work done so far counts at the speed of its
// time.
func (p *Pace) Change(now model.Time, speed Speed) {
	p.did, p.part = p.done(now)
	p.startUp = max(p.startUp-p.ran(now), 0)
	p.from, p.speed = now, max(speed, 1)
}

// Rotate continues at another speed and in the turns of an attempt; nil turns are all the time.
func (p *Pace) Rotate(now model.Time, speed Speed, turns *model.Rotation, id model.AttemptID) {
	p.Change(now, speed)
	p.turns, p.id = turns, id
}
