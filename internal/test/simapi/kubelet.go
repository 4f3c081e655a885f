package simapi

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// beat is the time between two looks of all kubelets.
const beat = 2 * time.Millisecond

// gcBeats is after how many beats the pods of a removed node are ended.
const gcBeats = 50

// machine is one with a kubelet.
type machine struct {
	kubelet    bool                   // it looks at pods, and says what they do
	devices    map[string][]types.UID // which containers have each
	containers map[types.UID]*container
}

// kubelets are those of all machines, with the scheduler.
type kubelets struct{ *Server }

// container is one that was started.
type container struct {
	pod     string
	devices []string
	began   metav1.Time
	ends    int64 // the beat at which it ends by itself
	kill    int64 // or by its kubelet; 0 is never
	code    int32
	over    bool
	told    int64 // the version at which its end was told: that its pod has ended follows later
}

// AddNode makes a node with a kubelet, or brings one back, without containers.
func (s *Server) AddNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	s.machines[name] = &machine{kubelet: true, devices: map[string][]types.UID{},
		containers: map[types.UID]*container{}}
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint("node-", s.version))}}
	kubelets{s}.ready(n, true)
}

func (s kubelets) ready(n *corev1.Node, is bool) {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	if !is {
		c.Status, c.Message = corev1.ConditionFalse, "its kubelet has stopped"
	}
	n = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{c}
	s.put("nodes", n)
}

// Offer lets a device plugin offer so many of a resource on a node.
func (s *Server) Offer(node string, name corev1.ResourceName, count int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.objects["nodes"][node].(*corev1.Node).DeepCopy()
	n.Status.Capacity = corev1.ResourceList{name: *resource.NewQuantity(count, resource.DecimalSI)}
	s.put("nodes", n)
}

// Taint keeps pods that do not tolerate a taint off a node.
func (s *Server) Taint(node, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.objects["nodes"][node].(*corev1.Node).DeepCopy()
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	s.put("nodes", n)
}

// RemoveNode takes a machine away for good, with what runs on it.
func (s *Server) RemoveNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	delete(s.machines, name)
	if n := s.objects["nodes"][name]; n != nil {
		s.remove("nodes", n)
	}
	delete(s.objects["resourceslices"], name)
}

// Kubelet stops that of a node, or starts it again; containers run on meanwhile. It reports whether
// there is such a node.
func (s *Server) Kubelet(name string, runs bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, n := s.machines[name], s.objects["nodes"][name]
	if m == nil || n == nil {
		return false
	}
	if m.kubelet != runs {
		m.kubelet = runs
		kubelets{s}.ready(n.(*corev1.Node), runs)
	}
	return true
}

// PowerCycle ends all that runs on a machine, at once; its kubelet is there again.
func (s *Server) PowerCycle(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	m := s.machines[name]
	if m == nil {
		return
	}
	for uid, c := range m.containers {
		if !c.over {
			c.code = 137
			m.end(uid, c)
		}
	}
}

// DeletePod is a user with kubectl.
func (s *Server) DeletePod(key string) { s.Troubles.Delete(key, 30) }

// Strip is a user who takes the finalizers off a pod and deletes it: it is gone at once, and its
// kubelet ends its container after.
func (s *Server) Strip(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	o := s.objects["pods"][key]
	if o == nil {
		return
	}
	for _, m := range s.machines {
		if c := m.containers[o.GetUID()]; c != nil && !c.over {
			c.ends, s.finite = min(c.ends, s.tick+int64(s.rand.IntN(30))), true
		}
	}
	s.remove("pods", o)
}

// Copy is a user who makes a pod of what another says, in a namespace, and returns its key.
func (s *Server) Copy(from, space string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects["pods"][from].(*corev1.Pod).DeepCopy()
	o.Namespace, o.Spec.NodeName, o.Spec.SchedulerName, o.DeletionTimestamp, o.OwnerReferences = space, "", "", nil, nil
	s.make("pods", o)
	return keyOf(o)
}

// EndContainer lets the container of a pod end by itself, with a code.
func (s *Server) EndContainer(pod string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stirred = true
	for _, m := range s.machines {
		for uid, c := range m.containers {
			if c.pod == pod && !c.over {
				c.code = code
				m.end(uid, c)
			}
		}
	}
}

