package kube_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/seeds"
	"github.com/combsched/comb/internal/test/simapi"
	"github.com/combsched/comb/internal/test/testkit"
)

const (
	simNodes = 3
	simGPUs  = 4
)

// gangOf is what the driver knows of one attempt.
type gangOf struct {
	start *model.Start   // replaced when it changes: the executor has it, too
	done  map[int32]bool // tasks that need their GPUs no more
	stop  bool
}

// pair are two attempts that were given the same GPUs, the older first.
type pair [2]model.AttemptID

// driver gives GPUs to gangs as the core does: a GPU is free when the executor has told so, and a
// node takes no task while it is told to be down.
type driver struct {
	t    *testing.T
	dir  string // of its data
	r    *rand.Rand
	api  *simapi.Server
	open func() *kube.Executor
	e    *kube.Executor

	mu      sync.Mutex
	gangs   map[model.AttemptID]*gangOf
	taken   map[string]int // how many gangs have it, by node/device
	mates   map[pair]bool
	turned  bool // some rotation has a member less
	down    map[string]bool
	removed map[string]bool
	why     map[string]string
	silent  map[string]bool     // its kubelet is stopped
	lost    map[string][]string // pods that count as lost, by node
	next    model.JobID
	forged  []string       // pods that are no task's
	space   string         // the namespace of the VC moves now
	began   map[string]int // tasks that started, by VC
	others  strangers
	ups     map[string]time.Time // when a node was told to be up first, where a test asks for it
	facts   map[string]int
	claims  int // tasks that started with claims
	refused map[model.AttemptID]string
	ended   map[model.AttemptID]model.Exit // how the last of its tasks did
	// stripped are the pods that a user took away with their finalizers, unknown those of them of
	// which the executor said that it knows nothing.
	stripped, unknown map[taskOf]string
	identity          func(model.Subject) (executor.Identity, error) // nil asks for none
	change            func(*kube.Options)                            // nil changes nothing
	jobFaults         []model.AttemptID                              // refused by their jobs' own fault
	spared            []model.AttemptID                              // refused, and their nodes are not to blame
	whyEnded          func(kube.Ending) string                       // nil: nothing is said
	link              *pods.ServerLink                               // nil: pods do not speak to the server
	log               *slog.Logger                                   // nil: none
	// secrets are those of each job; nil: none. pulls are the server's own pull secrets.
	secrets func(model.JobID) (map[string]string, error)
	pulls   []string
}

// taskOf is one task of an attempt.
type taskOf struct {
	at model.AttemptID
	n  int32
}

