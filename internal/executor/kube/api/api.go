// Package api is what Comb asks of a Kubernetes API server: pods of a namespace, nodes, and logs,
// of core/v1 alone, and claims of devices. It uses the machinery of client-go without its typed
// clients, which register every API group and would double the size of the program. It must not
// know jobs.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/combsched/comb/internal/executor/kube/pods"
)

// Oldest is the minor version of the oldest Kubernetes on which Comb was tested: 1.34.
const Oldest = 34

// protobuf is the encoding of objects: a pod takes a third of the bytes and of the CPU time of
// JSON.
const protobuf = "application/vnd.kubernetes.protobuf"

// Options say which API server is meant.
type Options struct {
	Kubeconfig string // a file; "": as KUBECONFIG, ~/.kube/config or the pod that this runs in says
	Namespace  string // in which pods are made
	As         string // ask as this user, by the right to impersonate it; "": as the file says
	Log        *slog.Logger
}

// Client speaks with one API server. Its methods may be called from many goroutines.
type Client struct {
	rest      *rest.RESTClient
	plain     *rest.RESTClient  // for what is no object, such as logs and versions
	dynamic   dynamic.Interface // for objects of any kind that make pods
	sockets   *http.Client
	params    runtime.ParameterCodec
	answers   *answers
	host      string
	namespace string
	class     string // the PriorityClass of pods; "": none
}

// logger is set once: the client's libraries share one logger for the whole process, and setting
// it is not synchronized.
var logger sync.Once

// Open reads the settings. Nothing is asked of the API server yet.
func Open(o Options) (*Client, error) {
	heard := newAnswers()
	if o.Log != nil {
		logger.Do(func() {
			klog.SetSlogLogger(slog.New(quietLog{o.Log.Handler(), heard}).With("part", "Kubernetes client"))
		})
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	over := &clientcmd.ConfigOverrides{AuthInfo: clientcmdapi.AuthInfo{Impersonate: o.As}}
	conf, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("which Kubernetes cluster is meant cannot be read: %w; name a file with --kubeconfig",
			err)
	}
	return newClient(conf, o.Namespace, heard)
}

func newClient(conf *rest.Config, namespace string, heard *answers) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	conf = rest.CopyConfig(conf)
	conf.APIPath, conf.GroupVersion = "/api", &corev1.SchemeGroupVersion
	conf.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	conf.UserAgent = "comb"
	conf.QPS = -1 // the API server itself says when it is too much
	conf.Wrap(heard.over)
	plain, err := rest.RESTClientFor(conf)
	if err != nil {
		return nil, err
	}
	sockets, err := socketClient(conf)
	if err != nil {
		return nil, err
	}
	any, err := dynamic.NewForConfig(conf)
	if err != nil {
		return nil, err
	}
	conf.ContentType, conf.AcceptContentTypes = protobuf, protobuf+",application/json"
	c, err := rest.RESTClientFor(conf)
	if err != nil {
		return nil, err
	}
	return &Client{rest: c, plain: plain, dynamic: any, sockets: sockets,
		params: runtime.NewParameterCodec(scheme), answers: heard,
		host: conf.Host, namespace: namespace}, nil
}

// Host is the address of the API server.
func (c *Client) Host() string { return c.host }

// Namespace is where pods are made.
func (c *Client) Namespace() string { return c.namespace }

// PriorityClass is the class that Comb's pods have, where Flags.Open found it; "" is none.
func (c *Client) PriorityClass() string { return c.class }

// In returns the client for another namespace of the same API server.
func (c *Client) In(namespace string) *Client {
	other := *c
	other.namespace = namespace
	return &other
}

// Version asks for the version of the API server, such as v1.36.3, and refuses one that is too old.
func (c *Client) Version(ctx context.Context) (string, error) {
	raw, err := c.plain.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var v version.Info
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", fmt.Errorf("%s does not answer as a Kubernetes API server does: %w", c.host, err)
	}
	var minor int
	if _, err := fmt.Sscanf(v.Minor, "%d", &minor); err != nil || v.Major != "1" {
		return "", &TooOld{v.GitVersion}
	}
	if minor < Oldest {
		return "", &TooOld{v.GitVersion}
	}
	return v.GitVersion, nil
}

