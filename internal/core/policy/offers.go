package policy

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// offers is Mesos' two-level scheduling (Hindman et al., NSDI'11) inside one VC: what is free
// is offered to one framework at a time, the one with the smallest dominant share first. A
// framework takes the first of its gangs that fits, and what remains is offered again. A
// framework that can use nothing declines, and is offered no more than it declined until the
// filter ends; nor after that, as long as nothing happens. It sees only what it is offered, so
// a gang that needs more than is ever free at once starves, unless its framework hoards: then
// no other one gets what that gang could use, until it starts. The framework that began to
// hoard first comes first, so two that hoard cannot block each other.
type offers struct {
	drf
	// refuse is how long a declined offer filters: refuse=5 seconds, Mesos' default
	// of refuse_seconds.
	refuse model.Duration
	// hoard=no: whether a framework keeps what is too little for its first gang.
	hoard bool
}

// newOffers reads by=user (default) or by=app, which says what a framework is, and
// weights as drf does.
func newOffers(a *args) *offers {
	o := &offers{drf: drf{by: model.ByUser}}
	if a.choice("by", "user", "app") == "app" {
		o.by = model.ByApp
	}
	o.weights = a.weights("weights")
	o.refuse = a.seconds("refuse", 5, 0, 86_400)
	o.hoard = a.flag("hoard", false)
	return o
}

// answer is what is noted of a framework, at the first of its waiting jobs: that it declined an
// offer, or that it hoards.
type answer struct {
	until  model.Time // the filter ends then
	leaves int64      // unless more than so many are free
	missed bool       // it might have been offered something else meanwhile
	hoards model.Time // it has hoarded since then; 0 is not
}

// answered reads a note: "declined UNTIL LEAVES", "missed UNTIL LEAVES" or
// "hoards SINCE".
func answered(v model.View, job model.JobID) (a answer) {
	kind, rest, _ := strings.Cut(string(v.Note(job)), " ")
	at, leaves, _ := strings.Cut(rest, " ")
	t, err := strconv.ParseInt(at, 10, 64)
	switch {
	case err != nil:
	case kind == "hoards":
		a.hoards = model.Time(t)
	default:
		a.until, a.missed = model.Time(t), kind == "missed"
		a.leaves, _ = strconv.ParseInt(leaves, 10, 64)
	}
	return a
}

// note makes the wish to note the answer.
func (a answer) note(job model.JobID) model.Wish {
	text := fmt.Sprintf("declined %d %d", a.until, a.leaves)
	switch {
	case a.hoards > 0:
		text = fmt.Sprintf("hoards %d", a.hoards)
	case a.missed:
		text = fmt.Sprintf("missed %d %d", a.until, a.leaves)
	}
	return model.Wish{Note: &model.Note{Job: job, Data: []byte(text)}}
}

// Rank implements model.Policy.
func (o *offers) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		all := o.frameworks(v)
		last := lastToHoard(all)
		for ok := true; len(all) > 0; {
			at, more := nextFramework(all), false
			switch u := &all[at]; {
			case o.hoard:
				more, ok = o.keep(v, u, max(v.Now(), last+1), yield)
				last = max(last, u.hoards)
			case u.waits == 0 && u.head.Shape != "" && u.until > v.Now() && v.Free() <= u.leaves:
				if !u.missed && !v.OnlyTimePassed() {
					u.missed = true
					ok = yield(u.note(u.head.Ref.Job))
				}
			default:
				more, ok = o.offer(v, u, yield)
			}
			if !ok {
				return
			}
			if all[at].took {
				o.weigh(v, all)
			}
			if !more {
				all = append(all[:at], all[at+1:]...)
			}
		}
	}
}

// framework is a user or an app with waiting gangs.
type framework struct {
	account
	answer             // noted at the first of its waiting jobs
	waits  model.JobID // the first of its jobs that got nothing now
	took   bool        // it took something of the last offer
}

