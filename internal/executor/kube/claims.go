package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// sliceTime is how long the published devices of a node are taken for true. They change only with
// hardware, and a claim for a device that is gone is given nothing.
const sliceTime = 10 * time.Second

// published caches what drivers published lately.
type published struct {
	looks sync.Mutex // held during a look at all nodes
	mu    sync.Mutex
	has   map[publisher]said
}

// publisher is a driver on a node.
type publisher struct{ node, driver string }

type said struct {
	at      time.Time
	devices map[string]api.Device
}

// claims gives tasks their GPUs by dynamic resource allocation: a claim of the pod asks for
// exactly the GPUs that the core chose.
type claims struct{ *Executor }

// of returns the claims of a task, or why its devices cannot be claimed. It returns none where
// the devices are given in another way.
func (c claims) of(ctx context.Context, t *podTask) ([]*api.Claim, *model.TaskRefused, error) {
	names := api.DRANames(t.ts.SKU.DRA, pods.Devices(t.ts))
	if t.ts.SKU.DRA.Class == "" || len(names) == 0 {
		return nil, nil, nil
	}
	node := string(t.ts.Place.Node)
	have, err := c.devices(ctx, publisher{node, t.ts.SKU.DRA.Driver})
	switch {
	case api.NeverAccepts(err):
		return nil, &model.TaskRefused{Reason: "Kubernetes does not say which devices its nodes have: " + api.ErrorText(err)}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("look for the devices of node %s: %w", node, err)
	}
	name := t.name
	if t.shares() {
		name = c.maker.DevicesName(node, t.ts.SKU.DRA.Driver, names)
	}
	list, err := api.Claims(t.ts.SKU.DRA, name, have, names)
	if err != nil {
		return nil, &model.TaskRefused{Reason: fmt.Sprintf("node %s cannot give its devices: %v", node, err)}, nil
	}
	for _, one := range list {
		one.Labels = map[string]string{pods.ClusterLabel: c.maker.Short()}
	}
	return list, nil, nil
}

// shares reports whether a task shares its devices with others: then its claims belong to the
// devices, and not to the task.
func (t *podTask) shares() bool {
	h := &t.start.Job.Hints
	return h.Suspendable || h.Packable && !h.Dedicated
}

// rotate notes with which attempts the tasks of an attempt share their devices, and when each
// runs. c.mu is held.
func (c claims) rotate(at model.AttemptID, r *model.Rotation) {
	shared := podRotationOf(r)
	for _, name := range c.attempts[at] {
		if t := c.tasks[name]; t != nil {
			t.turns = shared
			c.queue.Add(name) // it may be the last task that shared its leaves
		}
	}
}

// make makes a claim of a task's pod. A claim of shared devices is shared only with the tasks
// with which the core shares the devices: any other pod that owns it must be gone first.
func (c claims) make(ctx context.Context, t *podTask, claim *api.Claim) error {
	if !t.shares() {
		return t.in(c.Executor).MakeClaim(ctx, claim)
	}
	c.mu.Lock()
	mates := t.turns.rotation
	c.mu.Unlock()
	beside := func(r metav1.OwnerReference) bool {
		at, _, ok := c.maker.Parse(r.Name)
		return ok && mates.Turn(at) >= 0
	}
	var failed error
	gone := func(r metav1.OwnerReference) bool {
		pod, err := t.in(c.Executor).Get(ctx, r.Name) // what is watched may be behind
		failed = cmp.Or(failed, err)
		return err == nil && (pod == nil || pod.UID != r.UID)
	}
	err := t.in(c.Executor).ShareClaim(ctx, claim, beside, gone)
	return cmp.Or(failed, err)
}

// abilities returns what can be done on leaves. A device plugin gives each GPU to one pod alone,
// and a pod without Comb's process 1 cannot be suspended.
func (c claims) abilities(l engine.Leaves) ([]model.Ability, string) {
	if l.SKU.Device != cell.CPU && l.SKU.DRA.Class == "" {
		for _, name := range l.Nodes {
			resource := l.SKU.Resource
			if n := c.node(string(name)); n != nil {
				resource = cmp.Or(resource, resourceOf(n))
			}
			if resource != "" {
				return nil, fmt.Sprintf("the device plugin of node %s gives a GPU (%s) to one pod alone; a driver for dynamic resource allocation, named by dra in skuTypes.%s, lets pods share", name, resource, l.SKU.Name)
			}
		}
	}
	if c.o.ServerLink == nil {
		return []model.Ability{model.CanPack}, "pods are suspended by a process of Comb's in them: start the server with --pod-image and --pod-url"
	}
	return []model.Ability{model.CanPack, model.CanSuspend}, ""
}

