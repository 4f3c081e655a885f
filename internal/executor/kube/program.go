package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// programNodes are the nodes on which the container with Comb's program did its work, or did not,
// each as it was seen last.
type programNodes struct {
	mu    sync.Mutex
	works map[string]bool
	fails map[string]programFault
	says  string // what the log said last
}

// programFault is why the container does not do its work on a node.
type programFault struct {
	why string
	at  time.Time
}

// program sees to the container that brings Comb's program into pods. Its image is the server's
// choice, so no job is to blame where it does not start. Where it starts on another node, the node
// is; where it starts on none, the image is.
type program struct{ *Executor }

// An image that starts on no node is tried again after tryAgain, and later after up to tryLater.
// What is wrong on one node is forgotten after faultHolds, when jobs have tried it again.
const (
	tryAgain   = time.Minute
	tryLater   = 10 * time.Minute
	faultHolds = 30 * time.Minute
)

// follow notes that a task's program began.
func (p program) follow(pod *corev1.Pod) {
	if p.o.ServerLink != nil && pods.ProgramImage(pod) == p.o.ServerLink.Image {
		p.works(pod.Spec.NodeName)
	}
}

func (p program) works(node string) {
	n := &p.programs
	n.mu.Lock()
	if n.works == nil {
		n.works = map[string]bool{}
	}
	n.works[node] = true
	delete(n.fails, node)
	n.mu.Unlock()
	p.log()
}

// failed is fails for a pod of a task. One with the image of an earlier server says nothing of
// this one's, and blames no node.
func (p program) failed(pod *corev1.Pod, why string) (blame bool) {
	return p.o.ServerLink != nil && pods.ProgramImage(pod) == p.o.ServerLink.Image && p.fails(pod.Spec.NodeName, why)
}

// fails notes why the container does not do its work on a node, and reports whether the node is to
// blame, since it does on another.
func (p program) fails(node, why string) (blame bool) {
	n := &p.programs
	n.mu.Lock()
	if n.fails == nil {
		n.fails = map[string]programFault{}
	}
	delete(n.works, node)
	if f := n.fails[node]; f.why != "" && strings.Contains(why, "ImagePullBackOff") {
		why = f.why // what was said before that says why
	}
	n.fails[node] = programFault{why, time.Now()}
	blame = len(n.works) > 0
	n.mu.Unlock()
	p.log()
	return blame
}

// log logs what administrators see, once.
func (p program) log() {
	now := p.condition()
	n := &p.programs
	n.mu.Lock()
	was := n.says
	n.says = now
	n.mu.Unlock()
	switch {
	case now == was:
	case now != "":
		p.o.Log.Warn(now)
	default:
		p.o.Log.Info("the container with Comb's program starts again wherever it was tried", "image", p.o.ServerLink.Image)
	}
}

// condition says what is wrong with the image of Comb, or with nodes; "" for nothing.
func (p program) condition() string {
	n := &p.programs
	n.mu.Lock()
	defer n.mu.Unlock()
	for node, f := range n.fails {
		if len(n.works) > 0 && time.Since(f.at) > faultHolds || p.node(node) == nil {
			delete(n.fails, node)
		}
	}
	nodes := slices.Sorted(maps.Keys(n.fails))
	switch {
	case len(nodes) == 0:
		return ""
	case len(n.works) == 0:
		return "no pod of a job starts: " + n.fails[nodes[0]].why + "; see that nodes can pull and run that image, or name another one with --pod-image"
	}
	return fmt.Sprintf("pods of jobs do not start on %s, and do on other nodes: %s", FirstFew(nodes), n.fails[nodes[0]].why)
}

// conditions are what administrators see.
func (p program) conditions() []executor.Condition {
	if text := p.condition(); text != "" {
		return []executor.Condition{{Text: text, Admin: true}}
	}
	return nil
}

// refuse tells that a task never ran since the container with Comb's program did not do its work.
func (p program) refuse(t *podTask, pod *corev1.Pod, s pods.State) error {
	if p.failed(pod, s.Refused) {
		return p.Executor.refuse(t, model.TaskRefused{Reason: s.Refused})
	}
	return p.refuseForNamespace(t, s.Refused+"; no node is known where it starts, so an administrator has to see to it")
}

// known reports whether it starts somewhere.
func (p program) known() bool {
	n := &p.programs
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.works) > 0
}

