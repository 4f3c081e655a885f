package kube

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// takenWithin is how long a request waits until a server that has just started knows its pods
// again.
const takenWithin = 10 * time.Second

// runningPod returns a task's running pod. Just after a start of the server it waits until it is
// known what runs.
func (e *Executor) runningPod(ctx context.Context, ref executor.TaskRef) (*corev1.Pod, error) {
	for end := time.Now().Add(takenWithin); ; {
		pod, soon := podNow(e, ref)
		if pod != nil {
			return pod, nil
		}
		if !soon || time.Now().After(end) {
			return nil, executor.ErrNotRunning
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// podNow returns a task's pod as it is known now, nil where it does not run. soon says that
// nothing is known of it yet.
func podNow(e *Executor, ref executor.TaskRef) (pod *corev1.Pod, soon bool) {
	name := e.maker.Name(ref.Attempt, ref.Task)
	e.mu.Lock()
	var uid types.UID
	var space string
	if t := e.tasks[name]; t != nil {
		uid, space, soon = t.uid, t.space, t.known && !t.unseen
	} else {
		soon = !e.swept
	}
	e.mu.Unlock()
	pod = e.spaces.pod(space, name)
	if uid == "" || pod == nil || pod.UID != uid || pods.Look(pod, false).Phase != pods.Runs {
		return nil, soon
	}
	return pod, false
}

// Exec implements executor.Executor, through the API server and the kubelet. The user needs the
// right to it in Comb, and none in Kubernetes.
func (e *Executor) Exec(ctx context.Context, ref executor.TaskRef, c executor.Command) (*executor.Session, error) {
	pod, err := e.runningPod(ctx, ref)
	if err != nil {
		return nil, err
	}
	argv := c.Argv
	if c.Terminal != nil && c.Term != "" {
		argv = append([]string{"env", "TERM=" + c.Term}, argv...)
	}
	argv = pods.Beside(pod, argv)
	v, err := e.o.API.In(pod.Namespace).Exec(context.WithoutCancel(ctx), api.Ask{Pod: pod.Name, Container: pods.Container, Argv: argv, Terminal: c.Terminal != nil})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", executor.ErrRefused, api.ErrorText(err))
	}
	s := &executor.Session{Stdin: v.Stdin, Stdout: v.Stdout, Close: v.Close,
		Resize: func(size executor.Size) error { return v.Resize(size.Rows, size.Cols) },
		Wait: func() (executor.Ended, error) {
			code, why, err := v.Wait()
			if err != nil {
				return executor.Ended{}, fmt.Errorf("%w: %w", executor.ErrNotRunning, err)
			}
			ended := executor.Ended{Code: code, Why: why}
			if code > 128 && code <= 128+64 {
				ended.Signal = code - 128
			}
			return ended, nil
		}}
	if c.Terminal == nil {
		s.Stderr = v.Stderr
	} else if err := v.Resize(c.Terminal.Rows, c.Terminal.Cols); err != nil {
		v.Close()
		return nil, err
	}
	return s, nil
}

// dialTime is how long a port of a pod may take to answer.
const dialTime = 5 * time.Second

// Dial implements executor.Executor. It goes to the pod's own address, at which nothing but the pod
// listens; a server outside of the cluster's network does not reach it.
func (e *Executor) Dial(ctx context.Context, ref executor.TaskRef, port uint16) (net.Conn, error) {
	pod, err := e.runningPod(ctx, ref)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; the server must be in the network of the pods, such as in the cluster itself", executor.ErrRefused, err)
	}
	return conn, nil
}
