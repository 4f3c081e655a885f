package metrics_test

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
)

// twin computes the same figures in the dumbest way: it applies the records to the
// core's own State, asks that State between any two instants what holds, what waits
// and what is free, and adds up. It keeps everything and shares no code.
type twin struct {
	s      *core.State
	now    model.Time
	began  bool
	start  model.Time
	end    model.Time
	jobs   map[model.JobID]*twinJob
	vcs    map[string]*twinVC
	turns  map[model.AttemptID]*model.Rotation
	used   float64 // leaf-microseconds
	held   float64 // the same by what gangs hold, shared leaves once
	idle   float64
	stray  float64
	used0  float64 // the same when no job was left
	idle0  float64
	stray0 float64
	events int64
}

type twinVC struct {
	quota, quota0 float64
	sums, last    [2]float64 // of notes on a probe pool and on a profiler
}

// told are the sums in notes.
var told = [2]*regexp.Regexp{regexp.MustCompile(`(?:^|; )probe .* GPU-seconds, (\d+) saved`), regexp.MustCompile(`(?:^|; )profiler [^;]*measured, (\d+) GPU-seconds`)}

func (w *twin) noted(vc, note string) {
	for i, of := range told {
		m := of.FindStringSubmatch(note)
		if m == nil || w.vcs[vc] == nil {
			continue
		}
		n, _ := strconv.ParseFloat(m[1], 64)
		v := w.vcs[vc]
		if n < v.last[i] {
			v.last[i] = 0
		}
		v.sums[i], v.last[i] = v.sums[i]+n-v.last[i], n
	}
}

type twinJob struct {
	id          model.JobID
	spec        *model.Job
	vc          string
	submit, end model.Time
	phase       model.Phase
	open        bool
	completing  bool
	set         bool // quarantined or told to stop
	gangs       []twinGang
	apps        float64 // integral of active apps over its life
	gpu, shared float64
	wasted      float64
	saved       float64
	steps       [2]int64 // made, of so many
	preempted   int32
	suspended   int32
	migrated    int32
	attempts    int32
	app         *twinApp
	cluster     int64 // guarantee of its VC at its end
}

type twinApp struct {
	submit  model.Time
	apps    float64
	work    float64
	leaves  int64
	members int
	open    bool
	name    string
}

type twinGang struct {
	need            int32
	extra           bool
	after           model.Time
	fair, frag, off float64
	loose           float64
	fresh, kept     float64
	ran             bool
	live            bool
	left            []int32                // by task: leaves that the last configuration left it
	called          []cell.TypeName        // by task: what it calls their SKU
	nodes           map[cell.NodeName]bool // of its attempt
	was             map[cell.NodeName]bool // of a preempted one
}

func newTwin() *twin {
	return &twin{s: core.New(policy.New), jobs: map[model.JobID]*twinJob{}, vcs: map[string]*twinVC{}, turns: map[model.AttemptID]*model.Rotation{}}
}

func (w *twin) add(r model.Record) {
	for w.began && r.Time > w.now {
		to := r.Time
		for _, j := range w.jobs { // back-offs end on the way: the order does not matter
			for g := range j.gangs {
				if a := j.gangs[g].after; a > w.now {
					to = min(to, a)
				}
			}
		}
		w.pass(to)
	}
	w.now = max(w.now, r.Time)
	w.before(r.Event)
	w.s.Apply(r)
	w.after(r.Event)
}

// before notes what is gone once the event is applied.
func (w *twin) before(e model.Event) {
	switch e := e.(type) {
	case model.AttemptEnded:
		j := w.jobs[e.Attempt.Job]
		g := &j.gangs[e.Attempt.Gang]
		g.live = false
		lost := !slices.Contains([]model.EndCause{model.EndSucceeded, model.EndCompleted, model.EndStopped}, e.Cause)
		if lost && !(e.Cause.Resumes() && j.spec.Hints.Checkpoint) {
			j.wasted += g.loose
		}
		if !lost || j.spec.Hints.Checkpoint && e.Cause.Resumes() || e.Cause == model.EndFailed || e.Cause == model.EndTimeLimit {
			g.kept += g.fresh
		}
		g.loose, g.fresh, g.was = 0, 0, nil
		if (e.Cause == model.EndPreempted || e.Cause == model.EndResized) && !g.extra {
			j.preempted++
			g.was = g.nodes
		}
		if e.Cause == model.EndMigrated {
			g.was = g.nodes
		}
		w.events++
	case model.JobEnded:
		j := w.jobs[e.Job]
		j.end, j.phase = w.now, e.Phase
	}
}