// nextFramework returns the index of the framework to serve: those that hoard come first, the
// earliest to begin first, then the smallest share.
func nextFramework(all []framework) int {
	at := 0
	for i := range all {
		a, b := &all[i], &all[at]
		switch {
		case a.hoards > 0 && b.hoards > 0:
			if a.hoards < b.hoards || a.hoards == b.hoards && a.head.Order < b.head.Order {
				at = i
			}
		case a.hoards > 0, b.hoards == 0 && a.before(&b.account):
			at = i
		}
	}
	return at
}

// weigh reads all shares again, as drf does.
func (o *offers) weigh(v model.View, all []framework) {
	for i := range all {
		all[i].share = v.Share(o.by, all[i].gangs.Party)
	}
}

// frameworks returns the frameworks with waiting gangs.
func (o *offers) frameworks(v model.View) []framework {
	var out []framework
	for _, u := range o.waiting(v, v.Free() > 0) {
		a := answered(v, u.head.Ref.Job)
		if !o.hoard {
			a.hoards = 0
		} else {
			a.until = 0
		}
		out = append(out, framework{account: u, answer: a})
	}
	return out
}

// lastToHoard returns when the last of the hoarding frameworks began to.
func lastToHoard(all []framework) (last model.Time) {
	for i := range all {
		last = max(last, all[i].hoards)
	}
	return last
}

// keep makes an offer to a framework that hoards: no other one gets what its first gang could
// use. Each begins to hoard at a time of its own: of two with the same time the other could
// come first at the next look. It reports whether the framework has more gangs, and whether to
// go on.
func (o *offers) keep(v model.View, u *framework, since model.Time, yield func(model.Wish) bool) (more, ok bool) {
	ref := u.head.Ref
	if !yield(model.Wish{Gang: ref, Strict: true}) {
		return false, false
	}
	ok, u.took = true, v.Placed(ref)
	switch {
	case u.took:
		if u.waits == 0 && u.hoards > 0 { // that is what it hoarded for
			u.hoards = 0
			ok = yield(model.Wish{Note: &model.Note{Job: ref.Job}})
		}
	case u.waits == 0:
		if u.waits = ref.Job; u.hoards == 0 {
			u.hoards = since
			ok = yield(u.note(ref.Job))
		}
	}
	u.head, more = u.gangs.Next()
	return more, ok
}

// offer makes an offer to a framework; it reports whether that took something and wants more,
// and whether to go on.
func (o *offers) offer(v model.View, u *framework, yield func(model.Wish) bool) (more, ok bool) {
	free := v.Free()
	u.took, u.until = false, 0 // one that takes something is offered what remains
	for more = true; more; {
		ref := u.head.Ref
		if fits(&u.head, free) {
			if !yield(model.Wish{Gang: ref}) {
				return false, false
			}
			if u.took = v.Placed(ref); u.took {
				u.head, more = u.gangs.Next()
				return more, true
			}
			u.head, more = u.gangs.Next()
		} else {
			u.head, more = u.gangs.NextShape()
		}
		if u.waits == 0 {
			u.waits = ref.Job
		}
	}
	if o.refuse == 0 || free == 0 {
		return false, true
	}
	return false, yield(answer{until: v.Now().Add(o.refuse), leaves: free}.note(u.waits))
}

// WhyHeldBack implements model.HoldsBack: the filters.
func (o *offers) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	g, ok := findWaiting(v, ref)
	if !ok {
		return "", 0
	}
	for _, u := range o.frameworks(v) {
		if p := u.gangs.Party; p == (model.Party{User: g.User}) || o.by == model.ByApp && p.App == g.Hints.App {
			if u.until > v.Now() && v.Free() <= u.leaves {
				return "its framework declined an offer and gets no other for a while", u.until
			}
		}
	}
	return "", 0
}

// NextChange implements model.Timed: the first filter to end of a framework that
// missed something.
func (o *offers) NextChange(v model.View) model.Time {
	if o.hoard || o.refuse == 0 || v.Free() == 0 {
		return 0
	}
	var next model.Time
	for _, a := range o.frameworks(v) {
		if a.missed && a.until > v.Now() && (next == 0 || a.until < next) {
			next = a.until
		}
	}
	return next
}
