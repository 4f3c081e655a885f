package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// params reads "by=team weights=a:2".
func params(text string) []model.Param {
	var out []model.Param
	for _, f := range strings.Fields(text) {
		k, v, _ := strings.Cut(f, "=")
		out = append(out, model.Param{Key: k, Value: v})
	}
	return out
}

func make1(t *testing.T, name, text string) model.Policy {
	t.Helper()
	p, err := policy.New(model.VCConfig{Name: "a", Policy: name, Params: params(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run grants what fits and keeps notes; it returns the wishes as text: the job, !
// when it was granted, @ and the preferred node.
func (b *board) run(p model.Policy) string {
	var out []string
	for w := range p.Rank(b) {
		if n := w.Note; n != nil {
			b.notes[n.Job] = n.Data
			out = append(out, fmt.Sprintf("(%d %s)", n.Job, n.Data))
			continue
		}
		i := slices.IndexFunc(b.waiting, func(g model.GangView) bool { return g.Ref == w.Gang })
		g := b.waiting[i]
		text := fmt.Sprint(g.Ref.Job)
		if g.Leaves <= b.free {
			b.free -= g.Leaves
			b.held[whose(&g)] += g.Leaves
			b.placed[g.Ref] = true
			text += "!"
		}
		for n := range w.Prefer.All() {
			text += fmt.Sprintf("@%d", n)
		}
		if w.Strict {
			text += " strict"
		}
		out = append(out, text)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(g model.GangView) bool { return b.placed[g.Ref] })
	return strings.Join(out, ", ")
}

// ask adds a gang of one task that waits.
func (b *board) ask(user, queue string, leaves int32, seconds model.Duration) {
	b.jobs++
	b.waiting = append(b.waiting, model.GangView{Ref: model.GangRef{Job: b.jobs}, User: model.Subject(user), Order: int64(b.jobs),
		Leaves: leaves, Members: []cell.Member{{Tasks: 1, Leaves: leaves}}, Shape: fmt.Sprint(leaves),
		Hints: &model.Hints{Queue: queue, Duration: seconds * model.Second}})
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// What is wrong with parameters is said in full.
func TestFairParameters(t *testing.T) {
	for _, c := range []struct{ policy, params, want string }{
		{"drf", "by=group", `parameter "by" of policy "drf" is user or team, not "group"`},
		{"drf", "weights=a:0", `parameter "weights" of policy "drf" is a list of names with whole weights from 1 to 1000000, such as ann:2/bob:1, not "a:0"`},
		{"drf", "weights=a:1/a:2", `parameter "weights" of policy "drf" is a list of names with whole weights from 1 to 1000000, such as ann:2/bob:1, not "a:1/a:2"`},
		{"capacity", "queues=a:50/b:40", `parameter "queues" of policy "capacity": the queues of the VC sum to 90 percent, not 100`},
		{"capacity", "queues=a:100/a.x:70/b.y:5", `parameter "queues" of policy "capacity": there is no queue "b" for "b.y" to stand under; ` +
			`parameter "queues" of policy "capacity": the queues of a sum to 70 percent, not 100`},
		{"capacity", "queues=a:60:50/b:40", `parameter "queues" of policy "capacity" is a list of queues, each with its percentage and the most it may use, such as prod:60:100/prod.train:70/prod.serve:30/dev:40, not "a:60:50"; ` +
			`parameter "queues" of policy "capacity": the queues of the VC sum to 40 percent, not 100`},
		{"capacity", "round=1.5", `parameter "round" of policy "capacity" is a number from 0.001 to 1 with at most three decimals, not "1.5"`},
		{"tetris", "fairness=1", `parameter "fairness" of policy "tetris" is a number from 0 to 0.999 with at most three decimals, not "1"`},
		{"tetris", "work=.5", `parameter "work" of policy "tetris" is a number from 0 to 100 with at most three decimals, not ".5"`},
		{"offers", "refuse=x hoard=maybe", `parameter "refuse" of policy "offers" is a time of 0 to 86400 seconds, such as 90, 90s or 5m, not "x"; parameter "hoard" of policy "offers" is true or false, not "maybe"`},
	} {
		_, err := policy.New(model.VCConfig{Policy: c.policy, Params: params(c.params)})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:%s:\n got %v\nwant %s", c.policy, c.params, err, c.want)
		}
	}
}

// A weight of 2 is served twice as much, for users and for teams.
func TestDRFWeights(t *testing.T) {
	b := newBoard(9)
	for range 9 {
		b.ask("ann", "x", 1, 0)
	}
	for range 9 {
		b.ask("bob", "y", 1, 0)
	}
	b.run(make1(t, "drf", "weights=bob:2"))
	is(t, "by user", fmt.Sprint(b.Held(model.ByUser, model.Party{User: "ann"}), b.Held(model.ByUser, model.Party{User: "bob"})), "3 6")
	b = newBoard(9)
	for i := range 9 {
		b.ask(fmt.Sprint("x", i), "x", 1, 0)
	}
	b.ask("y", "y", 9, 0)
	for range 9 {
		b.ask("y", "y", 1, 0)
	}
	b.run(make1(t, "drf", "by=team weights=y:2"))
	is(t, "by team", fmt.Sprint(b.Held(model.ByQueue, model.Party{Queue: "x"}), b.Held(model.ByQueue, model.Party{Queue: "y"})), "3 6")
}

// Of 20 leaves p owns 60 %, and of these q 75 %: 9, and r 3; d owns 8 and may use
// 10. The queue that uses least of its guarantee is next. p and d begin equal, so p
// comes first, and in it q; 1/12 against 0 gives d; 1/12 against 1/8 p, and in it 1/9
// against 0 r; 2/12 against 1/8 d; and so on. What names no queue comes last.
func TestCapacityOrder(t *testing.T) {
	b := newBoard(20)
	const tree = "queues=p:60/p.q:75/p.r:25:50/d:40:50 userLimitFactor=10"
	for range 4 {
		b.ask("ann", "p.q", 1, 0) // 1, 5, 9, 13
		b.ask("bob", "r", 1, 0)
		b.ask("cat", "d", 1, 0)
		b.ask("dan", "nowhere", 1, 0)
	}
	is(t, "order", b.run(make1(t, "capacity", tree)), "1!, 3!, 2!, 7!, 5!, 9!, 11!, 13!, 15!, 6!, 10!, 14!, 4!, 8!, 12!, 16!")
	b = newBoard(20)
	for range 20 {
		b.ask("cat", "d", 1, 0)
	}
	b.run(make1(t, "capacity", tree))
	is(t, "d stops at its maximum", fmt.Sprint(b.free), "10")
	b = newBoard(20)
	b.ask("cat", "d", 12, 0)
	b.ask("cat", "d", 1, 0)
	is(t, "but who holds nothing may start one gang", b.run(make1(t, "capacity", tree)), "1!")
}

// The limits of users with gangs of several leaves.
func TestCapacityUserLimit(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"queues=a:50/b:50", "1!, 2!"},                                     // 6 of 8; a third would make 9
		{"queues=a:50/b:50 userLimitFactor=1.2", "1!, 2!, 3!"},             // 9 of 9.6, rounded up
		{"queues=a:50/b:50 userLimitFactor=2", "1!, 2!, 3!, 4!, 5!"},       // 15 of 16
		{"queues=a:50:80/b:50 userLimitFactor=2", "1!, 2!, 3!, 4!"},        // the queue stops at 12.8
		{"queues=a:50/b:50 minimumUserLimit=25 userLimitFactor=0.1", "1!"}, // who holds nothing starts one
	} {
		b := newBoard(16)
		for range 6 {
			b.ask("ann", "a", 3, 0)
		}
		is(t, c.params, b.run(make1(t, "capacity", c.params)), c.want)
	}
}

// A limit is a reason to wait only where it is less than the VC: that this is full says the rest.
func TestCapacitySaysWhatHolds(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"", ""},
		{"queues=a:50/b:50", "user ann holds 16 GPUs in queue a, of at most 8"},
		{"queues=a:50:80/b:50 userLimitFactor=5", "queue a uses 16 GPUs of at most 12"},
		{"queues=a:50/b:50 userLimitFactor=5", ""},
	} {
		b := newBoard(16)
		for range 2 {
			b.ask("ann", "a", 16, 0)
		}
		p := make1(t, "capacity", c.params)
		b.run(p)
		got, _ := p.(model.HoldsBack).WhyHeldBack(b, b.waiting[0].Ref)
		is(t, c.params, got, c.want)
	}
}

