package trace

import (
	"errors"
	"fmt"
	"iter"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
)

// Spec says what to generate. The same Spec gives the same jobs on every machine.
type Spec struct {
	Kind string
	Jobs int64
	Seed uint64
	// LoadMilli, where it is not 0, sets the rate of arrivals so that the jobs ask for this
	// many thousandths of the Cluster's GPU-time; see LoadOn.
	LoadMilli int64
	// Cluster also bounds the size of a job.
	Cluster []NodeGroup
	// PerDay is the rate of arrivals without LoadMilli; 0 is the kind's own.
	PerDay int64
	// Survey adds deadlines and estimates; Mix is the weights of strict, soft and
	// best-effort jobs, all 0 for 35, 35, 30.
	Survey bool
	Mix    [3]int64
	// AppJobs, where it is not 0, makes apps, such as hyper-parameter searches: 1 to
	// AppJobs jobs that are submitted together, with one user, VC, size and model.
	AppJobs int64
	// Elastic, where it is above 1, is a factor. A job can then have between 1/Elastic and
	// Elastic times its GPUs, as far as Cluster has them.
	Elastic int64
	// Loss makes jobs report a loss that falls.
	Loss bool
}

// Kind describes a generator.
type Kind struct{ Name, About string }

// Kinds lists the generators.
func Kinds() []Kind {
	var out []Kind
	for _, k := range kinds() {
		out = append(out, Kind{k.name, k.about})
	}
	return out
}

// maxJobs bounds a generated trace.
const maxJobs = 100_000_000

// Generate returns the jobs of a Spec in order of submission, in constant memory. Time 0 is
// the midnight before a Monday. Jobs are numbered from 0.
func Generate(s Spec) (iter.Seq[Job], error) {
	k, err := s.check()
	if err != nil {
		return nil, err
	}
	g := &generator{spec: s, kind: k, powers: newPowers()}
	g.prepare()
	if g.gap, err = g.meanGap(); err != nil {
		return nil, err
	}
	return g.jobs, nil
}

