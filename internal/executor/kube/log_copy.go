package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// logCopier copies the log of a pod.
type logCopier struct {
	key, pod, space string // of the task

	stop  context.CancelFunc
	hurry chan struct{} // closed when the pod has ended: what is left is read now or never
	done  chan struct{}
	ended time.Time // when the end of the pod was first seen
}

// podLogs are the logs of pods that send them.
type podLogs struct{ *Executor }

// rest closes the files of logs that get nothing.
func (l podLogs) rest() {
	l.mu.Lock()
	list := slices.Collect(maps.Values(l.tasks)) // in any order
	l.mu.Unlock()
	for _, t := range list {
		t.sent.rest()
	}
}

// ran reports whether a task has run.
func (l podLogs) ran(ref executor.LogRef) bool {
	l.mu.Lock()
	t := l.tasks[l.maker.Name(ref.Attempt, ref.Task)]
	ran := t != nil && t.ran
	l.mu.Unlock()
	if ran {
		return true
	}
	r, begun, err := recordsOf(l.Executor, ref.Attempt).load(ref.Task)
	return err == nil && begun && r.ran() && (t == nil || r.Exit != nil) // else its pod may wait
}

// simulated reports whether a pod is on a node of kwok, which runs no containers and has no logs.
func (l podLogs) simulated(pod *corev1.Pod) bool {
	node := l.node(pod.Spec.NodeName)
	return node != nil && node.Annotations["kwok.x-k8s.io/node"] != ""
}

// A log that cannot be read is tried again: soon where the API server is away, seldom where it
// says that there is none (as with simulated nodes). Once the pod has ended, it is tried only so
// often.
const (
	lastTries   = 4
	soon        = 250 * time.Millisecond
	longestWait = 5 * time.Second
	refused     = 2 * time.Second
	seldom      = 2 * time.Minute
)

// followLog opens the log of a task, and lets copy fill it.
func (e podLogs) followLog(t *podTask, copy func(context.Context, *logCopier, *logStore)) *logCopier {
	ctx, cancel := context.WithCancel(e.ctx)
	f := &logCopier{stop: cancel, hurry: make(chan struct{}), done: make(chan struct{})}
	f.key, f.pod, f.space = t.key, t.name, t.space
	dir := t.dir
	e.goes(func() {
		defer close(f.done)
		defer e.queue.Add(f.key)
		if s := f.open(ctx, dir, e.o.Log); s != nil {
			defer s.Close()
			copy(ctx, f, s)
		}
	})
	return f
}

// open opens the file that a log is kept in. It tries again where that fails, since a disk may be
// full for a while. nil says that ctx is done.
func (f *logCopier) open(ctx context.Context, dir string, log *slog.Logger) *logStore {
	for warned := false; ; warned = true {
		s, err := openLogStore(dir)
		if err == nil {
			return s
		}
		if !warned {
			log.Warn("a log is not kept for now: it is tried again, and what the node drops meanwhile is missing", "pod", f.pod, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refused):
		}
	}
}

// copyLog copies until the pod has ended and all is read.
func (e podLogs) copyLog(ctx context.Context, f *logCopier, s *logStore) {
	failed, left, warned := 0, lastTries, false
	for ctx.Err() == nil && left > 0 {
		ended := e.endedOrGone(f)
		stream, err := e.o.API.In(f.space).Log(ctx, f.pod, s.Since())
		if err == nil {
			err = s.Copy(stream, ended)
			stream.Close()
		}
		if err == nil && ended {
			return
		}
		if errors.Is(err, ErrNotWritten) && !warned {
			warned = true
			e.o.Log.Warn("a log is not kept for now: it is tried again, and what the node drops meanwhile is missing", "pod", f.pod, "error", err)
		}
		pause := soon
		if err == nil {
			failed, warned = 0, false
		} else {
			pause = min(soon<<min(failed, 10), longestWait)
			if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
				pause = min(refused<<min(2*failed, 10), seldom)
			}
			failed++
		}
		hurry := f.hurry
		if ended {
			left--
			hurry, pause = nil, soon
		}
		select {
		case <-ctx.Done():
		case <-hurry:
		case <-time.After(pause):
		}
	}
}

// copyRest copies what a pod that has ended did not send.
func (l podLogs) copyRest(ctx context.Context, f *logCopier, s *logStore) {
	for try := range lastTries {
		err := l.tryRest(ctx, f, s)
		if err == nil || ctx.Err() != nil {
			return
		}
		if try == lastTries-1 {
			l.o.Log.Warn("the last lines of a log do not come", "pod", f.pod, "error", api.ErrorText(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(soon):
		}
	}
}

// tryRest reads what the kubelet has of a log: as a whole, else from where the pod sent it last,
// else from the time of that on.
func (l podLogs) tryRest(ctx context.Context, f *logCopier, s *logStore) error {
	for _, counts := range []bool{true, false} {
		stream, err := l.o.API.In(f.space).Log(ctx, f.pod, time.Time{})
		if err != nil {
			return err
		}
		found, err := s.Rest(stream, counts)
		stream.Close()
		if err != nil || found {
			return err
		}
	}
	stream, err := l.o.API.In(f.space).Log(ctx, f.pod, s.Since())
	if err != nil {
		return err
	}
	defer stream.Close()
	return s.Copy(stream, true)
}

// endedOrGone reports whether a pod prints no more.
func (e podLogs) endedOrGone(f *logCopier) bool {
	pod := e.spaces.pod(f.space, f.pod)
	return pod == nil || pods.Look(pod, false).Phase == pods.Ended
}

// logLeft is how much longer the end of a task may wait for its last lines.
func (e podLogs) logLeft(t *podTask, pod *corev1.Pod) time.Duration {
	if t.log == nil && t.startTold && !t.stray && pods.HasOwnToken(pod) && !e.simulated(pod) {
		whole, err := t.sent.end(t.dir)
		if err == nil && whole {
			return 0
		}
		t.log = e.followLog(t, e.copyRest)
	}
	if t.log == nil {
		return 0
	}
	if t.log.ended.IsZero() {
		t.log.ended = time.Now()
		close(t.log.hurry)
	}
	select {
	case <-t.log.done:
		return 0
	default:
	}
	left := e.o.Limits.Log - time.Since(t.log.ended)
	if left <= 0 {
		e.o.Log.Warn("the last lines of a log did not come in time", "pod", t.name)
		t.log.stop()
		return 0
	}
	return left
}

// lastWords is the last line that a task printed, without the values of its job's secrets.
func (e podLogs) lastWords(t *podTask) string {
	known, err := e.secretsOf(t)
	if err != nil {
		return "" // its secrets are not known, so they cannot be left out
	}
	line := lastLine(t.dir)
	for _, value := range known {
		if value != "" {
			line = strings.ReplaceAll(line, value, "***")
		}
	}
	return line
}