// try tries the image of Comb when the server starts, on one node, and again while it starts on no
// node. It holds up nothing. Where pods of before run with the image, nothing is tried.
func (p program) try() {
	if !cache.WaitForCacheSync(p.ctx.Done(), p.synced) {
		return
	}
	p.look()
	for wait := tryAgain; p.ctx.Err() == nil; {
		node := ""
		if !p.known() {
			node = p.candidate()
		}
		switch {
		case p.known():
			wait = tryAgain
			p.pause(tryAgain)
		case node == "": // none is configured yet, or can take a pod
			p.pause(lookEvery / 10)
		default:
			p.tryOn(node)
			if !p.known() {
				p.pause(wait)
				wait = min(2*wait, tryLater)
			}
		}
	}
}

// look notes on which nodes pods of before have begun.
func (p program) look() {
	for _, sp := range p.spaces.all() {
		for _, key := range sp.pods.ListKeys() {
			if pod := sp.pod(baseOf(key)); pod != nil && p.maker.Sealed(pod) && pods.Look(pod, false).Ran {
				p.follow(pod)
			}
		}
	}
}

// candidate is the node with the fewest tasks among those that jobs may use; "" where there is
// none.
func (p program) candidate() string {
	counts := map[string]int{}
	p.mu.Lock()
	for node, s := range p.seen {
		counts[node] = len(s.tasks)
	}
	p.mu.Unlock()
	names := p.nodes.ListKeys()
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[a] - counts[b]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		n := p.node(name)
		if n == nil {
			continue
		}
		why, _ := notReady(n)
		if f := faultOf(n); why == "" && f.node == "" && (p.o.Leaves == nil || len(p.o.Leaves(cell.NodeName(name))) > 0) {
			return name
		}
	}
	return ""
}

// A trial is looked at so often. One that waits for something that is missing counts as failed
// after trialWaits.
const (
	trialLooks = 200 * time.Millisecond
	trialWaits = 10 * time.Second
)

// tryOn tries the image on a node.
func (p program) tryOn(node string) {
	ctx, cancel := context.WithTimeout(p.ctx, pods.TrialWithin)
	defer cancel()
	pod, err := p.makeTrial(ctx, node)
	if err != nil {
		if p.ctx.Err() == nil && p.server.away().IsZero() {
			p.o.Log.Warn("the image of Comb cannot be tried before jobs need it", "image", p.o.ServerLink.Image, "node", node, "error", api.ErrorText(err))
		}
		return
	}
	defer p.endTrial(pod)
	var waits time.Time
	for {
		s := pods.TrialState{}
		if seen := p.spaces.pod(p.spaces.own(), pod.Name); seen != nil && seen.UID == pod.UID {
			s = pods.LookAtTrial(seen)
		}
		if s.Why == "" {
			waits = time.Time{}
		} else if waits.IsZero() {
			waits = time.Now()
		}
		switch {
		case s.Works, ctx.Err() != nil && s.Runs:
			p.works(node)
			p.o.Log.Info("the image of Comb was tried, and starts", "image", p.o.ServerLink.Image, "node", node)
			return
		case s.Fails, s.Why != "" && time.Since(waits) > trialWaits:
			p.fails(node, s.Why)
			return
		case ctx.Err() != nil:
			return // it has not been bound, or the API server is away
		}
		select {
		case <-ctx.Done():
		case <-time.After(trialLooks):
		}
	}
}

// makeTrial makes the pod that tries the image, and removes one of an earlier server.
func (p program) makeTrial(ctx context.Context, node string) (*corev1.Pod, error) {
	want := p.maker.Trial(p.o.ServerLink.Image, node, offered(p.node(node)))
	for {
		made, err := p.o.API.Create(ctx, want)
		if err == nil || !api.Exists(err) {
			return made, err
		}
		old, err := p.o.API.Get(ctx, want.Name)
		switch {
		case err != nil:
			return nil, err
		case old != nil && !p.maker.Sealed(old):
			return nil, fmt.Errorf("a pod named %s is in namespace %s already, and Comb did not make it: delete it", old.Name, old.Namespace)
		case old != nil && old.DeletionTimestamp == nil:
			p.endTrial(old)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(trialLooks):
		}
	}
}

// endTrial removes the pod of a trial.
func (p program) endTrial(pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Second)
	defer cancel()
	if err := p.o.API.Delete(ctx, pod.Name, pod.UID, 0); err != nil && p.ctx.Err() == nil && p.server.away().IsZero() {
		p.o.Log.Warn("the pod that tried the image of Comb cannot be removed; it ends by itself", "pod", pod.Name, "error", api.ErrorText(err))
	}
}
