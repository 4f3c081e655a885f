package simulate

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/spec/trace"
)

// Shape says into which members a gang of a trace is cut.
type Shape string

// The shapes: a gang up to a node is one member, above that full nodes and a
// remainder; or every GPU is a member of its own.
const (
	NodeShape Shape = "node"
	GPUShape  Shape = "gpu"
)

// maxMembers bounds the members of one gang.
const maxMembers = 10_000

// jobBuilder makes jobs of the core from those of a trace.
type jobBuilder struct {
	shape        Shape
	node         int32           // GPUs of the largest node
	types        []cell.TypeName // of GPUs that the cluster names, sorted; none where it names none
	untypedNodes bool            // some of its nodes name no type: they count as every type
	oneVC        bool            // all jobs go to onlyVC
	noise        func(uint64) int64
	jobMemoryMB  int64 // MiB of each GPU; 0 is not known
	// reportEvery is the interval at which jobs report progress while they share GPUs; 0 is
	// never.
	reportEvery model.Duration
	tasks       []int32 // 0, 1, 2, ...: gangs are slices of it, which must not be changed
}

// builtJob is a job of the core, with memory for the one role that most jobs have, and its work.
type builtJob struct {
	model.Job
	roles [1]model.Role
	gangs [1]model.Gang
	work  jobWork
}

func newJobBuilder(s *Spec, p *plan) jobBuilder {
	b := jobBuilder{shape: s.Shape, node: p.nodeGPUs, oneVC: p.oneVC, noise: p.noise, jobMemoryMB: p.packing.jobMemoryMB, reportEvery: p.packing.reportEvery}
	for i := range p.config.Cluster.SKUs {
		switch sku := &p.config.Cluster.SKUs[i]; {
		case p.untypedNodes && sku.Name == plainGPU:
			b.untypedNodes = true
		case sku.GPU > 0:
			b.types = append(b.types, sku.Name)
		}
	}
	return b
}

// job makes a job of one gang from a job of the trace. One with checkpoints loses nothing
// when it is preempted.
func (b *jobBuilder) job(t *trace.Job) *builtJob {
	m := &builtJob{}
	j := &m.Job
	*j = model.Job{Roles: m.roles[:0], Gangs: m.gangs[:0], Name: model.JobName(t.ID), User: model.Subject(t.User), VC: cell.VCName(t.VC),
		Hints: model.Hints{Class: t.Class, Deadlines: t.Deadlines, Duration: t.Duration, Iterations: t.Iterations, Model: t.Model,
			App: t.App, Checkpoint: true, Suspendable: true, Packable: true, GPUMemoryMB: b.jobMemoryMB}}
	if t.Estimate > 0 {
		j.Hints.Duration = t.Estimate
	}
	if b.noise != nil {
		// By name, so that a job has the same error in every part of the trace.
		j.Hints.Duration = max(t.Duration/1000*model.Duration(b.noise(hashText(t.ID))), 1)
	}
	if b.oneVC {
		j.VC = onlyVC
	}
	if j.User == "" {
		j.User = "user"
	}
	if t.MaxGPUs > t.MinGPUs {
		b.elastic(j, t)
		return m
	}
	full, size := t.GPUs/b.node, b.node
	rest := t.GPUs % b.node
	if b.shape == GPUShape {
		full, size, rest = t.GPUs, 1, 0
	}
	skus := b.skus(t)
	b.role(j, model.Role{Name: "worker", Tasks: full, Leaves: size, SKUs: skus})
	b.role(j, model.Role{Name: "rest", Tasks: min(rest, 1), Leaves: rest, SKUs: skus})
	n := int32(0)
	for i := range j.Roles {
		n += j.Roles[i].Tasks
	}
	j.Gangs = append(j.Gangs, model.Gang{Name: "all", Tasks: b.ordinals(0, n)})
	return m
}

// elastic gives a job one member per GPU. The least that it can have start together.
func (b *jobBuilder) elastic(j *model.Job, t *trace.Job) {
	most := min(t.MaxGPUs, maxMembers)
	least := min(t.MinGPUs, most)
	b.role(j, model.Role{Name: "worker", Tasks: most, Leaves: 1, SKUs: b.skus(t)})
	j.Gangs = append(j.Gangs, model.Gang{Name: "all", Tasks: b.ordinals(0, least)})
	for o := least; o < most; o++ {
		j.Gangs = append(j.Gangs, model.Gang{Name: "more", Tasks: b.ordinals(o, o+1), Extra: true})
	}
	if t.GPUs < most {
		j.Size = t.GPUs
	}
}

