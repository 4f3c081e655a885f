package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// propose submits a job for a workload whose pods are all there and wait at their gates.
func (e *Executor) propose(s seen, w *workload) (again time.Duration, err error) {
	if e.mu.Lock(); !e.adopted {
		e.mu.Unlock()
		return time.Second, nil // it may be a job of before
	}
	e.mu.Unlock()
	if s.owner == nil || s.owner.GetDeletionTimestamp() != nil {
		e.forget(w)
		e.sayUnknown(s)
		return 0, nil
	}
	of := model.Foreign{Kind: s.kind.Kind, Namespace: s.sp.name, Name: s.owner.GetName(), UID: string(s.owner.GetUID())}
	isOver, _, _ := s.kind.end(s.owner)
	e.mu.Lock()
	asleep := w != nil && w.over
	e.mu.Unlock()
	if isOver || suspended(s.owner) {
		if asleep {
			e.mu.Lock()
			w.over = false // it is suspended; when it goes on, that is another job
			e.mu.Unlock()
		}
		return 0, nil
	}
	if asleep {
		return 0, e.suspend(s, true)
	}
	var waiting []*corev1.Pod
	for _, p := range s.pods {
		if gated(p) && !over(p) {
			waiting = append(waiting, p)
		}
	}
	if want := s.kind.want(s.owner); len(waiting) == 0 || int64(len(waiting)) < want {
		return 0, nil
	}
	job, why, known := e.jobOf(s, of, waiting)
	if !known {
		return time.Second, nil // there is no configuration yet
	}
	if why != "" {
		e.say(of, eventRefused, why, why)
		return 30 * time.Second, nil
	}
	e.mu.Lock()
	w = e.workloadOf(of)
	e.mu.Unlock()
	meta := model.Meta{Subject: job.User, Key: "workload-" + of.UID + "-" + s.owner.GetResourceVersion()}
	reply := e.o.Give(e.ctx, model.Submit{Meta: meta, Job: job})
	if r := reply.Refusal; r != nil && r.Kind == model.Conflict {
		job.Name += model.JobName("-" + of.UID[:min(len(of.UID), 5)]) // its user has another job of that name
		meta.Key += "-named"
		reply = e.o.Give(e.ctx, model.Submit{Meta: meta, Job: job})
	}
	switch {
	case reply.Refusal != nil:
		e.say(of, eventRefused, reply.Refusal.Message, reply.Refusal.Message)
		return 30 * time.Second, nil
	case reply.Err != nil:
		return 0, reply.Err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.job == 0 {
		w.job, w.told = reply.Answer.Job, false
	}
	return 0, nil
}

// sayUnknown says of pods at their gates that what makes them is of no kind that Comb places.
func (e *Executor) sayUnknown(s seen) {
	for _, p := range s.pods {
		if owner := metav1.GetControllerOf(p); owner != nil && gated(p) && !over(p) && !knows(p) {
			of := model.Foreign{Kind: owner.Kind, Namespace: p.Namespace, Name: owner.Name, UID: string(owner.UID)}
			e.say(of, eventRefused, owner.Kind, "Comb places pods of Jobs, and pods that nothing makes: "+
				"what makes this one is a "+owner.Kind+"; let a Job make it, or leave out its GPUs")
			return
		}
	}
}

// forget drops what is known of an object that is gone.
func (e *Executor) forget(w *workload) {
	if w == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.job == 0 {
		delete(e.all, types.UID(w.of.UID))
		delete(e.events, w.of.UID)
	}
}

// jobOf makes the job of a workload. why says why there can be none. known is false while there is
// no configuration.
func (e *Executor) jobOf(s seen, of model.Foreign, waiting []*corev1.Pod) (job *model.Job, why string, known bool) {
	var c *model.Config
	if !e.o.Read(func(st *core.State) { c = st.Config() }) || c == nil {
		return nil, "", false
	}
	vc, ok := model.WorkloadVCs(c)[of.Namespace]
	if !ok {
		return nil, "namespace " + of.Namespace + " belongs to no virtual cluster any more", true
	}
	first := waiting[0]
	asked := cmp.Or(s.owner.GetLabels()[pods.VCLabel], first.Labels[pods.VCLabel])
	if asked != "" && asked != string(vc) {
		return nil, fmt.Sprintf("its label %s is %s, and namespace %s belongs to virtual cluster %s: change the "+
			"label, or leave it out", pods.VCLabel, asked, of.Namespace, vc), true
	}
	job = &model.Job{Name: model.JobName(of.Name), VC: vc, Foreign: &of, Priority: priorityOf(first),
		User:  model.Subject(cmp.Or(s.owner.GetAnnotations()[CreatorNote], "kubernetes")),
		Grace: graceOf(first)}
	role, why := e.roleOf(c.Cluster.SKUs, waiting)
	if why != "" {
		return nil, why, true
	}
	job.Roles = []model.Role{role}
	gang := model.Gang{Name: "default"}
	for i := range role.Tasks {
		gang.Tasks = append(gang.Tasks, i)
	}
	job.Gangs = []model.Gang{gang}
	return job, "", true
}

// priorityOf is the priority of a pod's class, where that has the name of one of Comb's.
func priorityOf(p *corev1.Pod) cell.Priority {
	if priority, ok := model.PriorityNamed(p.Spec.PriorityClassName); ok {
		return priority
	}
	return model.DefaultPriority
}

func graceOf(p *corev1.Pod) model.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return model.Duration(*s) * model.Second
	}
	return 30 * model.Second
}

// mostPods is how many pods a workload can have at once.
const mostPods = 512

// roleOf is what the pods of a workload ask for, which must be the same of each.
func (e *Executor) roleOf(skus []cell.SKU, list []*corev1.Pod) (role model.Role, why string) {
	role = model.Role{Name: "pod", Tasks: int32(len(list)), MinFailed: 1, MinSucceeded: int32(len(list))}
	asks := asksOf(list[0])
	for _, p := range list[1:] {
		if !maps.Equal(asksOf(p), asks) {
			return role, fmt.Sprintf("its pods %s and %s ask for different devices, which one group cannot",
				list[0].Name, p.Name)
		}
	}
	if len(asks) != 1 {
		return role, fmt.Sprintf("its pods ask for devices of %d kinds (%s), and a group can have those of one",
			len(asks), strings.Join(sortedKeys(asks), ", "))
	}
	if len(list) > mostPods {
		return role, fmt.Sprintf("it has %d pods at once, and a group has at most %d", len(list), mostPods)
	}
	for i := range skus {
		sku := &skus[i]
		n, per := asks[e.o.Resource(*sku)], int64(max(sku.GPU, 1))
		if n == 0 || sku.Device == cell.CPU {
			continue
		}
		if leaves := int32((n + per - 1) / per); role.Leaves == 0 || role.Leaves == leaves {
			role.Leaves = leaves
			role.SKUs = append(role.SKUs, sku.Name)
		}
	}
	if role.Leaves == 0 {
		return role, fmt.Sprintf("no nodes of the cluster file have %s", strings.Join(sortedKeys(asks), ", "))
	}
	slices.Sort(role.SKUs)
	role.Launch = model.Launch{Image: list[0].Spec.Containers[0].Image, GPU: sum(asks)}
	return role, ""
}

// asksOf is how many devices of which device plugins a pod asks for.
func asksOf(p *corev1.Pod) map[string]int64 {
	of := api.OtherOf(p)
	return of.Devices
}

func sum(asks map[string]int64) (n int64) {
	for _, v := range asks { // in any order
		n += v
	}
	return n
}
