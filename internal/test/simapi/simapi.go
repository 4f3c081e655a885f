// Package simapi is a Kubernetes API server in memory, with kubelets and containers, that fails as
// real ones do: it refuses for a while, does what it is asked and loses the answer, closes watches,
// tells events twice or late, or answers nothing at all. It is for tests only; no other code
// imports it. It must not know Comb.
package simapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Faults are how many of 1,000 requests, or of 1,000 events of a watch, go wrong, each in its way.
type Faults struct {
	Busy   int // 429, with and without a time
	Broken int // 500
	Lost   int // it is done, and the connection is cut before the answer
	Cut    int // the watch ends
	Gone   int // the watch is told that it is too old: 410
	Twice  int // the event comes again
	Late   int // it comes later than it could
}

// Server is one.
type Server struct {
	URL      string
	Troubles *Troubles

	http    *httptest.Server
	decoder runtime.Decoder
	end     chan struct{}
	ended   sync.WaitGroup

	webhooks

	mu       sync.Mutex
	news     *sync.Cond
	rand     *rand.Rand
	faults   Faults
	away     bool // nothing is answered
	version  int64
	objects  map[string]map[string]metav1.Object // by resource and key
	closed   map[string]bool                     // namespaces in which nothing is allowed
	denied   map[string]bool                     // resources of which nothing may be made
	fixed    bool                                // no pod may be resized
	review   func(space string) (allowed, answers bool)
	events   map[string][]event // by resource
	machines map[string]*machine
	foreign  map[string]bool // pods that no kubelet of this package looks at, by key
	tick     int64
	work
	others  bool              // claims are given other devices than they ask for
	linger  bool              // containers do not end by themselves
	spoiled map[string]string // nodes on which what runs before a task fails, and what it prints
	twice   []Both
	asked   map[string]int
	issuer  issuer
	rotated int // how often its key was
}

// work is what kubelets and schedulers have to do.
type work struct {
	changed map[string]bool // pods at which they look at the next beat
	stirred bool            // they look at all
	finite  bool            // some container was started that ends by itself
	unbound int             // pods that name another scheduler and are not bound yet
	most    int             // of them, at any time
}

type event struct {
	version int64
	kind    watch.EventType
	space   string // the namespace of the object
	key     string
	labels  labels.Set
	fields  fields.Set // those by which it can be selected
	body    []byte     // of it
}

// selection is which objects a request is about.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

func selectionOf(r *http.Request) (s selection, err error) {
	q := r.URL.Query()
	if s.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return s, err
	}
	s.fields, err = fields.ParseSelector(q.Get("fieldSelector"))
	return s, err
}

func (s selection) has(l labels.Set, f fields.Set) bool {
	return s.labels.Matches(l) && s.fields.Matches(f)
}

func (s selection) all() bool { return s.labels.Empty() && s.fields.Empty() }

func fieldsOf(o metav1.Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch o := o.(type) {
	case *corev1.Pod:
		set["spec.nodeName"], set["status.phase"] = o.Spec.NodeName, string(o.Status.Phase)
	case *resourcev1.ResourceSlice:
		set["spec.driver"] = o.Spec.Driver
		if o.Spec.NodeName != nil {
			set["spec.nodeName"] = *o.Spec.NodeName
		}
	}
	return set
}

// New makes one whose faults and kubelets follow a seed.
func New(seed uint64) *Server {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), resourcev1.AddToScheme(scheme)); err != nil {
		panic(err) // it has no other reason than a wrong build
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	s := &Server{rand: rand.New(rand.NewPCG(seed, 26)), end: make(chan struct{}),
		decoder: serializer.NewCodecFactory(scheme).UniversalDeserializer(),
		objects: map[string]map[string]metav1.Object{"pods": {}, "nodes": {}, "services": {}, "configmaps": {}, "serviceaccounts": {}, "events": {},
			"secrets": {}, "resourceclaims": {}, "resourceslices": {}},
		events:   map[string][]event{},
		machines: map[string]*machine{}, closed: map[string]bool{}, foreign: map[string]bool{}, asked: map[string]int{},
		work:   work{changed: map[string]bool{}},
		issuer: newIssuer(0)}
	s.Troubles = newTroubles(s)
	s.news = sync.NewCond(&s.mu)
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	s.ended.Go(s.run)
	return s
}