// right is a permission that Comb needs, and what it is for.
type right struct {
	verb, resource, sub string
	everywhere          bool   // it is of the whole cluster, and not of the namespace
	group               string // of the API; "" is the core
}

// rights are those without which nothing runs. The right to run commands in pods is not among
// them, since it may be withheld on purpose.
var rights = []right{{"list", "nodes", "", true, ""}, {"watch", "nodes", "", true, ""},
	{"list", "pods", "", true, ""}, {"watch", "pods", "", true, ""},
	{"create", "pods", "", false, ""}, {"get", "pods", "", false, ""},
	{"list", "pods", "", false, ""}, {"watch", "pods", "", false, ""},
	{"patch", "pods", "", false, ""}, {"delete", "pods", "", false, ""}, {"get", "pods", "log", false, ""}, {"create", "pods", "binding", false, ""},
	{"create", "secrets", "", false, ""}, {"delete", "secrets", "", false, ""}, {"create", "configmaps", "", false, ""}, {"delete", "configmaps", "", false, ""},
	{"create", "services", "", false, ""}, {"delete", "services", "", false, ""}}

// claimRights are those for claims of devices.
var claimRights = []right{{"list", "resourceslices", "", true, Group}, {"list", "resourceclaims", "", true, Group},
	{"create", "resourceclaims", "", false, Group}, {"get", "resourceclaims", "", false, Group}, {"patch", "resourceclaims", "", false, Group}, {"delete", "resourceclaims", "", false, Group}}

// Missing returns the rights that Comb lacks, in words; none where the API server does not say.
func (c *Client) Missing(ctx context.Context) ([]string, error) { return c.missing(ctx, rights) }

// MissingForClaims returns the rights that Comb lacks to have devices claimed.
func (c *Client) MissingForClaims(ctx context.Context) ([]string, error) {
	return c.missing(ctx, claimRights)
}

// MissingHere returns the rights that Comb lacks in the namespace; claims says that devices are
// claimed there.
func (c *Client) MissingHere(ctx context.Context, claims bool) ([]string, error) {
	wants := slices.Clone(rights)
	if claims {
		wants = append(wants, claimRights...)
	}
	return c.missing(ctx, slices.DeleteFunc(wants, func(r right) bool { return r.everywhere }))
}

func (c *Client) missing(ctx context.Context, wants []right) (list []string, err error) {
	for _, r := range wants {
		allowed, err := c.hasRight(ctx, r)
		if err != nil {
			return nil, err
		}
		if !allowed {
			list = append(list, r.String())
		}
	}
	return list, nil
}

// String names a right as kubectl auth can-i takes it.
func (r right) String() string {
	name := strings.TrimSuffix(r.verb+" "+r.resource+"/"+r.sub, "/")
	if r.everywhere && (r.resource == "pods" || r.resource == "resourceclaims") {
		name += " of all namespaces" // there is the same right in one namespace
	}
	return name
}

// hasRight asks whether Comb has a right.
func (c *Client) hasRight(ctx context.Context, r right) (bool, error) {
	where := map[string]string{"verb": r.verb, "group": r.group, "resource": r.resource, "subresource": r.sub}
	if !r.everywhere {
		where["namespace"] = c.namespace
	}
	if r.resource == "serviceaccounts" {
		where["name"] = "default" // the rights of deploy/kubernetes are to no other
	}
	return c.allowed(ctx, map[string]any{"resourceAttributes": where})
}

