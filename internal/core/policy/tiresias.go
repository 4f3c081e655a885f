package policy

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// tiresias is what Tiresias (NSDI'19) has beside its queues, for las and gittins: starved gangs
// are promoted to the first queue, and models with skewed tensors are consolidated on few
// nodes. The zero value does nothing.
//
// The note of a job of one gang says how long it had run when it was promoted last: "promoted
// after 1200000000us". Service counts from there.
type tiresias struct {
	// promote=0: a gang that ran, sank, and waits for so many times as long as it ran begins
	// anew in the first queue; in thousandths, 0 is never (PROMOTEKNOB of the authors' simulator).
	promote int64
	// skewed are the models that insist on as few nodes as they can have: those whose largest
	// tensor is a great part of them. Others run anywhere.
	skewed []string
}

func newTiresias(a *args) tiresias {
	t := tiresias{promote: a.thousandths("promote", 0, 0, 1_000_000_000)}
	if text, ok := a.take("skewed"); ok {
		t.skewed = strings.Split(text, "/")
		if len(t.skewed) > maxList || slices.Contains(t.skewed, "") {
			a.fail("skewed", "a list of models such as vgg16/alexnet", text)
		}
	}
	return t
}

// starts is how long a gang had run when it was promoted last.
func (t *tiresias) starts(g *model.GangView) model.Duration {
	text, ok := bytes.CutPrefix(g.Note, []byte("promoted after "))
	if t.promote == 0 || !ok {
		return 0
	}
	ran, _ := strconv.ParseInt(string(bytes.TrimSuffix(text, []byte("us"))), 10, 64)
	return model.Duration(ran)
}

// sincePromotion is a gang without the time that it ran before it was promoted last.
func (t *tiresias) sincePromotion(g *model.GangView) *model.GangView {
	before := t.starts(g)
	if before == 0 {
		return g
	}
	f := *g
	f.RanBefore, f.Ran = g.RanBefore-before, max(g.Ran-before, 0)
	return &f
}

// due is when a gang is promoted if it waits until then; 0 is never.
func (t *tiresias) due(l levels, g *model.GangView) model.Time {
	f := t.sincePromotion(g)
	if t.promote == 0 || g.Gangs != 1 || g.Started != 0 || l.queue(f) == 0 {
		return 0
	}
	return g.Since.Add(model.Duration(scale(int64(f.Ran), t.promote, 1000)))
}

// promotions yields a note for each gang that has starved.
func (t *tiresias) promotions(l levels, v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		if t.promote == 0 {
			return
		}
		var notes []model.Note
		for g := range v.Waiting() {
			if at := t.due(l, &g); at > 0 && at <= v.Now() {
				notes = append(notes, model.Note{Job: g.Ref.Job, Data: fmt.Appendf(nil, "promoted after %dus", int64(g.Ran))})
			}
		}
		for i := range notes {
			if !yield(model.Wish{Note: &notes[i]}) {
				return
			}
		}
	}
}

// next is when the first gang that waits will have starved.
func (t *tiresias) next(l levels, v model.View) (next model.Time) {
	if t.promote == 0 {
		return 0
	}
	for g := range v.Waiting() {
		if at := t.due(l, &g); at > v.Now() && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// RestrictsNodes implements model.RestrictsNodes.
func (t *tiresias) RestrictsNodes() bool { return len(t.skewed) > 0 }

// within is how far apart the leaves of a gang may be: under backfill they may be anywhere, since
// a booking is for where there will be room.
func (t *tiresias) within(v model.View, ref model.GangRef) model.Within {
	if len(t.skewed) == 0 || v.Backfills() {
		return model.Anywhere
	}
	if g := v.Gang(ref); g.Leaves > 1 && slices.Contains(t.skewed, g.Hints.Model) {
		return model.OneNode
	}
	return model.Anywhere
}

// tiresiasOrder is an order by attained service with what tiresias adds.
type tiresiasOrder struct {
	*aging
	*tiresias
	limits levels
}

// newServed makes it of a key and of when the key of a gang that runs changes; both see
// service from the last promotion on.
func newServed(a *args, l levels, key func(*model.GangView) model.Key, until func(model.Time, *model.GangView) model.Time) model.Policy {
	t := newTiresias(a)
	s := &tiresiasOrder{&aging{newPreempting(a, key), until}, &t, l}
	if len(t.skewed) > 0 {
		s.where = t.within
	}
	if t.promote > 0 {
		s.key = func(g *model.GangView) model.Key { return key(t.sincePromotion(g)) }
		s.until = func(after model.Time, g *model.GangView) model.Time { return until(after, t.sincePromotion(g)) }
		return &promoting{s}
	}
	return s
}

// WhyHeldBack implements model.HoldsBack.
func (t *tiresias) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	if t.within(v, ref) == model.Anywhere {
		return "", 0
	}
	return "its model is skewed, so its policy " + model.WaitsForRoom + " on one node, or on few", 0
}

// promoting is served with promotions.
type promoting struct{ *tiresiasOrder }

// Rank implements model.Policy.
func (p *promoting) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for w := range p.promotions(p.limits, v) {
			if !yield(w) {
				return
			}
		}
		p.tiresiasOrder.Rank(v)(yield)
	}
}

// NextChange implements model.Timed: the first that sinks, or that has starved.
func (p *promoting) NextChange(v model.View) model.Time {
	next := p.next(p.limits, v)
	for g := range v.Running() {
		if at := p.NextKeyChange(v.Now(), &g); at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
