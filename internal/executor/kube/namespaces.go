package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// podNamespaces are the namespaces that have pods, or had some lately. Each is watched separately,
// so that Comb needs no rights in others, and one in which it lacks rights delays no other. A name
// is on the disk before a pod is made there: the next server looks for strays in all of them.
type podNamespaces struct {
	e    *Executor
	file string
	// saving is held while the names change and are written, so that no other lock waits for the
	// disk. It is taken before Executor.mu.
	saving    sync.Mutex
	mu        sync.Mutex // taken after Executor.mu
	of        map[string]*podNamespace
	forgotten *forgottenJobs
}

// podNamespace is one namespace.
type podNamespace struct {
	name   string
	own    bool // the server's
	api    *api.Client
	pods   cache.Store // as the API server told last
	synced func() bool
	stop   context.CancelFunc
	asked  atomic.Value // an answer: how the last request for its pods went
	deaf   atomic.Bool  // it was logged that no service can be made there
	pulls  pullSecrets
}

// answer is the result of a request.
type answer struct{ err error }

// openPodNamespaces watches the server's own namespace, and those of earlier pods.
func openPodNamespaces(e *Executor) (*podNamespaces, error) {
	past, err := openForgottenJobs(filepath.Join(filepath.Dir(e.o.KeyFile), "pod-forgotten"))
	if err != nil {
		return nil, err
	}
	s := &podNamespaces{e: e, file: filepath.Join(filepath.Dir(e.o.KeyFile), "pod-namespaces"), of: map[string]*podNamespace{}, forgotten: past}
	text, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read in which namespaces pods are: %w", err)
	}
	for _, name := range append(strings.Fields(string(text)), s.own()) {
		s.watch(name)
	}
	return s, nil
}

// own is the namespace of the server.
func (s *podNamespaces) own() string { return s.e.o.API.Namespace() }

// watch begins to watch a namespace, unless it is watched.
func (s *podNamespaces) watch(name string) {
	if s.of[name] != nil {
		return
	}
	ctx, stop := context.WithCancel(s.e.ctx)
	sp := &podNamespace{name: name, own: name == s.e.o.API.Namespace(), api: s.e.o.API.In(name), stop: stop}
	store, controller := sp.api.WatchPods(func(pod string) { s.changed(name, pod) }, func(err error) { s.requestDone(sp, err) })
	sp.pods, sp.synced = store, controller.HasSynced
	s.of[name] = sp
	s.e.goes(func() { controller.RunWithContext(ctx) })
}

// changed queues the task of a pod that the watch told of, but for what the task knows already: by
// the answer to the making of its pod.
func (s *podNamespaces) changed(space, pod string) {
	seen := s.pod(space, pod)
	s.e.mu.Lock()
	t := s.e.tasks[pod]
	echo := t != nil && seen != nil && seen.ResourceVersion == t.madeVersion
	s.e.mu.Unlock()
	if !echo {
		s.settle(space, pod)
	}
}

// settle queues the task of a pod, and a stray of that name.
func (s *podNamespaces) settle(space, pod string) {
	key := strayKey(space, pod)
	s.e.mu.Lock()
	task, stray := s.e.tasks[pod] != nil, s.e.tasks[key] != nil
	if t := s.e.tasks[pod]; t != nil && t.uid == "" && t.glimpsed == "" && t.space == space {
		if seen := s.pod(space, pod); seen != nil && pods.RunsByItself(seen) && s.e.maker.Sealed(seen) {
			t.glimpsed = seen.UID
		}
	}
	s.e.mu.Unlock()
	if task {
		s.e.queue.Add(pod)
	}
	if stray {
		s.e.queue.Add(key)
	}
}

// requestDone notes how a request for the pods of a namespace went, and logs when Comb loses or
// regains the right to see them.
func (s *podNamespaces) requestDone(sp *podNamespace, err error) {
	before := sp.refused()
	sp.asked.Store(answer{err})
	switch now := sp.refused(); {
	case now != "" && before == "":
		s.e.o.Log.Warn("the pods of a namespace cannot be seen: nothing starts there, and what becomes of its pods is not known", "namespace", sp.name, "error", now)
	case err == nil && before != "":
		s.e.o.Log.Info("the pods of a namespace can be seen again", "namespace", sp.name)
	}
}

