package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/test/simapi"
)

// of starts a gang of a virtual cluster, with a task on each of some nodes, and runs until it is
// ended.
func (d *driver) of(vc cell.VCName, nodes ...cell.NodeName) model.AttemptID {
	return d.ofJob(&model.Job{UID: 4001, GID: 4000, VC: vc}, nodes...)
}

// ofJob is of, with more that the job says.
func (d *driver) ofJob(job *model.Job, nodes ...cell.NodeName) model.AttemptID {
	for _, n := range nodes {
		d.until(string(n)+" is told to be up", func() bool { return !d.isDown(string(n)) })
	}
	d.mu.Lock()
	d.next++
	at := model.AttemptID{Job: d.next, N: 1}
	job.Name, job.User, job.Grace = "job", "u", model.Second
	job.Roles = []model.Role{{Name: "main", Tasks: int32(len(nodes)), Launch: model.Launch{Image: "image:1", Command: []string{"train"}}}}
	start := &model.Start{ID: d.next, Job: job}
	for i, n := range nodes {
		start.Tasks = append(start.Tasks, model.TaskStart{Task: int32(i), Index: int32(i), SKU: skuOn(string(n)), Place: cell.Task{Node: n, SKU: "GPU", Devices: []int32{int32(d.next) % simGPUs}}})
	}
	d.gangs[at] = &gangOf{start: start, done: map[int32]bool{}}
	d.mu.Unlock()
	d.e.Do(model.Action{Attempt: at, Start: start})
	return at
}

// runsIn waits until a task runs, and wants its pod in a namespace.
func (d *driver) runsIn(space string, at model.AttemptID, n int32) {
	d.t.Helper()
	d.until("it runs", func() bool { return d.api.Runs(d.podOf(at, n)) })
	in, _, other := strings.Cut(d.podOf(at, n), "/")
	if !other {
		in = simapi.Home
	}
	if in != space {
		d.t.Errorf("task %d of %v is in namespace %s, want %s", n, at, in, space)
	}
}

// Each virtual cluster's pods go to its own namespace. Those that run stay where they are when it
// has another, also for the next server.
func TestNamespaces(t *testing.T) {
	d := newDriver(t, 1)
	d.api.Linger()
	own, red, moves := d.of("v", "n0"), d.of("red", "n0"), d.of("moves", "n0", "n2")
	d.runsIn("comb", own, 0)
	d.runsIn("red", red, 0)
	d.runsIn("red", moves, 0)
	d.move("blue")
	blue := d.of("moves", "n2")
	d.runsIn("blue", blue, 0)
	d.restart()
	d.runsIn("red", moves, 1)
	d.runsIn("blue", blue, 0)
	if got := d.api.Objects("services"); len(got) != 1 || !strings.HasPrefix(got[0], "red/") {
		t.Errorf("there are the services %v, want that of the gang in namespace red", got)
	}
	d.move("")
	d.runsIn("comb", d.of("moves", "n0"), 0)
	d.finish()
}

// A gang of which the server made some pods before it was killed goes on where these are.
func TestNamespaceOfAGang(t *testing.T) {
	d := newDriver(t, 2)
	d.api.Linger()
	at := d.of("moves", "n0")
	d.runsIn("red", at, 0)
	d.e.Close()
	d.mu.Lock()
	whole := *d.gangs[at].start
	whole.Tasks = append(slices.Clone(whole.Tasks), model.TaskStart{Task: 1, Index: 1, SKU: skuOn("n2"), Place: cell.Task{Node: "n2", SKU: "GPU", Devices: []int32{0}}})
	d.gangs[at].start = &whole
	d.mu.Unlock()
	d.move("blue")
	d.restart()
	d.runsIn("red", at, 1)
	for n := range int32(2) { // also one that another server makes has the numbers of the job
		d.runsAs(at, n, "4001:4000")
	}
	d.finish()
}

// runsAs wants the pod of a task to run with numbers.
func (d *driver) runsAs(at model.AttemptID, n int32, want string) {
	d.t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(d.api.Text("pods", d.podOf(at, n))), &pod); err != nil {
		d.t.Fatal(err)
	}
	c := pod.Spec.SecurityContext
	if got := fmt.Sprintf("%d:%d", *c.RunAsUser, *c.RunAsGroup); got != want {
		d.t.Errorf("task %d of %v runs as %s, want %s", n, at, got, want)
	}
}

