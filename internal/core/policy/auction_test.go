package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/test/seeds"
)

// teller is an agent that bids a table as it stands; its gangs take lot after lot.
type teller struct {
	nothing int64
	rows    []Row
}

func (t *teller) Bid([]int32) (int64, []Row) { return t.nothing, t.rows }

func (t *teller) Split(row, gangs int) []int32 {
	keep := sum(t.rows[row].Gangs[:gangs])
	out := make([]int32, len(t.rows[row].Take))
	for l, n := range t.rows[row].Take {
		out[l] = min(n, keep)
		keep -= out[l]
	}
	return out
}

func sum(list []int32) (n int32) {
	for _, k := range list {
		n += k
	}
	return n
}

// gang is a row of one gang.
func gang(rho int64, take ...int32) Row { return Row{take, []int32{sum(take)}, rho} }

// linear bids for up to n gangs of so many GPUs of one lot, with an rho of work/k for k
// of them.
func linear(nothing, work int64, n, leaves int32) *teller {
	t := &teller{nothing: nothing}
	gangs := slices.Repeat([]int32{leaves}, int(n))
	for k := int32(1); k <= n; k++ {
		t.rows = append(t.rows, Row{Take: []int32{k * leaves}, Gangs: gangs[:k], Rho: work / int64(k)})
	}
	return t
}

func keptAgent(r Result) (out []int32) {
	for _, o := range r.Outcomes {
		out = append(out, sum(o.Kept))
	}
	return out
}

// paying holds an auction, and returns the fraction of its win that each agent keeps, in
// parts per million.
func paying(lots []int32, agents []Agent) (r Result, fractions []int64) {
	a := new(Arbiter)
	r = a.Hold(lots, agents)
	for i := range agents {
		fractions = append(fractions, a.Fraction(i))
	}
	return r, fractions
}

// Two apps and two nodes of two GPUs. Worked out by hand: A is sensitive to placement, with
// rho 1 on one node and 2 across both; B does not care, 1 with two GPUs anywhere. Both
// have rho 4 with nothing. Placed apart, each has a node of its own, product 1; that is
// also what each gets alone, so nobody pays.
//
// On one whole node and two halves (2, 1, 1) A takes the node and B the halves: 1 * 1.
// The other way round would be 1/2 * 1.
func TestPlacementSensitive(t *testing.T) {
	a := &teller{4 * PPM, []Row{gang(2*PPM, 0, 1, 1), gang(1*PPM, 2, 0, 0)}}
	b := &teller{4 * PPM, []Row{gang(1*PPM, 2, 0, 0), gang(1*PPM, 0, 1, 1)}}
	for _, agents := range [][]Agent{{a, b}, {b, a}} {
		r, fractions := paying([]int32{2, 1, 1}, agents)
		at := slices.Index(agents, Agent(a))
		if got := r.Outcomes[at].Kept; !slices.Equal(got, []int32{2, 0, 0}) {
			t.Errorf("A keeps %v, want the whole node", got)
		}
		if got := r.Outcomes[1-at].Kept; !slices.Equal(got, []int32{0, 1, 1}) {
			t.Errorf("B keeps %v, want the halves", got)
		}
		for i := range agents {
			if f := fractions[i]; f != PPM {
				t.Errorf("agent %d keeps %d ppm, want all: nobody stands in its way", i, f)
			}
		}
	}
	// Only the node is there: A's valuations are 1/4 and 1, B's too. The first named
	// wins; without it B would have gone from 1/4 to 1, so it keeps a quarter, and that
	// is its gang, since nobody can use half of one.
	r, fractions := paying([]int32{2, 0, 0}, []Agent{a, b})
	if o := r.Outcomes[0]; o.Won != 2 || fractions[0] != PPM/4 || o.Gangs != 1 || keptAgent(r)[0] != 2 || r.Left[0] != 0 {
		t.Errorf("one node: %+v, left %v", o, r.Left)
	}
}