// Put makes a pod that no kubelet of this package looks at, or changes it. It is as it is given.
func (s *Server) Put(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if pod.UID == "" {
		pod.UID = types.UID(fmt.Sprintf("uid-%d", s.version+1))
	}
	s.foreign[keyOf(pod)] = true
	s.put("pods", pod)
}

// Drop removes what Put made.
func (s *Server) Drop(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects["pods"][keyOf(pod)]; o != nil {
		s.remove("pods", o)
	}
}

// Linger lets the containers that start from now on run until they are ended.
func (s *Server) Linger() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linger = true
}

// Gone is a line for Spoil: there the image of the container does not come.
const Gone = "gone"

// Spoil lets the container named comb that begins a pod fail on a node, with code 3 and a last
// line; with "" it does its work again.
func (s *Server) Spoil(node, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spoiled == nil {
		s.spoiled = map[string]string{}
	}
	s.spoiled[node] = line
}

// webhooks are what others in a cluster do to pods.
type webhooks struct {
	webhook func(*corev1.Pod)
	failing map[string]string // init containers that a webhook adds, and what they print
}

func (w *webhooks) change(pod *corev1.Pod) {
	if w.webhook != nil {
		w.webhook(pod)
	}
}

// Webhook changes each pod that is made from now on, as a mutating webhook of a cluster does; nil
// is none. Init containers that it adds in front do their work, unless FailAdded names them.
func (s *Server) Webhook(change func(*corev1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = change
}

// FailAdded lets the init containers of a name that a webhook adds fail on all nodes, with code 4
// and a last line; with Gone their images do not come; with "" they do their work.
func (s *Server) FailAdded(name, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil {
		s.failing = map[string]string{}
	}
	s.failing[name] = line
}

// added runs the init containers before that of Comb. told says that the pod shows something new,
// over that all have done their work. s.mu is held.
func (s kubelets) added(pod *corev1.Pod) (told, over bool) {
	list := &pod.Status.InitContainerStatuses
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		line := s.failing[c.Name]
		switch {
		case c.Name == "comb":
			return told, true
		case i < len(*list) && line == Gone:
			return false, false
		case i < len(*list) && (*list)[i].State.Terminated != nil:
			continue
		}
		now := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		if line == Gone {
			now.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}
		} else {
			now.State.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
		}
		if *list = append((*list)[:i], now); line == Gone {
			return true, false
		}
		if told = true; line != "" {
			end := (*list)[i].State.Terminated
			end.ExitCode, end.Reason, end.Message = 4, "Error", line+"\n"
			pod.Status.Phase = corev1.PodFailed
			return true, false
		}
	}
	return told, true
}

// first is the container named comb of a pod, and where its status belongs; nil for none.
func first(pod *corev1.Pod) (*corev1.Container, *[]corev1.ContainerStatus) {
	type containers struct {
		list []corev1.Container
		told *[]corev1.ContainerStatus
	}
	for _, c := range []containers{{pod.Spec.InitContainers, &pod.Status.InitContainerStatuses},
		{pod.Spec.Containers, &pod.Status.ContainerStatuses}} {
		for i := range c.list {
			if c.list[i].Name == "comb" {
				return &c.list[i], c.told
			}
		}
	}
	return nil, nil
}

// Unmark takes all annotations off a pod, as a tenant may.
func (s *Server) Unmark(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod, ok := s.objects["pods"][key].(*corev1.Pod); ok {
		pod = pod.DeepCopy()
		pod.Annotations = nil
		s.put("pods", pod)
	}
}

// Unlabel takes all labels off a pod, as a tenant may.
func (s *Server) Unlabel(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod, ok := s.objects["pods"][key].(*corev1.Pod); ok {
		pod = pod.DeepCopy()
		pod.Labels = nil
		s.put("pods", pod)
	}
}

// Label is a label of a pod.
func (s *Server) Label(key, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects["pods"][key]; o != nil {
		return o.GetLabels()[name]
	}
	return ""
}

// Runs reports whether a container of a pod runs somewhere.
func (s *Server) Runs(pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		for _, c := range m.containers {
			if c.pod == pod && !c.over {
				return true
			}
		}
	}
	return false
}

// Both is a device of a node that the containers of two pods held at the same time.
type Both struct{ Device, Node, First, Second string }

// Twice tells which devices two containers held at the same time.
func (s *Server) Twice() []Both {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.twice)
}

// Began counts the containers that were started and are known of.
func (s *Server) Began() int { return s.Asked()["containers"] }

