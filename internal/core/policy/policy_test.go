package policy_test

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// board is a VC with so many leaves: each wish is granted while leaves are free.
type board struct {
	waiting []model.GangView
	running []model.GangView
	held    map[model.Party]int32
	placed  map[model.GangRef]bool
	free    int32
	total   int32
	keyed   model.Keyed
	stander model.RunKeyed
	now     model.Time
	notes   map[model.JobID][]byte
	nodes   []model.NodeView
	jobs    model.JobID
	scratch any
}

func (b *board) Now() model.Time                   { return b.now }
func (b *board) LastDecision() model.Time          { return b.now - 1 }
func (b *board) VC() cell.VCName                   { return "a" }
func (b *board) Waiting() iter.Seq[model.GangView] { return slices.Values(b.waiting) }
func (b *board) Running() iter.Seq[model.GangView] { return slices.Values(b.running) }
func (b *board) RunningByKey() iter.Seq[model.Ranked] {
	var out []model.Ranked
	for _, g := range b.running {
		key := model.Key{}
		if b.stander != nil {
			key = b.stander.Stand(&g)
		} else {
			key = b.keyed.Key(&g)
		}
		out = append(out, model.Ranked{Ref: g.Ref, Key: key, Order: g.Order, Leaves: g.Leaves})
	}
	slices.SortFunc(out, func(a, b model.Ranked) int {
		return cmp.Or(b.Key.Compare(a.Key), cmp.Compare(b.Order, a.Order))
	})
	return slices.Values(out)
}
func (b *board) Leaving() iter.Seq[model.GangView] { return func(func(model.GangView) bool) {} }
func (b *board) Promised() iter.Seq[model.Ranked] {
	return func(func(model.Ranked) bool) {}
}
func (b *board) Booked() iter.Seq[model.Ranked] { return b.Promised() }
func (b *board) Yields(model.GangRef) int32     { return 1 << 20 }
func (b *board) SKU(r model.GangRef) cell.TypeName {
	return ""
}
func (b *board) Placed(r model.GangRef) bool { return b.placed[r] }
func (b *board) Free() int64                 { return int64(b.free) }
func (b *board) Gang(r model.GangRef) model.GangView {
	all := slices.Concat(b.waiting, b.running)
	return all[slices.IndexFunc(all, func(g model.GangView) bool { return g.Ref == r })]
}
func (b *board) WaitingByKey(from int64) iter.Seq[model.Ranked] {
	var out []model.Ranked
	for _, g := range b.waiting {
		if k := b.keyed.Key(&g); k.Rank < from || int64(g.Leaves) <= b.Free() {
			out = append(out, model.Ranked{Ref: g.Ref, Key: k, Order: g.Order, Leaves: g.Leaves})
		}
	}
	slices.SortStableFunc(out, func(a, b model.Ranked) int { return a.Key.Compare(b.Key) })
	return slices.Values(out)
}
func (b *board) Guaranteed() int64                              { return int64(b.total) }
func (b *board) Nodes() iter.Seq[model.NodeView]                { return slices.Values(b.nodes) }
func (b *board) Allocations() []*model.Allocation               { return nil }
func (b *board) Moving() bool                                   { return false }
func (b *board) Idle(int32) (idle, of int64)                    { return 0, 0 }
func (b *board) WaitIndex() (model.WaitIndex, []model.GangView) { return nil, b.waiting }
func (b *board) Queue() model.PartyGangs {
	next, stop := iter.Pull(slices.Values(slices.Clone(b.waiting)))
	both := func() (model.GangView, bool) {
		g, ok := next()
		if !ok {
			stop()
		}
		return g, ok
	}
	return model.PartyGangs{Next: both, NextShape: both}
}
func (b *board) Node(i int32) model.NodeView { return model.NodeView{Node: i} }
func (b *board) Machines() int32             { return 0 }
func (b *board) Moves() []model.Time         { return nil }
func (b *board) OnlyTimePassed() bool        { return false }
func (b *board) Backfills() bool             { return false }
func (b *board) HasThroughputs() bool {
	return slices.ContainsFunc(b.waiting, func(g model.GangView) bool { return len(g.Speeds) > 0 })
}
func (b *board) Wanted() (n int64) {
	for i := range b.waiting {
		n += int64(b.waiting[i].Leaves)
	}
	return n
}
func (b *board) GrowthOnOwnNodes(model.GangRef) int32 { return int32(b.Free()) }
func (b *board) Elastic() bool {
	return slices.ContainsFunc(slices.Concat(b.waiting, b.running), func(g model.GangView) bool { return g.Sizes.Most > 0 })
}
func (b *board) FindsFree(r model.GangRef, sku cell.TypeName) bool {
	return int64(b.Gang(r).Leaves) <= b.Free()
}
func (b *board) Amount(n int64) string                    { return fmt.Sprint(n, " GPUs") }
func (b *board) Bad() int64                               { return 0 }
func (b *board) BadHeld(model.GangRef, int32) int64       { return 0 }
func (b *board) Usable(model.GangRef, cell.TypeName) bool { return true }
func (b *board) FoundNothing(string) bool                 { return false }
func (b *board) Scratch() *any                            { return &b.scratch }