// Two agents with valuations k/12 for k of four GPUs, and 1/24 for none. By hand:
// the products are 3 for (3,1) and (1,3), 4 for (2,2), so each wins two. Without the
// other each would have four, so each pays for 2/4 and keeps one of two GPUs.
func TestPaymentsByHand(t *testing.T) {
	r, fractions := paying([]int32{4}, []Agent{linear(24*PPM, 12*PPM, 4, 1), linear(24*PPM, 12*PPM, 4, 1)})
	for i, o := range r.Outcomes {
		if o.Won != 2 || fractions[i] != PPM/2 || o.Kept[0] != 1 {
			t.Errorf("agent %d: %+v, want two won, half of them kept", i, o)
		}
	}
	if r.Left[0] != 2 || r.Cut {
		t.Errorf("left %v, cut %v", r.Left, r.Cut)
	}
	// Three agents and six GPUs: two each; without one the others have three each, so
	// the fraction is (2/3)*(2/3).
	r, fractions = paying([]int32{6}, []Agent{linear(24*PPM, 12*PPM, 6, 1), linear(24*PPM, 12*PPM, 6, 1), linear(24*PPM, 12*PPM, 6, 1)})
	for i, o := range r.Outcomes {
		if o.Won != 2 || fractions[i] != 444_444 {
			t.Errorf("agent %d of three: %+v", i, o)
		}
	}
}

// The same with gangs, by hand. What is left after the payment is rounded down to whole
// gangs, and is one at least.
func TestWholeGangs(t *testing.T) {
	// In twos all is as above: of two gangs won half are kept, and of two gangs 4/9 are
	// less than one, which is kept.
	twice := func() Agent { return linear(24*PPM, 12*PPM, 4, 2) }
	if r := Hold([]int32{8}, []Agent{twice(), twice()}); !slices.Equal(keptAgent(r), []int32{2, 2}) || r.Left[0] != 4 {
		t.Errorf("two agents of gangs of two keep %v", keptAgent(r))
	}
	if r := Hold([]int32{12}, []Agent{twice(), twice(), twice()}); !slices.Equal(keptAgent(r), []int32{2, 2, 2}) || r.Left[0] != 6 {
		t.Errorf("three agents of gangs of two keep %v", keptAgent(r))
	}
	// One GPU and two who want it: the first keeps it, though it pays for all but a
	// thousandth. Whoever would win nothing anyway pays nothing.
	one := func(rho int64) Agent { return &teller{1000 * PPM, []Row{gang(rho, 1)}} }
	r, fractions := paying([]int32{1}, []Agent{one(PPM), one(PPM)})
	if o := r.Outcomes[0]; !slices.Equal(fractions, []int64{1000, PPM}) || !slices.Equal(keptAgent(r), []int32{1, 0}) {
		t.Errorf("one GPU: %+v, kept %v", o, keptAgent(r))
	}
	for _, c := range []struct {
		gangs     []int32
		fraction  int64
		want, sum int
	}{
		{[]int32{1, 3}, PPM / 2, 1, 1}, // 2 of 4, and the second gang needs 3
		{[]int32{3, 1}, PPM / 2, 1, 3}, // one at least
		{[]int32{1, 3}, PPM, 2, 4},
		{[]int32{1, 1, 1}, 333_333, 1, 1}, // a third, to six digits
		{[]int32{1, 1, 1}, 666_667, 2, 2},
		{[]int32{1, 1, 1}, 999_998, 2, 2},
		{[]int32{2, 2, 2}, 666_665, 1, 2},
		{[]int32{8}, 0, 1, 8},
	} {
		won := sum(c.gangs)
		n := whole(c.gangs, int64(won), c.fraction)
		if n != c.want || int(sum(c.gangs[:n])) != c.sum {
			t.Errorf("%d ppm of %v are %d gangs, want %d", c.fraction, c.gangs, n, c.want)
		}
	}
}

