package core_test

import (
	"fmt"
	"iter"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// typed is a policy that wishes one type for some jobs, and sees what a test asks of the view.
type typed struct {
	sku   map[model.JobID]cell.TypeName
	over  func(model.View) iter.Seq[model.GangRef]
	see   func(model.View)
	sizes map[model.JobID]int32
}

func (p *typed) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		if p.see != nil {
			p.see(v)
		}
		for g := range v.Waiting() {
			w := model.Wish{Gang: g.Ref, SKU: p.sku[g.Ref.Job], Size: p.sizes[g.Ref.Job]}
			if p.over != nil {
				w.Preemptible = p.over(v)
			}
			if !yield(w) {
				return
			}
		}
	}
}

// firm is the same where members above a minimum stand where that stands.
type firm struct{ typed }

func (p *firm) MembersFollowMinimum() {}

// twoTypes are a node n0 with some leaves of G and n1 with some of H, of VC a; VC b has none.
func twoTypes(g, h int, backfill string) *model.Config {
	spec := cell.Spec{SKUs: []cell.SKU{{Name: "G", GPU: 1, Device: cell.NVIDIA}, {Name: "H", GPU: 1, Device: cell.NVIDIA}}}
	a := cell.VCSpec{Name: "a"}
	for i, n := range []int{g, h} {
		leaf, chain := spec.SKUs[i].Name, cell.ChainName(fmt.Sprintf("N%d", i))
		spec.Chains = append(spec.Chains, cell.ChainSpec{Name: chain, Levels: []cell.LevelSpec{{Type: leaf}, {Type: cell.TypeName(chain), Fanout: int32(n), IsNode: true}}})
		node := cell.CellSpec{Type: cell.TypeName(chain), Address: fmt.Sprintf("n%d", i)}
		for l := range n {
			node.Children = append(node.Children, cell.CellSpec{Type: leaf, Address: fmt.Sprint(l)})
		}
		spec.Cells = append(spec.Cells, node)
		a.Quota = append(a.Quota, cell.QuotaSpec{Chain: chain, Level: 2, Number: 1})
	}
	spec.VCs = []cell.VCSpec{a, {Name: "b"}}
	return &model.Config{Cluster: spec, VCs: []model.VCConfig{{Name: "a", Backfill: backfill}, {Name: "b"}}}
}

func typedWorld(t *testing.T, c *model.Config, p model.Policy) *world {
	w := &world{t: t, now: 1_000_000}
	w.policies = func(model.VCConfig) (model.Policy, error) { return p, nil }
	w.s = core.New(w.policies)
	w.do(model.Reconfigure{Config: c})
	return w
}

// A gang that is wished one type gets no other, and with backfill nothing is booked for it.
func TestWishOfOneType(t *testing.T) {
	for _, backfill := range []string{"", "easy", "conservative"} {
		room := map[cell.TypeName]bool{}
		p := &typed{sku: map[model.JobID]cell.TypeName{1: "H", 2: "H"}}
		p.see = func(v model.View) {
			for _, sku := range []cell.TypeName{"G", "H"} {
				room[sku] = v.FindsFree(model.GangRef{Job: 2}, sku)
			}
		}
		w := typedWorld(t, twoTypes(4, 4, backfill), p)
		one := w.submit(gangJob("one", "a", 10, 1, 4))
		want(t, backfill+": the first", w.where(one), "n1[0 1 2 3]")
		two := w.submit(gangJob("two", "a", 10, 1, 4))
		want(t, backfill+": the second", w.where(two), "Waiting")
		want(t, backfill+": room on G", room["G"], true)
		want(t, backfill+": room on H", room["H"], false)
		for _, r := range w.log {
			if e, ok := r.Event.(model.Booked); ok {
				t.Errorf("%s: it is booked: %+v", backfill, e)
			}
		}
		w.start(one)
		w.exit(one, 0)
		want(t, backfill+": the second then", w.where(two), "n1[0 1 2 3]")
	}
}

// What was booked for a gang before its policy wished one type is given back.
func TestBookingBeforeAType(t *testing.T) {
	p := &typed{sku: map[model.JobID]cell.TypeName{}}
	w := typedWorld(t, twoTypes(4, 4, "conservative"), p)
	limited := func(name string) *model.Job {
		j := gangJob(name, "a", 10, 1, 4)
		j.TimeLimit = model.Minute
		return j
	}
	one, two := w.submit(limited("one")), w.submit(limited("two"))
	w.start(one)
	w.start(two)
	three := w.submit(limited("three"))
	booked := func() (leaves int) {
		for _, r := range w.log {
			if e, ok := r.Event.(model.Booked); ok && e.Job == three {
				leaves = len(e.Leaves)
			}
		}
		return leaves
	}
	want(t, "booked leaves", booked(), 4)
	p.sku[three] = "H"
	w.look()
	want(t, "booked leaves of one that is to have one type", booked(), 0)
	free := map[string]model.JobID{w.where(one): one, w.where(two): two}
	w.exit(free["n0[0 1 2 3]"], 0)
	want(t, "with the other type free", w.where(three), "Waiting")
	w.exit(free["n1[0 1 2 3]"], 0)
	want(t, "with its type free", w.where(three), "n1[0 1 2 3]")
}

