package kube

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// jobMembers are the tasks of one job, and the members that its pods were told last.
type jobMembers struct {
	tasks  map[string]*podTask // by the name of the pod
	looked time.Time
	told   executor.Membership
}

// countEvery is how often the running tasks of a job are counted, however many of its pods ask.
const countEvery = 300 * time.Millisecond

// crewOf returns the tasks of a job. e.mu is held.
func (e *Executor) crewOf(id model.JobID) *jobMembers {
	c := e.crews[id]
	if c == nil {
		c = &jobMembers{tasks: map[string]*podTask{}}
		e.crews[id] = c
	}
	return c
}

// members returns which tasks of a pod's job run. Versions also rise over restarts of the server:
// the first one is the time, in seconds.
func (h podRequests) members(pod string) (executor.Membership, error) {
	t, err := h.task(pod)
	if err != nil {
		return executor.Membership{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.crews[t.at.Job]
	if c == nil {
		return executor.Membership{}, fmt.Errorf("%w: %s is no task that runs", link.ErrNoTask,
			pod) // it ended meanwhile
	}
	for _, other := range c.tasks {
		if other.known {
			return executor.Membership{}, link.ErrSoon // it may live, but nothing was heard of it yet
		}
	}
	if time.Since(c.looked) < countEvery {
		return c.told, nil
	}
	c.looked = time.Now()
	if now := h.count(c); !reflect.DeepEqual(now, c.told.Members) {
		c.told = executor.Membership{Version: max(c.told.Version+1, c.looked.Unix()), Members: now}
	}
	return c.told, nil
}

// count lists the tasks of a job that run, in their order. h.mu is held.
func (h podRequests) count(c *jobMembers) []executor.Member {
	var list []*podTask
	for _, t := range c.tasks {
		if pod := h.spaces.pod(t.space, t.name); !t.stray && !t.lost && pod != nil && pod.UID == t.uid && pods.Look(pod, false).Phase == pods.Runs {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *podTask) int { return cmp.Compare(a.ts.Task, b.ts.Task) })
	out := make([]executor.Member, 0, len(list))
	for _, t := range list {
		job := t.start.Job
		out = append(out, executor.Member{Role: job.Roles[t.ts.Role].Name, Index: t.ts.Index, Host: h.spaces.pod(t.space, t.name).Status.PodIP, Ports: pods.Ports(job, t.ts), Leaving: t.stop})
	}
	return out
}

// leads reports whether what belongs to a gang belongs to this task's pod.
func (t *podTask) leads() bool {
	return t.start != nil && len(t.start.Tasks) > 1 && t.ts.Task == pods.First(t.start)
}

// first reports whether others of a task's gang have pods, and all of them a higher number. Its
// pod owns what belongs to the gang. It may be a stray: a new server hears nothing of tasks that
// have ended.
func (e *Executor) first(t *podTask) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := e.attempts[t.at]
	return len(keys) > 1 && !slices.ContainsFunc(keys, func(key string) bool {
		_, n, ok := e.maker.Parse(baseOf(key))
		return ok && n < t.number()
	})
}

// number is the number of a task in its job.
func (t *podTask) number() int32 {
	if t.ts != nil {
		return t.ts.Task
	}
	n, err := strconv.ParseInt(t.name[strings.LastIndexByte(t.name, '-')+1:], 10, 32)
	if err != nil {
		return 0 // it is no name of a pod of Comb
	}
	return int32(n)
}

// title is a task's name for its user. The task is no stray.
func (t *podTask) title() string {
	return jobspec.RoleOf(t.start.Job, t.ts.Task) + "-" + fmt.Sprint(t.ts.Index)
}

// ownedByGang is what belongs to a task's gang, where the task leads it.
func (e *Executor) ownedByGang(t *podTask) (own owned) {
	if t.leads() {
		own.service, own.configs = e.maker.Service(t.at), e.maker.GangConfigs(t.at, t.home.variables(e, t))
	}
	return own
}

// home is the namespace of an attempt. All tasks of a gang are in one, since the names by which
// they find each other hold in one namespace alone.
type home struct {
	mu    sync.Mutex
	known bool   // an earlier server may have started it
	space string // "": not decided
	led   bool   // its first task's pod has what all tasks need, or there will be none

	shares   bool         // vars are worked out
	vars     *pods.Shared // see pods.GangVariables
	podsMade int          // of how many tasks the pod was made

	whose func() (executor.Identity, error) // as which user and group the gang's tasks run
}

// variables are those that all tasks of the attempt have.
func (h *home) variables(e *Executor, t *podTask) *pods.Shared {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.shares {
		h.shares, h.vars = true, e.maker.GangVariables(t.at, t.start)
	}
	return h.vars
}

// podMade notes that a task's pod was made. What all tasks have is not kept beyond the last of
// them: it would be worked out again.
func (h *home) podMade(t *podTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.podsMade++; h.podsMade >= len(t.start.Tasks) {
		h.shares, h.vars = false, nil
	}
}

// shared are those that a pod has from the gang's ConfigMaps. A new server relies on none for the
// pods that it makes: an earlier one may have made none, and tasks that have ended are not told.
func (h *home) shared(e *Executor, t *podTask) *pods.Shared {
	if h.known {
		return nil
	}
	return h.variables(e, t)
}

// begun reports whether the pod of a task may be made: the first task of a gang comes first, since
// its pod owns what all of them need. A new server waits for none, since the first may have ended.
func (h *home) begun(t *podTask) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.led || h.known || len(t.start.Tasks) < 2 || t.leads()
}

// letFollow lets the pods of a gang's other tasks be made.
func (e *Executor) letFollow(t *podTask) {
	if !t.leads() {
		return
	}
	t.home.mu.Lock()
	before := t.home.led
	t.home.led = true
	t.home.mu.Unlock()
	if before {
		return
	}
	e.mu.Lock()
	keys := slices.Clone(e.attempts[t.at])
	e.mu.Unlock()
	for _, key := range keys {
		e.queue.Add(key)
	}
}