// refused is why the API server does not show the pods of a namespace, and what to do; "" when it
// does, or is away.
func (sp *podNamespace) refused() string {
	a, _ := sp.asked.Load().(answer)
	if a.err == nil || !api.NamespaceRefuses(a.err) {
		return ""
	}
	return api.ErrorText(a.err) + namespaceNext(sp.name, sp.own, a.err)
}

// seen reports whether its pods are known, or may not be seen by Comb.
func (sp *podNamespace) seen() bool { return sp.synced() || sp.refused() != "" }

// gone reports whether a namespace is deleted, which is when no pod of it is left; false where
// that cannot be told.
func (sp *podNamespace) gone(ctx context.Context) bool {
	there, err := sp.api.HasNamespace(ctx)
	return err == nil && !there
}

// all returns the namespaces, in order.
func (s *podNamespaces) all() (list []*podNamespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.of)) {
		list = append(list, s.of[name])
	}
	return list
}

// pod is a pod as heard of last; nil when there is none, or its namespace is not decided yet.
func (s *podNamespaces) pod(space, name string) *corev1.Pod {
	sp := s.watched(space)
	if sp == nil {
		return nil
	}
	return sp.pod(name)
}

func (sp *podNamespace) pod(name string) *corev1.Pod {
	obj, ok, err := sp.pods.GetByKey(sp.name + "/" + name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*corev1.Pod)
}

// again queues all tasks that have pods.
func (s *podNamespaces) again() {
	for _, sp := range s.all() {
		for _, key := range sp.pods.ListKeys() {
			s.settle(sp.name, baseOf(key))
		}
	}
}

// watched returns a namespace, nil when it is not watched.
func (s *podNamespaces) watched(name string) *podNamespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}

