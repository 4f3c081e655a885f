package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/core/policy/leases"
)

// How long a job takes elsewhere than where it was measured, or than what it declares: on another
// number of GPUs, or on another type. Chronus profiles on one and two nodes and extrapolates; here
// the offline model says what speeds are to each other (perf/throughputs.go), and where it knows
// nothing, speed is taken to be linear in GPUs and the same on every type. What was extrapolated
// from what is part of the job's note:
//
//	takes 1500s on 4 a100: 0.250 of 6000s on 2 v100 (measured), by the throughputs of its model
//
// and where that is longer than a note may say
//
//	takes forever on 4 a100: by the rate to 6000s on 2 v100 (measured), by the throughputs of
//	its model
//
// What a job ran elsewhere, or with fewer members, counts for the work that it did there. The
// note sums it up whenever that changes:
//
//	did 30s of that by 120s, then on 4 GPUs

// place is a number of GPUs of a type; "" is any type.
type place struct {
	gpus int32
	sku  cell.TypeName
}

// String writes "4 a100", or "4 GPUs of any type".
func (p place) String() string {
	if p.sku == "" {
		return countGPUs(p.gpus) + anyType
	}
	return fmt.Sprintf("%d %s", p.gpus, p.sku)
}

const anyType = " of any type"

// readPlace reads what String writes.
func readPlace(text []byte) place {
	gpus, sku, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseInt(string(gpus), 10, 32)
	if bytes.HasSuffix(sku, []byte(anyType)) {
		sku = nil
	}
	return place{int32(max(n, 0)), cell.TypeName(sku)}
}

// countGPUs writes a number of GPUs.
func countGPUs(n int32) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// forecast is how long a gang takes in all at a place.
type forecast struct {
	at    place
	takes int64 // 0 where nothing was extrapolated, unknown where it is not known
	why   []byte
	// Of its run time the first creditedRun counts as credited at this place. The GPUs that it has
	// had since then are gpusNow; 0 is as many as the place has.
	credited, creditedRun int64
	gpusNow               int32
}

// factor is the ratio of a gang's run times at to and at from, as a fraction; known says that
// it is the offline model's, not taken to be linear in GPUs.
func factor(g *model.GangView, to, from place) (num, den int64, known bool) {
	a, b := perf.RateOn(g.Speeds, from.sku, from.gpus), perf.RateOn(g.Speeds, to.sku, to.gpus)
	if a > 0 && b > 0 {
		return a, b, true
	}
	return int64(from.gpus), int64(max(to.gpus, 1)), false
}

// wholeSeconds rounds a time up to what a note can say.
func wholeSeconds(t int64) int64 {
	if t == unknown {
		return unknown
	}
	const second = int64(model.Second)
	return min((t-1)/second+1, math.MaxInt64/second) * second
}

// basis is what is known of a gang's run time: for which place, how long, and whether it was
// measured or declared.
func (p profiler) basis(g *model.GangView) (at place, takes int64, how string) {
	r := readChronusNote(g.Note)
	return p.basisOf(g, &r)
}

// basisOf is basis by a note that was read already.
func (p profiler) basisOf(g *model.GangView, r *chronusNote) (at place, takes int64, how string) {
	if p.nodes > 0 && r.measured > 0 {
		if at = r.where; at.gpus == 0 {
			at.gpus = usualGPUs(g)
		}
		return at, r.measured, "measured"
	}
	return place{usualGPUs(g), declaredOn(g)}, duration(g), "declared"
}

// forecastAt extrapolates a gang's run time to a place.
func (p profiler) forecastAt(g *model.GangView, to place) forecast {
	from, takes, how := p.basis(g)
	if takes == unknown {
		return forecast{at: to, takes: unknown}
	}
	num, den, known := factor(g, to, from)
	same := from == to || from.gpus == to.gpus && !known && (from.sku == "" || how == "declared")
	if same && g.Sizes.Most == 0 {
		return forecast{at: to, takes: takes}
	}
	if from == to {
		num, den = 1, 1
	}
	const second = int64(model.Second)
	takes = wholeSeconds(takes)
	f := forecast{at: to, takes: wholeSeconds(max(scale(takes, num, den), 1))}
	if how == "measured" && !same {
		f.creditedRun = int64(g.Ran) / second * second
		f.credited = scale(f.creditedRun, f.takes, takes) / second * second
	}
	by := "by the throughputs of its model"
	switch {
	case same:
		by = "which is where it is to run"
	case !known && from.gpus != to.gpus:
		by = "speed taken to be linear in GPUs, as nothing is known of its model"
	case !known:
		by = "taken to be as fast, as nothing is known of its model"
	}
	if f.takes > maxNoted {
		f.takes, f.credited, f.creditedRun = unknown, 0, 0
		f.why = fmt.Appendf(nil, "%s%v: by the rate to %ds on %v (%s), %s", takesForever, to, takes/second, from, how,
			by)
		return f
	}
	thousandths := scale(1000, num, den)
	f.why = fmt.Appendf(nil, "takes %ds on %v: %d.%03d of %ds on %v (%s), %s", f.takes/second, to, thousandths/1000, thousandths%1000, takes/second, from, how, by)
	return f
}

