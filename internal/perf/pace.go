package perf

import "github.com/combsched/comb/internal/sched"

// Pace is how the work of one run goes: at one speed since an instant, with what was
// done before. A run works from when it began; NewPace begins one.
type Pace struct {
	from    sched.Time
	startUp sched.Duration // that passes from then on before work goes on
	did     sched.Duration // work before it
	speed   Speed
}

// NewPace begins a run that works at a speed when its start-up is over. Speed 0 is
// full speed.
func NewPace(from sched.Time, startUp sched.Duration, speed Speed) Pace {
	if speed == 0 {
		speed = FullSpeed
	}
	return Pace{from: from, startUp: startUp, speed: speed}
}

// Done is the work that is done at an instant, in time at full speed, rounded down.
func (p *Pace) Done(now sched.Time) sched.Duration {
	ran := max(sched.Duration(now-p.from)-p.startUp, 0)
	if p.speed == FullSpeed {
		return p.did + ran
	}
	full, speed := sched.Duration(FullSpeed), sched.Duration(p.speed)
	return p.did + ran/full*speed + ran%full*speed/full
}

// never is how long work takes that is not done in any time worth counting.
const never = sched.Duration(1) << 60

// Takes is how long it takes from the last change on until so much work is done in
// all, rounded up.
func (p *Pace) Takes(work sched.Duration) sched.Duration {
	work = max(work-p.did, 0)
	if p.speed == FullSpeed {
		return p.startUp + work
	}
	full, speed := sched.Duration(FullSpeed), sched.Duration(max(p.speed, 1))
	whole, rest := work/speed, work%speed
	if whole > never/full {
		return never
	}
	return p.startUp + whole*full + (rest*full+speed-1)/speed
}

// Change goes on at another speed, at least 1. What was done counts at the speed that
// it had.
func (p *Pace) Change(now sched.Time, speed Speed) {
	p.did = p.Done(now)
	p.startUp = max(p.startUp-sched.Duration(now-p.from), 0)
	p.from, p.speed = now, max(speed, 1)
}
