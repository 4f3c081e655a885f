package sim

import "github.com/combsched/comb/internal/sched"

// fullSpeed is the unit of Behavior.Speed.
const fullSpeed = 1_000_000

// pace is how the work of a run goes: at one speed since an instant, with what was
// done before.
type pace struct {
	from    sched.Time
	startUp sched.Duration // that passes from then on before work goes on
	did     sched.Duration // work before it
	speed   int64          // millionths; 0 is full speed
}

// done is the work that is done at an instant, rounded down.
func (p *pace) done(now sched.Time) sched.Duration {
	ran := max(sched.Duration(now-p.from)-p.startUp, 0)
	if p.speed == 0 || p.speed == fullSpeed {
		return p.did + ran
	}
	whole, rest := ran/fullSpeed, ran%fullSpeed
	return p.did + whole*sched.Duration(p.speed) + rest*sched.Duration(p.speed)/fullSpeed
}

// takes is how long it takes from the instant until so much work is done in all,
// rounded up.
func (p *pace) takes(work sched.Duration) sched.Duration {
	work = max(work-p.did, 0)
	if p.speed == 0 || p.speed == fullSpeed {
		return p.startUp + work
	}
	speed := sched.Duration(p.speed)
	whole, rest := work/speed, work%speed
	if whole > maxWait/fullSpeed {
		return maxWait
	}
	return p.startUp + whole*fullSpeed + (rest*fullSpeed+speed-1)/speed
}

// maxWait is for work that is never done.
const maxWait = sched.Duration(1) << 60

// change goes on at another speed.
func (p *pace) change(now sched.Time, speed int64) {
	p.did = p.done(now)
	p.startUp = max(p.startUp-sched.Duration(now-p.from), 0)
	p.from, p.speed = now, speed
}
