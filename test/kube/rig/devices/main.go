// Command devices is a driver of devices that are none, for tests: it publishes them as a
// ResourceSlice of one node, and gives them to containers as a variable.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the cluster")
	node       = flag.String("node", "", "the node that has the devices")
	kubelet    = flag.String("kubelet", "", "the kubelet's folder")
	cdi        = flag.String("cdi", "", "the runtime's folder of CDI specifications")
	driver     = flag.String("driver", "gpu.comb.test", "the driver's name")
	count      = flag.Int("count", 2, "how many devices there are")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	conf, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return err
	}
	registry, own := filepath.Join(*kubelet, "plugins_registry"), filepath.Join(*kubelet, "plugins", *driver)
	for _, dir := range []string{registry, own, *cdi} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, plugin{}, kubeletplugin.KubeClient(client), kubeletplugin.DriverName(*driver), kubeletplugin.NodeName(*node),
		kubeletplugin.RegistrarDirectoryPath(registry), kubeletplugin.PluginDataDirectoryPath(own))
	if err != nil {
		return err
	}
	defer helper.Stop()
	slice := resourceslice.Slice{}
	for i := range *count {
		id, index := fmt.Sprintf("GPU-%s-%d", *node, i), int64(i)
		slice.Devices = append(slice.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: &id}, "index": {IntValue: &index}}})
	}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: {Slices: []resourceslice.Slice{slice}}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// plugin is what the kubelet asks. A device of CDI stands for each claim, and its container's
// variable has what the claim was given.
type plugin struct{}

func specOf(claim types.UID) string { return filepath.Join(*cdi, "comb.test-"+string(claim)+".json") }

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (plugin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		out[claim.UID] = prepare(claim)
	}
	return out, nil
}

func prepare(claim *resourceapi.ResourceClaim) (r kubeletplugin.PrepareResult) {
	var names []string
	for _, given := range claim.Status.Allocation.Devices.Results {
		if given.Driver != *driver {
			continue
		}
		r.Devices = append(r.Devices, kubeletplugin.Device{Requests: []string{given.Request}, PoolName: given.Pool, DeviceName: given.Device})
		names = append(names, given.Device)
	}
	if len(names) == 0 {
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s has no device of %s", claim.Name, *driver)}
	}
	type edits struct {
		Env []string `json:"env"`
	}
	type device struct {
		Name           string `json:"name"`
		ContainerEdits edits  `json:"containerEdits"`
	}
	spec, err := json.Marshal(struct {
		Version string   `json:"cdiVersion"`
		Kind    string   `json:"kind"`
		Devices []device `json:"devices"`
	}{"0.6.0", "comb.test/gpu", []device{{string(claim.UID), edits{[]string{"COMB_TEST_DEVICES=" + strings.Join(names, ",")}}}}})
	if err == nil {
		err = os.WriteFile(specOf(claim.UID), spec, 0o600)
	}
	if err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	r.Devices[0].CDIDeviceIDs = []string{"comb.test/gpu=" + string(claim.UID)}
	return r
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	for _, claim := range claims {
		if err := os.Remove(specOf(claim.UID)); err != nil && !os.IsNotExist(err) {
			out[claim.UID] = err
			continue
		}
		out[claim.UID] = nil
	}
	return out, nil
}

// HandleError implements kubeletplugin.DRAPlugin.
func (plugin) HandleError(_ context.Context, err error, what string) { log.Printf("%s: %v", what, err) }
