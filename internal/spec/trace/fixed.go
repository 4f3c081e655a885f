package trace

import (
	"math/big"
	"math/bits"
	"math/rand/v2"

	"github.com/combsched/comb/internal/core/model"
)

// The generators draw from distributions in integers only. Floating-point exponentials differ
// between processors, so the same seed would give different bytes.

// fracBits is how many bits behind the point a logarithm has.
const fracBits = 24

// powers are the roots 2^(1/2), 2^(1/4), ... in units of 2^-62.
type powers [fracBits]uint64

func newPowers() *powers {
	p := &powers{}
	v := new(big.Int).Lsh(big.NewInt(2), 62) // 2 in units of 2^-62
	for i := range p {
		v.Lsh(v, 62).Sqrt(v)
		p[i] = v.Uint64()
	}
	return p
}

// log2 is the binary logarithm of x, at least 1, in units of 2^-24, rounded down.
func log2(x uint64) int64 {
	whole := bits.Len64(x) - 1
	y := x << (63 - whole) // in [1,2), in units of 2^-63
	out := int64(whole) << fracBits
	for bit := fracBits - 1; bit >= 0; bit-- {
		hi, lo := bits.Mul64(y, y) // in units of 2^-126
		if hi>>63 == 1 {           // at least 2
			out |= 1 << bit
			y = hi
		} else {
			y = hi<<1 | lo>>63
		}
	}
	return out
}

// exp2 is 2 to the power of x. x is in units of 2^-24, and the result must be below 2^61.
func (p *powers) exp2(x int64) int64 {
	if x < 0 {
		return 0
	}
	y := uint64(1) << 62
	for i, root := range p {
		if x>>(fracBits-1-i)&1 == 1 {
			hi, lo := bits.Mul64(y, root)
			y = hi<<2 | lo>>62
		}
	}
	shift := 62 - x>>fracBits
	if shift < 1 {
		return 1 << 61
	}
	return int64((y + 1<<(shift-1)) >> shift)
}

// random draws integers. It uses only the words of the generator, whose sequence is
// guaranteed, and not the methods built on them.
type random struct{ pcg *rand.PCG }

func newRandom(seed, stream uint64) random { return random{rand.NewPCG(seed, stream)} }

// below gives a number from 0 to n-1.
func (r random) below(n int64) int64 {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(n))
	return int64(hi)
}

// between gives a number from a to b, both included.
func (r random) between(a, b int64) int64 { return a + r.below(b-a+1) }

// exponential gives a draw of mean 1, in units of 2^-24.
func (r random) exponential() int64 {
	const ln2 = 744261118 // in units of 2^-30
	u := r.pcg.Uint64()>>1 | 1
	hi, lo := bits.Mul64(uint64(int64(63)<<fracBits-log2(u)), ln2)
	return int64(hi<<34 | lo>>30)
}

// weights chooses among kinds of different frequency.
type weights struct{ upTo []int64 }

func newWeights(list ...int64) weights {
	var w weights
	sum := int64(0)
	for _, x := range list {
		sum += x
		w.upTo = append(w.upTo, sum)
	}
	return w
}

// zipf gives weights 1, 1/2, 1/3, ...
func zipf(n int) weights {
	list := make([]int64, n)
	for i := range list {
		list[i] = 1 << 32 / int64(i+1)
	}
	return newWeights(list...)
}

func (w weights) pick(r random) int {
	x := r.below(w.upTo[len(w.upTo)-1])
	lo, hi := 0, len(w.upTo)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if x < w.upTo[mid] {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// quantile says that a part of all draws is at most a value.
type quantile struct {
	part  int64 // millionths
	value int64
}

// lengths is a distribution of durations in seconds by its quantiles. Between two quantiles
// the logarithm is uniform. The first quantile has part 0, the last 1e6.
type lengths struct {
	parts []int64
	logs  []int64
	most  int64 // a cap, in seconds; 0 is none
}

func newLengths(most int64, list ...quantile) lengths {
	l := lengths{most: most}
	for _, q := range list {
		l.parts = append(l.parts, q.part)
		l.logs = append(l.logs, log2(uint64(max(q.value, 1))))
	}
	return l
}

// logNormal is the log-normal distribution with a median in seconds and a standard deviation
// of the natural logarithm in thousandths. It is made from quantiles of the normal
// distribution.
func logNormal(median, sigmaMilli, most int64) lengths {
	normal := []quantile{
		{0, -4753424}, {100, -3719016}, {500, -3290527}, {1000, -3090232}, {2000, -2878162}, {5000, -2575829},
		{10_000, -2326348}, {25_000, -1959964}, {50_000, -1644854}, {100_000, -1281552}, {200_000, -841621},
		{300_000, -524401}, {400_000, -253347}, {500_000, 0}, {600_000, 253347}, {700_000, 524401}, {800_000, 841621},
		{900_000, 1281552}, {950_000, 1644854}, {975_000, 1959964}, {990_000, 2326348}, {995_000, 2575829},
		{998_000, 2878162}, {999_000, 3090232}, {999500, 3290527}, {999900, 3719016}, {1_000_000, 4753424},
	}
	const log2e = 24204406 // of e, in units of 2^-24
	l := lengths{most: most}
	for _, q := range normal {
		l.parts = append(l.parts, q.part)
		l.logs = append(l.logs, log2(uint64(median))+q.value*sigmaMilli/1000*log2e/1_000_000)
	}
	return l
}

// draw gives a duration of whole seconds, at least one.
func (l *lengths) draw(r random, p *powers) model.Duration {
	const unit = 1 << 20 // finer than a millionth
	u := r.below(1_000_000 * unit)
	i := 1
	for i < len(l.parts)-1 && u >= l.parts[i]*unit {
		i++
	}
	from, width := l.parts[i-1]*unit, (l.parts[i]-l.parts[i-1])*unit
	hi, lo := bits.Mul64(uint64(u-from), uint64(l.logs[i]-l.logs[i-1]))
	step, _ := bits.Div64(hi, lo, uint64(width))
	s := max(1, p.exp2(l.logs[i-1]+int64(step)))
	if l.most > 0 {
		s = min(s, l.most)
	}
	return model.Duration(s) * model.Second
}