// Close ends it.
func (s *Server) Close() {
	close(s.end)
	s.mu.Lock()
	s.news.Broadcast()
	s.mu.Unlock()
	s.ended.Wait()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Fail sets its faults from now on.
func (s *Server) Fail(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Home is the namespace of what is called by its name alone; else a key is NAMESPACE/NAME.
const Home = "comb"

func key(space, name string) string {
	if space == "" || space == Home {
		return name
	}
	return space + "/" + name
}

func keyOf(o metav1.Object) string { return key(o.GetNamespace(), o.GetName()) }

// Forbid lets nothing be asked for in a namespace, and cuts its watches, or allows it again.
func (s *Server) Forbid(space string, forbidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[space] = forbidden
	s.news.Broadcast()
}

// ForbidAll lets a resource not be asked for in all namespaces at a time, and cuts such watches, or
// allows it again.
func (s *Server) ForbidAll(resource string, forbidden bool) {
	s.Forbid(everywhere(resource), forbidden)
}

// everywhere stands for all namespaces of a resource among those in which nothing is allowed.
func everywhere(resource string) string { return "every " + resource }

// forbidden reports whether a resource may not be asked for in a namespace; "" is all of them.
// s.mu is held.
func (s *Server) forbidden(resource, space string) bool {
	return s.closed[space] || space == "" && s.closed[everywhere(resource)]
}

// Deny lets nothing be made of a resource, or allows it again.
func (s *Server) Deny(resource string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied == nil {
		s.denied = map[string]bool{}
	}
	s.denied[resource] = denied
}

// Review has reviews of rights answered by a function, for each namespace; without one all is
// allowed.
func (s *Server) Review(f func(space string) (allowed, answers bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.review = f
}

// reviewed answers whether something is allowed.
func (s *Server) reviewed(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.review
	s.mu.Unlock()
	var asked authorizationv1.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Spec.ResourceAttributes == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	allowed, answers := true, true
	if f != nil {
		allowed, answers = f(asked.Spec.ResourceAttributes.Namespace)
	}
	if asked.Status.Allowed = allowed; !answers {
		http.Error(w, "it is slow", http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, asked)
}

// Account makes the service account "default" of a namespace, or gives it other pull secrets.
func (s *Server) Account(space string, pulls ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: space}}
	for _, name := range pulls {
		o.ImagePullSecrets = append(o.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	s.put("serviceaccounts", o)
}

// Fix lets no pod be resized, or allows it again.
func (s *Server) Fix(fixed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = fixed
}

// Away lets it answer nothing, and cuts all watches; or be back.
func (s *Server) Away(away bool) {
	s.mu.Lock()
	s.away = away
	s.news.Broadcast()
	s.mu.Unlock()
	if away {
		s.http.CloseClientConnections()
	}
}

// MostUnbound is how many pods that name another scheduler waited to be bound at once, at the most.
// Those that were removed before count, too.
func (s *Server) MostUnbound() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Objects are the keys of what there is of a resource.
func (s *Server) Objects(resource string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.objects[resource] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Asked is how many requests there were, by method and resource, also in each namespace and refused
// there, and how many went wrong, by fault.
func (s *Server) Asked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for k, n := range s.asked {
		out[k] = n
	}
	return out
}

// happens reports whether one of 1,000 goes wrong now, and counts it. s.mu is held.
func (s *Server) happens(what string, of1000 int) bool {
	if s.rand.IntN(1000) >= of1000 {
		return false
	}
	s.asked[what]++
	return true
}

// put keeps an object and tells of it. s.mu is held.
func (s *Server) put(resource string, o metav1.Object) {
	kind := watch.Modified
	if s.objects[resource][keyOf(o)] == nil {
		kind = watch.Added
	}
	s.objects[resource][keyOf(o)] = o
	if resource == "pods" {
		s.changed[keyOf(o)] = true
	}
	s.tell(resource, kind, o)
}

// remove forgets an object, and what it owns, and tells of it. s.mu is held.
func (s *Server) remove(resource string, o metav1.Object) {
	delete(s.objects[resource], keyOf(o))
	s.tell(resource, watch.Deleted, o)
	for _, owned := range []string{"secrets", "services", "configmaps"} { // claims go with the last of their owners: see collect
		for name, one := range s.objects[owned] {
			if slices.ContainsFunc(one.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
				delete(s.objects[owned], name)
			}
		}
	}
}

func (s *Server) tell(resource string, kind watch.EventType, o metav1.Object) {
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	s.events[resource] = append(s.events[resource], event{s.version, kind, o.GetNamespace(), keyOf(o),
		maps.Clone(o.GetLabels()), fieldsOf(o), text(o)})
	s.news.Broadcast()
}

func text(o any) []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // an object of Kubernetes' own
	}
	return body
}

// serve answers one request, or lets it go wrong.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/apis"), "/"), "/") // api v1 [namespaces N] RESOURCE [NAME [SUB]]
	space := ""
	if len(parts) > 4 && parts[2] == "namespaces" {
		space, parts = parts[3], parts[2:]
	}
	resource, name, sub := at(parts, 2), at(parts, 3), at(parts, 4)
	s.mu.Lock()
	away, watches := s.away, r.URL.Query().Get("watch") == "true"
	what := r.Method + " " + resource
	s.asked[what]++
	s.asked[what+" in "+space]++
	if sub != "" {
		s.asked[what+"/"+sub]++
	}
	mishap := s.Troubles.mishap(strings.TrimSuffix(what+"/"+sub, "/"))
	var refusal *apierrors.StatusError
	after, lost := "", false
	if !away && (s.forbidden(resource, space) || resource == "namespaces" && s.closed[name]) {
		s.asked[what+" refused in "+space]++
		refusal = apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, fmt.Errorf("it may not be asked for in the namespace %q", space))
	} else if !away && !watches {
		switch {
		case s.happens("busy", s.faults.Busy):
			if refusal = apierrors.NewTooManyRequests("slow down", 0); s.rand.IntN(2) == 0 {
				after = "0"
			}
		case s.happens("broken", s.faults.Broken):
			refusal = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
		default:
			lost = s.happens("lost", s.faults.Lost)
		}
	}
	s.mu.Unlock()
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case refusal != nil:
		refuse(w, refusal, after)
		return
	case mishap.refuses(w):
		return
	case s.ofServer(w, r):
		return
	case watches:
		s.watch(w, r, resource, space)
		return
	case resource == "selfsubjectaccessreviews":
		s.reviewed(w, r)
		return
	case sub == "log":
		kubelets{s}.log(w, r, key(space, name))
		return
	}
	out, err := s.do(r, path{resource, space, name, sub})
	if mishap.then() || lost {
		panic(http.ErrAbortHandler)
	}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		answer(w, int(status.ErrStatus.Code), status.Status())
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, http.StatusOK, out)
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text(v))
}