func (w *twin) after(e model.Event) {
	switch e := e.(type) {
	case model.JobSubmitted:
		w.submitted(e)
	case model.StopRequested:
		if j := w.jobs[e.Job]; j != nil {
			j.set = true
		}
	case model.Quarantined:
		w.jobs[e.Job].set = true
	case model.JobCompleting:
		j := w.jobs[e.Job]
		if j.completing = true; e.Cause == model.EndEarly && j.steps[0] > 0 && j.steps[1] > j.steps[0] {
			j.saved = j.gpu * float64(j.steps[1]-j.steps[0]) / float64(j.steps[0])
		}
	case model.Noted:
		w.noted(string(e.VC), string(e.Data))
	case model.JobRetried:
		j := w.jobs[e.Job]
		j.completing = false
		for g := range j.gangs {
			j.gangs[g].after, j.gangs[g].kept = e.After, 0
		}
	case model.TaskRetried:
		g := &w.jobs[e.Job].gangs[e.Gang]
		if g.after = e.After; e.Counted {
			g.kept = 0
		}
	case model.Joined:
		w.after(model.Placed{Attempt: e.Attempt, Placement: e.Placement})
	case model.Rotated:
		r := &e.Rotation
		for _, turn := range e.Turns {
			for _, id := range turn {
				w.turns[id] = r
			}
		}
	case model.Placed:
		j := w.jobs[e.Attempt.Job]
		g := &j.gangs[e.Attempt.Gang]
		j.attempts++
		g.live, g.ran, g.left, g.nodes = true, false, nil, map[cell.NodeName]bool{}
		fresh := false
		for _, t := range e.Placement.Tasks {
			g.nodes[t.Node] = true
			fresh = fresh || g.was != nil && !g.was[t.Node]
		}
		if fresh {
			j.migrated++
		}
		w.events++
	case model.TaskStarted:
		w.jobs[e.Attempt.Job].gangs[e.Attempt.Gang].ran = true
	case model.Progress:
		if j := w.jobs[e.Attempt.Job]; e.Attempt.Gang == 0 && e.Step > 0 {
			j.steps = [2]int64{e.Step, max(e.Total, j.spec.Hints.Iterations)}
		}
		if g := &w.jobs[e.Attempt.Job].gangs[e.Attempt.Gang]; e.Checkpoint {
			g.kept += g.fresh
			g.loose, g.fresh = 0, 0
		}
	case model.StopSent:
		w.events++
	case model.Configured:
		w.configured(e)
	case model.JobEnded:
		w.ended(w.jobs[e.Job])
	}
}

func (w *twin) configured(e model.Configured) {
	was := w.vcs
	w.vcs = map[string]*twinVC{}
	for _, r := range e.Renamed {
		if v := was[string(r.From)]; v != nil {
			w.vcs[string(r.To)] = v
			delete(was, string(r.From))
		}
	}
	before := map[string]string{} // those that others took the name of
	for name, v := range was {
		as := name
		for w.vcs[as] != nil {
			as += " (before)"
		}
		w.vcs[as] = v
		if as != name {
			before[name] = as
		}
	}
	for _, v := range w.s.VCs() {
		if w.vcs[string(v.Name)] == nil {
			w.vcs[string(v.Name)] = &twinVC{}
		}
	}
	for _, m := range e.Moves {
		g := &w.jobs[m.Attempt.Job].gangs[m.Attempt.Gang]
		g.left, g.called = nil, nil
		for _, t := range m.Placement.Tasks {
			g.left = append(g.left, int32(len(t.Leaves)))
			g.called = append(g.called, t.SKU)
		}
	}
	for _, j := range w.jobs {
		joined := before[j.vc]
		for _, r := range e.Renamed {
			if j.vc == string(r.From) {
				j.vc, joined = string(r.To), ""
				break
			}
		}
		if joined != "" {
			j.vc = joined
		}
		for g := range j.gangs {
			j.gangs[g].was = nil // the fold forgets it, too: leaves have new numbers
		}
	}
}

