package kube

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

func newPodTokens(issuer func(context.Context) (string, []byte, error)) *podTokens {
	return &podTokens{verifier: link.NewTokenVerifier(issuer), verified: map[string]verifiedToken{}}
}

// podTokens verifies the tokens of pods, and remembers those that it has verified.
type podTokens struct {
	verifier *link.TokenVerifier

	mu       sync.Mutex
	verified map[string]verifiedToken // by the name of the pod
	warned   time.Time                // when it was logged last that tokens cannot be verified
}

// warnEvery is how often it is logged that tokens cannot be verified.
const warnEvery = time.Minute

// warns reports whether that is to be logged now.
func (p *podTokens) warns() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.warned) < warnEvery {
		return false
	}
	p.warned = time.Now()
	return true
}

// verifiedToken is a token that proved to be that of a task's pod.
type verifiedToken struct {
	sum [sha256.Size]byte // of the token
	pod link.TokenPod
}

// podOf is the pod of a token, which may be known from before.
func (p *podTokens) podOf(ctx context.Context, pod, token string) (v verifiedToken, err error) {
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