// Alignment of a gang of 4 with an idle machine of 8 is 4/8 x 8/8 = 0.5, of one of
// 2 it is 0.25, so that the larger goes first. With the work term, whose mean is (4 x
// 101 + 2 x 11) / 2 = 213 leaf-seconds and mean alignment 0.375, they have scores of -0.21 and
// 0.21.
func TestTetrisScores(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"work=0", "1!@7, 2!@7"},
		{"", "2!@7, 1!@7"},
	} {
		b := newBoard(9)
		b.nodes = []model.NodeView{
			{Node: 3, Offers: []model.Offer{{SKU: "g", Idle: 1, Of: 8}}},
			{Node: 7, Offers: []model.Offer{{SKU: "g", Idle: 8, Of: 8}}},
		}
		b.ask("ann", "", 4, 100)
		b.ask("ann", "", 2, 10)
		is(t, "tetris "+c.params, b.run(make1(t, "tetris", c.params)), c.want)
	}
}

// A gang goes where several kinds of leaves are aligned with it. On machine 1 (1 c
// and 4 m of 5) a demand of (1, 4) has 1/5 x 1/5 + 4/5 x 4/5 = 0.68; on machine 2, which
// is idle, it has 1; and one of (4, 1) fits only there.
func TestTetrisTwoKinds(t *testing.T) {
	b := newBoard(20)
	b.nodes = []model.NodeView{
		{Node: 1, Offers: []model.Offer{{SKU: "c", Idle: 1, Of: 5}, {SKU: "m", Idle: 4, Of: 5}}},
		{Node: 2, Offers: []model.Offer{{SKU: "c", Idle: 4, Of: 5}, {SKU: "m", Idle: 1, Of: 5}}},
	}
	b.ask("ann", "", 5, 0)
	b.ask("ann", "", 5, 0)
	b.waiting[0].Members = []cell.Member{{Tasks: 1, Leaves: 4, SKUs: []cell.TypeName{"c"}}, {Tasks: 1, Leaves: 1, SKUs: []cell.TypeName{"m"}}}
	b.waiting[1].Members = []cell.Member{{Tasks: 1, Leaves: 1, SKUs: []cell.TypeName{"c"}}, {Tasks: 1, Leaves: 4, SKUs: []cell.TypeName{"m"}}}
	b.waiting[0].Shape, b.waiting[1].Shape = "x", "y"
	is(t, "tetris", b.run(make1(t, "tetris", "")), "1!@2, 2!@1")
}