func (w *twin) submitted(e model.JobSubmitted) {
	if !w.began {
		w.began, w.start = true, w.now
	}
	j := &twinJob{id: e.ID, spec: e.Job, vc: string(e.Job.VC), submit: w.now, open: true, gangs: make([]twinGang, len(e.Job.Gangs))}
	for g := range e.Job.Gangs {
		j.gangs[g].extra = e.Job.Gangs[g].Extra
		for _, o := range e.Job.Gangs[g].Tasks {
			j.gangs[g].need += w.role(e.Job, o).Leaves
		}
	}
	for _, k := range w.jobs {
		if k.app.open && k.vc == j.vc && e.Job.Hints.App != "" && k.app.name == e.Job.Hints.App {
			j.app = k.app
		}
	}
	if j.app == nil {
		j.app = &twinApp{submit: w.now, open: true, name: e.Job.Hints.App}
	}
	j.app.members++
	w.jobs[e.ID] = j
	w.events++
}

func (w *twin) role(j *model.Job, ordinal int32) *model.Role {
	for r := range j.Roles {
		if ordinal < j.Roles[r].Tasks {
			return &j.Roles[r]
		}
		ordinal -= j.Roles[r].Tasks
	}
	return nil
}

func (j *twinJob) leaves() (n int64) {
	for g := range j.gangs {
		n += int64(j.gangs[g].need)
	}
	return n
}

func (j *twinJob) ideal() (d float64) {
	for g := range j.gangs {
		d = max(d, j.gangs[g].kept)
	}
	return d
}

func (w *twin) ended(j *twinJob) {
	j.open = false
	j.cluster = w.cluster(j)
	j.app.work += j.ideal() * float64(j.leaves())
	j.app.leaves += j.leaves()
	if j.app.members--; j.app.members == 0 {
		j.app.open = false
	}
	w.end = w.now
	if !slices.ContainsFunc(w.all(), func(j *twinJob) bool { return j.open }) {
		w.close()
	}
}

func (w *twin) close() {
	w.used0, w.idle0, w.stray0 = w.used, w.idle, w.stray
	for _, v := range w.vcs {
		v.quota0 = v.quota
	}
}

// all are the jobs in order of id.
func (w *twin) all() []*twinJob {
	var out []*twinJob
	for _, j := range w.jobs {
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *twinJob) int { return cmp.Compare(a.id, b.id) })
	return out
}

// pass lets time pass in which nothing changes.
func (w *twin) pass(to model.Time) {
	dt := float64(to - w.now)
	w.now = to
	var used, idle, stray float64
	idleBy := map[cell.TypeName]int32{}
	for _, c := range w.s.Cells() {
		w.count(&c, func(node *model.CellStatus, u, i, total float64) {
			used, idle = used+u, idle+i
			if i < total {
				stray += i
			}
			idleBy[leafType(node)] += int32(i)
		})
	}
	w.used += used * dt
	w.idle += idle * dt
	w.stray += stray * dt
	free := w.freeQuota()
	for _, v := range w.s.VCs() {
		if t := w.vcs[string(v.Name)]; !v.Gone {
			t.quota += float64(v.Guaranteed) * dt
		}
	}
	crowd := map[cell.NodeName]int{}
	for _, st := range w.s.Jobs() {
		for g := range w.jobs[st.ID].gangs {
			for n := range w.holds(&st, int32(g)).nodes {
				crowd[n]++
			}
		}
	}
	for _, st := range w.s.Jobs() {
		w.passJob(&st, dt, crowd, func(sku cell.TypeName) int32 {
			if st.Priority < cell.MinGuaranteed {
				return idleBy[sku]
			}
			return free[w.jobs[st.ID].vc][sku]
		})
	}
	w.passApps(dt)
}