// open returns a namespace, and watches it from now on.
func (s *podNamespaces) open(name string) (*podNamespace, error) {
	if sp := s.watched(name); sp != nil {
		return sp, nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.watched(name) == nil { // else it was opened meanwhile
		if err := s.save(name); err != nil {
			return nil, fmt.Errorf("cannot note that pods are in namespace %s: %w", name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch(name)
	return s.of[name], nil
}

// save writes the names, and some more; they are on the disk when this returns. s.saving is held.
func (s *podNamespaces) save(more ...string) error {
	for _, sp := range s.all() {
		more = append(more, sp.name)
	}
	slices.Sort(more)
	return writeSynced(s.file, strings.Join(more, "\n")+"\n")
}

// close drops namespaces in which there is nothing any more.
func (s *podNamespaces) close() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.e.mu.Lock()
	used := s.used()
	s.e.mu.Unlock()
	idle := slices.DeleteFunc(s.all(), func(sp *podNamespace) bool {
		return used[sp.name] || !sp.synced() || sp.refused() != "" || slices.ContainsFunc(sp.pods.ListKeys(), func(key string) bool {
			_, _, ours := s.e.maker.Parse(baseOf(key))
			return ours
		})
	})
	if len(idle) == 0 {
		return
	}
	s.stop(idle)
	if err := s.save(); err != nil {
		s.e.o.Log.Warn("it cannot be noted in which namespaces pods are", "error", err)
	}
}

// used are the namespaces of tasks, and the server's own. Executor.mu is held.
func (s *podNamespaces) used() map[string]bool {
	used := map[string]bool{s.own(): true}
	for _, t := range s.e.tasks {
		used[t.space] = true
	}
	return used
}

// stop ends the watch of those idle namespaces that still have no task.
func (s *podNamespaces) stop(idle []*podNamespace) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	used := s.used() // tasks may have come since the look
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range idle {
		if !used[sp.name] {
			sp.stop()
			delete(s.of, sp.name)
		}
	}
}

// serve makes the service by which the tasks of a gang find each other. It is that of the gang's
// first pod, which is removed last. Without the right to make it the tasks run, but do not find
// each other by name.
func (s *podNamespaces) serve(ctx context.Context, t *podTask, service *corev1.Service) error {
	err := t.in(s.e).MakeService(ctx, service)
	if err == nil || !api.NeverAccepts(err) {
		return err
	}
	if sp := s.watched(t.space); sp != nil && !sp.deaf.Swap(true) {
		s.e.o.Log.Warn("the tasks of a gang will not find each other by name: their service cannot be made", "namespace", t.space, "error", api.ErrorText(err))
	}
	return nil
}

// named is the name of a task's pod, and where it is.
type named struct {
	key   string // the key in Executor.tasks: see strayKey
	name  string // of its pod
	space string // its pod's namespace; "": not decided. Set by its worker, under Executor.mu
	home  *home  // its attempt's namespace; nil for a stray
	// unseen says that the start of the server does not wait for it: its namespace cannot be seen,
	// or it is not certain yet that it has no pod.
	unseen bool
}

// in is the API client for the namespace of a task's pod.
func (t *podTask) in(e *Executor) *api.Client { return e.o.API.In(t.space) }

// refuseForNamespace tells that a task never ran because of its namespace. Its node is not to
// blame, and stays as good for others. The job is tried again after a while.
func (e *Executor) refuseForNamespace(t *podTask, why string) error {
	return e.finish(t, model.Exit{Cause: model.NeverStarted, Message: clipped(why)})
}

// refuseForAdded tells that a task never ran, since a container failed that something in the
// cluster has added to its pod. Every node would meet it, and no job chose it.
func refuseForAdded(ctx context.Context, e *Executor, t *podTask, pod *corev1.Pod, s pods.State) error {
	why := s.Refused
	if s.Silent != "" {
		if line := pods.LastLine(t.in(e).End(ctx, pod.Name, s.Silent)); line != "" {
			why += ": " + line
		}
	}
	why += "; neither its job nor the node is to blame: what adds it has to be mended"
	e.events.on(pod, &t.said, eventRefused, func() string { return why })
	return e.refuseForNamespace(t, why)
}

// decideNamespace decides in which namespace the pod of a task without a record is, or will be, and
// watches there. Where that is not decided yet, it is tried again after the time that it returns.
func (s *podNamespaces) decideNamespace(ctx context.Context, t *podTask, known bool) (again time.Duration, err error) {
	name, hidden := t.space, ""
	if name == "" && known {
		if name, hidden, err = s.find(ctx, t); err != nil {
			return 0, err
		}
	}
	if name == "" && hidden != "" && s.decided(t) == "" {
		s.unseen(t)
		if !t.waitTold {
			t.waitTold = true
			s.e.o.Tell(model.Notice{Job: t.at.Job, Message: fmt.Sprintf("task %s of attempt %v waits: its pod may be in namespace %s, which Comb cannot see; an administrator gives it the rights of deploy/kubernetes/team.yaml there again, also where the namespace was deleted", t.title(), t.at, hidden)})
		}
		return blindPause, nil
	}
	if name == "" {
		name = s.chosen(t)
	}
	if name == "" {
		return spacePause, nil
	}
	t.waitTold = false // that it waited for this
	return 0, s.put(t, name)
}

// load reads the record of a task, and watches its namespace.
func (s *podNamespaces) load(t *podTask) error {
	begun, err := t.load()
	if err != nil || !begun || t.stray {
		return err
	}
	return s.put(t, cmp.Or(t.record.Namespace, s.own()))
}

// put notes the namespace of a task's pod, so that it is kept, and watches it.
func (s *podNamespaces) put(t *podTask, name string) error {
	s.set(t, name)
	_, err := s.open(name)
	if err != nil {
		s.set(t, "")
	}
	return err
}

// blind reports whether the namespace of a task cannot be seen. Until it can, nothing is asked
// about its pod.
func (s *podNamespaces) blind(t *podTask) bool {
	sp := s.watched(t.space)
	if sp == nil || sp.refused() == "" {
		return false
	}
	s.unseen(t)
	return true
}

// unseen keeps the start of the server from waiting for a task.
func (s *podNamespaces) unseen(t *podTask) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if t.known && !t.unseen {
		t.unseen = true
		s.e.countAdopted()
	}
}

// set sets the namespace of a task's pod.
func (s *podNamespaces) set(t *podTask, name string) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	t.space, t.record.Namespace = name, name
}

// at is the namespace of a task's pod, for any goroutine but its worker.
func (s *podNamespaces) at(t *podTask) string {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return t.space
}

