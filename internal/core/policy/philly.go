package policy

import (
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// philly is how Microsoft's Philly cluster placed its jobs (Jeon et al., ATC'19): in order of
// submission, passing over what does not fit, and as close together as may be. A gang insists
// on one switch, then on one node, then on one rack, each for some time from when it began to
// wait; only then may it be anywhere (the paper's relaxed locality). Smaller gangs insist
// longer: good places come sooner for them.
//
// Jobs that failed in a way that a retry does not mend are not retried.
type philly struct {
	// patience is how long a gang insists on each level, 0 not at all and below 0 for ever:
	// switch=0, node=300 and rack=300 seconds, where the paper tries for two to three minutes,
	// waits for two, and does that a few times.
	patience [3]model.Duration
	// small=8: gangs of fewer leaves insist longer, by the same time again for each
	// halving (ours: the paper says only that smaller jobs relax later).
	small int64
	// permanent are exit codes that are not retried, such as 1/2/126/127/139.
	permanent []int64
	// the pool for first attempts
	probe
}

// phillyLevels are what a gang insists on, in this order.
var phillyLevels = [...]model.Within{model.OneSwitch, model.OneNode, model.OneRack}

func newPhilly(a *args) model.Policy {
	p := &philly{small: a.number("small", 8, 1, 1<<20), permanent: a.list("permanent", nil, true)}
	for i, key := range []string{"switch", "node", "rack"} {
		p.patience[i] = a.patience(key, []model.Duration{0, 300, 300}[i]*model.Second)
	}
	p.probe = newProbe(a)
	switch e := newEarly(a); {
	case e.mode != "off" && p.nodes > 0:
		return &provingAttentive{&probing{p}, e}
	case e.mode != "off":
		return &attentive{p, e}
	case p.nodes > 0:
		return &probing{p}
	}
	return p
}

// attentive is philly with early stopping.
type attentive struct {
	*philly
	early
}

// Key implements model.Keyed: all are alike, so the order is that of submission.
func (p *philly) Key(*model.GangView) model.Key { return model.Key{} }

// Dedicates implements model.NodeDedicator.
func (p *philly) Dedicates() {}

// Permanent implements model.FailureJudge.
func (p *philly) Permanent(e model.Exit) bool {
	return e.Cause == "" && slices.Contains(p.permanent, int64(e.Code))
}

// times is how many times as long as a large gang a gang of some size insists.
func (p *philly) times(leaves int32) int64 {
	return 1 + int64(bits.Len64(uint64((p.small-1)/int64(max(leaves, 1)))))
}

// RestrictsNodes implements model.RestrictsNodes.
func (p *philly) RestrictsNodes() bool { return true }

// within is what a gang insists on now, and until when; 0 is for ever.
func (p *philly) within(g *model.GangView, now model.Time) (model.Within, model.Time) {
	until := g.Since
	for i, d := range p.patience {
		if g.Leaves == 1 {
			break // one leaf is as close together as can be
		}
		if d < 0 {
			return phillyLevels[i], 0
		}
		if until = until.Add(d * model.Duration(p.times(g.Leaves))); now < until {
			return phillyLevels[i], until
		}
	}
	return model.Anywhere, 0
}

// insists is within, but under backfill no gang insists on anything: a booking is for where
// there will be room.
func (p *philly) insists(v model.View, g *model.GangView) (model.Within, model.Time) {
	if v.Backfills() {
		return model.Anywhere, 0
	}
	return p.within(g, v.Now())
}

// Rank implements model.Policy.
func (p *philly) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		pool := p.proving(v)
		for r := range v.WaitingByKey(math.MinInt64) {
			g := v.Gang(r.Ref)
			w, _ := p.insists(v, &g)
			was := v.Placed(r.Ref)
			if !was && pool.mustWait(&g) {
				if pool.held++; pool.held == mostHeld {
					return
				}
				continue
			}
			if !yield(pool.wish(model.Wish{Gang: r.Ref, Within: w}, &g)) {
				return
			}
			if p.nodes > 0 && !was && v.Placed(r.Ref) {
				pool.placed(&g)
			}
		}
	}
}

// NextChange implements model.Timed: when the first gang relaxes, or has proven itself.
func (p *philly) NextChange(v model.View) model.Time {
	next := p.proving(v).next(v)
	for g := range v.Waiting() {
		if _, until := p.insists(v, &g); until > 0 && (next == 0 || until < next) {
			next = until
		}
	}
	return next
}

// WhyHeldBack implements model.HoldsBack.
func (p *philly) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	g := v.Gang(ref)
	if pool := p.proving(v); !v.Placed(ref) {
		if why := pool.why(v, &g); why != "" {
			return why, pool.next(v)
		}
	}
	switch w, until := p.insists(v, &g); w {
	case model.OneSwitch:
		return "its policy " + model.WaitsForRoom + " under one switch", until
	case model.OneNode:
		return "its policy " + model.WaitsForRoom + " on one node, or on few", until
	case model.OneRack:
		return "its policy " + model.WaitsForRoom + " in one rack, or in few", until
	}
	return "", 0
}