// Whatever the gangs, a larger fraction never leaves fewer, all of it leaves all, and what
// is left is no more than the fraction, but for the first gang, and no whole gang less.
func TestWholeIsMonotone(t *testing.T) {
	for seed := range seeds.Of(t, 200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		gangs := make([]int32, 1+rng.IntN(6))
		for i := range gangs {
			gangs[i] = int32(1 + rng.IntN(8))
		}
		won, last := int64(sum(gangs)), 1
		for fraction := int64(0); fraction <= PPM; fraction += 1 + rng.Int64N(PPM/50) {
			n := whole(gangs, won, fraction)
			if n < last || n > len(gangs) {
				t.Fatalf("seed %d: %d ppm of %v are %d gangs, less are %d", seed, fraction, gangs, n, last)
			}
			last = n
			exact := won * fraction // in parts per million of a GPU, to won of these
			if k := int64(sum(gangs[:n])); n > 1 && k*PPM > exact+won {
				t.Fatalf("seed %d: %d ppm of %v leave %d GPUs", seed, fraction, gangs, k)
			} else if n < len(gangs) && (k+int64(gangs[n]))*PPM <= exact {
				t.Fatalf("seed %d: %d ppm of %v leave %d GPUs, there is room for another gang", seed, fraction, gangs, k)
			}
		}
		if n := whole(gangs, won, PPM); n != len(gangs) {
			t.Fatalf("seed %d: all of %v are %d gangs", seed, gangs, n)
		}
	}
}

// An agent that claims more than the truth wins more and keeps no more; one that
// scales its claim changes nothing, for only ratios matter.
func TestOverstating(t *testing.T) {
	honest := func() *teller { return linear(24*PPM, 12*PPM, 4, 1) }
	truth := keptAgent(Hold([]int32{4}, []Agent{honest(), honest()}))[0]
	for name, rho := range map[string][]int64{ // claimed for 1 to 4 GPUs
		"twice as much for three":     {12, 6, 2, 2},
		"nothing of use but all four": {24, 24, 24, 1},
		"everything is twice as good": {6, 3, 2, 1},
		"steeper":                     {12, 4, 1, 1},
	} {
		liar := honest()
		for k := range rho {
			liar.rows[k].Rho = rho[k] * PPM
		}
		if got := keptAgent(Hold([]int32{4}, []Agent{liar, honest()}))[0]; got > truth {
			t.Errorf("%s: it keeps %d GPUs, the truth brings %d", name, got, truth)
		}
	}
	scaled := honest()
	scaled.nothing /= 3
	for k := range scaled.rows {
		scaled.rows[k].Rho /= 3
	}
	if got := keptAgent(Hold([]int32{4}, []Agent{scaled, honest()})); !slices.Equal(got, []int32{truth, truth}) {
		t.Errorf("scaled claims bring %v", got)
	}
}

// What no agent may do is ignored: rows that take more than there is, of lots that
// are not there, or nothing, and gangs that need other GPUs than the row takes.
func TestBadRows(t *testing.T) {
	bad := &teller{4 * PPM, []Row{gang(1, 3), gang(1, -1), gang(1, 1, 1), gang(1, 0), gang(1), {[]int32{2}, []int32{1}, 1}, {[]int32{2}, []int32{1, 2}, 1}, {[]int32{2}, []int32{3, -1}, 1}, {[]int32{2}, nil, 1}}}
	r := Hold([]int32{2}, []Agent{bad})
	if r.Outcomes[0].Row != -1 || r.Left[0] != 2 {
		t.Errorf("%+v", r)
	}
	if r := Hold(nil, nil); len(r.Outcomes) != 0 {
		t.Errorf("an empty auction: %+v", r)
	}
}

// brute tries every choice of rows, and returns the largest product of valuations.
func brute(left []int32, bids []*teller) float64 {
	if len(bids) == 0 {
		return 1
	}
	best := brute(left, bids[1:]) / float64(bids[0].nothing)
	for _, r := range bids[0].rows {
		rest := slices.Clone(left)
		for l := range rest {
			rest[l] -= r.Take[l]
		}
		if slices.Min(rest) >= 0 {
			best = max(best, brute(rest, bids[1:])/float64(r.Rho))
		}
	}
	return best
}