func newDriver(t *testing.T, seed uint64) *driver {
	d := &driver{t: t, r: rand.New(rand.NewPCG(seed, 27)), api: simapi.New(seed), gangs: map[model.AttemptID]*gangOf{}, taken: map[string]int{}, mates: map[pair]bool{},
		down: map[string]bool{}, removed: map[string]bool{}, why: map[string]string{}, silent: map[string]bool{}, lost: map[string][]string{}, space: "red", began: map[string]int{}, facts: map[string]int{}, refused: map[model.AttemptID]string{}, ended: map[model.AttemptID]model.Exit{},
		stripped: map[taskOf]string{}, unknown: map[taskOf]string{}}
	for i := range simNodes {
		d.addNode(nodeOf(i))
		d.down[nodeOf(i)] = true // until it is told to be up
	}
	dir := t.TempDir()
	d.dir = dir
	config := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", d.api.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.open = func() *kube.Executor {
		client, err := api.Open(api.Options{Kubeconfig: config, Namespace: "comb", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		o := kube.Options{API: client, Dir: filepath.Join(dir, "jobs"), KeyFile: filepath.Join(dir, "key"), Cluster: "c",
			Tell: d.hear, Namespace: d.namespaceOf, Identity: d.identity, ServerLink: d.link, Log: d.log, WhyEnded: d.whyEnded, Secrets: d.secrets, PullSecrets: d.pulls,
			Limits: kube.Limits{Binding: 3 * time.Second, Image: 3 * time.Second, Log: 200 * time.Millisecond,
				Gone: 300 * time.Millisecond}}
		if d.change != nil {
			d.change(&o)
		}
		e, err := kube.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	d.e = d.open()
	d.e.EndStrays(nil)
	t.Cleanup(func() {
		d.e.Close()
		d.api.Close()
	})
	return d
}

// namespaceOf is where the pods of a virtual cluster go now.
func (d *driver) namespaceOf(vc cell.VCName) (space string, known bool) {
	switch vc {
	case "red":
		return "red", true
	case "moves":
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.space, true
	}
	return "", true
}

// move gives a VC another namespace.
func (d *driver) move(space string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = space
}

func nodeOf(i int) string { return fmt.Sprint("n", i) }

// claimed is the node whose GPUs are given by claims.
const claimed = "n1"

// addNode makes a node, or brings one back.
func (d *driver) addNode(name string) {
	d.api.AddNode(name)
	if name == claimed {
		d.api.AddDevices(name, "gpu.sim.test", simGPUs)
	}
}

// skuOn is the type of the GPUs of a node.
func skuOn(node string) cell.SKU {
	s := cell.SKU{Name: "GPU", Device: cell.NVIDIA, GPU: 1}
	if node == claimed {
		s.DRA = cell.DRA{Class: "gpu", Driver: "gpu.sim.test", Device: "gpu-%d", Attribute: "uuid"}
	}
	return s
}

func keyOf(node cell.NodeName, device int32) string { return fmt.Sprintf("%s/%d", node, device) }

// podOf is the name of a task's pod.
func (d *driver) podOf(at model.AttemptID, n int32) string {
	for _, name := range d.api.Objects("pods") {
		if strings.HasSuffix(name, fmt.Sprintf("-%d-%d-%d-%d", at.Job, at.Gang, at.N, n)) && !slices.Contains(d.forged, name) {
			return name
		}
	}
	return ""
}

// hear takes what the executor tells.
func (d *driver) hear(f model.Fact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.facts[strings.TrimPrefix(fmt.Sprintf("%T", f), "model.")]++
	switch f := f.(type) {
	case model.TaskStarted:
		if g := d.gangs[f.Attempt]; g != nil {
			d.began[string(g.start.Job.VC)]++
		}
		d.hasDevices(f.Attempt, f.Task)
	case model.TaskExited:
		d.ended[f.Attempt] = f.Exit
		d.free(f.Attempt, f.Task, fmt.Sprintf("ended with %+v", f.Exit))
	case model.TaskRefused:
		if g := d.gangs[f.Attempt]; g != nil && !g.start.Job.Hints.Suspendable && strings.Contains(f.Reason, simapi.OutOfDevices) {
			d.t.Errorf("task %d of %v was bound before its node was free: %s", f.Task, f.Attempt, f.Reason)
		}
		d.refused[f.Attempt] = f.Reason
		if f.Fetch {
			d.spared = append(d.spared, f.Attempt)
		}
		if f.Job {
			d.jobFaults = append(d.jobFaults, f.Attempt)
		}
		d.free(f.Attempt, f.Task, "refused: "+f.Reason)
	case model.TaskUnknown:
		pod := d.stripped[taskOf{f.Attempt, f.Task}]
		if pod == "" {
			d.t.Errorf("nothing is known of task %d of %v: %s", f.Task, f.Attempt, f.Reason)
		}
		d.unknown[taskOf{f.Attempt, f.Task}] = pod
	case model.LeafHealth:
		d.others.heard(d.t, f)
	case model.NodeHealth:
		for _, pod := range d.lost[string(f.Node)] {
			if f.Up && d.api.Runs(pod) {
				d.t.Errorf("node %s is told to be up, and a container of %s, which counts as lost, runs there", f.Node, pod)
			}
		}
		d.down[string(f.Node)], d.why[string(f.Node)] = !f.Up, f.Reason
		if _, told := d.ups[string(f.Node)]; f.Up && d.ups != nil && !told {
			d.ups[string(f.Node)] = time.Now()
		}
	}
}

// hasDevices looks at what a task was given that has started. d.mu is held.
func (d *driver) hasDevices(at model.AttemptID, n int32) {
	g := d.gangs[at]
	if g == nil || string(g.start.Tasks[n].Place.Node) != claimed {
		return
	}
	want := api.DRANames(skuOn(claimed).DRA, g.start.Tasks[n].Place.Devices)
	if got := d.api.DevicesOf(d.podOf(at, n)); len(got) > 0 && !slices.Equal(got, want) {
		d.t.Errorf("task %d of %v has the devices %v, want %v", n, at, got, want)
	}
	d.claims++
}

// free notes that a task needs its GPUs no more. d.mu is held.
func (d *driver) free(at model.AttemptID, n int32, why string) {
	g := d.gangs[at]
	if g == nil || g.done[n] {
		return // it is told again
	}
	place := g.start.Tasks[n].Place
	if pod := d.podOf(at, n); pod != "" && d.api.Runs(pod) && !d.removed[string(place.Node)] {
		d.t.Errorf("task %d of %v is told to have %s, and its container runs on %s", n, at, why, place.Node)
	}
	d.release(g, at, n)
}

func (d *driver) release(g *gangOf, at model.AttemptID, n int32) {
	g.done[n] = true
	place := g.start.Tasks[n].Place
	for _, device := range place.Devices {
		if key := keyOf(place.Node, device); d.taken[key] > 1 {
			d.taken[key]--
		} else {
			delete(d.taken, key)
		}
	}
	if len(g.done) == len(g.start.Tasks) {
		delete(d.gangs, at)
		d.turned = d.turned || g.start.Rotation != nil
	}
}

// join starts a gang on the GPUs of another, with which it takes turns.
func (d *driver) join() {
	d.mu.Lock()
	var host model.AttemptID
	for at, g := range d.gangs { // any of them
		unsteady := slices.ContainsFunc(g.start.Tasks, func(t model.TaskStart) bool {
			return d.down[string(t.Place.Node)] || d.others.held[string(t.Place.Node)]
		})
		if g.start.Job.Hints.Suspendable && !g.stop && len(g.done) == 0 && !unsteady {
			host = at
		}
	}
	if host.Job == 0 {
		d.mu.Unlock()
		return
	}
	d.next++
	at := model.AttemptID{Job: d.next, N: 1}
	start := &model.Start{ID: d.next, Job: d.gangs[host].start.Job, Tasks: d.gangs[host].start.Tasks}
	turns := [][]model.AttemptID{{host}}
	if r := d.gangs[host].start.Rotation; r != nil {
		turns = slices.DeleteFunc(slices.Clone(r.Turns), func(turn []model.AttemptID) bool { return d.gangs[turn[0]] == nil })
	}
	for _, turn := range turns {
		d.mates[pair{turn[0], at}] = true
	}
	d.gangs[at] = &gangOf{start: start, done: map[int32]bool{}}
	for i := range start.Tasks {
		for _, device := range start.Tasks[i].Place.Devices {
			d.taken[keyOf(start.Tasks[i].Place.Node, device)]++
		}
	}
	actions := d.rotate(append(turns, []model.AttemptID{at}))
	d.mu.Unlock()
	d.e.Do(model.Action{Attempt: at, Start: d.startOf(at)})
	for _, a := range actions {
		d.e.Do(a)
	}
}

func (d *driver) startOf(at model.AttemptID) *model.Start {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gangs[at].start
}

// rotate lets gangs take turns. d.mu is held.
func (d *driver) rotate(turns [][]model.AttemptID) (actions []model.Action) {
	r := &model.Rotation{Turns: turns, Quantum: model.Second, Epoch: model.Time(time.Now().UnixMicro())}
	for _, turn := range turns {
		start := *d.gangs[turn[0]].start
		start.Rotation = r
		d.gangs[turn[0]].start = &start
		actions = append(actions, model.Action{Attempt: turn[0], Rotation: r})
	}
	return actions
}

// turn tells those that shared with gangs that have ended.
func (d *driver) turn() {
	d.mu.Lock()
	var actions []model.Action
	seen := map[*model.Rotation]bool{nil: true}
	for _, g := range d.gangs {
		r := g.start.Rotation
		if !d.turned || seen[r] {
			continue
		}
		seen[r] = true
		left := slices.DeleteFunc(slices.Clone(r.Turns), func(turn []model.AttemptID) bool { return d.gangs[turn[0]] == nil })
		if len(left) < len(r.Turns) {
			more := d.rotate(left)
			seen[more[0].Rotation] = true
			actions = append(actions, more...)
		}
	}
	d.turned = false
	d.mu.Unlock()
	for _, a := range actions {
		d.e.Do(a)
	}
}

// alone are the GPUs that two containers had at a time without having been given them together;
// with is how many had them so by claims.
func (d *driver) alone() (alone []simapi.Both, with int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.api.Twice() {
		one, two := attemptOf(b.First), attemptOf(b.Second)
		switch {
		case !d.mates[pair{one, two}] && !d.mates[pair{two, one}]:
			alone = append(alone, b)
		case b.Node == claimed:
			with++
		}
	}
	return alone, with
}

// attemptOf reads the name of a pod.
func attemptOf(pod string) (at model.AttemptID) {
	parts := strings.Split(pod, "-")
	_, _ = fmt.Sscanf(strings.Join(parts[2:], "-"), "%d-%d-%d", &at.Job, &at.Gang, &at.N)
	return at
}

// begin starts a gang on free GPUs.
func (d *driver) begin() {
	d.mu.Lock()
	d.next++
	at := model.AttemptID{Job: d.next, N: 1}
	job := &model.Job{Name: model.JobName(fmt.Sprint("job", d.next)), User: "u", VC: []cell.VCName{"v", "red", "moves"}[d.r.IntN(3)], Grace: model.Second,
		Roles: []model.Role{{Name: "worker", Tasks: 3, Launch: model.Launch{Image: "image:1", MilliCPU: 100, MemoryMB: 64, Command: []string{"train"}}}}}
	job.Hints.Suspendable = d.r.IntN(2) == 0
	start := &model.Start{ID: d.next, Job: job}
	for n := range 1 + d.r.IntN(3) {
		node := cell.NodeName(nodeOf(d.r.IntN(simNodes)))
		var devices []int32
		for i := range int32(simGPUs) {
			if d.taken[keyOf(node, i)] == 0 && !d.down[string(node)] && !d.others.held[string(node)] && len(devices) < 1+d.r.IntN(2) {
				devices = append(devices, i)
			}
		}
		if len(devices) == 0 {
			break
		}
		for _, i := range devices {
			d.taken[keyOf(node, i)] = 1
		}
		start.Tasks = append(start.Tasks, model.TaskStart{Task: int32(n), Index: int32(n), SKU: skuOn(string(node)), Place: cell.Task{Node: node, SKU: "GPU", Devices: devices}})
	}
	if len(start.Tasks) > 0 {
		d.gangs[at] = &gangOf{start: start, done: map[int32]bool{}}
	}
	d.mu.Unlock()
	if len(start.Tasks) > 0 {
		d.e.Do(model.Action{Attempt: at, Start: start})
	}
}

// live are the attempts that hold GPUs, in order.
func (d *driver) live() []model.AttemptID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []model.AttemptID
	for at := range d.gangs {
		list = append(list, at)
	}
	slices.SortFunc(list, func(a, b model.AttemptID) int { return int(a.Job - b.Job) })
	return list
}

// end has one attempt stop.
func (d *driver) end(at model.AttemptID) {
	d.mu.Lock()
	g := d.gangs[at]
	if g != nil {
		g.stop = true
	}
	d.mu.Unlock()
	if g != nil {
		d.e.Do(model.Action{Attempt: at, Grace: model.Duration(d.r.IntN(3)) * model.Second})
	}
}

// restart kills the executor and takes up what was there.
func (d *driver) restart() {
	d.e.Close()
	d.mu.Lock()
	d.others.restarted()
	d.mu.Unlock()
	for node, silent := range d.silent {
		if silent && d.r.IntN(2) == 0 && d.api.Kubelet(node, true) {
			d.silent[node] = false
		}
	}
	d.e = d.open()
	for _, at := range d.live() {
		d.mu.Lock()
		g, left := d.gangs[at], model.Start{}
		if g != nil {
			left = *g.start
			left.Tasks = slices.DeleteFunc(slices.Clone(left.Tasks), func(t model.TaskStart) bool { return g.done[t.Task] })
		}
		d.mu.Unlock()
		if g == nil {
			continue
		}
		d.e.Do(model.Action{Attempt: at, Start: &left, Known: true})
		if g.stop {
			d.e.Do(model.Action{Attempt: at, Grace: model.Second})
		}
	}
	d.e.EndStrays(nil)
}

// declareDead is a user's word that a node is dead that is told to be down: its GPUs are free, and
// it takes nothing until it is up. That it is up may be under way meanwhile: as the core does,
// which cordons the node, nothing is begun there before the executor has told its state again.
func (d *driver) declareDead(node string) {
	d.mu.Lock()
	var lost []model.Action
	for at, g := range d.gangs {
		a := model.Action{Attempt: at}
		for n := range g.start.Tasks {
			if n := int32(n); d.down[node] && string(g.start.Tasks[n].Place.Node) == node && !g.done[n] {
				a.Lost = append(a.Lost, n)
			}
		}
		if len(a.Lost) > 0 {
			lost = append(lost, a)
		}
	}
	var gone []string
	for _, a := range lost {
		g := d.gangs[a.Attempt]
		for _, n := range a.Lost {
			gone = append(gone, d.podOf(a.Attempt, n))
			d.release(g, a.Attempt, n)
		}
	}
	d.mu.Unlock()
	for _, a := range lost {
		d.e.Do(a)
	}
	kube.LookAt(d.e, node)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[node] = append(d.lost[node], gone...)
}

// step does one random thing to the cluster.
func (d *driver) step() {
	d.give()
	d.turn()
	node := nodeOf(d.r.IntN(simNodes))
	switch k := d.r.IntN(100); {
	case k < 35:
		d.begin()
	case k < 45:
		d.join()
	case k < 65:
		if list := d.live(); len(list) > 0 {
			d.end(list[d.r.IntN(len(list))])
		}
	case k < 72:
		if list := d.api.Objects("pods"); len(list) > 0 {
			d.api.DeletePod(list[d.r.IntN(len(list))])
		}
	case k < 74:
		d.restart()
	case k < 76:
		d.strip()
	case k < 82:
		if d.api.Kubelet(node, d.silent[node]) {
			d.silent[node] = !d.silent[node]
		}
	case k < 87:
		d.declareDead(node)
	case k < 89:
		d.api.PowerCycle(node)
	case k < 90:
		d.mu.Lock()
		gone := !d.removed[node]
		d.removed[node], d.down[node] = gone, true
		d.mu.Unlock()
		if d.silent[node] = false; gone {
			d.api.RemoveNode(node)
		} else {
			d.addNode(node)
		}
	case k < 91:
		d.api.Away(true)
		d.pace(200)
		d.api.Away(false)
	case k < 92:
		d.move([]string{"red", "blue", ""}[d.r.IntN(3)])
	case k < 93:
		d.api.Forbid("red", true)
		d.pace(200)
		d.api.Forbid("red", false)
	case k < 95:
		d.stranger(node)
	case k < 98:
		d.strangerGoes("")
	case k < 99:
		kube.LookForForged(d.e)
	default:
		d.api.ForbidAll("pods", true)
		d.pace(100)
		d.api.ForbidAll("pods", false)
	}
	d.pace(40)
}

// pace lets faults come at any moment: some time passes, and nothing is waited for.
func (d *driver) pace(most int) { time.Sleep(time.Duration(d.r.IntN(most)) * time.Millisecond) }

// strip takes a pod away with its finalizers.
func (d *driver) strip() {
	list := d.api.Objects("pods")
	if len(list) == 0 {
		return
	}
	name := list[d.r.IntN(len(list))]
	d.mu.Lock()
	for at, g := range d.gangs {
		for n := range g.start.Tasks {
			if strings.HasSuffix(name, fmt.Sprintf("-%d-%d-%d-%d", at.Job, at.Gang, at.N, n)) {
				d.stripped[taskOf{at, int32(n)}] = name
			}
		}
	}
	d.mu.Unlock()
	if !d.strangerGoes(name) {
		d.api.Strip(name)
	}
}

// give declares that nothing lives of tasks of which nothing is known, once that is so.
func (d *driver) give() {
	d.mu.Lock()
	var lost []taskOf
	for task, pod := range d.unknown {
		if d.api.Runs(pod) {
			continue
		}
		delete(d.unknown, task)
		if g := d.gangs[task.at]; g != nil && !g.done[task.n] {
			lost = append(lost, task)
			d.release(g, task.at, task.n)
		}
	}
	d.mu.Unlock()
	for _, task := range lost {
		d.e.Do(model.Action{Attempt: task.at, Lost: []int32{task.n}})
	}
}

// freed reports whether no node is told to be down for a pod. One that went down often may be down
// for a minute more.
func (d *driver) freed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, why := range d.why {
		if strings.Contains(why, "count as lost") {
			return false
		}
	}
	return true
}

