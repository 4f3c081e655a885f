package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// An image of Comb that works on no node is tried again after tryAgain, and later after up to
// tryLater. While no node can take a trial, one is looked for each noNode.
const (
	tryAgain = time.Minute
	tryLater = 10 * time.Minute
	noNode   = 3 * time.Second
)

// A trial is looked at so often. One that waits for something that is missing counts as failed
// after trialWaits.
const (
	trialLooks = 200 * time.Millisecond
	trialWaits = 10 * time.Second
)

// imageTrial tries the image of Comb when the server starts, by a pod on one node, and again while
// it works on no node. It holds up nothing, and tries nothing where pods of before run with it.
type imageTrial struct {
	*programs
	api    *api.Client
	maker  *pods.Maker
	server *serverState
	// node is where to try it, with the resources of its device plugins; "" says that no node can
	// take a pod now.
	node func() (name string, offers []string)
	// pulls adds the secrets with which the image is fetched.
	pulls func(context.Context, *corev1.Pod) error
	// seen is a pod of the server's own namespace as it was watched last; nil for none.
	seen func(name string) *corev1.Pod
}

func (i imageTrial) run(ctx context.Context) {
	said := "" // in the log
	for wait := tryAgain; ctx.Err() == nil; {
		if i.known() {
			if old := i.seen(i.maker.TrialName()); old != nil && i.maker.Sealed(old) {
				i.end(ctx, old) // an earlier server was killed before it did
			}
			wait = tryAgain
			pause(ctx, tryAgain)
			continue
		}
		node, offers := i.node()
		if node == "" {
			pause(ctx, noNode)
			continue
		}
		err := i.try(ctx, node, offers)
		if err != nil && err.Error() != said && ctx.Err() == nil && i.server.away().IsZero() {
			said = err.Error()
			i.log.Warn("the image of Comb cannot be tried before jobs need it", "image", i.image, "node", node,
				"error", said)
		}
		if !i.known() {
			pause(ctx, wait)
			wait = min(2*wait, tryLater)
		}
	}
}

// try tries the image on a node. The error is why it cannot be tried.
func (i imageTrial) try(ctx context.Context, node string, offers []string) error {
	within, cancel := context.WithTimeout(ctx, pods.TrialWithin)
	defer cancel()
	pod, err := i.make(within, node, offers)
	if err != nil {
		return errors.New(api.ErrorText(err))
	}
	defer i.end(ctx, pod)
	var waits time.Time
	for {
		s := pods.TrialState{}
		if seen := i.seen(pod.Name); seen != nil && seen.UID == pod.UID {
			s = pods.LookAtTrial(seen)
		}
		if s.Why == "" {
			waits = time.Time{}
		} else if waits.IsZero() {
			waits = time.Now()
		}
		switch {
		case s.Works, within.Err() != nil && s.Runs:
			i.worked(node)
			i.log.Info("the image of Comb was tried, and starts", "image", i.image, "node", node)
			return nil
		case s.Added && (s.Fails || time.Since(waits) > trialWaits):
			return errors.New(s.Why)
		case s.Fails, s.Why != "" && time.Since(waits) > trialWaits:
			i.failed(node, s.Why)
			return nil
		case within.Err() != nil: // it was not bound, or the API server is away
			return fmt.Errorf("its pod did not start within %v", pods.TrialWithin)
		}
		pause(within, trialLooks)
	}
}

// make makes the pod that tries the image, and removes one of an earlier server.
func (i imageTrial) make(ctx context.Context, node string, offers []string) (*corev1.Pod, error) {
	want := i.maker.Trial(i.image, node, offers)
	if err := i.pulls(ctx, want); err != nil {
		return nil, err
	}
	for {
		made, err := i.api.Create(ctx, want)
		if err == nil {
			i.made(made)
		}
		if err == nil || !api.Exists(err) {
			return made, err
		}
		old, err := i.api.Get(ctx, want.Name)
		switch {
		case err != nil:
			return nil, err
		case old != nil && !i.maker.Sealed(old):
			return nil, fmt.Errorf("a pod named %s is in namespace %s already, and Comb did not make it: delete it",
				old.Name, old.Namespace)
		case old != nil && old.DeletionTimestamp == nil:
			i.end(ctx, old)
		}
		if pause(ctx, trialLooks); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// end removes the pod of a trial.
func (i imageTrial) end(ctx context.Context, pod *corev1.Pod) {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := i.api.Delete(soon, pod.Name, pod.UID, 0)
	for err != nil && ctx.Err() == nil && soon.Err() == nil {
		pause(soon, trialLooks)
		err = i.api.Delete(soon, pod.Name, pod.UID, 0)
	}
	if err != nil && ctx.Err() == nil && i.server.away().IsZero() {
		i.log.Warn("the pod that tried the image of Comb cannot be removed; it ends by itself", "pod", pod.Name,
			"error", api.ErrorText(err))
	}
}