func (b *board) Pools() []model.Pool {
	return []model.Pool{{SKU: "gpu", Leaves: int64(b.total), PerNode: 8}}
}
func (b *board) Note(id model.JobID) []byte { return b.notes[id] }
func (b *board) Share(by model.By, p model.Party) int64 {
	return b.Held(by, p) * 1_000_000 / int64(b.total)
}
func (b *board) Held(by model.By, p model.Party) int64 {
	var n int64
	for of, leaves := range b.held {
		if partyOf(by, of) == p {
			n += int64(leaves)
		}
	}
	return n
}
func (b *board) Holders(by model.By) iter.Seq2[model.Party, int64] {
	return func(yield func(model.Party, int64) bool) {
		seen := map[model.Party]bool{}
		for of := range b.held {
			if p := partyOf(by, of); !seen[p] {
				seen[p] = true
				if n := b.Held(by, p); n > 0 && !yield(p, n) {
					return
				}
			}
		}
	}
}
func partyOf(by model.By, p model.Party) model.Party {
	var out model.Party
	if by&model.ByUser != 0 {
		out.User = p.User
	}
	if by&model.ByQueue != 0 {
		out.Queue = p.Queue
	}
	if by&model.ByApp != 0 {
		out.App = p.App
	}
	return out
}

func whose(g *model.GangView) model.Party {
	return model.Party{Queue: g.Hints.Queue, User: g.User, App: g.Hints.App}
}

// ShapeGroups returns a line for each gang that waits.
func (b *board) ShapeGroups(by model.By, most func(*model.ShapeGroup) int) []model.ShapeGroup {
	var out []model.ShapeGroup
	for _, g := range b.waiting {
		l := model.ShapeGroup{Party: partyOf(by, whose(&g)), Leaves: g.Leaves, Gangs: 1}
		if g.Hints.App != "" || g.Gangs > 1 {
			l.Party.Length = -1
		}
		l.First = []model.GangView{g}[:min(most(&l), 1)]
		out = append(out, l)
	}
	return out
}

// Parties reads the gangs that wait as they are now.
func (b *board) Parties(by model.By, all bool) []model.PartyGangs {
	var out []model.PartyGangs
	for i := range b.waiting {
		p := partyOf(by, whose(&b.waiting[i]))
		if slices.ContainsFunc(out, func(o model.PartyGangs) bool { return o.Party == p }) {
			continue
		}
		at, last := 0, int32(0)
		passed := map[int32]bool{}
		next := func() (model.GangView, bool) {
			for ; at < len(b.waiting); at++ {
				if g := &b.waiting[at]; partyOf(by, whose(g)) == p && !passed[g.Leaves] && (all || int64(g.Leaves) <= b.Free()) {
					at++
					last = g.Leaves
					return *g, true
				}
			}
			return model.GangView{}, false
		}
		pass := func() (model.GangView, bool) {
			passed[last] = true
			return next()
		}
		var leaves int64
		for k := range b.waiting {
			if partyOf(by, whose(&b.waiting[k])) == p {
				leaves += int64(b.waiting[k].Leaves)
			}
		}
		out = append(out, model.PartyGangs{Party: p, Leaves: leaves, Next: next, NextShape: pass})
	}
	return out
}

func (b *board) wait(u model.Subject, leaves int32) {
	b.add(u, leaves, model.JobID(len(b.waiting)+1), 0)
}

