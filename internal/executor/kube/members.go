package kube

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
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