// find looks for the pod of a task whose record was lost; "" when it was not found. hidden is a
// namespace that may hold it, but cannot be seen.
func (s *podNamespaces) find(ctx context.Context, t *podTask) (name, hidden string, err error) {
	for _, sp := range s.all() {
		pod, err := sp.api.Get(ctx, t.name)
		if err != nil && api.NamespaceRefuses(err) {
			if err = nil; !sp.gone(ctx) {
				hidden = sp.name
			}
		}
		switch {
		case err != nil:
			return "", "", err
		case pod != nil && s.e.maker.Sealed(pod):
			return sp.name, "", nil
		}
	}
	return "", hidden, nil
}

// decided is the namespace of a task's attempt where other tasks of it have one already; "" when
// none has.
func (s *podNamespaces) decided(t *podTask) string {
	h := t.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.space == "" && h.known {
		h.space = s.notedFor(t)
	}
	return h.space
}

// chosen is the namespace for a task's attempt: that of its other tasks, or the one to which its
// virtual cluster's pods go now. "" when it is not known yet.
func (s *podNamespaces) chosen(t *podTask) string {
	if name := s.decided(t); name != "" {
		return name
	}
	h := t.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.space == "" {
		space, ok := "", true
		if s.e.o.Namespace != nil {
			space, ok = s.e.o.Namespace(t.start.Job.VC)
		}
		if !ok {
			return ""
		}
		h.space = cmp.Or(space, s.own())
	}
	return h.space
}

// notedFor is the namespace of other tasks of an attempt by their records, "" when there is none.
func (s *podNamespaces) notedFor(t *podTask) string {
	r, found := t.records.any()
	if !found {
		return ""
	}
	return cmp.Or(r.Namespace, s.own())
}

// ours reports whether a pod is a task's, whatever its labels say.
func (s *podNamespaces) ours(space, name string) bool {
	if _, _, ok := s.e.maker.Parse(name); !ok {
		return false
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	t := s.e.tasks[name]
	return t != nil && t.space == space || s.e.tasks[strayKey(space, name)] != nil
}

// lookForForged looks for pods that have the label of this Comb, and are not its own. It is done
// now and then: until it is, what such a pod has is refused to jobs by kube-scheduler or the node.
func (s *podNamespaces) lookForForged() {
	var list []api.Other
	var names []string
	if s.e.o.Workloads != nil {
		names = s.e.o.Workloads() // what is there with the label are jobs
	}
	read := recordsRead{}
	for _, sp := range s.all() {
		names = append(names, sp.name)
		for _, key := range sp.pods.ListKeys() {
			if pod := sp.pod(baseOf(key)); pod != nil && s.isForged(pod, read) {
				list = append(list, api.OtherOf(pod))
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.e.ctx, 20*time.Second)
	defer cancel()
	elsewhere, err := s.e.o.API.Labelled(ctx, pods.ClusterLabel, s.e.maker.Short(), names)
	if err != nil {
		return // it is said elsewhere that they cannot be seen, or that the API server is away
	}
	s.e.others.setForged(append(list, elsewhere...))
}

// isForged reports whether a pod on a node that has not ended has the label of this Comb, and is
// not its own.
func (s *podNamespaces) isForged(pod *corev1.Pod, read recordsRead) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && !ended && pod.Labels[pods.ClusterLabel] == s.e.maker.Short() &&
		!s.ours(pod.Namespace, pod.Name) && (!s.e.maker.Sealed(pod) || s.copied(pod, read))
}

// copied reports whether a sealed pod is a user's copy of one that has ended.
func (s *podNamespaces) copied(pod *corev1.Pod, read recordsRead) bool {
	at, n, ok := s.e.maker.Parse(pod.Name)
	return ok && s.forged(at, n, pod, read)
}

// namespaceNext says what to do where Kubernetes refuses something because of a namespace: "; "
// and a command, or why it passes; "" where its own words have to do. own says that the namespace
// is the server's.
func namespaceNext(space string, own bool, err error) string {
	file := "team.yaml"
	if own {
		file = "rights.yaml"
	}
	rights := fmt.Sprintf("kubectl apply -n %s -f deploy/kubernetes/%s", space, file)
	switch text := api.ErrorText(err); {
	case api.NamespaceGone(err):
		return fmt.Sprintf("; an administrator makes it anew: kubectl create namespace %s, and %s", space, rights)
	case strings.Contains(text, " cannot "): // as RBAC writes it
		return "; an administrator gives Comb its rights: " + rights
	case strings.Contains(text, "exceeded quota: "):
		return "; it starts when the quota has room"
	}
	return ""
}