// run is the clock of all kubelets, and of the scheduler.
func (s *Server) run() {
	for {
		select {
		case <-s.end:
			return
		case <-time.After(beat):
		}
		s.mu.Lock()
		s.tick++
		names := kubelets{s}.restless()
		for _, name := range names {
			kubelets{s}.see(s.objects["pods"][name].(*corev1.Pod).DeepCopy())
		}
		kubelets{s}.collect()
		if s.finite { // else there may be very many
			kubelets{s}.endOld()
		}
		s.news.Broadcast()
		s.mu.Unlock()
	}
}

// endOld ends the containers that have run for as long as they do, with or without a kubelet. s.mu
// is held.
func (s kubelets) endOld() {
	for _, m := range s.machines {
		for uid, c := range m.containers {
			if !c.over && s.tick >= c.ends {
				m.end(uid, c)
				s.stirred = true
			}
		}
	}
}

// restless are the pods that see may move on, in order: those that were changed since the last
// time, and all where something happened to machines or containers. s.mu is held.
func (s kubelets) restless() (names []string) {
	if s.stirred {
		for name := range s.objects["pods"] {
			s.changed[name] = true
		}
		s.stirred = false
	}
	for name := range s.changed {
		o := s.objects["pods"][name]
		if o == nil || s.foreign[name] || s.rests(o.(*corev1.Pod)) {
			delete(s.changed, name)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *machine) end(uid types.UID, c *container) {
	c.over = true
	for _, d := range c.devices {
		m.devices[d] = slices.DeleteFunc(m.devices[d], func(has types.UID) bool { return has == uid })
	}
}

// rests reports whether see would do nothing with a pod: there may be many such. s.mu is held.
func (s kubelets) rests(pod *corev1.Pod) bool {
	m := s.machines[pod.Spec.NodeName]
	if m == nil || pod.DeletionTimestamp != nil {
		return false
	}
	c := m.containers[pod.UID]
	return ended(pod) || c != nil && !c.over && pod.Status.PodIP != ""
}

// see moves one pod on. s.mu is held.
func (s kubelets) see(pod *corev1.Pod) {
	deleted := pod.DeletionTimestamp != nil
	if deleted && len(pod.Finalizers) == 0 && (pod.Spec.NodeName == "" || ended(pod)) {
		s.remove("pods", pod)
		return
	}
	node := pod.Spec.NodeName
	if node == "" {
		node = asks(pod)
		m := s.machines[node]
		switch {
		case pod.Spec.SchedulerName != "" || m == nil || !m.kubelet || deleted || s.rand.IntN(4) > 0:
		case s.releases(m, pod): // a scheduler waits for that
		case s.allocate(pod, node):
			pod.Spec.NodeName, pod.Status.Conditions = node, nil
			s.put("pods", pod)
		case len(pod.Status.Conditions) == 0:
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: 1 cannot allocate all claims"}}
			s.put("pods", pod)
		}
		return
	}
	m := s.machines[node]
	switch {
	case m == nil:
		if s.tick%gcBeats == 0 && !ended(pod) && !s.Troubles.orphans {
			pod.Status.Phase = corev1.PodFailed
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
			now := metav1.Now()
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, new(int64)
			s.put("pods", pod)
		}
	case m.kubelet && !ended(pod):
		s.sync(m, pod)
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// asks is the node to which a pod's affinity binds it.
func asks(pod *corev1.Pod) string {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// sync is a kubelet that looks at one of its pods. s.mu is held.
func (s kubelets) sync(m *machine, pod *corev1.Pod) {
	deleted := pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds <= longestGrace
	c := m.containers[pod.UID]
	switch {
	case c == nil && pod.Status.PodIP != "": // the machine came anew: its container is lost
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "NodeShutdown"
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}
	case c == nil && deleted:
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Deleted"
	case c == nil && s.Troubles.refusals[pod.Spec.NodeName] != "":
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, s.Troubles.refusals[pod.Spec.NodeName]
	case c == nil && s.releases(m, pod):
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, OutOfDevices
	case c == nil:
		if told, over := s.added(pod); told && !over {
			break
		} else if !over || s.rand.IntN(4) > 0 {
			return
		}
		if one, told := first(pod); one != nil {
			line := s.spoiled[pod.Spec.NodeName]
			if line == Gone && len(*told) > 0 && (*told)[len(*told)-1].Name == one.Name {
				return
			}
			if line == Gone {
				waits := &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}
				state := corev1.ContainerState{Waiting: waits}
				*told = append(*told, corev1.ContainerStatus{Name: one.Name, State: state})
				break
			}
			end := &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
			*told = slices.DeleteFunc(*told, func(c corev1.ContainerStatus) bool { return c.Name == one.Name })
			*told = append(*told, corev1.ContainerStatus{Name: one.Name, State: corev1.ContainerState{Terminated: end}})
			if line != "" {
				end.ExitCode, end.Reason, end.Message = 3, "Error", "it begins\n"+line+"\n"
			}
			if line != "" || told == &pod.Status.ContainerStatuses {
				if pod.Status.Phase = corev1.PodSucceeded; line != "" {
					pod.Status.Phase = corev1.PodFailed
				}
				break
			}
		}
		c = s.start(m, pod)
		pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.1"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, ContainerID: "sim://" + string(pod.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.began}}}}
	case c.told > 0 && (s.Troubles.slow || s.rand.IntN(4) > 0):
		return
	case c.told > 0:
		pod.Status.Phase = corev1.PodSucceeded
		if c.code != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
	case c.over:
		c.told = s.version + 1
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: c.code, StartedAt: c.began, FinishedAt: metav1.Now()}}
	case deleted && c.kill == 0:
		c.kill = s.tick + int64(s.rand.IntN(20))
		return
	case deleted && s.tick >= c.kill:
		c.code = 143
		m.end(pod.UID, c)
		return
	default:
		return
	}
	s.put("pods", pod)
}

// OutOfDevices is why a kubelet refuses a pod: the devices that it is given are of a pod that has
// not ended, although its container has.
const OutOfDevices = "OutOfDevices"

// releases reports whether the devices of a pod are still those of another one, of which it was
// told before this one was made that its container has ended. s.mu is held.
func (s kubelets) releases(m *machine, pod *corev1.Pod) bool {
	var made int64 // the version at which it was made
	_, _ = fmt.Sscanf(string(pod.UID), "uid-%d", &made)
	for _, c := range m.containers {
		other, there := s.objects["pods"][c.pod].(*corev1.Pod)
		shares := func(d string) bool { return slices.Contains(c.devices, d) }
		if c.told > 0 && c.told < made && there && !ended(other) && m.containers[other.UID] == c && slices.ContainsFunc(devicesOf(pod), shares) {
			return true
		}
	}
	return false
}

// devicesOf are those that the variables of a pod give it.
func devicesOf(pod *corev1.Pod) []string {
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == "NVIDIA_VISIBLE_DEVICES" && e.Value != "void" {
			return strings.Split(e.Value, ",")
		}
	}
	return nil
}

