package kube

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// What is wrong with Comb's program on one node is forgotten after faultHolds, when jobs have tried
// it again.
const faultHolds = 30 * time.Minute

// programs notes on which nodes the container with Comb's program does its work, and on which it
// does not, each as it was seen last. Its image is the server's choice, so no job is to blame where
// it fails. Where it works on another node, the node is; where it works on none, the image is.
type programs struct {
	image string // "": pods have no such container
	log   *slog.Logger
	there func(node string) bool // in the cluster

	mu    sync.Mutex
	works map[string]bool
	fails map[string]programFault
	says  string // what the log said last
	// written are the names under which that image stands in pods that this server made: something
	// in the cluster may write others, such as that of a mirror.
	written map[string]bool
}

// maxWritten is how many such names are kept.
const maxWritten = 64

// made notes what the API server made of a pod that this server asked for, with its image.
func (p *programs) made(pod *corev1.Pod) {
	image := pods.ProgramImage(pod)
	if image == "" || image == p.image {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written == nil || len(p.written) >= maxWritten {
		p.written = map[string]bool{}
	}
	p.written[image] = true
}

// programFault is why the container does not do its work on a node.
type programFault struct {
	why string
	at  time.Time
}

// began notes that a task began, so that the container before it has done its work.
func (p *programs) began(pod *corev1.Pod) {
	if p.image != "" && p.current(pod) {
		p.worked(pod.Spec.NodeName)
	}
}

func (p *programs) worked(node string) {
	p.mu.Lock()
	p.works[node] = true
	delete(p.fails, node)
	p.mu.Unlock()
	p.tell()
}

// failedFor is failed for a pod of a task. One with the image of an earlier server says nothing of
// this one's, and blames no node.
func (p *programs) failedFor(pod *corev1.Pod, why string) (blame bool) {
	return p.current(pod) && p.failed(pod.Spec.NodeName, why)
}

// current reports whether a pod has the image of this server, and not that of an earlier one.
func (p *programs) current(pod *corev1.Pod) bool {
	image := pods.ProgramImage(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	return image == p.image || p.written[image]
}

// failed notes why the container does not do its work on a node, and reports whether the node is to
// blame, since it does on another.
func (p *programs) failed(node, why string) (blame bool) {
	p.mu.Lock()
	delete(p.works, node)
	if f := p.fails[node]; f.why != "" && strings.Contains(why, "ImagePullBackOff") {
		why = f.why // what was said before that says why
	}
	p.fails[node] = programFault{why, time.Now()}
	blame = len(p.works) > 0
	p.mu.Unlock()
	p.tell()
	return blame
}

// tell logs what administrators see, once.
func (p *programs) tell() {
	now := p.condition()
	p.mu.Lock()
	was := p.says
	p.says = now
	p.mu.Unlock()
	switch {
	case now == was:
	case now != "":
		p.log.Warn(now)
	default:
		p.log.Warn("the container with Comb's program starts again wherever it was tried", "image", p.image)
	}
}

// condition says what is wrong with the image of Comb, or with nodes; "" for nothing.
func (p *programs) condition() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, f := range p.fails {
		if len(p.works) > 0 && time.Since(f.at) > faultHolds || !p.there(node) {
			delete(p.fails, node)
		}
	}
	nodes := slices.Sorted(maps.Keys(p.fails))
	switch {
	case len(nodes) == 0:
		return ""
	case len(p.works) == 0:
		return "no pod of a job starts: " + p.fails[nodes[0]].why +
			"; see that nodes can pull and run that image, or name another one with --pod-image"
	}
	return fmt.Sprintf("pods of jobs do not start on %s, and do on other nodes: %s", api.FirstFew(nodes),
		p.fails[nodes[0]].why)
}

// conditions are what administrators see.
func (p *programs) conditions() []executor.Condition {
	if text := p.condition(); text != "" {
		return []executor.Condition{{Text: text, Admin: true}}
	}
	return nil
}

// known reports whether it works somewhere.
func (p *programs) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.works) > 0
}