// allowed asks whether Comb may do what the spec of a review says.
func (c *Client) allowed(ctx context.Context, spec map[string]any) (bool, error) {
	const group = "authorization.k8s.io/v1"
	body, err := json.Marshal(map[string]any{"apiVersion": group, "kind": "SelfSubjectAccessReview", "spec": spec})
	if err != nil {
		return false, err
	}
	raw, err := c.plain.Post().AbsPath("/apis/"+group+"/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	var said struct{ Status struct{ Allowed bool } }
	if err := json.Unmarshal(raw, &said); err != nil {
		return false, fmt.Errorf("%s does not say what may be done: %w", c.host, err)
	}
	return said.Status.Allowed, nil
}

// HasNamespace reports whether the namespace exists; true where Comb may not ask.
func (c *Client) HasNamespace(ctx context.Context) (bool, error) {
	err := c.plain.Get().Resource("namespaces").Name(c.namespace).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil // the first pod will show it
	}
	return true, err
}

// TooOld says that a cluster is older than what Comb was tested on.
type TooOld struct{ Version string }

// Error implements error.
func (e *TooOld) Error() string {
	return fmt.Sprintf("the Kubernetes cluster has version %s: Comb needs 1.%d or later", e.Version, Oldest)
}

// issuerPaths are where the API server tells the issuer of service accounts' tokens, and its keys.
var issuerPaths = []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}

// Issuer asks for the issuer of the tokens of service accounts, and for its keys, a JSON Web Key
// Set.
func (c *Client) Issuer(ctx context.Context) (issuer string, keys []byte, err error) {
	var said struct {
		Issuer string `json:"issuer"`
	}
	raw, err := c.plain.Get().AbsPath(issuerPaths[0]).SetHeader("Accept", "*/*").Do(ctx).Raw()
	if err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return "", nil, fmt.Errorf("%s does not name the issuer of its tokens: %w", c.host, err)
	}
	keys, err = c.plain.Get().AbsPath(issuerPaths[1]).SetHeader("Accept", "*/*").Do(ctx).Raw()
	return said.Issuer, keys, err
}

// MissingForTokens returns the rights that Comb lacks to check the tokens of pods.
func (c *Client) MissingForTokens(ctx context.Context) (list []string, err error) {
	for _, path := range issuerPaths {
		what := map[string]string{"verb": "get", "path": path}
		allowed, err := c.allowed(ctx, map[string]any{"nonResourceAttributes": what})
		if err != nil {
			return nil, err
		}
		if !allowed {
			list = append(list, "get "+path)
		}
	}
	return list, nil
}

// Create makes a pod. What it returns is as watched pods are: many are made before the first is
// watched.
func (c *Client) Create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	err := c.rest.Post().Namespace(c.namespace).Resource("pods").Body(pod).Do(ctx).Into(out)
	if err == nil {
		_, err = slim(out)
	}
	return out, err
}

// Bind binds a pod to a node.
func (c *Client) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	post := c.rest.Post().Namespace(c.namespace).Resource("pods").Name(pod.Name).SubResource("binding")
	return post.Body(b).Do(ctx).Error()
}

// Changed reports whether an object is gone, or is not as it was any more.
func Changed(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// Get asks the API server itself for a pod, and not the watched copy; nil where there is none.
func (c *Client) Get(ctx context.Context, name string) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	err := c.rest.Get().Namespace(c.namespace).Resource("pods").Name(name).Do(ctx).Into(out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return out, err
}

// Delete asks a pod to end within its grace. It is no error when there is no such pod, or another
// one of that name.
func (c *Client) Delete(ctx context.Context, name string, uid types.UID, grace time.Duration) error {
	seconds := int64((grace + time.Second - 1) / time.Second)
	o := &metav1.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: &metav1.Preconditions{UID: &uid}}
	return c.unlessGone(ctx, name, uid, c.rest.Delete().Namespace(c.namespace).Resource("pods").Name(name).Body(o).Do(ctx).Error())
}

// unlessGone is the error of a request about a pod; nil when that pod is gone. A conflict alone
// does not prove that: the API server answers the same when the pod was changed at the same time.
func (c *Client) unlessGone(ctx context.Context, name string, uid types.UID, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		if pod, failed := c.Get(ctx, name); failed == nil && (pod == nil || pod.UID != uid) {
			return nil
		}
	}
	return err
}