// devices returns the devices of a driver on a node.
func (c claims) devices(ctx context.Context, p publisher) (map[string]api.Device, error) {
	c.published.mu.Lock()
	had, known := c.published.has[p]
	c.published.mu.Unlock()
	if known && time.Since(had.at) < sliceTime {
		return had.devices, nil
	}
	list, err := c.o.API.Slices(ctx, p.node, p.driver)
	if err != nil {
		return nil, err
	}
	now := said{time.Now(), api.DRADevices(list, p.node, p.driver)}
	c.published.mu.Lock()
	defer c.published.mu.Unlock()
	if len(now.devices) == 0 {
		delete(c.published.has, p) // asked for again at once
		return nil, nil
	}
	if c.published.has == nil {
		c.published.has = map[publisher]said{}
	}
	c.published.has[p] = now
	return now.devices, nil
}

// check looks, once, at what the claims of a bound pod were given, and gives the pod up where
// they were given something else than they ask for. The SKU has not changed since the claims were
// made.
func (c claims) check(ctx context.Context, t *podTask, pod *corev1.Pod) error {
	if t.checked || t.stray || pod.Spec.NodeName == "" || len(t.record.Devices) > 0 {
		return nil
	}
	d := t.ts.SKU.DRA
	names := api.DRANames(d, pods.Devices(t.ts))
	var given []string
	for i := range pod.Spec.ResourceClaims {
		name := pod.Spec.ResourceClaims[i].ResourceClaimName
		if name == nil {
			continue
		}
		claim, err := t.in(c.Executor).Claim(ctx, *name)
		if err != nil {
			return fmt.Errorf("look at the claim of pod %s: %w", t.name, err)
		}
		if claim == nil || !claim.Has() {
			return nil // its pod ends, or more is heard later
		}
		if other := claim.ForeignDevice(d.Driver, names); other != "" {
			return c.giveUp(ctx, t, pod, model.TaskRefused{Reason: fmt.Sprintf("Kubernetes gave it %s, and Comb chose %v", other, names)})
		}
		for _, g := range claim.Status.Allocation.Devices.Results {
			given = append(given, g.Pool+"/"+g.Device)
		}
	}
	t.checked = true
	if len(given) == 0 {
		return nil
	}
	t.record.Devices = given
	return t.note()
}

func claimKey(d cell.DRA, gpu int32) string { return d.Driver + "/" + api.DRANames(d, []int32{gpu})[0] }

// CheckClaims refuses a configuration whose devices are claimed where Comb lacks the rights for it.
// It says nothing while the API server is away.
func CheckClaims(e *Executor, skus []cell.SKU) error {
	i := slices.IndexFunc(skus, func(s cell.SKU) bool { return s.DRA.Class != "" })
	if i < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	missing, err := e.o.API.MissingForClaims(ctx)
	if err != nil || len(missing) == 0 {
		return nil // where it is not known, a task reports it
	}
	return fmt.Errorf("skuTypes.%s.dra: Comb lacks rights in the Kubernetes cluster (namespace %s): %s; deploy/kubernetes/rights.yaml has them", skus[i].Name, e.o.API.Namespace(), strings.Join(missing, ", "))
}

