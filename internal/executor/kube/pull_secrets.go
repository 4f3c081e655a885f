package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
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

// pullSecrets are those with which the images of pods of one namespace are fetched, besides those
// of their jobs.
type pullSecrets struct {
	// account are those of the service account of the pods; nil: they were not asked for yet.
	account atomic.Pointer[accountSecrets]
}

// accountSecrets are the pull secrets of a service account, as they were when they were asked for.
type accountSecrets struct {
	names []string
	asked time.Time
}

// add lets the images of a pod be fetched with the secrets of the site as well, and with those of
// its service account. Kubernetes adds the latter only to pods that name no secret at all. A job's
// own come first.
func (s *pullSecrets) add(ctx context.Context, c *api.Client, site []string, pod *corev1.Pod, log *slog.Logger) error {
	list := pod.Spec.ImagePullSecrets
	for _, name := range site {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	if len(list) == 0 {
		return nil
	}
	names, err := s.ofAccount(ctx, c, log)
	if err != nil {
		return fmt.Errorf("ask for the service account of the pods in namespace %s: %w", c.Namespace(), err)
	}
	for _, name := range names {
		if one := (corev1.LocalObjectReference{Name: name}); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	pod.Spec.ImagePullSecrets = list
	return nil
}

// ofAccount are the pull secrets of the service account, asked for at most once a minute. There
// are none where Comb may not ask.
func (s *pullSecrets) ofAccount(ctx context.Context, c *api.Client, log *slog.Logger) ([]string, error) {
	if had := s.account.Load(); had != nil && time.Since(had.asked) < accountKept {
		return had.names, nil
	}
	names, err := c.PullSecrets(ctx, "default")
	switch {
	case api.Missing(err): // then Kubernetes takes no pod either, and the account may come
		return nil, nil
	case api.NamespaceRefuses(err):
		log.Warn("pods with pull secrets get none of their service account: Comb lacks the right get serviceaccounts, "+
			"which deploy/kubernetes/rights.yaml and team.yaml have",
			"namespace", c.Namespace(), "error", api.ErrorText(err))
	case err != nil:
		return nil, err
	}
	names = names[:min(len(names), mostAccountSecrets)]
	s.account.Store(&accountSecrets{names, time.Now()})
	return names, nil
}