func (b *board) add(u model.Subject, leaves int32, job model.JobID, gang int32) {
	b.waiting = append(b.waiting, model.GangView{Ref: model.GangRef{Job: job, Gang: gang}, User: u, Order: int64(job), Leaves: leaves, Shape: fmt.Sprint(leaves), Hints: &model.Hints{}})
}

// serve grants what fits, in the policy's order; it returns the order of all
// wishes, those that were granted, and whether every wish was strict.
func (b *board) serve(t *testing.T, name string) (order, granted []model.JobID, strict bool) {
	t.Helper()
	p, err := policy.New(model.VCConfig{Name: "a", Policy: name})
	if err != nil {
		t.Fatal(err)
	}
	b.keyed, _ = p.(model.Keyed)
	b.stander, _ = p.(model.RunKeyed)
	strict = true
	for w := range p.Rank(b) {
		order = append(order, w.Gang.Job)
		strict = strict && w.Strict
		i := slices.IndexFunc(b.waiting, func(g model.GangView) bool { return g.Ref == w.Gang })
		if g := b.waiting[i]; g.Leaves <= b.free {
			b.free -= g.Leaves
			b.held[whose(&g)] += g.Leaves
			b.placed[g.Ref] = true
			granted = append(granted, g.Ref.Job)
		}
	}
	return order, granted, strict
}

func newBoard(total int32) *board {
	return &board{held: map[model.Party]int32{}, placed: map[model.GangRef]bool{}, free: total, total: total}
}

func equal(t *testing.T, what string, got, want []model.JobID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Users take turns by what they hold, not by how many jobs they queue; equal
// shares go in order of submission.
func TestDRFOrder(t *testing.T) {
	b := newBoard(8)
	b.wait("ann", 2) // 1
	b.wait("ann", 2) // 2
	b.wait("ann", 2) // 3
	b.wait("bob", 1) // 4
	b.wait("bob", 1) // 5
	b.wait("eve", 4) // 6
	order, granted, strict := b.serve(t, "drf")
	// ann 2 | bob 1 | eve 4: then bob (1) before ann (2); 0 leaves are left.
	equal(t, "order", order, []model.JobID{1, 4, 6, 5})
	equal(t, "granted", granted, []model.JobID{1, 4, 6, 5})
	if strict {
		t.Error("a drf wish holds others up")
	}
}

// What a user holds already counts, and a job that does not fit is passed over.
func TestDRFPassesOver(t *testing.T) {
	b := newBoard(8)
	b.held[model.Party{User: "ann"}], b.free = 2, 6
	b.wait("ann", 1) // 1
	b.wait("bob", 7) // 2: never fits beside ann's
	b.wait("bob", 3) // 3
	b.wait("bob", 3) // 4
	order, granted, _ := b.serve(t, "drf")
	equal(t, "order", order, []model.JobID{3, 1})
	equal(t, "granted", granted, []model.JobID{3, 1})
}

// The gangs of one job stay in order, and every gang is wished for exactly once.
func TestDRFGangs(t *testing.T) {
	b := newBoard(4)
	b.add("ann", 1, 1, 0)
	b.add("ann", 1, 1, 1)
	b.add("bob", 1, 2, 0)
	b.add("bob", 1, 2, 1)
	order, _, _ := b.serve(t, "drf")
	equal(t, "order", order, []model.JobID{1, 2, 1, 2})
}

// fifo keeps the order whatever fits, and every wish holds up those behind it.
func TestFIFOOrder(t *testing.T) {
	for _, name := range []string{"", "fifo"} {
		b := newBoard(4)
		b.wait("ann", 8)
		b.wait("ann", 1)
		b.wait("bob", 1)
		order, _, strict := b.serve(t, name)
		equal(t, "order", order, []model.JobID{1, 2, 3})
		if !strict {
			t.Error("a fifo wish does not hold others up")
		}
	}
}

// With preempt, fifo names those that were submitted later, the last first; it
// reads who runs only when it is asked.
func TestFIFOPreempts(t *testing.T) {
	for _, c := range []struct {
		params []model.Param
		want   []model.JobID
	}{
		{nil, nil},
		{[]model.Param{{Key: "preempt", Value: "false"}}, nil},
		{[]model.Param{{Key: "preempt", Value: "true"}}, []model.JobID{9, 7, 6}},
	} {
		b := newBoard(4)
		b.add("ann", 1, 5, 0)
		for _, id := range []model.JobID{3, 6, 7, 9} {
			b.running = append(b.running, model.GangView{Ref: model.GangRef{Job: id}, Order: int64(id), Hints: &model.Hints{}})
		}
		p, err := policy.New(model.VCConfig{Policy: "fifo", Params: c.params})
		if err != nil {
			t.Fatal(err)
		}
		for w := range p.Rank(b) {
			var got []model.JobID
			if w.Preemptible != nil {
				for g := range w.Preemptible {
					got = append(got, g.Job)
				}
			}
			equal(t, "over", got, c.want)
		}
	}
}

// A parameter that fifo does not know, or a value that is no truth, is refused.
func TestFIFOParameters(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"preempt", "maybe", `parameter "preempt" of policy "fifo" is true or false, not "maybe"`},
		{"weight", "2", `policy "fifo" takes no parameter "weight"; it takes: preempt, quantum`},
		{"quantum", "1w", `parameter "quantum" of policy "fifo" is a time of 0 to 31622400 seconds, such as 90, 90s or 5m, not "1w"`},
	} {
		_, err := policy.New(model.VCConfig{Policy: "fifo", Params: []model.Param{{Key: c.key, Value: c.value}}})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: %v, want %s", c.key, c.value, err, c.want)
		}
	}
}