// Pods of a job that was submitted before jobs kept numbers have those that its user has when the
// attempt starts, asked once, and none is made where the account is gone.
func TestJobFromBeforeNumbers(t *testing.T) {
	d := newDriver(t, 4)
	d.api.Linger()
	var asked atomic.Int32
	var gone atomic.Bool
	d.identity = func(user model.Subject) (executor.Identity, error) {
		if gone.Load() {
			return executor.Identity{}, fmt.Errorf("user %s does not exist", user)
		}
		return executor.Identity{UID: 5000 + uint32(asked.Add(1)), GID: 4000}, nil
	}
	d.restart()
	before := func() *model.Job {
		job := new(model.Job)
		if err := json.Unmarshal([]byte(`{"vc": "v"}`), job); err != nil {
			t.Fatal(err)
		}
		return job
	}
	old, kept, none := d.ofJob(before(), "n0", "n2"), d.of("v", "n0"), d.ofJob(&model.Job{VC: "v", Numbered: true}, "n0")
	for at, want := range map[model.AttemptID][]string{old: {"5001:4000", "5001:4000"}, kept: {"4001:4000"}, none: {"1000:1000"}} {
		for n, as := range want {
			d.runsIn("comb", at, int32(n))
			d.runsAs(at, int32(n), as)
		}
	}
	gone.Store(true)
	lost := d.ofJob(before(), "n0")
	const why = "and those of user u are not known now: user u does not exist; submit the job again"
	d.until("it is refused", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return strings.HasSuffix(d.refused[lost], why)
	})
	d.finish()
}

// What the API server does not allow in a namespace holds up no other, and is no node's fault; it
// works once it is allowed.
func TestNamespaceWithoutRights(t *testing.T) {
	d := newDriver(t, 3)
	d.api.Linger()
	d.api.Forbid("red", true)
	at, other := d.of("red", "n0"), d.of("v", "n0")
	d.runsIn("comb", other, 0)
	exit := func(at model.AttemptID) model.Exit {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.ended[at]
	}
	d.until("it is said why it does not start", func() bool {
		e := exit(at)
		return e.Cause == model.NeverStarted && strings.Contains(e.Message, "Comb cannot see the pods of namespace red: ") && strings.Contains(e.Message, "may not be asked for")
	})
	if why := d.whyRefused(at); why != "" {
		t.Errorf("its node is blamed: %s", why)
	}
	if list := d.e.Conditions(); len(list) != 1 || !list[0].Admin || !strings.HasPrefix(list[0].Text, "nothing starts in namespace red, and what becomes of its pods is not known: ") {
		t.Errorf("administrators are told %+v", list)
	}
	d.restart() // nor does it hold up the next server
	d.runsIn("comb", other, 0)
	d.until("n0 is told to be up", func() bool { return !d.isDown("n0") })
	d.api.Forbid("red", false)
	again := model.AttemptID{}
	d.until("it runs when it may", func() bool {
		if again.Job == 0 || exit(again).Cause != "" {
			again = d.of("red", "n0")
		}
		return d.api.Runs(d.podOf(again, 0))
	})
	d.api.Forbid("red", true)
	d.restart()
	if d.e.Adopted(t.Context()); !kube.AllAdopted(d.e) {
		t.Error("a server waits for a task that cannot be seen")
	}
	if e := exit(again); e.Cause != "" || !d.api.Runs(d.podOf(again, 0)) {
		t.Errorf("a task that cannot be seen is told to have ended: %+v", e)
	}
	d.api.Forbid("red", false)
	d.finish()
}