// maxNoted is the longest run time that a note says, some 35,000 years; takesForever is said of
// longer ones.
const (
	maxNoted     = (1 << 40) * int64(model.Second)
	takesForever = "takes forever on "
)

// readForecast reads what a note says, and returns what follows.
func readForecast(note []byte) (f forecast, rest []byte) {
	n := func(of []byte) int64 {
		v, _ := strconv.ParseInt(string(of), 10, 64)
		return min(max(v, 0), 1<<40)
	}
	f.why, rest, _ = bytes.Cut(note, []byte("; "))
	head, _, _ := bytes.Cut(f.why, []byte(": "))
	if at, forever := bytes.CutPrefix(head, []byte(takesForever)); forever {
		f.takes, f.at = unknown, readPlace(at)
	} else {
		takes, at, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("takes ")), []byte("s on "))
		f.takes, f.at = n(takes)*int64(model.Second), readPlace(at)
	}
	if tail, ok := bytes.CutPrefix(rest, []byte("did ")); ok {
		tail, rest, _ = bytes.Cut(tail, []byte("; "))
		did, tail, _ := bytes.Cut(tail, []byte("s of that by "))
		by, on, _ := bytes.Cut(tail, []byte("s, then on "))
		gpus, _, _ := bytes.Cut(on, []byte(" "))
		f.credited, f.creditedRun, f.gpusNow = n(did)*int64(model.Second), n(by)*int64(model.Second), int32(min(n(gpus), math.MaxInt32))
	}
	return f, rest
}

// text is what a note says of it; nothing where nothing was extrapolated.
func (f *forecast) text() []byte {
	if len(f.why) == 0 {
		return nil
	}
	out := append(slices.Clone(f.why), "; "...)
	if f.creditedRun > 0 || f.gpusNow > 0 {
		const second = int64(model.Second)
		out = fmt.Appendf(out, "did %ds of that by %ds, then on %s; ", f.credited/second, f.creditedRun/second, countGPUs(cmp.Or(f.gpusNow, f.at.gpus)))
	}
	return out
}

// forecast is how long a gang takes where it is meant to run: as its note says, else as
// it was measured or declares.
func (p profiler) forecast(g *model.GangView) forecast {
	r := readChronusNote(g.Note)
	return p.forecastOf(g, &r)
}

// forecastOf is forecast by a note that was read already.
func (p profiler) forecastOf(g *model.GangView, r *chronusNote) forecast {
	if r.takes > 0 {
		return r.forecast
	}
	_, takes, _ := p.basisOf(g, r)
	return forecast{at: place{gpus: usualGPUs(g)}, takes: takes}
}

// ran is how long a gang ran, converted to the place of the forecast. follow rounds the sum up,
// so that rounding never makes a guaranteed gang need more leases.
func (f *forecast) ran(g *model.GangView) int64 {
	since := int64(g.Ran) - f.creditedRun
	if since < 0 { // g is as of a time before follow summed up
		return scale(f.credited, int64(g.Ran), f.creditedRun)
	}
	if f.gpusNow > 0 && f.gpusNow != f.at.gpus {
		num, den, _ := factor(g, f.at, place{f.gpusNow, f.at.sku})
		since = scale(since, num, den)
	}
	return f.credited + since
}

// creditRun sums up what a gang did when its number of GPUs has changed, and reports whether it
// has.
func (f *forecast) creditRun(g *model.GangView) bool {
	has := gpusRunning(g)
	if f.takes == 0 || f.takes == unknown || has == cmp.Or(f.gpusNow, f.at.gpus) {
		return false
	}
	const second = int64(model.Second)
	f.credited, f.creditedRun, f.gpusNow = (max(f.ran(g), 0)+second-1)/second*second, int64(g.Ran)/second*second, has
	return true
}

