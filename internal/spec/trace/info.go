package trace

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Summary sums up a trace. Times are in seconds. GPU-hours are Duration times GPUs; a part of
// a GPU counts as that part.
type Summary struct {
	Jobs            int64           `json:"jobs"`
	WithoutDuration int64           `json:"without_duration,omitempty"` // their GPU-hours are unknown
	FirstSubmitS    float64         `json:"first_submit_s"`
	SpanS           float64         `json:"span_s"` // from the first submission to the last
	Users           int             `json:"users"`
	Apps            int             `json:"apps,omitempty"`
	GPUHours        float64         `json:"gpu_hours"`
	LargestGang     int32           `json:"largest_gang"`
	MeanGPUs        float64         `json:"mean_gpus"`
	DurationS       Percentiles     `json:"duration_s"` // of the jobs with one
	VCs             []VCSummary     `json:"vcs"`        // by name
	Sizes           []Size          `json:"sizes"`      // by GPUs
	Classes         []Count         `json:"classes,omitempty"`
	Outcomes        []Count         `json:"outcomes,omitempty"`
	Models          []Count         `json:"models,omitempty"`
	SKUs            []Count         `json:"skus,omitempty"`
	Load            *LoadOn         `json:"load,omitempty"`
	vcs             map[string]*vcs // while the summary is made
	users, apps     map[string]bool
	sizes           map[int32]*Size
	durations       []model.Duration
	first, last     model.Time
	milliGPU        gpuTime
}

