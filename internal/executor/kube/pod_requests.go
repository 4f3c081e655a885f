package kube

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
)

// hearEvery is how often a task may report progress.
const hearEvery = 500 * time.Millisecond

// PodHandler answers requests from the pods of this executor's tasks.
func (e *Executor) PodHandler() *link.Handler {
	h := podRequests{e}
	return &link.Handler{Admit: h.admit, Code: h.code, Gang: h.gang, Members: h.members, Told: h.progress,
		Took: h.usage, Turn: h.turn, Log: h.log}
}

// podRequests answers requests from pods.
type podRequests struct{ *Executor }

// task returns the task of a pod, if the engine knows it.
func (h podRequests) task(pod string) (*podTask, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tasks[pod]; t != nil && !t.stray {
		return t, nil
	}
	return nil, h.noTask(pod)
}

// noTask says that a pod is of no task. Just after the start that is not known yet. h.mu is held.
func (h podRequests) noTask(pod string) error {
	if !h.swept {
		return link.ErrSoon
	}
	return fmt.Errorf("%w: %s is no task that runs", link.ErrNoTask, pod)
}

// admit lets in the pods of tasks. A pod shows the token that its kubelet gave it, or, where an
// earlier version made it, the one that stands in its Secret.
func (h podRequests) admit(ctx context.Context, pod, token string) error {
	if !strings.Contains(token, ".") {
		if !hmac.Equal([]byte(token), []byte(h.maker.PodToken(pod))) {
			return link.ErrToken
		}
		_, err := h.task(pod)
		return err
	}
	v, err := h.tokens.podOf(ctx, pod, token)
	if err != nil {
		if errors.Is(err, link.ErrToken) {
			return err
		}
		if left, now := h.tokens.unverified.due(); now {
			h.o.Log.Warn("a token that a pod shows cannot be checked now: the pod shows it again",
				"not_told_before", left, "error", api.ErrorText(err))
		}
		return err
	}
	if v.pod.Name != pod {
		return link.ErrToken
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tasks[pod]
	switch {
	case t == nil || t.stray:
		return h.noTask(pod)
	case t.uid == "": // its pod was made just now, or this server was started just now
		return link.ErrSoon
	case string(t.uid) != v.pod.UID || t.space != v.pod.Namespace:
		return link.ErrToken
	}
	h.tokens.keep(pod, v)
	return nil
}

// code opens the code of a task's job.
func (h podRequests) code(pod string) (io.ReadCloser, int64, error) {
	t, err := h.task(pod)
	if err != nil {
		return nil, 0, err
	}
	if t.start.Job.Upload == "" || h.o.Code == nil {
		return nil, 0, fmt.Errorf("%w: the job of %s brings no code", link.ErrNoTask, pod)
	}
	return h.o.Code(t.start.Job)
}

// gang returns the addresses of the tasks of a gang.
func (h podRequests) gang(pod string) (map[string]string, error) {
	t, err := h.task(pod)
	if err != nil {
		return nil, err
	}
	space, known := h.spaces.at(t), map[string]string{}
	for i := range t.start.Tasks {
		one := h.spaces.pod(space, h.maker.Name(t.at, t.start.Tasks[i].Task))
		if one == nil || one.Status.PodIP == "" {
			return nil, link.ErrSoon
		}
		known[h.maker.Host(t.at, t.start.Tasks[i].Task)] = one.Status.PodIP
	}
	return known, nil
}

// progress tells the engine the last line of progress, and the last checkpoint among the lines.
func (h podRequests) progress(pod string, text []byte) error {
	t, err := h.task(pod)
	if err != nil {
		return err
	}
	h.mu.Lock()
	soon := time.Since(t.heard) < hearEvery
	if !soon {
		t.heard = time.Now()
	}
	h.mu.Unlock()
	if soon {
		return link.ErrSoon
	}
	var point, latest *model.Progress
	for one := range bytes.Lines(text) {
		f, err := task.ParseProgress(bytes.TrimSpace(one))
		if err != nil || len(one) > task.LongestProgress {
			continue
		}
		f.Attempt, f.Task = t.at, t.ts.Task
		if !f.Checkpoint {
			latest = &f
			continue
		}
		if latest != nil {
			task.FillProgress(&f, latest)
		}
		point, latest = &f, nil
	}
	for _, f := range []*model.Progress{point, latest} {
		if f != nil {
			h.o.Tell(*f)
		}
	}
	return nil
}

// usage keeps a sample of what a task used.
func (h podRequests) usage(pod string, u link.Usage) error {
	t, err := h.task(pod)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := model.Time(time.Now().UnixMicro())
	if n := len(t.usage); n > 0 && now-t.usage[n-1].At < model.Time(hearEvery.Microseconds()) {
		return link.ErrSoon
	}
	t.usage = append(t.usage[max(0, len(t.usage)+1-process.KeptSamples):], executor.Usage{At: now, CPU: u.CPU, MemoryMB: u.MemoryMB, Read: u.Read, Written: u.Written})
	return nil
}

// log takes what a pod sends of what its task printed, and returns up to where it is kept.
func (h podRequests) log(pod string, b link.LogBlock) (kept int64, err error) {
	t, err := h.task(pod)
	if err != nil {
		return 0, err
	}
	l := &t.sent
	if !l.mu.TryLock() {
		return 0, link.ErrSoon // it sends twice at once
	}
	defer l.mu.Unlock()
	if l.over {
		return 0, fmt.Errorf("%w: %s has ended", link.ErrNoTask, pod)
	}
	if l.used = time.Now(); l.store == nil {
		l.store, err = openLogStore(t.dir)
	}
	if err == nil {
		kept, err = l.store.Take(b)
	}
	if err != nil && !l.told {
		if left, now := h.notKept.due(); now {
			h.o.Log.Warn(logNotKept, "pod", pod, "not_told_before", left, "error", err)
		}
	}
	l.told = err != nil
	return kept, err
}