// start starts a container, and notes when it is given a device that another one has. s.mu is held.
func (s kubelets) start(m *machine, pod *corev1.Pod) *container {
	c := &container{pod: keyOf(pod), began: metav1.Now(), ends: s.tick + 5 + int64(s.rand.IntN(1000)), code: []int32{0, 0, 1, 3}[s.rand.IntN(4)]}
	if s.linger {
		c.ends = math.MaxInt64
	} else {
		s.finite = true
	}
	c.devices = devicesOf(pod)
	for _, claim := range s.claimsOf(pod) {
		for _, given := range claim.Status.Allocation.Devices.Results {
			c.devices = append(c.devices, given.Device)
		}
	}
	for _, d := range c.devices {
		for _, had := range m.devices[d] {
			s.twice = append(s.twice, Both{d, pod.Spec.NodeName, m.containers[had].pod, c.pod})
		}
		m.devices[d] = append(m.devices[d], pod.UID)
	}
	m.containers[pod.UID] = c
	s.asked["containers"]++
	return c
}

// log answers with what a container printed, when it has ended.
func (s kubelets) log(w http.ResponseWriter, r *http.Request, pod string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for r.Context().Err() == nil && s.Runs(pod) && !s.over() {
		time.Sleep(5 * beat)
	}
	fmt.Fprintf(w, "%s it has ended\n", time.Now().UTC().Format(time.RFC3339Nano))
}

// Simulate marks a node as one that kwok plays: it has no logs.
func (s *Server) Simulate(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.objects["nodes"][node].(*corev1.Node).DeepCopy()
	n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	s.put("nodes", n)
}