func (s *Spec) check() (*workloadModel, error) {
	wrong := s.wrong()
	all := kinds()
	i := slices.IndexFunc(all, func(k workloadModel) bool { return k.name == s.Kind })
	if i < 0 {
		var names []string
		for _, k := range all {
			names = append(names, k.name)
		}
		wrong = append(wrong, fmt.Errorf("there is no kind of trace %q%s", s.Kind, document.DidYouMean(s.Kind, names)))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	k := &all[i]
	if len(s.Cluster) > 0 {
		total := TotalGPUs(s.Cluster)
		k.sizes = slices.DeleteFunc(k.sizes, func(z sizeKind) bool { return int64(z.gpus) > total })
	}
	s.Survey = s.Survey || k.survey
	if s.Mix == [3]int64{} {
		s.Mix = [3]int64{35, 35, 30}
	}
	return k, nil
}

// wrong is all that is wrong with the numbers of a spec.
func (s *Spec) wrong() (all []error) {
	say := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	say(s.Jobs < 1 || s.Jobs > maxJobs, "%d jobs: want 1 to %d", s.Jobs, maxJobs)
	say(s.LoadMilli < 0 || s.LoadMilli > 1_000_000, "the load must be above 0 and at most 1000")
	say(s.LoadMilli > 0 && len(s.Cluster) == 0, "a load needs the cluster that it is for")
	say(s.LoadMilli > 0 && s.PerDay > 0, "a load and a rate of arrivals exclude each other")
	say(s.AppJobs < 0 || s.AppJobs > 1_000_000, "%d jobs in an app: want 1 to 1000000", s.AppJobs)
	say(s.Elastic < 0 || s.Elastic > 1024, "sizes from 1/%d to %d times: want a factor from 1 to 1024", s.Elastic, s.Elastic)
	say(s.PerDay < 0 || s.PerDay > 1<<32, "%d jobs a day: want 1 to %d", s.PerDay, int64(1)<<32)
	say(slices.ContainsFunc(s.Mix[:], func(w int64) bool { return w < 0 || w > 1_000_000 }),
		"the parts of strict, soft and best-effort jobs must be 0 to 1000000")
	return all
}

// generator draws from three streams, so that the shapes of jobs change neither with the load
// nor with the survey.
type generator struct {
	spec   Spec
	kind   *workloadModel
	powers *powers
	gap    uint64 // mean time between two jobs in nanoseconds

	sizes, vcs, users, outcomes weights
	vcNames, userNames          []string
	usersOf                     int // in each VC
}

// prepare makes the tables for the draws.
func (g *generator) prepare() {
	k := g.kind
	var list []int64
	for _, z := range k.sizes {
		list = append(list, z.weight)
	}
	g.sizes = newWeights(list...)
	g.usersOf = k.users
	if len(k.vcs) > 0 {
		g.vcs = newWeights(k.vcs...)
		g.usersOf = max(1, k.users/len(k.vcs))
		for i := range k.vcs {
			g.vcNames = append(g.vcNames, "vc"+strconv.Itoa(i+1))
		}
	}
	g.users = zipf(g.usersOf)
	for i := range g.usersOf * max(1, len(k.vcs)) {
		g.userNames = append(g.userNames, "user"+strconv.Itoa(i+1))
	}
	list = nil
	for _, o := range k.outcomes {
		list = append(list, o.weight)
	}
	if len(list) > 0 {
		g.outcomes = newWeights(list...)
	}
}

// drawJob draws all of a job but its submission.
func (g *generator) drawJob(r random, j *Job) {
	z := &g.kind.sizes[g.sizes.pick(r)]
	*j = Job{GPUs: z.gpus, Duration: z.last.draw(r, g.powers)}
	if len(z.milli) > 0 {
		j.GPUMilli = z.milli[r.below(int64(len(z.milli)))]
	}
	vc := 0
	if len(g.vcNames) > 0 {
		vc = g.vcs.pick(r)
		j.VC = g.vcNames[vc]
	}
	j.User = g.userNames[vc*g.usersOf+g.users.pick(r)]
	if m := g.kind.models; len(m) > 0 {
		j.Model = m[r.below(int64(len(m)))]
	}
	if o := g.kind.outcomes; len(o) > 0 {
		j.Outcome = o[g.outcomes.pick(r)].outcome
	}
}

// The streams of one seed.
const (
	shapeStream uint64 = iota + 1
	arrivalStream
	surveyStream
	appStream
	lossStream
)

// jobStream draws the jobs one after the other; those of an app are alike.
type jobStream struct {
	g    *generator
	r    random
	apps random
	lead Job   // the first of the app
	left int64 // jobs of the app that follow
	n    int64 // apps
}

func (g *generator) newJobStream() *jobStream {
	return &jobStream{g: g, r: newRandom(g.spec.Seed, shapeStream), apps: newRandom(g.spec.Seed, appStream)}
}

// next draws a job and reports whether it arrives on its own: it is not one more of an app.
func (s *jobStream) next(j *Job) bool {
	s.g.drawJob(s.r, j)
	if s.g.spec.AppJobs == 0 {
		return true
	}
	first := s.left == 0
	if first {
		s.n++
		s.left = s.apps.between(1, s.g.spec.AppJobs)
		s.lead = *j
		s.lead.App = "app" + strconv.FormatInt(s.n, 10)
	}
	s.left--
	j.App, j.User, j.VC, j.GPUs, j.GPUMilli, j.Model = s.lead.App, s.lead.User, s.lead.VC, s.lead.GPUs, s.lead.GPUMilli, s.lead.Model
	return first
}

// meanGap is the mean time between two jobs, or two apps. For a given load all shapes are
// drawn once to sum their work, and drawn again later.
func (g *generator) meanGap() (uint64, error) {
	const day = 86_400_000_000_000 // nanoseconds
	gap := big.NewInt(day / g.kind.perDay)
	if g.spec.PerDay > 0 {
		gap = big.NewInt(day / g.spec.PerDay)
	}
	if g.spec.LoadMilli > 0 {
		drawn, work := g.newJobStream(), new(big.Int)
		var j Job
		for range g.spec.Jobs {
			drawn.next(&j)
			work.Add(work, big.NewInt(int64(timeOf(&j)))) // thousandths of a GPU-second
		}
		// Thousandths of load and of work cancel out. The rest turns seconds into
		// nanoseconds.
		capacity := big.NewInt(TotalGPUs(g.spec.Cluster))
		capacity.Mul(capacity, big.NewInt(g.spec.LoadMilli)).Mul(capacity, big.NewInt(g.spec.Jobs))
		gap = work.Mul(work, big.NewInt(1_000_000_000)).Div(work, capacity)
	}
	length := new(big.Int).Mul(gap, big.NewInt(g.spec.Jobs))
	if length.Cmp(big.NewInt(maxTime/2*1000)) > 0 {
		return 0, fmt.Errorf("%d jobs would arrive over more than 50 years; ask for fewer jobs or a higher load", g.spec.Jobs)
	}
	if n := g.spec.AppJobs; n > 0 {
		gap.Mul(gap, big.NewInt(n+1)).Rsh(gap, 1)
	}
	return gap.Uint64(), nil
}

// jobs yields the generated jobs.
func (g *generator) jobs(yield func(Job) bool) {
	drawn := g.newJobStream()
	arrivals := newRandom(g.spec.Seed, arrivalStream)
	s := survey{random: newRandom(g.spec.Seed, surveyStream), mix: newWeights(g.spec.Mix[:]...)}
	losses := newRandom(g.spec.Seed, lossStream)
	w := newWeek(g.kind)
	at := uint64(0) // nanoseconds on a clock on which all hours have the same rate of arrivals
	var j Job
	for n := range g.spec.Jobs {
		if drawn.next(&j) {
			at = min(at+g.wait(arrivals), uint64(maxTime)*1000)
		}
		j.ID = strconv.FormatInt(n, 10)
		g.makeElastic(&j)
		if g.spec.Loss {
			j.Loss = lossOf(losses, j.Duration)
		}
		j.Submit = w.at(model.Duration(at / 1000))
		if g.spec.Survey {
			s.apply(&j)
		}
		if !yield(j) {
			return
		}
	}
}

// makeElastic makes a job elastic.
func (g *generator) makeElastic(j *Job) {
	f := int32(g.spec.Elastic)
	if f <= 1 {
		return
	}
	j.MinGPUs, j.MaxGPUs = (j.GPUs+f-1)/f, min(j.GPUs*f, MaxGPUs)
	if len(g.spec.Cluster) > 0 {
		j.MaxGPUs = max(min(j.MaxGPUs, int32(min(TotalGPUs(g.spec.Cluster), MaxGPUs))), j.GPUs)
	}
}

// lossOf draws a loss (the distributions are ours). It falls from 2 to 3 down to 0.1 to 1,
// half of the way within a 20th to a 5th of the run time.
func lossOf(r random, d model.Duration) *Curve {
	return &Curve{First: r.between(2000, 3000) * 1e6, Last: r.between(100, 1000) * 1e6, Half: max(d/1000*model.Duration(r.between(50, 200)), 1)}
}

// wait draws the time between two jobs in nanoseconds, at most a century.
func (g *generator) wait(r random) uint64 {
	hi, lo := bits.Mul64(g.gap, uint64(r.exponential()))
	if hi>>fracBits > 0 {
		return uint64(maxTime) * 1000
	}
	return min(hi<<(64-fracBits)|lo>>fracBits, uint64(maxTime)*1000)
}

// week turns time at a constant rate into time with busy and quiet hours. Each hour gets the
// share of the week's jobs that arrives in it.
type week struct {
	upTo [169]model.Duration // time at the constant rate until each hour begins
	hour int                 // of the week, where the last job came
	n    int64               // number of weeks before
}

const wholeWeek = 168 * model.Hour

func newWeek(k *workloadModel) *week {
	w := &week{}
	var share [168]int64
	sum := int64(0)
	for h := range share {
		share[h] = 10_000
		if k.hours != nil {
			share[h] = k.hours[h%24] * k.days[h/24]
		}
		sum += share[h]
	}
	seen := int64(0)
	for h := range share {
		w.upTo[h] = model.Duration(big128(int64(wholeWeek), seen, sum))
		seen += share[h]
	}
	w.upTo[168] = wholeWeek
	return w
}

// big128 is a*b/c without overflow of the product.
func big128(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// at returns whole seconds. Times must rise from call to call.
func (w *week) at(d model.Duration) model.Time {
	if n := int64(d / wholeWeek); n > w.n {
		w.n, w.hour = n, 0
	}
	d -= model.Duration(w.n) * wholeWeek
	for d >= w.upTo[w.hour+1] {
		w.hour++
	}
	in := big128(int64(d-w.upTo[w.hour]), int64(model.Hour), int64(w.upTo[w.hour+1]-w.upTo[w.hour]))
	t := model.Duration(w.n)*wholeWeek + model.Duration(w.hour)*model.Hour + model.Duration(in)
	return model.Time(t / model.Second * model.Second)
}

// ParseMix reads the parts of strict, soft and best-effort jobs, such as 35/35/30.
func ParseMix(text string) ([3]int64, error) {
	var mix [3]int64
	parts := strings.Split(text, "/")
	sum := int64(0)
	for i, p := range parts {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil || n < 0 || n > 1_000_000 || len(parts) != 3 {
			return mix, fmt.Errorf("%q: want the parts of strict, soft and best-effort jobs, such as 35/35/30", text)
		}
		mix[i] = n
		sum += n
	}
	if sum == 0 {
		return mix, fmt.Errorf("%q: one of the parts must be above 0", text)
	}
	return mix, nil
}
