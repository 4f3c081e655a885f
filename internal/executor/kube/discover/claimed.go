package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// claimedGPUs are the GPUs of a node that a driver gives to claims.
type claimedGPUs struct {
	count   int64
	product string // "": nothing says it
	text    string // the key dra of a SKU, as text
}

func byNode(list []api.Slice) map[string][]api.Slice {
	out := map[string][]api.Slice{}
	for i := range list {
		out[list[i].Spec.NodeName] = append(out[list[i].Spec.NodeName], list[i])
	}
	return out
}

// claimedOf finds a driver of GPUs whose devices on a node can be leaves: their names count from
// 0, and some attribute differs on each. Other drivers give networks, processors and more. Such
// drivers come with a class of the driver's name.
func claimedOf(node string, published []api.Slice) claimedGPUs {
	drivers := map[string]bool{}
	for i := range published {
		if name := published[i].Spec.Driver; strings.HasPrefix(name, "gpu.") || strings.HasPrefix(name, "npu.") || strings.HasPrefix(name, "tpu.") {
			drivers[name] = true
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(drivers)) {
		devices := api.DRADevices(published, node, driver)
		if len(devices) == 0 || len(devices) > maxLeaves {
			continue
		}
		d, ok := api.DRANamed(driver, devices)
		if !ok {
			continue
		}
		f := claimedGPUs{count: int64(len(devices)), text: fmt.Sprintf("{deviceClass: %s", quoted(driver))}
		if d.Device != "gpu-%d" {
			f.text += fmt.Sprintf(", device: %q", d.Device)
		}
		if d.Attribute != "uuid" {
			f.text += fmt.Sprintf(", attribute: %q", d.Attribute)
		}
		f.text += "}"
		for _, one := range devices { // all GPUs of a node are of one kind
			if v := one.Attributes["productName"]; v.String != nil {
				f.product = max(f.product, *v.String)
			}
		}
		return f
	}
	return claimedGPUs{}
}