// look asks which devices of the leaves can be claimed, and tells which leaves are bad. It asks
// for all nodes at once, and only for drivers whose devices are leaves.
func (c claims) look() {
	c.published.looks.Lock() // so that the later look is told later
	defer c.published.looks.Unlock()
	claimed, drivers := map[string][]Leaf{}, map[string]bool{}
	for _, node := range c.nodes.ListKeys() {
		if c.o.Leaves == nil {
			break
		}
		for _, l := range c.o.Leaves(cell.NodeName(node)) {
			if l.DRA.Class != "" && l.GPUs > 0 {
				claimed[node], drivers[l.DRA.Driver] = append(claimed[node], l), true
			}
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, lookEvery)
	defer cancel()
	var list []api.Slice
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		more, err := c.o.API.Slices(ctx, "", driver)
		if err != nil {
			if c.ctx.Err() == nil {
				c.o.Log.Warn("the devices that a driver publishes cannot be read", "driver", driver, "error", api.ErrorText(err))
			}
			health(c).leavesAgain()
			return
		}
		list = append(list, more...)
	}
	published := map[string][]api.Slice{}
	for i := range list {
		published[list[i].Spec.NodeName] = append(published[list[i].Spec.NodeName], list[i])
	}
	why, held := map[string]map[string]string{}, map[string]map[string]string{}
	others := c.ofOthers(ctx, drivers)
	for node, leaves := range claimed {
		why[node] = cannotBeClaimed(node, leaves, published[node])
		held[node] = heldByClaims(leaves, published[node], others)
	}
	c.mu.Lock()
	for node, s := range c.seen {
		s.claims, s.held = why[node], held[node]
	}
	c.mu.Unlock()
	health(c).leavesAgain()
}

// deviceOf is a device of a driver's pool.
type deviceOf struct{ driver, pool, device string }

// ofOthers says of the devices of some drivers which pods of others have them by a claim, as
// NAMESPACE/NAME. Where Comb may not see that, it is none.
func (c claims) ofOthers(ctx context.Context, drivers map[string]bool) map[deviceOf]string {
	if len(drivers) == 0 {
		return nil
	}
	list, err := c.o.API.ClaimsOfOthers(ctx, pods.ClusterLabel, c.maker.Short(), drivers)
	if err != nil {
		if c.ctx.Err() == nil {
			c.o.Log.Warn("the claims of others cannot be read", "error", api.ErrorText(err))
		}
		return nil
	}
	own := "comb-" + c.maker.Short() + "-" // of versions that gave claims no label
	have := map[deviceOf]string{}
	for i := range list {
		held := &list[i]
		if strings.HasPrefix(held.Name, own) && c.spaces.watched(held.Namespace) != nil {
			continue
		}
		for _, g := range held.Given {
			have[deviceOf{g.Driver, g.Pool, g.Device}] = shortened(held.Namespace + "/" + cmp.Or(held.Pod, held.Name))
		}
	}
	return have
}

// heldByClaims returns which devices of a node's leaves others have by claims, keyed as in
// fault.claims.
func heldByClaims(leaves []Leaf, published []api.Slice, have map[deviceOf]string) map[string]string {
	out := map[string]string{}
	for i := range leaves {
		l := &leaves[i]
		first := int32(int64(l.Device) * l.GPUs)
		for gpu := first; gpu < first+int32(min(l.GPUs, maxGPUs)); gpu++ {
			name := api.DRANames(l.DRA, []int32{gpu})[0]
			if by := inPools(published, l.DRA.Driver, name, have); by != "" {
				out[claimKey(l.DRA, gpu)] = name + " held by " + by
			}
		}
	}
	return out
}

// inPools says which pod has a driver's device by its name, in one of the pools of some slices.
func inPools(published []api.Slice, driver, name string, have map[deviceOf]string) string {
	for i := range published {
		s := &published[i].Spec
		if by := have[deviceOf{driver, s.Pool.Name, name}]; by != "" && s.Driver == driver {
			return by
		}
	}
	return ""
}

// cannotBeClaimed returns why devices of a node's leaves are not given to claims, keyed as in
// fault.claims.
func cannotBeClaimed(node string, leaves []Leaf, published []api.Slice) map[string]string {
	var out map[string]string
	drivers := map[string]map[string]api.Device{}
	for i := range leaves {
		l := &leaves[i]
		if drivers[l.DRA.Driver] == nil {
			drivers[l.DRA.Driver] = api.DRADevices(published, node, l.DRA.Driver)
		}
		first := int32(int64(l.Device) * l.GPUs)
		for gpu := first; gpu < first+int32(min(l.GPUs, maxGPUs)); gpu++ {
			name := api.DRANames(l.DRA, []int32{gpu})[0]
			one, ok := drivers[l.DRA.Driver][name]
			why := one.Excluded()
			if !ok {
				why = fmt.Sprintf("its driver %s publishes no device %s there", l.DRA.Driver, name)
			}
			if why == "" {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[claimKey(l.DRA, gpu)] = clipped(why)
		}
	}
	return out
}

func namesOf(list []*api.Claim) (names []string) {
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}