// path is what a request is about.
type path struct{ resource, space, name, sub string }

// do does what a request asks for.
func (s *Server) do(r *http.Request, p path) (out json.RawMessage, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, name := p.resource, p.name
	which := schema.GroupResource{Resource: resource}
	had := s.objects[resource][key(p.space, name)]
	switch {
	case p.sub == "binding":
		return s.bind(had, body)
	case r.Method == http.MethodPost && s.denied[resource]:
		return nil, apierrors.NewForbidden(which, name, errors.New("it may not be made"))
	case r.Method == http.MethodPost:
		o, err := decoded[metav1.Object](s, body)
		if err != nil {
			return nil, err
		}
		o.SetNamespace(p.space)
		if s.objects[resource][keyOf(o)] != nil {
			return nil, apierrors.NewAlreadyExists(which, o.GetName())
		}
		s.make(resource, o)
		return text(o), nil
	case name == "" && r.Method == http.MethodGet:
		which, err := selectionOf(r)
		return s.list(resource, p.space, which), err
	case resource == "namespaces":
		return text(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}), nil // each that is asked for is there
	case had == nil:
		return nil, apierrors.NewNotFound(which, name)
	case r.Method == http.MethodDelete:
		err := s.delete(resource, had, body)
		return text(had), err
	case r.Method == http.MethodPatch:
		err := s.patch(resource, had, body)
		return text(had), err
	}
	return text(had), nil
}

