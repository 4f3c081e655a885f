package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
)

const (
	// accountKept is how long the pull secrets of a service account are taken as they were.
	accountKept = time.Minute
	// mostAccountSecrets bounds how many of them a pod gets: a team may write its own account.
	mostAccountSecrets = 32
)

// accountSecrets are the pull secrets of the service account of a namespace's pods, as they were
// when they were asked for.
type accountSecrets struct {
	names []string
	asked time.Time
}

// addPullSecrets lets the images of a pod be fetched with the secrets of the server's flags as
// well, and with those of its service account. Kubernetes adds the latter only to pods that name
// no secret at all. A job's own come first.
func (e *Executor) addPullSecrets(ctx context.Context, sp *podNamespace, pod *corev1.Pod) error {
	list := pod.Spec.ImagePullSecrets
	for _, name := range e.o.PullSecrets {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	if len(list) == 0 {
		return nil
	}
	names, err := sp.accountSecrets(ctx, e)
	if err != nil {
		return fmt.Errorf("ask for the service account of the pods in namespace %s: %w", sp.name, err)
	}
	for _, name := range names {
		if one := (corev1.LocalObjectReference{Name: name}); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	pod.Spec.ImagePullSecrets = list
	return nil
}

// accountSecrets are the pull secrets of the service account of the namespace's pods, asked for at
// most once a minute. There are none where Comb may not ask.
func (sp *podNamespace) accountSecrets(ctx context.Context, e *Executor) ([]string, error) {
	if had := sp.account.Load(); had != nil && time.Since(had.asked) < accountKept {
		return had.names, nil
	}
	names, err := sp.api.PullSecrets(ctx, "default")
	switch {
	case api.Missing(err): // then Kubernetes takes no pod either, and the account may come
		return nil, nil
	case api.NamespaceRefuses(err):
		e.o.Log.Warn("pods with pull secrets get none of their service account: Comb may not read it; deploy/kubernetes/rights.yaml and team.yaml have the right",
			"namespace", sp.name, "error", api.ErrorText(err))
	case err != nil:
		return nil, err
	}
	names = names[:min(len(names), mostAccountSecrets)]
	sp.account.Store(&accountSecrets{names, time.Now()})
	return names, nil
}
