package perf

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Effects is a set of what a model of speeds looks at; each can be switched off.
type Effects uint16

// The effects.
const (
	OnType     Effects = 1 << iota // the GPU type
	OnLocality                     // how close together the GPUs are
	OnHost                         // other gangs on the same machines
	OnNIC                          // other gangs that use the network of these machines
	OnPairs                        // which gangs run on the same GPUs at the same time
	OnGPUs                         // how many GPUs the job has of those that it asked for
	OnCosts                        // what a restart, a migration and a suspension cost
)

// effectNames are in the order of the bits.
var effectNames = []string{"type", "locality", "host", "nic", "pairs", "gpus", "costs"}

// EffectNames lists the effects, for messages.
func EffectNames() string { return strings.Join(effectNames, ", ") }

// ParseEffects reads names that are joined by commas.
func ParseEffects(text string) (Effects, error) {
	var set Effects
	for name := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		i := slices.Index(effectNames, name)
		if i < 0 {
			return 0, fmt.Errorf("there is no effect %q; there are: %s", name, EffectNames())
		}
		set |= 1 << i
	}
	return set, nil
}

// Locality is how close together the GPUs of a gang are: the lowest place that holds them all.
type Locality uint8

// The localities, from the closest to the farthest.
const (
	OneGPU     Locality = iota
	SameSwitch          // the lowest level below the machine
	SameSocket          // another level below it
	SameNode
	SameRack
	CrossRack
	numLocalities
)

// localityNames are those of tables of speeds.
var localityNames = [numLocalities]string{"gpu", "switch", "socket", "node", "rack", "cross-rack"}

// LocalityNamed finds a locality by its name in tables.
func LocalityNamed(name string) (Locality, bool) {
	i := slices.Index(localityNames[:], name)
	return Locality(max(i, 0)), i > 0 // one GPU is always as close as can be
}

// LocalityNames lists the localities that a table may have.
func LocalityNames() string { return strings.Join(localityNames[1:], ", ") }

// Any is the model that stands for those without an entry of their own.
const Any = "*"

// Factors are speeds relative to full speed, for each effect: the part of a Model that no
// published table has. All lists are sorted and hold no two entries for the same thing; Sort
// makes them so. A model without an entry has that of Any, and full speed if there is none
// either.
type Factors struct {
	Types      []Factor // Key is a GPU type
	Localities []Factor // Key is the name of a locality; without an entry the next closer one counts
	Hosts      []Factor // for each other gang on the most crowded machine
	NICs       []Factor // likewise, for each such gang that is on several machines
	Beside     []Factor // Key is the model that runs on the same GPUs
	// GPUs are throughputs by number of GPUs, of which only the ratios count.
	GPUs  []Scale
	Costs Costs
}

// Factor is the speed that an effect leaves of a model's.
type Factor struct {
	Model string
	Key   string
	Speed Speed
}

func (f Factor) compare(o Factor) int {
	return cmp.Or(strings.Compare(f.Model, o.Model), strings.Compare(f.Key, o.Key))
}

// Scale is the throughput of a model on a number of GPUs; only ratios of such mean anything.
type Scale struct {
	Model string
	GPUs  int32
	Rate  Speed
}

func (s Scale) compare(o Scale) int {
	return cmp.Or(strings.Compare(s.Model, o.Model), cmp.Compare(s.GPUs, o.GPUs))
}

// Sort brings all lists into order. Of several entries for the same thing the first
// one given stays.
func (f *Factors) Sort() {
	for _, list := range []*[]Factor{&f.Types, &f.Localities, &f.Hosts, &f.NICs, &f.Beside} {
		slices.SortStableFunc(*list, Factor.compare)
		*list = slices.CompactFunc(*list, func(a, b Factor) bool { return a.compare(b) == 0 })
	}
	slices.SortStableFunc(f.GPUs, Scale.compare)
	f.GPUs = slices.CompactFunc(f.GPUs, func(a, b Scale) bool { return a.compare(b) == 0 })
}

// find is the factor of a model and key, else that of Any, else full speed.
func find(list []Factor, model, key string) Speed {
	for _, m := range [2]string{model, Any} {
		if i, found := slices.BinarySearchFunc(list, Factor{Model: m, Key: key}, Factor.compare); found {
			return list[i].Speed
		}
	}
	return FullSpeed
}

