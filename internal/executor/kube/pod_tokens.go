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

	unverified sparseWarning // that tokens cannot be verified
}

// warnEvery is how often something is logged that may be so for all pods at once.
const warnEvery = time.Minute

// sparseWarning is one.
type sparseWarning struct {
	mu   sync.Mutex
	last time.Time // when it was logged last
	left int       // how often it was not, since then
}

// due reports whether it is to be logged now, and how often it was not since it was last.
func (w *sparseWarning) due() (left int, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.last) < warnEvery {
		w.left++
		return 0, false
	}
	left, w.last, w.left = w.left, time.Now(), 0
	return left, true
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