func decoded[T any](s *Server, body []byte) (out T, err error) {
	o, _, err := s.decoder.Decode(body, nil, nil)
	if err != nil {
		return out, err
	}
	out, ok := o.(T)
	if !ok {
		return out, fmt.Errorf("%T is not wanted", o)
	}
	return out, nil
}

// bind binds a pod to a node, as its caller says. s.mu is held.
func (s *Server) bind(o metav1.Object, body []byte) (json.RawMessage, error) {
	which := schema.GroupResource{Resource: "pods"}
	b, err := decoded[*corev1.Binding](s, body)
	if err != nil {
		return nil, err
	}
	pod, ok := o.(*corev1.Pod)
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(which, b.Name)
	case s.denied["bindings"]:
		return nil, apierrors.NewForbidden(which, b.Name, errors.New("it may not be bound"))
	case b.UID != "" && b.UID != pod.UID, pod.DeletionTimestamp != nil, pod.Spec.NodeName != "", s.happens("conflict", s.faults.Busy):
		return nil, apierrors.NewConflict(which, b.Name, errors.New("it cannot be bound"))
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.Conditions = b.Target.Name, nil
	s.unbound--
	s.put("pods", pod)
	return text(metav1.Status{Status: metav1.StatusSuccess}), nil
}

// make keeps a new object. s.mu is held.
func (s *Server) make(resource string, o metav1.Object) {
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
	o.SetCreationTimestamp(metav1.Now())
	if pod, ok := o.(*corev1.Pod); ok {
		s.change(pod)
		pod.TypeMeta, pod.Status = metav1.TypeMeta{APIVersion: "v1",
			Kind: "Pod"}, corev1.PodStatus{Phase: corev1.PodPending}
		if pod.Spec.SchedulerName != "" && pod.Spec.NodeName == "" {
			s.unbound++
			s.most = max(s.most, s.unbound)
		}
	}
	s.put(resource, o)
}

// list is what is selected of a resource in a namespace, or in all for "". s.mu is held.
func (s *Server) list(resource, space string, which selection) json.RawMessage {
	out := struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []metav1.Object `json:"items"`
	}{Items: []metav1.Object{}}
	out.APIVersion, out.Kind = "v1", map[string]string{"pods": "PodList", "nodes": "NodeList"}[resource]
	if resource == "resourceslices" {
		out.APIVersion, out.Kind = resourcev1.SchemeGroupVersion.String(), "ResourceSliceList"
	}
	out.ResourceVersion = fmt.Sprint(s.version)
	for _, o := range s.objects[resource] {
		if (space == "" || o.GetNamespace() == space) && which.has(o.GetLabels(), fieldsOf(o)) {
			out.Items = append(out.Items, o)
		}
	}
	return text(out)
}

// delete asks an object to go. s.mu is held.
func (s *Server) delete(resource string, o metav1.Object, body []byte) error {
	options := &metav1.DeleteOptions{}
	if len(body) > 0 {
		var err error
		if options, err = decoded[*metav1.DeleteOptions](s, body); err != nil {
			return err
		}
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != o.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion()) {
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, o.GetName(), errors.New("another object has that name"))
	}
	grace := int64(30)
	if options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	if had := o.GetDeletionGracePeriodSeconds(); o.GetDeletionTimestamp() == nil || had != nil && grace < *had {
		now := metav1.Now()
		o.SetDeletionTimestamp(&now)
		o.SetDeletionGracePeriodSeconds(&grace)
		s.put(resource, o)
	}
	if resource != "pods" && resource != "resourceclaims" { // what is reserved goes later: see collect
		s.remove(resource, o)
	}
	return nil
}