// Release removes a finalizer from a pod, so that it can be deleted. It is no error when there is
// no such pod.
func (c *Client) Release(ctx context.Context, pod *corev1.Pod, finalizer string) error {
	patch := struct {
		Metadata struct {
			UID                types.UID `json:"uid"`
			DeleteFromFinalize []string  `json:"$deleteFromPrimitiveList/finalizers"`
		} `json:"metadata"`
	}{}
	patch.Metadata.UID, patch.Metadata.DeleteFromFinalize = pod.UID, []string{finalizer}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.unlessGone(ctx, pod.Name, pod.UID, c.rest.Patch(types.StrategicMergePatchType).Namespace(c.namespace).Resource("pods").Name(pod.Name).Body(body).Do(ctx).Error())
}

// MakeService makes a service, and replaces one of that name.
func (c *Client) MakeService(ctx context.Context, s *corev1.Service) error {
	return c.replace(ctx, "services", s.Name, s)
}

// MakeConfigMap makes a ConfigMap, and replaces one of that name.
func (c *Client) MakeConfigMap(ctx context.Context, m *corev1.ConfigMap) error {
	return c.replace(ctx, "configmaps", m.Name, m)
}

// replace makes an object, and replaces one of that name: it may be a user's, made to be taken for
// Comb's.
func (c *Client) replace(ctx context.Context, resource, name string, o runtime.Object) error {
	post := func() error {
		return c.rest.Post().Namespace(c.namespace).Resource(resource).Body(o).Do(ctx).Error()
	}
	err := post()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = c.rest.Delete().Namespace(c.namespace).Resource(resource).Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return post()
}

// MakeEvent writes an event about an object of the namespace. It is tried once.
func (c *Client) MakeEvent(ctx context.Context, v *corev1.Event) error {
	return c.rest.Post().Namespace(c.namespace).Resource("events").MaxRetries(0).Body(v).Do(ctx).Error()
}

// MakeSecret makes a secret, and replaces one of that name.
func (c *Client) MakeSecret(ctx context.Context, s *corev1.Secret) error {
	return c.replace(ctx, "secrets", s.Name, s)
}

// PullSecrets are the names of the Secrets with which the images of a service account's pods are
// fetched.
func (c *Client) PullSecrets(ctx context.Context, account string) (names []string, err error) {
	var out corev1.ServiceAccount
	err = c.rest.Get().Namespace(c.namespace).Resource("serviceaccounts").Name(account).Do(ctx).Into(&out)
	if err != nil {
		return nil, err
	}
	for _, s := range out.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return names, nil
}

// Log opens what the task's container of a pod prints from since on, each line behind its time.
// It follows the log.
func (c *Client) Log(ctx context.Context, name string, since time.Time) (io.ReadCloser, error) {
	o := &corev1.PodLogOptions{Container: pods.Container, Follow: true, Timestamps: true}
	if !since.IsZero() {
		at := metav1.NewTime(since)
		o.SinceTime = &at
	}
	return c.plain.Get().Namespace(c.namespace).Resource("pods").Name(name).SubResource("log").VersionedParams(o, c.params).Stream(ctx)
}

// End asks for the last that a container of a pod printed; "" where that is not to be had.
func (c *Client) End(ctx context.Context, name, container string) string {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	lines, most := int64(5), int64(4<<10)
	o := &corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &most}
	r := c.plain.Get().Namespace(c.namespace).Resource("pods").Name(name).SubResource("log").MaxRetries(0)
	raw, err := r.VersionedParams(o, c.params).Do(ctx).Raw()
	if err != nil {
		return ""
	}
	return string(raw)
}

// endWithin is how long a node may take to say the end of a log.
const endWithin = 5 * time.Second

// Nodes asks the API server for all nodes.
func (c *Client) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := c.rest.Get().Resource("nodes").Do(ctx).Into(list)
	return list.Items, err
}

// HasNode asks the API server itself whether there is a node.
func (c *Client) HasNode(ctx context.Context, name string) (bool, error) {
	list := &corev1.NodeList{}
	one := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	err := c.rest.Get().Resource("nodes").VersionedParams(&one, c.params).Do(ctx).Into(list)
	return len(list.Items) > 0, err
}