func (w *twin) passApps(dt float64) {
	active := map[string]map[*twinApp]bool{}
	for _, j := range w.jobs {
		if j.app.open {
			if active[j.vc] == nil {
				active[j.vc] = map[*twinApp]bool{}
			}
			active[j.vc][j.app] = true
		}
	}
	for vc, apps := range active {
		for a := range apps {
			a.apps += float64(len(apps)) * dt
		}
		for _, j := range w.jobs {
			if j.open && j.vc == vc {
				j.apps += float64(len(apps)) * dt
			}
		}
	}
}

// count calls do for each node-level cell with its leaves in use, idle, and all.
func (w *twin) count(c *model.CellStatus, do func(node *model.CellStatus, used, idle, total float64)) {
	if c.Node == "" {
		for i := range c.Children {
			w.count(&c.Children[i], do)
		}
		return
	}
	var used, idle, total float64
	var leaves func(*model.CellStatus)
	leaves = func(c *model.CellStatus) {
		for i := range c.Children {
			leaves(&c.Children[i])
		}
		if len(c.Children) > 0 {
			return
		}
		total++
		switch {
		case c.State == "Used" || c.State == "Reserving":
			used++
		case c.Healthy:
			idle++
		}
	}
	leaves(c)
	do(c, used, idle, total)
}

// leafType is the SKU of a cell's leaves.
func leafType(c *model.CellStatus) cell.TypeName {
	for len(c.Children) > 0 {
		c = &c.Children[0]
	}
	return c.Type
}

// freeQuota is what each VC has left of its guarantee, by SKU.
func (w *twin) freeQuota() map[string]map[cell.TypeName]int32 {
	out := map[string]map[cell.TypeName]int32{}
	for _, v := range w.s.VCs() {
		by := map[cell.TypeName]int32{}
		for _, q := range v.Cells {
			for _, ch := range w.s.Config().Cluster.Chains {
				if ch.Name != q.Chain {
					continue
				}
				n := q.Total
				for _, l := range ch.Levels[:q.Level] {
					n *= max(l.Fanout, 1)
				}
				by[ch.Levels[0].Type] += n
			}
		}
		out[string(v.Name)] = by
	}
	for _, st := range w.s.Jobs() {
		by := out[string(st.VC)]
		for g := range w.jobs[st.ID].gangs {
			h := w.holds(&st, int32(g))
			if h.opportunistic || by == nil || w.guest(h.id) {
				continue
			}
			for sku, n := range h.by {
				by[sku] -= n
			}
		}
	}
	return out
}

// holding is what one gang holds.
type holding struct {
	id            model.AttemptID
	opportunistic bool
	leaves        int32
	by            map[cell.TypeName]int32
	nodes         map[cell.NodeName]bool
}

func (w *twin) holds(st *model.JobStatus, g int32) holding {
	h := holding{by: map[cell.TypeName]int32{}, nodes: map[cell.NodeName]bool{}}
	for _, a := range st.Attempts {
		if a.ID.Gang != g || a.State == model.AttemptReserving || a.State == model.AttemptOver {
			continue
		}
		h.id, h.opportunistic = a.ID, a.Opportunistic
		left, called := w.jobs[st.ID].gangs[g].left, w.jobs[st.ID].gangs[g].called
		for k, o := range w.jobs[st.ID].spec.Gangs[g].Tasks {
			t := &st.Tasks[o]
			n, sku := int32(len(t.Devices)), t.SKU
			if left != nil {
				n, sku = left[k], called[k]
			}
			if n > 0 {
				h.leaves += n
				h.by[sku] += n
				h.nodes[t.Node] = true
			}
		}
	}
	return h
}

