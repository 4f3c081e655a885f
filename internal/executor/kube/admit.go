package kube

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

// podTokens verifies the tokens of pods, and remembers those that it has verified.
type podTokens struct {
	verifier *link.TokenVerifier

	mu       sync.Mutex
	verified map[string]verifiedToken // by the name of the pod
}

// verifiedToken is a token that proved to be that of a task's pod.
type verifiedToken struct {
	sum [sha256.Size]byte // of the token
	pod link.TokenPod
}

// who is the pod of a token, which may be known from before.
func (p *podTokens) who(ctx context.Context, pod, token string) (v verifiedToken, err error) {
	v.sum = sha256.Sum256([]byte(token))
	p.mu.Lock()
	known, ok := p.verified[pod]
	p.mu.Unlock()
	if ok && known.sum == v.sum && time.Now().Before(known.pod.Expires) {
		return known, nil
	}
	v.pod, err = p.verifier.Verify(ctx, token)
	return v, err
}

// keep remembers a token of a pod in place of its last one.
func (p *podTokens) keep(pod string, v verifiedToken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verified[pod] = v
}

// forget forgets the token of a pod.
func (p *podTokens) forget(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.verified, pod)
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
	v, err := h.tokens.who(ctx, pod, token)
	if err != nil {
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
		return fmt.Errorf("%w: %s is no task that runs", link.ErrNoTask, pod)
	case t.uid == "": // its pod was made just now, or this server was started just now
		return link.ErrSoon
	case string(t.uid) != v.pod.UID || t.space != v.pod.Namespace:
		return link.ErrToken
	}
	h.tokens.keep(pod, v)
	return nil
}