// Pods asks the API server for all pods of the namespace.
func (c *Client) Pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.rest.Get().Namespace(c.namespace).Resource("pods").Do(ctx).Into(list)
	return list.Items, err
}

// WatchPods keeps a copy of the pods of the namespace, and calls changed with the name of each
// pod that came, went or tells something new; see pods.Alike. It selects none by labels, since
// users may be able to change those. It calls asked with the result of each request for them.
func (c *Client) WatchPods(changed func(name string), asked func(error)) (cache.Store, cache.Controller) {
	return c.watch(kind{"pods", c.namespace, &corev1.Pod{}, &corev1.PodList{}, asked, alike}, changed)
}

func alike(before, now any) bool { return pods.Alike(before.(*corev1.Pod), now.(*corev1.Pod)) }

// WatchNodes is WatchPods for nodes. It calls changed for no heartbeat.
func (c *Client) WatchNodes(changed func(name string)) (cache.Store, cache.Controller) {
	return c.watch(kind{"nodes", "", &corev1.Node{}, &corev1.NodeList{}, func(error) {}, onlyHeard}, changed)
}

// kind is what can be watched.
type kind struct {
	resource, namespace string
	one, list           runtime.Object
	asked               func(error)
	same                func(before, now any) bool // of a change that tells nothing
}

// onlyHeard reports whether all that a change of a node tells is that its kubelet lives.
func onlyHeard(before, now any) bool {
	a, b := before.(*corev1.Node), now.(*corev1.Node)
	return slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	}) && apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.Status.Capacity, b.Status.Capacity) && apiequality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

func (c *Client) watch(k kind, changed func(string)) (cache.Store, cache.Controller) {
	ask := func(o metav1.ListOptions) *rest.Request {
		return c.rest.Get().NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.resource).VersionedParams(&o, c.params)
	}
	name := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			changed(key[strings.LastIndexByte(key, '/')+1:])
		}
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				into := k.list.DeepCopyObject()
				err := ask(o).Do(ctx).Into(into)
				k.asked(err)
				return into, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.Watch = true
				w, err := ask(o).Watch(ctx)
				k.asked(err)
				return w, err
			},
		},
		ObjectType: k.one,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: name, UpdateFunc: func(before, obj any) {
			if !k.same(before, obj) {
				name(obj)
			}
		}, DeleteFunc: name},
		Transform: slim,
	})
}

// slim drops what is not read: most of what a pod takes in memory.
func slim(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if p, ok := obj.(*corev1.Pod); ok {
		pods.Slim(p)
	}
	if n, ok := obj.(*corev1.Node); ok {
		n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
	}
	return obj, nil
}

// ErrorText is the error of a request in words for people, without the request's address.
func ErrorText(err error) string {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status.ErrStatus.Message
	}
	return err.Error()
}

// NeverAccepts reports whether an API server will never take an object as it is, rather than only
// not now.
func NeverAccepts(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// NamespaceRefuses reports whether an API server refuses something because of its namespace: there
// is none, Comb lacks the right, or its quota is used up.
func NamespaceRefuses(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// NamespaceGone reports whether an API server refuses something because there is no such namespace,
// or it is being deleted.
func NamespaceGone(err error) bool {
	var status *apierrors.StatusError
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		d := status.ErrStatus.Details
		return d != nil && d.Kind == "namespaces"
	}
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Missing reports whether there is no object of that name.
func Missing(err error) bool { return apierrors.IsNotFound(err) }

// Unanswered reports whether a request may have been done although it failed: no answer came, or
// one that does not say.
func Unanswered(err error) bool {
	status := (*apierrors.StatusError)(nil)
	return err != nil && (!errors.As(err, &status) || status.ErrStatus.Code >= http.StatusInternalServerError)
}

// Exists reports whether there is an object of that name already.
func Exists(err error) bool { return apierrors.IsAlreadyExists(err) }

// pageOf is a page of a list whose types are not in this program's client.
type pageOf[T any] struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []T             `json:"items"`
}