func (w *twin) passJob(st *model.JobStatus, dt float64, crowd map[cell.NodeName]int, free func(cell.TypeName) int32) {
	j := w.jobs[st.ID]
	for i := range j.gangs {
		g := &j.gangs[i]
		h := w.holds(st, int32(i))
		ran := dt
		if t := w.turns[h.id]; t != nil {
			ran = w.turn(j, t, h.id, dt)
		}
		if !w.guest(h.id) {
			w.held += float64(h.leaves) * dt
		}
		gpu := float64(h.leaves) * ran
		j.gpu += gpu
		g.loose += gpu
		if g.live && g.ran {
			g.fresh += ran
		}
		for n := range h.nodes {
			if crowd[n] > 1 {
				j.shared += gpu
				break
			}
		}
		if g.live || g.extra || j.set || j.completing || !w.waits(st, int32(i)) {
			continue
		}
		switch {
		case g.after >= w.now: // now is the end of the interval
			g.off += dt
		case w.available(j, int32(i), free) < g.need:
			g.fair += dt
		default:
			g.frag += dt
		}
	}
}

// turn is how much of the last stretch of time an attempt had its turn, read turn by turn.
func (w *twin) turn(j *twinJob, t *model.Rotation, id model.AttemptID, dt float64) (ran float64) {
	for at := w.now - model.Time(dt); at < w.now; {
		next := w.now
		if c := t.Change(at); c > 0 {
			next = min(c, next)
		}
		if t.Runs(id, at) {
			ran += float64(next - at)
			if !t.Runs(id, next) {
				j.suspended++
			}
		}
		at = next
	}
	return ran
}

// guest reports whether another attempt that shares its leaves comes before it.
func (w *twin) guest(id model.AttemptID) bool {
	t := w.turns[id]
	if t == nil {
		return false
	}
	for _, turn := range t.Turns {
		for _, o := range turn {
			if (o.Job < id.Job || o.Job == id.Job && o.Gang < id.Gang) && w.turns[o] == t && w.jobs[o.Job].gangs[o.Gang].live {
				return true
			}
		}
	}
	return false
}

// waits reports whether all tasks of a gang wait.
func (w *twin) waits(st *model.JobStatus, g int32) bool {
	return !slices.ContainsFunc(st.Tasks, func(t model.TaskStatus) bool { return t.Gang == g && t.State != model.TaskWaiting })
}

// available sums what is free of the SKUs that a gang may run on.
func (w *twin) available(j *twinJob, g int32, free func(cell.TypeName) int32) (n int32) {
	for _, sku := range w.s.Config().Cluster.SKUs {
		fits := false
		for _, o := range j.spec.Gangs[g].Tasks {
			r := w.role(j.spec, o)
			fits = fits || len(r.SKUs) == 0 || slices.Contains(r.SKUs, sku.Name)
		}
		if fits {
			n += free(sku.Name)
		}
	}
	return n
}

// figures are those of one VC, or with "" of the whole run.
func (w *twin) figures(vc string) metrics.Figures {
	var f metrics.Figures
	var jct []float64
	var queue, fair, frag, latency, missed, gpu float64
	var slo, best int
	var rho []float64
	first, last := model.Time(math.MaxInt64), model.Time(0)
	apps := map[*twinApp]bool{}
	for _, j := range w.all() {
		if vc != "" && j.vc != vc {
			continue
		}
		f.Jobs++
		first = min(first, j.submit)
		gpu += j.gpu
		f.EarlySaved += metrics.Number(j.saved / 3600e6)
		f.Preemptions += int64(j.preempted)
		f.Suspends += int64(j.suspended)
		f.Migrations += int64(j.migrated)
		if !j.app.open && !apps[j.app] {
			apps[j.app] = true
			if r := w.rho(j); r > 0 {
				rho = append(rho, r)
			}
		}
		m, judged := w.miss(j)
		if judged {
			slo++
			missed += m
		}
		if j.open {
			continue
		}
		last = max(last, j.end)
		t := float64(j.end - j.submit)
		jct = append(jct, t/1e6)
		a, b, _ := j.waits()
		queue, fair, frag = queue+t-j.ideal(), fair+a, frag+b
		if !judged {
			best++
			latency += t
		}
	}
	f.Finished = int64(len(jct))
	n := float64(len(jct))
	slices.Sort(jct)
	slices.Sort(rho)
	f.JCTAvg, f.JCTP50, f.JCTP95, f.JCTP99 = mean(jct), quantile(jct, .5), quantile(jct, .95), quantile(jct, .99)
	f.Makespan = metrics.Number(math.NaN())
	f.Throughput = f.Makespan
	if n > 0 {
		f.Makespan = metrics.Number(float64(last-first) / 1e6)
		f.Throughput = metrics.Number(n / float64(last-first) * 3600e6)
	}
	f.QueueAvg, f.QueueFairShareAvg, f.QueueFragmentationAvg = metrics.Number(queue/n/1e6), metrics.Number(fair/n/1e6), metrics.Number(frag/n/1e6)
	f.RhoMax, f.RhoP95, f.JainRho = quantile(rho, 1), quantile(rho, .95), fairnessIndex(rho)
	f.SLOMissRate, f.BELatencyAvg = metrics.Number(missed/float64(slo)), metrics.Number(latency/float64(best)/1e6)
	for name, v := range w.vcs {
		if vc == "" || vc == name {
			f.ProbeSaved += metrics.Number(v.sums[0] / 3600)
			f.Profiler += metrics.Number(v.sums[1] / 3600)
		}
	}
	if vc == "" {
		f.GPUUtilization = metrics.Number(w.used0 / (w.used0 + w.idle0))
		f.GPUEffective = metrics.Number(gpu / (w.used0 + w.idle0))
		f.Fragmentation = metrics.Number(w.stray0 / w.idle0)
	} else {
		f.GPUUtilization = metrics.Number(gpu / w.vcs[vc].quota0)
		f.GPUEffective, f.Fragmentation = f.GPUUtilization, metrics.Number(math.NaN())
	}
	return f
}