// locality is the factor of a locality, or of the nearest closer one that the model
// has: a table without sockets takes them for switches.
func (f *Factors) locality(model string, l Locality) Speed {
	for _, m := range [2]string{model, Any} {
		from, _ := slices.BinarySearchFunc(f.Localities, Factor{Model: m}, Factor.compare)
		if from == len(f.Localities) || f.Localities[from].Model != m {
			continue
		}
		for ; l > OneGPU; l-- {
			if i, found := slices.BinarySearchFunc(f.Localities, Factor{Model: m, Key: localityNames[l]}, Factor.compare); found {
				return f.Localities[i].Speed
			}
		}
		return FullSpeed
	}
	return FullSpeed
}

// gpus is the throughput on the GPUs that a job has over that on those it wants. It is linear
// between two entries, stays beyond the last, and below the first falls to 0 with the GPUs.
func (f *Factors) gpus(model string, has, wants int32) Speed {
	for _, m := range [2]string{model, Any} {
		from, _ := slices.BinarySearchFunc(f.GPUs, Scale{Model: m}, Scale.compare)
		list := f.GPUs[from:]
		n := 0
		for n < len(list) && list[n].Model == m {
			n++
		}
		if n > 0 {
			return ratio(int64(rateAt(list[:n], has)), int64(rateAt(list[:n], wants)))
		}
	}
	return FullSpeed
}

// rateAt is the throughput on a number of GPUs, from entries in order.
func rateAt(list []Scale, gpus int32) Speed {
	low := Scale{}
	for _, high := range list {
		if gpus <= high.GPUs {
			return low.Rate + Speed(int64(high.Rate-low.Rate)*int64(gpus-low.GPUs)/int64(high.GPUs-low.GPUs))
		}
		low = high
	}
	return low.Rate
}

// ratio is a / b in millionths, at least 1; full speed where b is nothing.
func ratio(a, b int64) Speed {
	if b <= 0 {
		return FullSpeed
	}
	if a <= 0 {
		return 1
	}
	hi, lo := bits.Mul64(uint64(a), uint64(FullSpeed))
	if hi >= uint64(b) {
		return maxSpeed
	}
	q, _ := bits.Div64(hi, lo, uint64(b))
	return min(max(Speed(min(q, uint64(maxSpeed))), 1), maxSpeed)
}

// maxSpeed is a thousand times full speed.
const maxSpeed = 1000 * FullSpeed

// times is the product of two speeds, rounded, at least 1.
func (s Speed) times(o Speed) Speed {
	return min(max((s*o+FullSpeed/2)/FullSpeed, 1), maxSpeed)
}

// Model is all that is known of how fast jobs run. Parts that are nil have no effect.
type Model struct {
	// Throughputs is a table in Gavel's format. A job's run time is that on GPUs of type Reference;
	// if that is "", on the type on which the job's model is fastest.
	Throughputs *Throughputs
	Reference   string
	Spreads     *Spreads
	Factors     *Factors
	Off         Effects // those that are switched off
}

// SpeedInput is what the speed of a gang depends on.
type SpeedInput struct {
	Model       string
	Type        string // of its GPUs
	Has, Wants  int32  // GPUs that its job holds, and that it asked for
	Nodes       int32  // machines that it is on
	Locality    Locality
	HostMates   int32  // other gangs on the most crowded of its machines
	NICMates    int32  // those of HostMates that are on several machines, if this gang is as well
	Beside      []Work // works on its GPUs at the same time
	TurnsEvery  int64  // length of its turn in microseconds where it takes turns on its GPUs, else 0
	SuspendCost int64  // of each turn, in microseconds
}

// Speed is how fast a gang works: the product of what each effect leaves, and at least one
// millionth of full speed.
func (m *Model) Speed(s *SpeedInput) Speed {
	speed := FullSpeed
	on := func(e Effects) bool { return m.Off&e == 0 }
	if on(OnType) {
		speed = speed.times(m.onType(s))
	}
	if on(OnLocality) {
		speed = speed.times(m.onLocality(s))
	}
	if on(OnGPUs) && s.Has != s.Wants {
		speed = speed.times(m.onGPUs(s))
	}
	if on(OnPairs) {
		for _, w := range s.Beside {
			speed = speed.times(m.beside(s, w))
		}
	}
	if f := m.Factors; f != nil {
		if on(OnHost) {
			speed = speed.times(power(find(f.Hosts, s.Model, ""), s.HostMates))
		}
		if on(OnNIC) {
			speed = speed.times(power(find(f.NICs, s.Model, ""), s.NICMates))
		}
	}
	if on(OnCosts) && s.TurnsEvery > 0 {
		speed = speed.times(ratio(s.TurnsEvery-s.SuspendCost, s.TurnsEvery))
	}
	return speed
}

// maxMates bounds how many neighbours count.
const maxMates = 64

