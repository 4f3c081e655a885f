package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

const second = model.Duration(model.Second)

// put adds a gang that waits, or runs when it has a start.
func (b *board) put(id model.JobID, leaves int32, h model.Hints, started model.Time, earlier model.Duration) {
	g := model.GangView{Ref: model.GangRef{Job: id}, Order: int64(id), Leaves: leaves, Hints: &h, Started: started, RanBefore: earlier, Ran: earlier}
	if started > 0 {
		g.Since, g.Ran = started, earlier+model.Duration(b.Now()-started)
		b.running = append(b.running, g)
		return
	}
	b.waiting = append(b.waiting, g)
}

// wishes lists the wishes of a policy: who, and who may leave for him.
func wishes(t *testing.T, b *board, text string) string {
	t.Helper()
	p := made(t, text)
	b.keyed, _ = p.(model.Keyed)
	var out []string
	for w := range p.Rank(b) {
		line := ids(w.Gang)
		if w.Preemptible != nil {
			line += "<" + ids(slices.Collect(w.Preemptible)...)
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

func ids(refs ...model.GangRef) string {
	var out []string
	for _, r := range refs {
		out = append(out, string(rune('0'+r.Job)))
	}
	return strings.Join(out, ",")
}

// made makes a policy of NAME:key=value,...
func made(t *testing.T, text string) model.Policy {
	t.Helper()
	name, rest, _ := strings.Cut(text, ":")
	c := model.VCConfig{Policy: name}
	for _, kv := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
		k, v, _ := strings.Cut(kv, "=")
		c.Params = append(c.Params, model.Param{Key: k, Value: v})
	}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// long is a job that declares a run time.
func long(seconds int64) model.Hints { return model.Hints{Duration: model.Duration(seconds) * second} }

// Run times: the shortest first, those that nobody declared last; what fits nowhere
// is not wished for, nor is anything when nothing is free.
func TestShortestFirst(t *testing.T) {
	fill := func(free int32) *board {
		b := newBoard(8)
		b.free = free
		b.put(1, 1, long(50), 0, 0)
		b.put(2, 1, model.Hints{}, 0, 0)
		b.put(3, 4, long(20), 0, 0)
		b.put(4, 1, long(30), 0, 25*second) // 5 s are left
		return b
	}
	for _, c := range []struct {
		policy string
		free   int32
		want   string
	}{
		{"firstfit", 8, "1 2 3 4"},
		{"firstfit", 2, "1 2 4"},
		{"sjf", 8, "3 4 1 2"},
		{"sjf", 1, "4 1 2"},
		{"sjf", 0, ""},
		{"srtf", 8, "4 3 1 2"},
		{"srsf", 8, "4 1 3 2"}, // 5, 50, 4 x 20
	} {
		if got := wishes(t, fill(c.free), c.policy); got != c.want {
			t.Errorf("%s with %d free: %s, want %s", c.policy, c.free, got, c.want)
		}
	}
}

// A gang takes cells back from those with more left to do, the worst first, and
// leaves its equals alone.
func TestShortestRemainingPreempts(t *testing.T) {
	b := newBoard(8)
	b.now, b.free = model.Time(100*second), 0
	b.put(5, 2, long(80), model.Time(70*second), 0)      // 50 s left, 100 GPU-seconds
	b.put(6, 1, long(90), model.Time(80*second), 0)      // 70 s
	b.put(7, 1, long(40), model.Time(90*second), 0)      // 30 s
	b.put(1, 1, long(30), 0, 0)                          // equal to 7
	b.put(2, 1, long(60), 0, 0)                          // before 6
	b.put(3, 1, long(95), 0, 0)                          // behind all
	b.put(4, 1, long(100), 0, model.Duration(80*second)) // 20 s
	if got, want := wishes(t, b, "srtf"), "4<6,5,7 1<6,5 2<6"; got != want {
		t.Errorf("srtf: %s, want %s", got, want)
	}
	if got, want := wishes(t, b, "srsf"), "4<5,6,7 1<5,6 2<5,6 3<5"; got != want {
		t.Errorf("srsf: %s, want %s", got, want)
	}
}

// Attained service counts GPUs times time, over all attempts. A gang of a better
// queue takes from those of worse ones only; in a queue whoever runs comes first.
func TestLeastAttainedService(t *testing.T) {
	b := newBoard(8)
	b.now, b.free = model.Time(1000*second), 0
	b.put(5, 4, model.Hints{}, model.Time(980*second), 0)           // 80 GPU-seconds: queue 0
	b.put(6, 4, model.Hints{}, model.Time(990*second), 20*second)   // 40 + 80: queue 1
	b.put(7, 1, model.Hints{}, model.Time(999*second), 1000*second) // 1001: queue 2
	b.put(1, 1, model.Hints{}, 0, 0)                                // queue 0
	b.put(2, 1, model.Hints{}, 0, 150*second)                       // queue 1
	b.put(3, 2, model.Hints{}, 0, 600*second)                       // queue 2
	if got, want := wishes(t, b, "las:limits=100/1000"), "1<7,6 2<7"; got != want {
		t.Errorf("las: %s, want %s", got, want)
	}
	// 5 reaches 100 GPU-seconds 25 s after its start; 6 reached them 5 s after its
	// own, and reaches 1000 after 230 s; 7 is in the last queue.
	p := made(t, "las:limits=100/1000").(model.StepKeyed)
	for _, c := range []struct{ now, want model.Duration }{{1000, 1005}, {1005, 1220}, {1220, 1230}, {1230, 0}} {
		var first model.Time
		for i := range b.running {
			if at := p.NextKeyChange(model.Time(c.now*second), &b.running[i]); at > 0 && (first == 0 || at < first) {
				first = at
			}
		}
		if first != model.Time(c.want*second) {
			t.Errorf("after %d s the order changes at %d s, want %d", c.now, first/model.Time(second), c.want)
		}
	}
}

// Service counts from the last promotion on: 4 attained 40 GPU-seconds since it was
// promoted, which is the first queue, 5 is promoted now, as it waits for twice as long as it
// ran since, and 6 is not yet.
func TestPromotion(t *testing.T) {
	b := newBoard(8)
	b.now, b.free = model.Time(1000*second), 0
	b.put(4, 4, model.Hints{}, model.Time(990*second), 500*second)
	b.put(5, 2, model.Hints{}, 0, 300*second)
	b.put(6, 2, model.Hints{}, 0, 300*second)
	b.running[0].Note = []byte("promoted after 500000000us")
	b.waiting[0].Since, b.waiting[1].Since = model.Time(400*second), model.Time(401*second)
	for i := range b.waiting {
		b.waiting[i].Gangs = 1
	}
	p := made(t, "las:limits=100,promote=2")
	b.keyed = p.(model.Keyed)
	var got []string
	for w := range p.Rank(b) {
		if w.Note != nil {
			got = append(got, ids(model.GangRef{Job: w.Note.Job})+" "+string(w.Note.Data))
		}
	}
	if want := "5 promoted after 300000000us"; strings.Join(got, ", ") != want {
		t.Errorf("notes are %q, want %q", got, want)
	}
	if rank := b.keyed.Key(&b.running[0]).Rank; rank != 0 {
		t.Errorf("who attained 40 GPU-seconds since is in queue %d", rank)
	}
	if at := p.(model.Timed).NextChange(b); at != model.Time(1001*second) {
		t.Errorf("the order changes at %d, want when 6 has starved, at 1001 s", at)
	}
	g := b.running[0]
	if n := keyChanges(t, p.(model.StepKeyed), g); n != 1 {
		t.Errorf("the key changes %d times, want once, at 100 GPU-seconds since the promotion", n)
	}
	b.waiting = b.waiting[:0]
	if at := p.(model.Timed).NextChange(b); at != model.Time(1015*second) {
		t.Errorf("the order changes at %d, want when 4 sinks, at 1015 s", at)
	}
	if _, err := policy.New(model.VCConfig{Policy: "las", Params: []model.Param{{Key: "skewed", Value: "a//b"}, {Key: "promote", Value: "-1"}}}); err == nil ||
		!strings.Contains(err.Error(), "a list of models such as vgg16/alexnet") || !strings.Contains(err.Error(), `"promote" of policy "las" is a number from 0`) {
		t.Errorf("got %v", err)
	}
}

// The index by hand: of the jobs 10, 20, 100 and 400 with a quantum of 50.
func TestGittins(t *testing.T) {
	// Attained 0: two of four end within 50, spending 10+20+50+50 = 130: 2/130.
	// Attained 15: one of three, 20+50+50 = 120: 1/120. Attained 25: none within 50.
	b := newBoard(8)
	b.put(1, 1, model.Hints{}, 0, 25*second)
	b.put(2, 1, model.Hints{}, 0, 15*second)
	b.put(3, 1, model.Hints{}, 0, 0)
	b.now = model.Time(100 * second)
	b.put(4, 1, model.Hints{}, model.Time(85*second), 0) // 15, as 2 has
	if got, want := wishes(t, b, "gittins:limits=1000,delta=50,history=10/20/100/400"), "3<4 2 1"; got != want {
		t.Errorf("gittins: %s, want %s", got, want)
	}
}

// The key of a gang that runs changes exactly when it was said to, for the first time
// after any instant, and not before.
func TestGittinsUntil(t *testing.T) {
	for _, params := range [][]model.Param{
		{{Key: "limits", Value: "300/900"}, {Key: "delta", Value: "50"}, {Key: "history", Value: "10/20/100/400/400/1500"}},
		{{Key: "limits", Value: "40/70"}, {Key: "delta", Value: "3"}, {Key: "history", Value: "5/6/7/33/90"}},
		{},
	} {
		p, err := policy.New(model.VCConfig{Policy: "gittins", Params: params})
		if err != nil {
			t.Fatal(err)
		}
		for _, leaves := range []int32{1, 3, 7} {
			g := model.GangView{Leaves: leaves, Started: model.Time(1000 * second), RanBefore: 4*second + 1}
			if n := keyChanges(t, p.(model.StepKeyed), g); n < 3 {
				t.Errorf("%v, %d leaves: the key changes %d times: the test shows little", params, leaves, n)
			}
		}
	}
}

// keyChanges counts how often the key of a running gang changes, and checks that it does
// so only when NextKeyChange says it.
func keyChanges(t *testing.T, p model.StepKeyed, g model.GangView) (changes int) {
	key := func(at model.Time) model.Key {
		then := g
		then.Ran = g.RanBefore + model.Duration(at-g.Started)
		return p.Key(&then)
	}
	at := g.Started
	for next := p.NextKeyChange(at, &g); next != 0; next = p.NextKeyChange(at, &g) {
		if next <= at {
			t.Fatalf("%d leaves: after %d the key changes at %d", g.Leaves, at, next)
		}
		for _, between := range []model.Time{at + 1, at + (next-at)/3, at + (next-at)/2, next - 1} {
			if between > at && between < next && (key(between) != key(at) || p.NextKeyChange(between, &g) != next) {
				t.Fatalf("%d leaves: the key changes at %d or earlier, not at %d", g.Leaves, between, next)
			}
		}
		if key(next) != key(at) {
			changes++
		}
		at = next
	}
	if key(at.Add(1<<45)) != key(at) {
		t.Errorf("%d leaves: the key changes after %d, too", g.Leaves, at)
	}
	return changes
}

// Deadlines: the earliest first; one that has passed counts no more, and a soft
// job then has its next.
func TestEarliestDeadline(t *testing.T) {
	due := func(d model.Duration, after ...model.Duration) model.Hints {
		h := model.Hints{Duration: d * second}
		for _, a := range after {
			h.Deadlines = append(h.Deadlines, model.Deadline{After: a * second, Value: 10})
		}
		return h
	}
	b := newBoard(8)
	b.now = model.Time(100 * second)
	b.put(1, 1, due(9, 300), 0, 0)
	b.put(2, 1, due(70, 50), 0, 0)     // too late: best effort, 70 s
	b.put(3, 1, due(9, 90, 200), 0, 0) // its second deadline
	b.put(4, 1, due(30), 0, 0)         // best effort, 30 s
	b.put(5, 1, due(9, 150), 0, 0)
	b.put(6, 1, due(500, 400), model.Time(50*second), 0)
	b.put(7, 1, due(100), model.Time(50*second), 0) // best effort, 50 s are left
	if got, want := wishes(t, b, "edf"), "5<7,6 3<7,6 1<7,6 4<7 2"; got != want {
		t.Errorf("edf: %s, want %s", got, want)
	}
	if got, want := wishes(t, b, "edf:preempt=no"), "5 3 1 2 4"; got != want {
		t.Errorf("edf without preemption: %s, want %s", got, want)
	}
	if got := made(t, "edf").(model.Timed).NextChange(b); got != model.Time(400*second) {
		t.Errorf("the order changes at %d", got)
	}
}

// All that is wrong with parameters is said at once.
func TestParameters(t *testing.T) {
	_, err := policy.New(model.VCConfig{Policy: "gittins", Params: []model.Param{{Key: "delta", Value: "0"}, {Key: "history", Value: "5/x"}, {Key: "limits", Value: "7/7"}, {Key: "weight", Value: "1"}}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`"delta" of policy "gittins" is a number from 1 to`, `"history" of policy "gittins" is a list of rising numbers such as 3250/7200, not "5/x"`,
		`"limits" of policy "gittins" is a list`, `takes no parameter "weight"; it takes: limits, history, delta`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}