// Where Kubernetes refuses something because of a namespace, what is told says what to do.
func TestNamespaceNext(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	lacks := apierrors.NewForbidden(pods, "p", errors.New(`User "system:serviceaccount:comb:comb" cannot create resource "pods" in API group "" in the namespace "team-a"`))
	ending := apierrors.NewForbidden(pods, "p", errors.New("unable to create new content in namespace team-a because it is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, c := range []struct {
		own  bool
		err  error
		want string
	}{
		{false, lacks, "; an administrator gives Comb its rights: kubectl apply -n team-a -f deploy/kubernetes/team.yaml"},
		{true, lacks, "; an administrator gives Comb its rights: kubectl apply -n team-a -f deploy/kubernetes/rights.yaml"},
		{false, ending, "; an administrator makes it anew: kubectl create namespace team-a, and kubectl apply -n team-a -f deploy/kubernetes/team.yaml"},
		{false, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team-a"), "; an administrator makes it anew: kubectl create namespace team-a, and kubectl apply -n team-a -f deploy/kubernetes/team.yaml"},
		{false, apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")), "; it starts when the quota has room"},
		{false, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, "c"), ""},
		{false, apierrors.NewForbidden(pods, "p", errors.New(`violates PodSecurity "restricted:latest"`)), ""},
	} {
		if got := kube.NamespaceNext("team-a", c.own, c.err); got != c.want {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

// noted are the namespaces that the next server looks into for pods.
func (d *driver) noted() string {
	text, err := os.ReadFile(filepath.Join(d.dir, "pod-namespaces"))
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// In which namespaces pods are is written without any of the executor's locks: a slow disk holds up
// what starts in a new one alone.
func TestSlowDiskUnderNamespaces(t *testing.T) {
	d := newDriver(t, 6)
	d.api.Linger()
	red := d.of("red", "n0")
	d.runsIn("red", red, 0)
	pipe := filepath.Join(d.dir, "pod-namespaces.new")
	slow := func() (goesOn func()) { // the file cannot be opened before there is a reader
		t.Helper()
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := os.Rename(pipe, pipe+".read"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile(pipe + ".read"); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(pipe + ".read"); err != nil {
				t.Fatal(err)
			}
		}
	}
	goesOn := slow()
	d.move("blue")
	blue := d.of("moves", "n2")
	d.until("it is being noted", func() bool { return kube.Notes(d.e) })
	more := d.of("red", "n0")
	d.runsIn("red", more, 0)
	if pod := d.podOf(blue, 0); pod != "" {
		t.Errorf("the pod %s was made before it was noted that it may be there", pod)
	}
	goesOn()
	d.runsIn("blue", blue, 0)
	if got := d.noted(); got != "blue comb red" {
		t.Errorf("the namespaces %s are noted", got)
	}
	d.end(blue)
	d.until("nothing is there", func() bool { return d.podOf(blue, 0) == "" })
	goesOn = slow()
	done := make(chan struct{})
	d.until("the namespace is closed", func() bool { // once the end of the task is settled
		go func() {
			defer close(done)
			kube.CloseSpaces(d.e)
		}()
		returned := false
		d.until("it is closed, or not", func() bool {
			select {
			case <-done:
				returned = true
			default:
			}
			return returned || !kube.Watches(d.e, "blue")
		})
		if returned {
			done = make(chan struct{})
		}
		return !returned // it is about to note that
	})
	d.end(red)
	d.until("it has ended", func() bool { return !slices.Contains(d.live(), red) })
	goesOn()
	<-done
	d.finish()
}

// Namespaces without tasks are forgotten, those with tasks are not.
func TestNamespacesAreForgotten(t *testing.T) {
	d := newDriver(t, 7)
	d.api.Linger()
	red, blue := d.of("red", "n0"), model.AttemptID{}
	d.move("blue")
	blue = d.of("moves", "n2")
	d.runsIn("red", red, 0)
	d.runsIn("blue", blue, 0)
	d.end(red)
	d.until("red is forgotten", func() bool {
		kube.CloseSpaces(d.e)
		return d.noted() == "blue comb"
	})
	d.runsIn("red", d.of("red", "n0"), 0)
	if got := d.noted(); got != "blue comb red" {
		t.Errorf("the namespaces %s are noted", got)
	}
	d.finish()
}

// A task whose record was lost is not started anew, nor said to have ended, while its pod may be in
// a namespace that cannot be seen.
func TestLostRecordInANamespaceUnseen(t *testing.T) {
	for _, stops := range []bool{false, true} {
		d := newDriver(t, 5)
		d.api.Linger()
		at := d.of("moves", "n0")
		d.runsIn("red", at, 0)
		d.e.Close()
		if err := os.RemoveAll(filepath.Join(d.dir, "jobs")); err != nil {
			t.Fatal(err)
		}
		d.move("blue")
		d.api.Forbid("red", true)
		d.restart()
		if stops {
			d.end(at)
		}
		if d.e.Adopted(t.Context()); !kube.AllAdopted(d.e) {
			t.Error("a server waits for a task that cannot be seen")
		}
		d.until("it is said what it waits for", func() bool { return d.told("Notice") > 0 })
		d.runsIn("blue", d.of("moves", "n2"), 0)
		d.looks("red", 1, false)
		if pods := d.api.Objects("pods"); len(pods) != 2 || !slices.Contains(d.live(), at) {
			t.Errorf("stopped %v: there are the pods %v for two tasks; of the first it is told that it ended: %v", stops, pods, !slices.Contains(d.live(), at))
		}
		d.api.Forbid("red", false)
		if stops {
			d.until("it has ended", func() bool { return !slices.Contains(d.live(), at) })
		} else {
			d.looks("red", 2, true) // a list, and behind it what is watched
			d.runsIn("red", at, 0)
		}
		d.finish()
	}
}

// looks waits until the pods of a namespace were asked for so many times more, and that was
// allowed, or was not.
func (d *driver) looks(space string, more int, allowed bool) {
	d.t.Helper()
	looks := func() int {
		asked := d.api.Asked()
		refused := asked["GET pods refused in "+space]
		if allowed {
			return asked["GET pods in "+space] - refused
		}
		return refused
	}
	before := looks()
	d.until("the pods of namespace "+space+" are asked for", func() bool { return looks() >= before+more })
}

// forge makes a pod that is a copy of another.
func (d *driver) forge(from, space string) string {
	key := d.api.Copy(from, space)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forged = append(d.forged, key)
	return key
}

// A pod that a user makes of what Comb wrote on another counts for nothing: neither in another
// namespace, nor when that one has ended, nor when its job is forgotten.
func TestForgedPods(t *testing.T) {
	d := newDriver(t, 4)
	d.api.Linger()
	red, blue := d.of("red", "n0"), d.of("moves", "n2")
	d.runsIn("red", red, 0)
	d.runsIn("red", blue, 0)
	pod := d.podOf(red, 0)
	copied := d.forge(pod, "blue")
	d.move("blue")
	d.runsIn("blue", d.of("moves", "n2"), 0) // so that it is watched
	d.end(red)
	d.until("the pod is gone", func() bool { return !slices.Contains(d.live(), red) && !slices.Contains(d.api.Objects("pods"), pod) })
	later := d.forge(copied, "red")
	d.restart()
	d.runsIn("red", d.of("red", "n0"), 0)
	d.until("its job is forgotten", func() bool { return d.e.Forget(red.Job) == nil })
	for range 2 {
		if d.e.EndStrays(nil); d.isDown("n0") {
			t.Fatal("a copy of a pod of a forgotten job takes its node down")
		}
		d.restart()
		d.runsIn("red", d.of("red", "n0"), 0)
	}
	for _, key := range []string{copied, later} {
		if !slices.Contains(d.api.Objects("pods"), key) || strings.Contains(d.api.Text("pods", key), "deletionTimestamp") {
			t.Errorf("the pod %s, which is a user's, was deleted", key)
		}
	}
	d.api.Strip(copied)
	d.api.Strip(later)
	d.finish()
}

// A node stays down for a task that counts as lost also where the next server may not see the
// namespace of its pod.
func TestLostInANamespaceUnseen(t *testing.T) {
	d := newDriver(t, 8)
	d.api.Linger()
	red := d.of("red", "n0")
	d.runsIn("red", red, 0)
	d.api.Kubelet("n0", false)
	d.until("n0 is told to be down", func() bool { return d.isDown("n0") })
	d.declareDead("n0")
	kept := filepath.Join(d.dir, "pod-fenced")
	d.until("it is noted", func() bool { text, err := os.ReadFile(kept); return err == nil && len(text) > 0 })
	d.api.Forbid("red", true)
	d.restart()
	d.api.Kubelet("n0", true)
	d.until("it is said why n0 is down", func() bool { return strings.Contains(d.whyDown("n0"), "count as lost") })
	d.runsIn("comb", d.of("v", "n2"), 0)
	if err := d.e.Forget(red.Job); err == nil {
		t.Error("its job is forgotten, and a pod of it may be there")
	}
	if why := d.whyDown("n0"); !strings.Contains(why, "may still be there, in namespace red") {
		t.Errorf("n0 is down: %s", why)
	}
	d.looks("red", 1, false)
	if d.e.EndStrays(nil); !d.isDown("n0") {
		t.Error("n0 is told to be up, and a container that counts as lost may run there")
	}
	d.api.Forbid("red", false)
	d.until("n0 is told to be up", func() bool { d.e.EndStrays(nil); return !d.isDown("n0") })
	d.until("nothing is noted", func() bool { text, err := os.ReadFile(kept); return err == nil && len(text) == 0 })
	d.finish()
}

// A tenant that takes the seal off a pod does not free its node: the record says that Comb made it.
func TestLostWithoutItsSeal(t *testing.T) {
	d := newDriver(t, 9)
	d.api.Linger()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.api.Kubelet("n0", false)
	d.until("n0 is told to be down", func() bool { return d.isDown("n0") })
	pod := d.podOf(at, 0)
	d.declareDead("n0")
	d.e.Close()
	d.api.Unmark(pod)
	d.restart()
	d.until("it is ended", func() bool { return strings.Contains(d.api.Text("pods", pod), "deletionTimestamp") })
	d.api.Kubelet("n0", true)
	d.until("n0 is told to be up", func() bool { d.e.EndStrays(nil); return !d.isDown("n0") }) // not before its container has ended: hear says so
	d.finish()
}

// A server is killed before it is noted that a pod has all that it needs. A user takes the pod away
// meanwhile, with its finalizers: its container may run on, so no other is made in its place.
// Without its seal the pod is still the task's.
func TestKilledWhileAPodIsMade(t *testing.T) {
	for seed, what := range []string{"the pod is taken away", "its annotations are"} {
		t.Run(what, func(t *testing.T) {
			d := newDriver(t, uint64(9+seed))
			d.api.Linger()
			at := d.of("red", claimed) // its claim is made after its pod
			d.runsIn("red", at, 0)
			pod := d.podOf(at, 0)
			d.e.Close()
			d.cutRecord(at)
			if seed == 0 {
				d.mu.Lock()
				d.stripped[taskOf{at, 0}] = pod
				d.mu.Unlock()
				d.api.Strip(pod)
			} else {
				d.api.Unmark(pod)
			}
			d.restart()
			d.until("it is known again, or told to be unknown", func() bool {
				d.mu.Lock()
				_, unknown := d.unknown[taskOf{at, 0}]
				d.mu.Unlock()
				text, err := os.ReadFile(d.recordOf(at))
				return unknown || err == nil && strings.Contains(string(text), `"uid"`)
			})
			d.mu.Lock()
			if exit, ended := d.ended[at]; ended || (len(d.unknown) == 1) != (seed == 0) {
				t.Errorf("told to have ended: %v %+v; unknown: %v", ended, exit, d.unknown)
			}
			d.mu.Unlock()
			if n := d.api.Began(); n != 1 {
				t.Errorf("%d containers were started for one task", n)
			}
			d.finish()
		})
	}
}

func (d *driver) recordOf(at model.AttemptID) string {
	return filepath.Join(d.dir, "jobs", strconv.FormatInt(int64(at.Job), 10), "0.1", "pods")
}

// cutRecord leaves of the record of a task what was noted before its pod had all that it needs.
func (d *driver) cutRecord(at model.AttemptID) {
	d.t.Helper()
	text, err := os.ReadFile(d.recordOf(at))
	if err != nil {
		d.t.Fatal(err)
	}
	before, _, noted := strings.Cut(string(text), `0 {"uid"`)
	if !noted || !strings.Contains(before, `"made"`) {
		d.t.Fatalf("its record is %q: which pod was made is not noted before all else", text)
	}
	if err := os.WriteFile(d.recordOf(at), []byte(before), 0o600); err != nil {
		d.t.Fatal(err)
	}
}