// waits are a job's means over its gangs by their leaves, in whole microseconds.
func (j *twinJob) waits() (fair, frag, off float64) {
	var n float64
	for _, g := range j.gangs {
		if !g.extra {
			k := float64(g.need)
			n, fair, frag, off = n+k, fair+k*g.fair, frag+k*g.frag, off+k*g.off
		}
	}
	return math.Floor(fair / n), math.Floor(frag / n), math.Floor(off / n)
}

func (w *twin) rho(j *twinJob) float64 {
	a := j.app
	last, cluster := model.Time(0), int64(0)
	for _, k := range w.all() {
		if k.app == a && k.end >= last {
			last, cluster = k.end, k.cluster
		}
	}
	life := float64(last - a.submit)
	if life == 0 || a.work == 0 {
		return 0
	}
	return life / (a.apps / life * a.work / float64(min(cluster, a.leaves)))
}

// cluster is what a job's VC is guaranteed; where nothing is, all leaves.
func (w *twin) cluster(j *twinJob) (n int64) {
	for _, v := range w.s.VCs() {
		if string(v.Name) == j.vc && !v.Gone {
			n = int64(v.Guaranteed)
		}
	}
	if n == 0 {
		for _, node := range w.s.Nodes() {
			for _, s := range node.SKUs {
				n += int64(s.Total)
			}
		}
	}
	return n
}

func (w *twin) miss(j *twinJob) (float64, bool) {
	ds := j.spec.Hints.Deadlines
	if len(ds) == 0 || j.spec.Hints.Class == "besteffort" {
		return 0, false
	}
	if j.open {
		return 1, w.now > j.submit.Add(ds[len(ds)-1].After)
	}
	for _, d := range ds {
		if j.end <= j.submit.Add(d.After) {
			return 1 - float64(d.Value)/float64(ds[0].Value), true
		}
	}
	return 1, true
}

func mean(xs []float64) metrics.Number {
	var s float64
	for _, x := range xs {
		s += x
	}
	return metrics.Number(s / float64(len(xs)))
}

func fairnessIndex(xs []float64) metrics.Number {
	var s, q float64
	for _, x := range xs {
		s, q = s+x, q+x*x
	}
	return metrics.Number(s * s / (float64(len(xs)) * q))
}

func quantile(sorted []float64, p float64) metrics.Number {
	if len(sorted) == 0 {
		return metrics.Number(math.NaN())
	}
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return metrics.Number(sorted[len(sorted)-1])
	}
	return metrics.Number(sorted[i] + (sorted[i+1]-sorted[i])*(at-float64(i)))
}