// Percentiles interpolates linearly between the two nearest values.
type Percentiles struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	P10  float64 `json:"p10"`
	P25  float64 `json:"p25"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// VCSummary is one virtual cluster of a trace.
type VCSummary struct {
	Name        string  `json:"name"`
	Jobs        int64   `json:"jobs"`
	Users       int     `json:"users"`
	GPUHours    float64 `json:"gpu_hours"`
	LargestGang int32   `json:"largest_gang"`
}

// Size sums the jobs with one number of GPUs.
type Size struct {
	GPUs     int32   `json:"gpus"`
	Jobs     int64   `json:"jobs"`
	GPUHours float64 `json:"gpu_hours"`
	time     gpuTime
}

// LoadOn is the load that the trace puts on a cluster: the GPU-hours of the trace over those
// of its GPUs between the first and the last submission. Above 1 the queue grows.
type LoadOn struct {
	GPUs int64   `json:"gpus"`
	Load float64 `json:"load"`
	// TooLarge counts the jobs with more GPUs than the cluster.
	TooLarge int64 `json:"too_large"`
}

type vcs struct {
	VCSummary
	users map[string]bool
	time  gpuTime
}

// gpuTime is a sum of GPU-time in thousandths of a GPU-second, so that sums do not
// depend on their order.
type gpuTime int64

// timeOf is a job's GPU-time.
func timeOf(j *Job) gpuTime {
	milli := int64(1000)
	if j.GPUMilli > 0 {
		milli = int64(j.GPUMilli)
	}
	s, us := int64(j.Duration)/int64(model.Second), int64(j.Duration)%int64(model.Second)
	return gpuTime(int64(j.GPUs) * (s*milli + us*milli/int64(model.Second)))
}

// add saturates.
func (g *gpuTime) add(more gpuTime) {
	if *g > math.MaxInt64-more {
		*g = math.MaxInt64
		return
	}
	*g += more
}

func (g gpuTime) hours() float64 { return float64(g) / 3.6e6 }

// Summarize sums up jobs. It keeps only durations and names in memory. The first error ends
// it.
func Summarize(jobs iter.Seq2[Job, error], cluster []NodeGroup) (*Summary, error) {
	s := &Summary{vcs: map[string]*vcs{}, users: map[string]bool{}, apps: map[string]bool{}, sizes: map[int32]*Size{},
		first: math.MaxInt64, last: math.MinInt64}
	if len(cluster) > 0 {
		s.Load = &LoadOn{GPUs: TotalGPUs(cluster)}
	}
	for j, err := range jobs {
		if err != nil {
			return nil, err
		}
		s.add(&j)
	}
	s.finish()
	return s, nil
}

func (s *Summary) add(j *Job) {
	t := timeOf(j)
	s.Jobs++
	s.first, s.last = min(s.first, j.Submit), max(s.last, j.Submit)
	s.LargestGang = max(s.LargestGang, j.GPUs)
	s.milliGPU.add(t)
	if j.Duration > 0 {
		s.durations = append(s.durations, j.Duration)
	} else {
		s.WithoutDuration++
	}
	if j.User != "" {
		s.users[j.User] = true
	}
	if j.App != "" {
		s.apps[j.App] = true
	}
	s.addVC(j, t)
	size := s.sizes[j.GPUs]
	if size == nil {
		size = &Size{GPUs: j.GPUs}
		s.sizes[j.GPUs] = size
	}
	size.Jobs++
	size.time.add(t)
	if s.Load != nil && int64(j.GPUs) > s.Load.GPUs {
		s.Load.TooLarge++
	}
	tally(&s.Classes, j.Class)
	tally(&s.Outcomes, string(j.Outcome))
	tally(&s.Models, j.Model)
	if len(j.SKUs) > 0 {
		tally(&s.SKUs, strings.Join(j.SKUs, "|"))
	}
}

// shownNames bounds the lists of models and SKUs; the rest is summed.
const shownNames = 100

func tally(list *[]Count, what string) {
	if what == "" {
		return
	}
	c := (*counts)(list)
	if _, known := slices.BinarySearchFunc(*c, what, func(x Count, w string) int { return strings.Compare(x.What, w) }); !known && len(*c) >= shownNames {
		what = "(others)"
	}
	c.add(what)
}

func (s *Summary) addVC(j *Job, t gpuTime) {
	v := s.vcs[j.VC]
	if v == nil {
		v = &vcs{VCSummary: VCSummary{Name: j.VC}, users: map[string]bool{}}
		s.vcs[j.VC] = v
	}
	v.Jobs++
	v.LargestGang = max(v.LargestGang, j.GPUs)
	v.time.add(t)
	if j.User != "" {
		v.users[j.User] = true
	}
}

func (s *Summary) finish() {
	s.VCs, s.Sizes = []VCSummary{}, []Size{}
	if s.Jobs == 0 {
		return
	}
	s.FirstSubmitS = seconds(model.Duration(s.first))
	s.SpanS = seconds(model.Duration(s.last - s.first))
	s.Users, s.Apps = len(s.users), len(s.apps)
	s.GPUHours = s.milliGPU.hours()
	gpus := int64(0)
	for _, v := range s.vcs {
		v.Users, v.GPUHours = len(v.users), v.time.hours()
		s.VCs = append(s.VCs, v.VCSummary)
	}
	slices.SortFunc(s.VCs, func(a, b VCSummary) int { return strings.Compare(a.Name, b.Name) })
	for _, z := range s.sizes {
		z.GPUHours = z.time.hours()
		gpus += int64(z.GPUs) * z.Jobs
		s.Sizes = append(s.Sizes, *z)
	}
	slices.SortFunc(s.Sizes, func(a, b Size) int { return cmp.Compare(a.GPUs, b.GPUs) })
	s.MeanGPUs = float64(gpus) / float64(s.Jobs)
	s.DurationS = percentiles(s.durations)
	if s.Load != nil && s.SpanS > 0 {
		s.Load.Load = s.GPUHours * 3600 / (s.SpanS * float64(s.Load.GPUs))
	}
}

func seconds(d model.Duration) float64 { return float64(d) / float64(model.Second) }

func percentiles(all []model.Duration) Percentiles {
	if len(all) == 0 {
		return Percentiles{}
	}
	slices.Sort(all)
	sum := 0.0
	for _, d := range all {
		sum += seconds(d)
	}
	at := func(percent int) float64 {
		k := percent * (len(all) - 1)
		low := all[k/100]
		high := all[min(k/100+1, len(all)-1)]
		return seconds(low) + seconds(high-low)*float64(k%100)/100
	}
	return Percentiles{Mean: sum / float64(len(all)), Min: at(0), P10: at(10), P25: at(25), P50: at(50), P75: at(75),
		P90: at(90), P95: at(95), P99: at(99), Max: at(100)}
}