// Who has a quantum, in seconds: where nobody says, and where it is said. All others stop
// nobody within a priority, or leave him alone for a lease, a round or a wait of their own.
func TestQuanta(t *testing.T) {
	has := map[string]int64{"srtf": 60, "srsf": 60, "edf": 60, "las": 60, "gittins": 60, "genie": 60, "chronus": 60, "fifo": 0, "firstfit": 0, "sjf": 0}
	for _, name := range policy.Names() {
		want, says := has[name]
		for _, c := range []struct {
			params []model.Param
			want   int64
		}{{nil, want}, {[]model.Param{{Key: "quantum", Value: "5m"}}, min(5*want, 300)}, {[]model.Param{{Key: "quantum", Value: "0"}}, 0}} {
			if c.params != nil && (!says || name == "firstfit" || name == "sjf") {
				continue
			}
			p, err := policy.New(model.VCConfig{Policy: name, Params: c.params})
			if err != nil {
				t.Fatal(err)
			}
			sparing, ok := p.(model.HasQuantum)
			if ok != says || ok && sparing.Quantum() != model.Duration(c.want)*model.Second {
				t.Errorf("%s %v: it has a quantum: %v", name, c.params, ok)
			}
		}
	}
	for text, want := range map[string]model.Duration{"fifo preempt=yes": model.Minute, "edf preempt=no": 0, "gittins learn=yes": model.Minute} {
		name, param, _ := strings.Cut(text, " ")
		key, value, _ := strings.Cut(param, "=")
		p, err := policy.New(model.VCConfig{Policy: name, Params: []model.Param{{Key: key, Value: value}}})
		if err != nil || p.(model.HasQuantum).Quantum() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Stopping early is fine: nothing more is asked for.
func TestRankStops(t *testing.T) {
	for _, name := range policy.Names() {
		b := newBoard(4)
		b.wait("ann", 1)
		b.wait("bob", 1)
		p, err := policy.New(model.VCConfig{Policy: name})
		if err != nil {
			t.Fatal(err)
		}
		b.keyed, _ = p.(model.Keyed)
		b.stander, _ = p.(model.RunKeyed)
		n := 0
		for range p.Rank(b) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%s: %d wishes", name, n)
		}
	}
}

// Errors name what is not known and what there is.
func TestUnknown(t *testing.T) {
	if _, err := policy.New(model.VCConfig{Policy: "lottery"}); err == nil || !strings.HasSuffix(err.Error(), `"lottery"; there are: `+strings.Join(policy.Names(), ", ")) {
		t.Errorf("got %v", err)
	}
	if _, err := policy.New(model.VCConfig{Policy: "drf", Params: []model.Param{{Key: "weight", Value: "2"}}}); err == nil || !strings.Contains(err.Error(), `"weight"`) {
		t.Errorf("got %v", err)
	}
}