// On small tables the winners are those that trying everything finds, and nobody
// keeps more than it won or than there is.
func TestTwin(t *testing.T) {
	for seed := range seeds.Of(t, 400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lots := make([]int32, 1+rng.IntN(3))
		for l := range lots {
			lots[l] = int32(1 + rng.IntN(4))
		}
		var bids []*teller
		var agents []Agent
		for range 1 + rng.IntN(4) {
			b := &teller{nothing: int64(2+rng.IntN(8)) * PPM}
			for range rng.IntN(6) {
				r := Row{Take: make([]int32, len(lots)), Rho: int64(1+rng.IntN(6)) * PPM}
				for l := range lots {
					r.Take[l] = int32(rng.IntN(int(lots[l]) + 1))
				}
				if slices.Max(r.Take) == 0 {
					continue // is no row
				}
				for rest := sum(r.Take); rest > 0; {
					r.Gangs = append(r.Gangs, 1+rng.Int32N(rest))
					rest -= r.Gangs[len(r.Gangs)-1]
				}
				b.rows = append(b.rows, r)
			}
			bids, agents = append(bids, b), append(agents, b)
		}
		r, fractions := paying(lots, agents)
		want, got := brute(lots, bids), 1.0
		left := slices.Clone(lots)
		for i, o := range r.Outcomes {
			if o.Row < 0 {
				got /= float64(bids[i].nothing)
				continue
			}
			got /= float64(bids[i].rows[o.Row].Rho)
			if f := fractions[i]; f < 0 || f > PPM {
				t.Errorf("seed %d: a fraction of %d ppm", seed, f)
			}
			if row := bids[i].rows[o.Row]; o.Gangs != whole(row.Gangs, o.Won, fractions[i]) || o.Won != int64(sum(row.Take)) || sum(o.Kept) != sum(row.Gangs[:o.Gangs]) {
				t.Errorf("seed %d: of %v it keeps %v, %d gangs", seed, row, o.Kept, o.Gangs)
			}
			for l := range left {
				left[l] -= o.Kept[l]
				if o.Kept[l] < 0 || o.Kept[l] > bids[i].rows[o.Row].Take[l] {
					t.Errorf("seed %d: it keeps %v, and won %v", seed, o.Kept, bids[i].rows[o.Row].Take)
				}
			}
		}
		if math.Abs(got/want-1) > 1e-9 || r.Cut {
			t.Errorf("seed %d: product %g, the best is %g (cut %v)", seed, got, want, r.Cut)
		}
		if !slices.Equal(left, r.Left) || slices.Min(left) < 0 {
			t.Errorf("seed %d: %v are left, want %v", seed, r.Left, left)
		}
	}
}

// Above the bound an auction says that it was cut short, and still hands out no more
// than there is.
func TestBound(t *testing.T) {
	var agents []Agent
	for range 12 {
		agents = append(agents, linear(24*PPM, 12*PPM, 40, 1))
	}
	r := Hold([]int32{40}, agents)
	if !r.Cut || r.Left[0] < 0 {
		t.Errorf("cut %v, left %v", r.Cut, r.Left)
	}
}

// The logarithms agree with those of the mathematics library to seven digits, and
// never fall where the argument rises.
func TestLogarithms(t *testing.T) {
	last := int64(-1)
	for x := int64(1); x < math.MaxInt64/3; x += 1 + x/7 {
		got := Log2(x)
		if want := math.Log2(float64(x)); math.Abs(float64(got)/(1<<logBits)-want) > 1e-7 {
			t.Fatalf("log2(%d) is %d", x, got)
		}
		if got < last {
			t.Fatalf("log2(%d) falls", x)
		}
		last = got
	}
	for k := range 200 {
		log := -float64(k) / 10
		if got, want := Exp2(int64(log*(1<<logBits))), math.Exp2(log)*PPM; math.Abs(float64(got)-want) > 2 {
			t.Errorf("2^%g is %d ppm, want %.1f", log, got, want)
		}
	}
	if fmt.Sprint(Log2(0), Log2(1), Log2(2)>>logBits, Log2(math.MaxInt64)>>logBits, Exp2(1), Exp2(-1<<40)) != "0 0 1 62 1000000 0" {
		t.Error("the ends of the range are wrong")
	}
}