// With f = 0.5 only the half of the users that have least is served, although the
// others' gangs are aligned better.
func TestTetrisFairness(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"fairness=0", "2!, 1!"},
		{"fairness=0.5", "1!, 2!"},
	} {
		b := newBoard(16)
		b.held[model.Party{User: "bob"}], b.free = 4, 12
		b.nodes = []model.NodeView{{Node: 1, Offers: []model.Offer{{SKU: "g", Idle: 12, Of: 16}}}}
		b.ask("ann", "", 1, 0)
		b.ask("bob", "", 8, 0)
		is(t, "tetris "+c.params, strings.ReplaceAll(b.run(make1(t, "tetris", c.params)), "@1", ""), c.want)
	}
}

// An offer goes to the smallest share, which declines; the filter lasts 5 s, unless
// more is free.
func TestOffers(t *testing.T) {
	p := make1(t, "offers", "").(model.Timed)
	b := newBoard(4)
	b.now, b.notes = model.Time(100*model.Second), map[model.JobID][]byte{}
	b.held[model.Party{User: "small"}], b.free = 3, 1
	b.ask("whole", "", 2, 0)
	b.ask("small", "", 1, 0)
	is(t, "whole declines and small takes", b.run(p), "(1 declined 105000000 1), 2!")
	is(t, "nothing was missed", fmt.Sprint(p.NextChange(b)), "0")
	b.free, b.held[model.Party{User: "small"}], b.now = 1, 3, b.now.Add(2*model.Second)
	b.ask("small", "", 1, 0)
	is(t, "whole is filtered", b.run(p), "(1 missed 105000000 1), 3!")
	b.free, b.held[model.Party{User: "small"}] = 1, 3
	is(t, "it is looked at when the filter ends", fmt.Sprint(p.NextChange(b)), fmt.Sprint(105*model.Second))
	b.free, b.held[model.Party{User: "small"}] = 2, 2
	is(t, "more than it declined it is offered at once", b.run(p), "1!")
}

// Who hoards is strict, and goes before smaller shares as long as it waits.
func TestOffersHoard(t *testing.T) {
	p := make1(t, "offers", "hoard=yes")
	b := newBoard(4)
	b.now, b.notes = 5, map[model.JobID][]byte{}
	b.held[model.Party{User: "ann"}], b.free = 3, 1
	b.ask("ann", "", 2, 0)
	is(t, "ann begins to hoard", b.run(p), "1 strict, (1 hoards 5)")
	b.ask("bob", "", 1, 0)
	b.now = 9
	is(t, "bob comes after her", b.run(p), "1 strict, 2! strict")
}