// power is a speed multiplied by itself n times.
func power(s Speed, n int32) Speed {
	out := FullSpeed
	for range min(n, maxMates) {
		out = out.times(s)
	}
	return out
}

// worker finds Gavel's name of a GPU type, in any case of letters.
func (t *Throughputs) worker(name string) string {
	for _, w := range t.workers {
		if strings.EqualFold(w, name) {
			return w
		}
	}
	return ""
}

// spreadSuffix ends the name of a worker that has its GPUs on different machines.
const spreadSuffix = "_unconsolidated"

// reference is the rate of a work on the type that run times are given for; 0 is unknown.
func (m *Model) reference(w Work) Rate {
	if m.Reference != "" {
		r, _ := m.Throughputs.Rate(m.Throughputs.worker(m.Reference), w)
		return r
	}
	best := Rate(0)
	for _, a := range m.Throughputs.Alone {
		if a.Work == w {
			best = max(best, a.Rate)
		}
	}
	return best
}

// Never reports whether a work cannot run on GPUs of a type: the table of throughputs has 0 for
// it there or, with apart, for GPUs on several machines.
func (m *Model) Never(w Work, gpu string, apart bool) bool {
	if m == nil || m.Throughputs == nil || m.Off&OnType != 0 {
		return false
	}
	worker := m.Throughputs.worker(gpu)
	if r, ok := m.Throughputs.Rate(worker, w); ok && r == 0 {
		return true
	}
	r, ok := m.Throughputs.Rate(worker+spreadSuffix, w)
	return apart && ok && r == 0 && m.Off&OnLocality == 0
}

// onType is the speed of a GPU type. A table without the work or the type says nothing.
func (m *Model) onType(s *SpeedInput) Speed {
	speed := FullSpeed
	if m.Factors != nil {
		speed = find(m.Factors.Types, s.Model, s.Type)
	}
	if m.Throughputs != nil {
		w := Work{s.Model, s.Wants}
		if r, ok := m.Throughputs.Rate(m.Throughputs.worker(s.Type), w); ok {
			speed = speed.times(ratio(int64(r), int64(m.reference(w))))
		}
	}
	return speed
}

// onLocality is the speed that is left when GPUs are apart.
func (m *Model) onLocality(s *SpeedInput) Speed {
	speed := FullSpeed
	if m.Factors != nil && s.Locality > OneGPU {
		speed = m.Factors.locality(s.Model, s.Locality)
	}
	if m.Spreads != nil {
		speed = speed.times(m.Spreads.On(s.Model, s.Wants, s.Nodes))
	}
	if m.Throughputs != nil && s.Nodes > 1 {
		w, worker := Work{s.Model, s.Wants}, m.Throughputs.worker(s.Type)
		near, ok := m.Throughputs.Rate(worker, w)
		far, also := m.Throughputs.Rate(worker+spreadSuffix, w)
		if ok && also {
			speed = speed.times(ratio(int64(far), int64(near)))
		}
	}
	return speed
}

// onGPUs is the speed of a job that holds more or fewer GPUs than it asked for.
func (m *Model) onGPUs(s *SpeedInput) Speed {
	speed := FullSpeed
	if m.Factors != nil {
		speed = m.Factors.gpus(s.Model, s.Has, s.Wants)
	}
	if m.Throughputs != nil {
		worker := m.Throughputs.worker(s.Type)
		has, ok := m.Throughputs.Rate(worker, Work{s.Model, s.Has})
		wants, also := m.Throughputs.Rate(worker, Work{s.Model, s.Wants})
		if ok && also {
			speed = speed.times(ratio(int64(has), int64(wants)))
		}
	}
	return speed
}

// KnowsPairs reports whether the model says how fast gangs are that share their GPUs.
func (m *Model) KnowsPairs() bool {
	return m.Throughputs != nil && len(m.Throughputs.Pairs) > 0 || m.Factors != nil && len(m.Factors.Beside) > 0
}

// beside is the speed that is left of a gang that shares its GPUs with another.
func (m *Model) beside(s *SpeedInput, other Work) Speed {
	speed := FullSpeed
	if m.Factors != nil {
		speed = find(m.Factors.Beside, s.Model, other.Model)
		if speed == FullSpeed {
			speed = find(m.Factors.Beside, s.Model, Any)
		}
	}
	if m.Throughputs != nil {
		worker, own := m.Throughputs.worker(s.Type), Work{s.Model, s.Wants}
		alone, ok := m.Throughputs.Rate(worker, own)
		packed, _, also := m.Throughputs.Together(worker, own, other)
		if ok && also {
			speed = speed.times(ratio(int64(packed), int64(alone)))
		}
	}
	return speed
}
