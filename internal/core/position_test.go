package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// waits is what is told of one job that waits.
type waits struct {
	name     model.JobName
	user     model.Subject
	queue    string // its VC, and whether it borrows
	priority cell.Priority
	position int32
	start    model.Time
	reason   model.Code
	order    string
}

// On random states of all policies the place in the queue and the estimate agree: wherever a job
// starts before one that stands ahead of it in the same queue, its estimate and the other one's
// say so, by name; and what is promised cells stands before all that are not.
func TestPositionAgreesWithEstimate(t *testing.T) {
	pairs, others := 0, 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 11))
		all := crowd(t, r)
		for _, a := range all {
			for _, b := range all {
				if a.queue != b.queue || a.position >= b.position {
					continue
				}
				pairs++
				if b.start < a.start {
					others++
				}
				if err := agree(&a, &b); err != nil {
					t.Errorf("seed %d: %v\n%+v\n%+v", seed, err, a, b)
				}
			}
		}
	}
	t.Logf("%d pairs of jobs in one queue, of which %d start the other way around", pairs, others)
	if seeds.Modest() && (pairs < 200 || others < 5) {
		t.Errorf("too little was tried: %d pairs, %d the other way around", pairs, others)
	}
}

// agree compares what is told of a job and of another one that stands behind it.
func agree(a, b *waits) error {
	overtakes := b.start < a.start
	if named := names(a.order, "after ", b.name.ShownTo(a.user, b.user)); named != overtakes {
		return fmt.Errorf("the estimate of %s names %s as sooner: %v, and it is: %v", a.name, b.name, named, overtakes)
	}
	if named := names(b.order, "before ", a.name.ShownTo(b.user, a.user)); named != overtakes {
		return fmt.Errorf("the estimate of %s names %s as later: %v, and it is: %v", b.name, a.name, named, overtakes)
	}
	if b.reason == model.WaitingPreemption && a.reason != b.reason && a.priority == b.priority {
		return fmt.Errorf("%s has its cells promised and stands behind %s", b.name, a.name)
	}
	return nil
}

// names reports whether the part of a text that begins so names a job.
func names(text, begins, name string) bool {
	for part := range strings.SplitSeq(text, "; ") {
		if rest, ok := strings.CutPrefix(part, begins); ok {
			return slices.Contains(strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' }), name)
		}
	}
	return false
}

// crowd lets jobs of one priority and of none come to two VCs, and returns what is told of those
// that wait and whose start is one instant.
func crowd(t *testing.T, r *rand.Rand) (out []waits) {
	s := crowded12(t, r)
	for _, j := range s.Jobs() {
		est, ok := s.Estimate(j.ID, nil)
		if e, _ := s.Why(j.ID); ok && est.Latest != 0 && est.Earliest == est.Latest {
			out = append(out, waits{j.Name, j.User, fmt.Sprint(j.VC, e.Borrower), j.Priority, e.Position, est.Latest, e.Gangs[0].Reason.Code, est.Order})
		}
	}
	return out
}

// crowded12 is the state in which twelve jobs came.
func crowded12(t *testing.T, r *rand.Rand) *core.State {
	cfg := cluster(4, map[cell.VCName]int32{"a": 2, "b": 1})
	for i := range cfg.VCs {
		cfg.VCs[i].Policy = policy.Names()[r.IntN(len(policy.Names()))]
		cfg.VCs[i].Backfill = []string{"", "easy"}[r.IntN(2)]
	}
	w := newWorld(t, cfg)
	for i := range 12 {
		w.now += model.Time(r.IntN(30_000_000))
		j := gangJob(fmt.Sprint("j", i), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 10, 10, 100}[r.IntN(4)], 1, 1+r.Int32N(4))
		j.User, j.Grace = model.Subject(fmt.Sprint("u", r.IntN(2))), 0 // so that all paces are one
		limited(j, model.Duration(1+r.IntN(50))*model.Minute)
		j.Hints.Duration = j.TimeLimit // else nothing says that it does not end sooner
		w.start(w.submit(j))
	}
	return w.s.At(w.now)
}

// A gang whose booking is due by its time, and that cannot start yet, keeps a booking: its own does
// not count against it, else it goes to another gang and comes back at each look.
func TestOwnBookingIsKept(t *testing.T) { crowded12(t, rand.New(rand.NewPCG(75194, 11))) }

// On random states no two jobs of one VC have the same place, whatever they wait for: the places
// are the numbers from 1 to how many wait there.
func TestPlacesAreDistinct(t *testing.T) {
	mixed := 0
	for seed := range seeds.Of(t, 60) {
		s := crowded12(t, rand.New(rand.NewPCG(seed, 11)))
		places, of, borrow := map[cell.VCName][]int32{}, map[cell.VCName]int32{}, map[cell.VCName]int{}
		for _, j := range s.Jobs() {
			if e, ok := s.Why(j.ID); ok && e.Position > 0 {
				places[e.VC], of[e.VC] = append(places[e.VC], e.Position), e.Waiting
				if e.Borrower {
					borrow[e.VC]++
				}
			}
		}
		for vc, list := range places {
			if n := borrow[vc]; n > 0 && n < len(list) {
				mixed++
			}
			slices.Sort(list)
			for i, at := range list {
				if at != int32(i)+1 || of[vc] != int32(len(list)) {
					t.Errorf("seed %d: in %s the places are %v of %d", seed, vc, list, of[vc])
					break
				}
			}
		}
	}
	if seeds.Modest() && mixed < 20 {
		t.Errorf("in %d VCs both kinds of jobs wait, want 20", mixed)
	}
}

// A position says what it is, where jobs do not start in its order.
func TestPositionSaysWhatItIs(t *testing.T) {
	for _, c := range []struct {
		policy, backfill string
		cordon           bool
		want             string
	}{
		{"fifo", "", false, ""},
		{"fifo", "", true, "jobs behind this one may start first: it waits for cordoned nodes"},
		{"fifo", "easy", false, "in the order of fifo; a job behind this one may start earlier where that does not delay it"},
		{"", "easy", false, "in the order of fifo; a job behind this one may start earlier where that does not delay it"},
		{"las", "", false, "in the order of las, which changes with time; a smaller job behind this one may start earlier"},
	} {
		cfg := cluster(2, map[cell.VCName]int32{"a": 2})
		cfg.VCs[0].Policy, cfg.VCs[0].Backfill = c.policy, c.backfill
		w := newWorld(t, cfg)
		if c.cordon {
			w.do(model.Cordon{Node: "n1", On: true})
		}
		w.start(w.submit(limited(gangJob("runs", "a", 10, 1, 4), model.Hour)))
		id := w.submit(limited(gangJob("waits", "a", 10, 2, 4), model.Hour))
		e := w.explain(id)
		want(t, c.policy+c.backfill, e.Order, c.want)
		want(t, "its position", e.Position, int32(1))
	}
}