// finish heals the cluster, stops all, and waits until nothing is left.
func (d *driver) finish() {
	d.api.Fail(simapi.Faults{})
	d.strangersAreKnown()
	for i := range simNodes {
		d.mu.Lock()
		gone := d.removed[nodeOf(i)]
		d.mu.Unlock()
		if gone {
			d.addNode(nodeOf(i))
		}
		d.api.Kubelet(nodeOf(i), true)
	}
	for _, at := range d.live() {
		d.end(at)
	}
	var gangs []model.AttemptID
	var left []string
	if !testkit.Within(testkit.Patience, func() bool {
		d.e.EndStrays(nil)
		d.give()
		gangs, left = d.live(), slices.DeleteFunc(append(d.api.Objects("pods"), d.api.Objects("resourceclaims")...), func(name string) bool { return name == simapi.Occupied })
		return len(gangs)+len(left) == 0 && d.freed()
	}) {
		d.t.Errorf("attempts %v still hold GPUs, pods %v are left, nodes are down: %v", gangs, left, d.why)
		for _, name := range left {
			d.t.Log(d.api.Text("pods", name))
		}
	}
}

// TestFaultsOfTheAPI: whatever the API server, kubelets, machines and users do, no GPU has two
// containers at a time but those that were to share it, what is told to have ended has ended,
// nothing is unknown, no leaf is told to be good that pods of others are known to hold, and in the
// end nothing is left. The executor is killed in between.
func TestFaultsOfTheAPI(t *testing.T) {
	const steps = 250
	var withClaims, shared, strange atomic.Int64
	began := map[string]*atomic.Int64{"v": {}, "red": {}, "moves": {}}
	t.Cleanup(func() {
		if !seeds.Modest() { // in one run a node may be down, or a VC refused, all the time
			return
		}
		if withClaims.Load() == 0 {
			t.Error("no container was started with claims")
		}
		if shared.Load() == 0 {
			t.Error("no two containers shared a claim")
		}
		if strange.Load() == 0 {
			t.Error("no pod of others had GPUs")
		}
		for vc, n := range began {
			if n.Load() == 0 {
				t.Errorf("no task of VC %s has started", vc)
			}
		}
	})
	for seed := range seeds.Of(t, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, seed)
			d.change = func(o *kube.Options) { o.Leaves = leavesOf }
			d.restart()
			if seed%2 == 0 { // then the log of each is read when its pod has ended, since none is sent
				d.link = &pods.ServerLink{Image: "comb:1", URL: "https://comb:1", Pin: "p"}
				d.restart()
			}
			d.api.Fail(simapi.Faults{Busy: 40, Broken: 40, Lost: 40, Cut: 3, Gone: 1, Twice: 30, Late: 30})
			for range steps {
				d.step()
			}
			d.finish()
			alone, with := d.alone()
			for _, what := range alone {
				t.Errorf("two containers had a GPU that was not given to both: %+v", what)
			}
			shared.Add(int64(with))
			d.mu.Lock()
			defer d.mu.Unlock()
			if n := d.api.Began(); n < 3 {
				t.Errorf("only %d containers were started", n)
			}
			withClaims.Add(int64(d.claims))
			strange.Add(int64(d.others.gpus))
			for vc, n := range began {
				n.Add(int64(d.began[vc]))
			}
			t.Logf("%d gangs, %d containers, %d shared a claim; told %v; asked %v", d.next, d.api.Began(), with, d.facts, d.api.Asked())
		})
	}
}