// role adds a role that has tasks. All of its tasks must succeed, and one that
// fails fails the job.
func (b *jobBuilder) role(j *model.Job, r model.Role) {
	if r.Tasks == 0 {
		return
	}
	r.MinFailed, r.MinSucceeded = 1, -1
	r.OneSKU = len(r.SKUs) == 0 && len(b.types) > 1
	j.Roles = append(j.Roles, r)
}

// ordinals are the tasks from first to last-1.
func (b *jobBuilder) ordinals(first, last int32) []int32 {
	last = min(last, maxMembers+1)
	for n := int32(len(b.tasks)); n < last; n++ {
		b.tasks = append(b.tasks, n)
	}
	return b.tasks[first:last:last]
}

// skus are the types that a job may run on: those of the cluster that it asks for, whatever
// the case of their names, and those without a name. None means any type. Where the cluster
// has none of the types it is those asked for, so that the core refuses the job.
func (b *jobBuilder) skus(t *trace.Job) []cell.TypeName {
	asked := t.SKUs
	if len(asked) == 0 {
		asked = taskSKUs(t)
	}
	if len(asked) == 0 || len(b.types) == 0 {
		return nil
	}
	var out, unknown []cell.TypeName
	for _, s := range asked {
		i := slices.IndexFunc(b.types, func(n cell.TypeName) bool { return strings.EqualFold(string(n), s) })
		if i >= 0 {
			out = append(out, b.types[i])
		} else {
			unknown = append(unknown, cell.TypeName(s))
		}
	}
	if b.untypedNodes {
		out = append(out, plainGPU)
	}
	if len(out) == 0 {
		out = unknown
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// taskSKUs are the types that the tasks of a gang name; none where a task may have any.
func taskSKUs(t *trace.Job) []string {
	var out []string
	for i := range t.Tasks {
		if t.Tasks[i].SKU == "" {
			return nil
		}
		out = append(out, t.Tasks[i].SKU)
	}
	return out
}

// fits removes from a job the types of GPUs on which it cannot run by the table of
// throughputs, and counts that. Where no type is left it refuses the job and returns false.
func (r *runner) fits(j *model.Job, gpus int32) bool {
	w := perf.Work{Model: j.Hints.Model, Scale: gpus}
	apart := r.plan.nodeGPUs > 0 && gpus > r.plan.nodeGPUs
	var all, off []cell.TypeName
	for i := range r.plan.config.Cluster.SKUs {
		switch sku := &r.plan.config.Cluster.SKUs[i]; {
		case sku.GPU == 0:
		case r.plan.model.Never(w, string(sku.Name), apart):
			off = append(off, sku.Name)
		default:
			all = append(all, sku.Name)
		}
	}
	if len(off) == 0 {
		return true
	}
	for i := range j.Roles {
		may := all
		if asked := j.Roles[i].SKUs; len(asked) > 0 {
			may = slices.DeleteFunc(slices.Clone(asked), func(n cell.TypeName) bool { return slices.Contains(off, n) })
		}
		if len(may) == 0 {
			r.result.Submitted++
			r.result.refuse(j.Name, fmt.Sprintf("model %q cannot run on the types that it may have: the throughput of ('%s', %d) there is 0", w.Model, w.Model, gpus))
			return false
		}
		j.Roles[i].SKUs = may
	}
	for _, sku := range off {
		r.result.KeptOff.add(string(sku))
	}
	return true
}

// ignores counts what a trace asks for and a simulation ignores.
func (r *runner) ignores(t *trace.Job) {
	for _, f := range []struct {
		what string
		said bool
	}{{"CPUs", t.MilliCPU > 0}, {"main memory", t.MemoryMB > 0}, {"parts of a GPU: it has whole ones", t.GPUMilli > 0 && t.GPUMilli < 1000},
		{"priority", t.Priority != 0}, {"weight", t.Weight != 0 && t.Weight != 1000}} {
		if f.said {
			r.result.Ignored.add(f.what)
		}
	}
}

// Tally counts jobs or events by kind, in the order in which the kinds came.
type Tally []trace.Count

func (t *Tally) add(what string) {
	i := slices.IndexFunc(*t, func(o trace.Count) bool { return o.What == what })
	if i < 0 {
		i = len(*t)
		*t = append(*t, trace.Count{What: what})
	}
	(*t)[i].N++
}

// hashText hashes a text to a number (FNV-1a).
func hashText(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}