// Under a Firm policy members above a minimum get leaves of its types only, with backfill, too;
// under others any.
func TestFirmMembersKeepToTheirType(t *testing.T) {
	for _, backfill := range []string{"", "easy", "conservative"} {
		for _, c := range []struct {
			p    model.Policy
			want string
		}{
			{&typed{sku: map[model.JobID]cell.TypeName{1: "G"}}, "n0[0] n0[1] n1[0]"},
			{&firm{typed{sku: map[model.JobID]cell.TypeName{1: "G"}}}, "n0[0] n0[1] Waiting"},
		} {
			w := typedWorld(t, twoTypes(2, 4, backfill), c.p)
			job := elasticJob("job", "a", 10, 3)
			id := w.submit(job)
			want(t, fmt.Sprintf("%q %T", backfill, c.p), w.where(id), c.want)
		}
	}
}

// Under a Firm policy who is to leave for others of its priority is named by its minimum: the
// members above it go first, and they go only then.
func TestFirmMembersLeaveByTheirMinimum(t *testing.T) {
	for _, c := range []struct {
		named bool
		firm  bool
		want  string // of the elastic job
	}{
		{false, false, "n0[0] n0[1] Waiting"}, // elsewhere members may always go
		{false, true, "n0[0] n0[1] n0[2]"},
		{true, true, "n0[0] n0[1] Waiting"},
	} {
		over := func(model.View) iter.Seq[model.GangRef] {
			return func(yield func(model.GangRef) bool) {
				if c.named {
					yield(model.GangRef{Job: 1})
				}
			}
		}
		var p model.Policy = &typed{over: over}
		if c.firm {
			p = &firm{typed{over: over}}
		}
		w := typedWorld(t, twoTypes(3, 1, ""), p)
		one := elasticJob("one", "a", 10, 3)
		one.Roles[0].SKUs = []cell.TypeName{"G"}
		id := w.submit(one)
		w.start(id)
		w.now += model.Time(model.Minute)
		two := gangJob("two", "a", 10, 1, 1)
		two.Roles[0].SKUs = []cell.TypeName{"G"}
		w.submit(two)
		stopped := 0
		for _, r := range w.log {
			if e, ok := r.Event.(model.StopSent); ok {
				stopped++
				want(t, fmt.Sprintf("%+v: who is stopped", c), e.Attempt.Gang, int32(2))
			}
		}
		if left := c.want != "n0[0] n0[1] n0[2]"; left != (stopped == 1) {
			t.Errorf("%+v: %d were stopped", c, stopped)
		}
	}
}

// That a job of the VC can have several sizes says nothing of other VCs.
func TestElasticIsOfTheVC(t *testing.T) {
	elastic := map[cell.VCName]bool{}
	p := &typed{see: func(v model.View) { elastic[v.VC()] = v.Elastic() }}
	w := typedWorld(t, cluster(2, map[cell.VCName]int32{"a": 1, "b": 1}), p)
	w.submit(gangJob("plain", "a", 10, 1, 4))
	w.submit(gangJob("next", "a", 10, 1, 4))
	one := w.submit(elasticJob("one", "b", 10, 3))
	w.submit(gangJob("last", "b", 10, 1, 4))
	w.look()
	want(t, "VC a", elastic["a"], false)
	want(t, "VC b", elastic["b"], true)
	fresh, err := core.Load(w.s.Save(), w.policies)
	if err != nil {
		t.Fatal(err)
	}
	clear(elastic)
	fresh.LookAgain()
	fresh.Decide(w.now)
	want(t, "VC b after a restart", elastic["b"], true)
	w.do(model.Stop{Job: one})
	w.exit(one, 1)
	w.look()
	want(t, "VC b when that has ended", elastic["b"], false)
}

// A type of which no node is allowed to a job is of no use to it.
func TestUsableTypes(t *testing.T) {
	usable := map[cell.TypeName]bool{}
	p := &typed{see: func(v model.View) {
		for _, sku := range []cell.TypeName{"G", "H"} {
			usable[sku] = v.Usable(model.GangRef{Job: 1}, sku)
		}
	}}
	for _, c := range []struct {
		job  func(*model.Job)
		g, h bool
	}{
		{func(*model.Job) {}, true, true},
		{func(j *model.Job) { j.AllowedNodes = []cell.NodeName{"n1"} }, false, true},
		{func(j *model.Job) { j.AvoidedNodes = []cell.NodeName{"n1"} }, true, false},
		{func(j *model.Job) { j.Roles[0].SKUs = []cell.TypeName{"G"} }, true, false},
		{func(j *model.Job) { j.Roles[0].Leaves = 3 }, false, true},
	} {
		w := typedWorld(t, twoTypes(2, 4, ""), p)
		job := gangJob("job", "a", 10, 1, 1)
		c.job(job)
		w.submit(job)
		want(t, "G", usable["G"], c.g)
		want(t, "H", usable["H"], c.h)
	}
}

// What is bad and held by nobody is no room, though the VC is guaranteed it.
func TestBadLeavesOfTheVC(t *testing.T) {
	var bad int64
	p := &typed{see: func(v model.View) { bad = v.Bad() }}
	w := typedWorld(t, twoTypes(2, 1, ""), p)
	first := gangJob("one", "a", 10, 1, 1)
	first.Roles[0].SKUs = []cell.TypeName{"H"}
	one := w.submit(first)
	w.submit(gangJob("large", "a", 10, 1, 2))
	w.submit(gangJob("too", "a", 10, 1, 2)) // who waits, so that somebody looks
	want(t, "of all that work", bad, int64(0))
	w.start(one)
	w.tell(model.LeafHealth{Node: "n1", SKU: "H", Device: 0})
	w.look()
	want(t, "of one that is held", bad, int64(0))
	w.exit(one, 0)
	w.look()
	want(t, "of one that nobody holds", bad, int64(1))
	w.tell(model.LeafHealth{Node: "n1", SKU: "H", Device: 0, Good: true})
	w.look()
	want(t, "of one that was mended", bad, int64(0))
}