// elastic reports whether a gang is the least members of a job that can have more.
func elastic(g *model.GangView) bool { return g.Sizes.Most > g.Sizes.Least }

// membersOn is how many members of an elastic job so many GPUs are; 0 of others.
func membersOn(g *model.GangView, gpus int32) int32 {
	if !elastic(g) {
		return 0
	}
	n := g.Sizes.Least + (gpus-g.Leaves)/max(g.Sizes.MemberLeaves, 1)
	return min(max(n, g.Sizes.Least), g.Sizes.Most)
}

// leasePlace is a place at which a gang may be guaranteed its deadlines.
type leasePlace struct {
	forecast
	pool    int
	rounded leases.Rounded
	need    int64 // leases
}

// leasePlaces lists where a gang may be guaranteed a deadline: first the type on which it is
// slowest, so that the fast ones stay free for others, and there the size that takes the fewest
// GPU-leases. A running gang without a checkpoint keeps its type.
func (l *chronusPass) leasePlaces(g *model.GangView) []leasePlace {
	var out []leasePlace
	var slow []int64 // by pool
	r := readChronusNote(g.Note)
	stays := g.Started > 0 && !g.Hints.Checkpoint && r.where.sku != ""
	for pool := range l.pools {
		sku := l.pools[pool].SKU
		f := l.forecastAt(g, place{usualGPUs(g), sku})
		slow = append(slow, f.takes)
		if !l.uses(g, pool) || l.poolOf(g, sku) < 0 || stays && r.where.sku != sku {
			continue
		}
		for _, gpus := range l.sizes(g, pool) {
			f := l.forecastAt(g, place{gpus, sku})
			if need := l.need(l.left(g, &f)); need <= leases.MaxLeases {
				out = append(out, leasePlace{f, pool, l.rounded(g, gpus, pool), need})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b leasePlace) int {
		here := func(o *leasePlace) int64 {
			if o.at.sku == r.where.sku {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(slow[b.pool], slow[a.pool]), cmp.Compare(here(&a), here(&b)),
			cmp.Compare(a.pool, b.pool),
			cmp.Compare(a.need*int64(a.rounded.GPUs), b.need*int64(b.rounded.GPUs)), cmp.Compare(a.at.gpus, b.at.gpus))
	})
	return out
}

// sizes are the numbers of GPUs with which a gang may hold a lease of a pool: its usual one;
// of an elastic job of which the offline model knows something also its least, its most, and
// those that rounding leaves as they are.
func (l *chronusPass) sizes(g *model.GangView, pool int) []int32 {
	if !sizable(g) {
		return []int32{usualGPUs(g)}
	}
	z := &g.Sizes
	out := []int32{g.Leaves, usualGPUs(g), gpusOf(g, z.Most)}
	for n := int32(1); n > 0 && n <= gpusOf(g, z.Most); n *= 2 {
		out = append(out, n)
		if n >= l.pools[pool].part {
			out = append(out, n-n%l.pools[pool].part)
		}
	}
	out = slices.DeleteFunc(out, func(n int32) bool {
		return n > l.capacity(pool) || n < g.Leaves || gpusOf(g, membersOn(g, n)) != n
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// choosePlace finds the offer with which the first possible deadline packs, and promises that one;
// -1 is none.
func choosePlace(tests []leases.Admission, offers []leasePlace, ends []int32) (at, option int) {
	if len(offers) == 0 {
		return -1, -1
	}
	admit := func(at int) (int, int) {
		o := &offers[at]
		option := tests[o.pool].Admit(o.request(ends))
		if option < 0 {
			at = -1
		}
		return at, option
	}
	if len(offers) == 1 || len(ends) == 0 {
		return admit(0)
	}
	packs := func(i int) bool {
		at = slices.IndexFunc(offers, func(o leasePlace) bool { return tests[o.pool].Packs(o.request(ends), i) })
		return at >= 0
	}
	first := 0
	if !packs(0) { // what packs before a deadline packs before a later one
		first = 1 + sort.Search(len(ends)-1, func(i int) bool { return packs(1 + i) })
	}
	if first < len(ends) && packs(first) {
		return admit(at)
	}
	return admit(0)
}

func (o *leasePlace) request(ends []int32) leases.Request {
	return leases.Request{GPUs: int32(o.rounded.GPUs), Need: int32(o.need), Deadlines: ends}
}
