package simapi

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Troubles are what goes wrong when a test says so, where Faults go wrong at random.
type Troubles struct {
	s        *Server
	next     map[string][]Mishap // by the kind of request
	held     map[string]bool     // resources whose watches tell nothing now
	orphans  bool                // pods of removed nodes stay as they are
	slow     bool                // kubelets do not say that pods have ended
	refusals map[string]string   // why kubelets take no pod, by node
}

func newTroubles(s *Server) *Troubles {
	return &Troubles{s: s, next: map[string][]Mishap{}, held: map[string]bool{}, refusals: map[string]string{}}
}

// Mishap is how one request goes wrong.
type Mishap struct {
	Status *apierrors.StatusError // it is refused so; nil: it is done, and the answer is lost
	Then   func()                 // called before the client hears of it
}

// Next lets the next requests of a kind, such as "POST pods/binding", go wrong one after the other.
func (t *Troubles) Next(what string, list ...Mishap) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.next[what] = append(t.next[what], list...)
}

// Forget takes back what Next has said of a kind of request.
func (t *Troubles) Forget(what string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	delete(t.next, what)
}

// mishap is how a request goes wrong, nil for none. Server.mu is held.
func (t *Troubles) mishap(what string) *Mishap {
	list := t.next[what]
	if len(list) == 0 {
		return nil
	}
	t.next[what] = list[1:]
	return &list[0]
}

// then is what comes before the client hears of it; false where nothing goes wrong.
func (m *Mishap) then() bool {
	if m != nil && m.Then != nil {
		m.Then()
	}
	return m != nil
}

// refuses answers a request that is refused, and reports whether it is.
func (m *Mishap) refuses(w http.ResponseWriter) bool {
	if m == nil || m.Status == nil {
		return false
	}
	m.then()
	after := ""
	if d := m.Status.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		after = fmt.Sprint(d.RetryAfterSeconds)
	}
	refuse(w, m.Status, after)
	return true
}

// refuse answers with a refusal; after is the header Retry-After, "" for none.
func refuse(w http.ResponseWriter, why *apierrors.StatusError, after string) {
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	said := why.Status()
	said.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(said.Code), said)
}

// Hold lets the watches of a resource tell nothing, so that they are behind what is answered, or go
// on again.
func (t *Troubles) Hold(resource string, held bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.held[resource] = held
	t.s.news.Broadcast()
}

// Bind is another scheduler, which binds a pod to a node.
func (t *Troubles) Bind(key, node string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if pod, ok := t.s.objects["pods"][key].(*corev1.Pod); ok {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = node
		t.s.put("pods", pod)
	}
}

// Refuse lets the kubelet of a node take no pod, for a reason such as OutOfcpu, or take them again
// for "".
func (t *Troubles) Refuse(node, reason string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.refusals[node] = reason
}

// Slow lets no kubelet say that a pod has ended, whose container has, or lets them say it again.
func (t *Troubles) Slow(slow bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.slow = slow
}

// Vanish is Strip, where the kubelet does not end the container.
func (t *Troubles) Vanish(key string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if o := t.s.objects["pods"][key]; o != nil {
		t.s.remove("pods", o)
	}
}

// Hinder is a user who puts a finalizer on a pod that is not deleted yet.
func (t *Troubles) Hinder(key, finalizer string) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if pod, ok := t.s.objects["pods"][key].(*corev1.Pod); ok && pod.DeletionTimestamp == nil {
		pod = pod.DeepCopy()
		pod.Finalizers = append(pod.Finalizers, finalizer)
		t.s.put("pods", pod)
	}
}

// KeepOrphans lets the pods of removed nodes be, as a cluster without a controller manager does.
func (t *Troubles) KeepOrphans(keep bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.orphans = keep
}

// longestGrace is how many seconds a pod may have to end before its container uses them.
const longestGrace = 3600

// Delete is a user with kubectl, and gives a pod so many seconds to end.
func (t *Troubles) Delete(key string, grace int64) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if o := t.s.objects["pods"][key]; o != nil {
		body := `{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": %d}`
		_ = t.s.delete("pods", o, fmt.Appendf(nil, body, grace))
	}
}