// TestStraysOfADeadNode: a node is declared dead while its containers run on. The server is killed,
// and the node is back before it: it is told to be up when the containers are gone.
func TestStraysOfADeadNode(t *testing.T) {
	for seed := range uint64(5) {
		d := newDriver(t, seed)
		d.until("a task runs on n0", func() bool {
			d.begin()
			return slices.ContainsFunc(d.live(), func(at model.AttemptID) bool { return string(d.placeOf(at)) == "n0" && d.api.Runs(d.podOf(at, 0)) })
		})
		d.api.Kubelet("n0", false)
		d.until("n0 is told to be down", func() bool { return d.isDown("n0") })
		d.declareDead("n0")
		d.silent["n0"] = true
		d.e.Close()
		d.api.Kubelet("n0", true)
		d.silent["n0"] = false
		d.restart()
		d.until("n0 is told to be up", func() bool { return !d.isDown("n0") })
		d.finish()
	}
}

// until waits for something.
func (d *driver) until(what string, f func() bool) {
	d.t.Helper()
	testkit.Wait(d.t, what, f)
}

func (d *driver) isDown(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down[node]
}

// whyDown is what was told of a node last.
func (d *driver) whyDown(node string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why[node]
}

// placeOf is the node of an attempt's first task.
func (d *driver) placeOf(at model.AttemptID) cell.NodeName {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.gangs[at]; g != nil {
		return g.start.Tasks[0].Place.Node
	}
	return ""
}