// patch takes finalizers off an object, gives it other owners, or sets more aside for a pod, which
// is all that is asked for. s.mu is held.
func (s *Server) patch(resource string, o metav1.Object, body []byte) error {
	var p struct {
		Metadata struct {
			UID     types.UID               `json:"uid"`
			Version string                  `json:"resourceVersion"`
			Drop    []string                `json:"$deleteFromPrimitiveList/finalizers"`
			Owners  []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
		Spec struct {
			Containers []struct{ Resources corev1.ResourceRequirements } `json:"containers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Metadata.UID != o.GetUID() || p.Metadata.Version != "" && p.Metadata.Version != o.GetResourceVersion() || s.happens("conflict", s.faults.Busy) {
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, o.GetName(), errors.New("the object has been modified"))
	}
	if s.fixed && len(p.Spec.Containers) > 0 {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, o.GetName(), errors.New("it may not be resized"))
	}
	if p.Metadata.Owners != nil {
		o.SetOwnerReferences(p.Metadata.Owners)
	}
	if pod, ok := o.(*corev1.Pod); ok && len(p.Spec.Containers) > 0 {
		maps.Copy(pod.Spec.Containers[0].Resources.Requests, p.Spec.Containers[0].Resources.Requests)
	}
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return slices.Contains(p.Metadata.Drop, f) }))
	s.put(resource, o)
	return nil
}

// told is what a watch was told of what it selects.
type told struct {
	which selection
	last  map[string]bool // by key: it was there
}

// toldOf reads what a watch selects; all where that is no selection.
func toldOf(r *http.Request) told {
	which, err := selectionOf(r)
	if err != nil {
		which = selection{labels.Everything(), fields.Everything()}
	}
	return told{which, map[string]bool{}}
}

// begin takes what was told up to a version.
func (t *told) begin(list []event, version int64) {
	for i := range list {
		if list[i].version <= version {
			t.kindOf(&list[i])
		}
	}
}

// kindOf is what an event is to the watch, "" for nothing: what is changed so that it is no longer
// selected is deleted to it.
func (t *told) kindOf(e *event) watch.EventType {
	if t.which.all() {
		return e.kind
	}
	was, is := t.last[e.key], e.kind != watch.Deleted && t.which.has(e.labels, e.fields)
	t.last[e.key] = is
	switch {
	case !was && !is:
		return ""
	case !is:
		return watch.Deleted
	case !was:
		return watch.Added
	}
	return watch.Modified
}

// watch tells what happens to a resource, until something goes wrong.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource, space string) {
	var from int64
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &from)
	known := toldOf(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	frame := func(kind watch.EventType, object []byte) {
		_, _ = w.Write(append(text(struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}{kind, object}), '\n'))
		w.(http.Flusher).Flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range s.objects[resource] {
			if (space == "" || o.GetNamespace() == space) && known.which.has(o.GetLabels(), fieldsOf(o)) {
				frame(watch.Added, text(o))
			}
		}
		from = s.version
		frame(watch.Bookmark, fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`,
			map[string]string{"pods": "Pod", "nodes": "Node"}[resource], from))
	}
	known.begin(s.events[resource], from)
	for r.Context().Err() == nil && !s.away && !s.forbidden(resource, space) && !s.over() {
		list := s.events[resource]
		next, _ := slices.BinarySearchFunc(list, from+1, func(e event, v int64) int { return int(e.version - v) })
		if next == len(list) || s.Troubles.held[resource] {
			s.news.Wait() // the kubelets' clock wakes it
			continue
		}
		if s.happens("gone", s.faults.Gone) {
			status := apierrors.NewResourceExpired("too old resource version").Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			frame(watch.Error, text(status))
			return
		}
		e := list[next]
		from = e.version
		if space != "" && e.space != space {
			continue
		}
		kind := known.kindOf(&e)
		if kind == "" {
			continue
		}
		times := 1
		if s.happens("twice", s.faults.Twice) {
			times = 2
		}
		late := s.happens("late", s.faults.Late)
		s.mu.Unlock()
		if late {
			time.Sleep(50 * time.Millisecond)
		}
		for range times {
			frame(kind, e.body)
		}
		s.mu.Lock()
		if s.happens("cut", s.faults.Cut) {
			return
		}
	}
}

func (s *Server) over() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

// Text is an object as it is, for messages.
func (s *Server) Text(resource, key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(text(s.objects[resource][key]))
}
