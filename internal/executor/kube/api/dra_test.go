package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube/api"
)

const driver = "gpu.example.com"

func sku() cell.DRA {
	return cell.DRA{Class: "gpu", Driver: driver, Device: "gpu-%d", Attribute: "uuid"}
}

// slice is one as a driver writes it, read as this package reads it.
func slice(t *testing.T, node string, generation int64, devices ...resourcev1.Device) api.Slice {
	t.Helper()
	text, err := json.Marshal(resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node, Devices: devices,
		Pool: resourcev1.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	var out api.Slice
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// device has a name, and a uuid, an index and a version.
func device(i int) resourcev1.Device {
	id, index, version := fmt.Sprintf(`GPU-"%d"é`, i), int64(i), "1.0.0"
	return resourcev1.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"uuid": {StringValue: &id}, "example.org/slot": {IntValue: &index}, "version": {VersionValue: &version}, driver + "/number": {IntValue: &index}, "kind": {StringValue: new("gpu")}}}
}

func TestClaims(t *testing.T) {
	list := []api.Slice{slice(t, "n1", 2, device(0), device(1), device(2)), slice(t, "n1", 1, device(7)), slice(t, "n2", 5, device(8))}
	have := api.DRADevices(list, "n1", driver)
	if len(have) != 3 || len(api.DRADevices(list, "n1", "other")) != 0 {
		t.Fatalf("n1 has the devices %v", have)
	}
	for _, c := range []struct {
		attribute, want string
	}{
		{"uuid", `device.driver == "gpu.example.com" && "uuid" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"]["uuid"] in ["GPU-\"0\"\u00e9", "GPU-\"2\"\u00e9"]`},
		{driver + "/uuid", `device.driver == "gpu.example.com" && "uuid" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"]["uuid"] in ["GPU-\"0\"\u00e9", "GPU-\"2\"\u00e9"]`},
		{"number", `device.driver == "gpu.example.com" && "number" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"]["number"] in [0, 2]`},
		{"example.org/slot", `device.driver == "gpu.example.com" && "slot" in device.attributes["example.org"] && device.attributes["example.org"]["slot"] in [0, 2]`},
	} {
		d := sku()
		d.Attribute = c.attribute
		claims, err := api.Claims(d, "pod", have, api.DRANames(d, []int32{0, 2}))
		if err != nil || len(claims) != 1 {
			t.Fatalf("%s: %d claims, %v", c.attribute, len(claims), err)
		}
		text, err := json.Marshal(claims[0])
		if err != nil {
			t.Fatal(err)
		}
		var real resourcev1.ResourceClaim // what the API server reads of it
		if err := json.Unmarshal(text, &real); err != nil {
			t.Fatal(err)
		}
		r := real.Spec.Devices.Requests[0].Exactly
		if r.Count != 2 || r.AllocationMode != resourcev1.DeviceAllocationModeExactCount || r.DeviceClassName != "gpu" || real.Kind != "ResourceClaim" || real.Name != "pod-0" {
			t.Errorf("%s: the claim is %s", c.attribute, text)
		}
		if got := r.Selectors[0].CEL.Expression; got != c.want {
			t.Errorf("%s: the expression is\n%s, want\n%s", c.attribute, got, c.want)
		}
	}
}

func TestManyDevices(t *testing.T) {
	var devices []resourcev1.Device
	var all []int32
	for i := range 70 {
		devices, all = append(devices, device(i)), append(all, int32(i))
	}
	claims, err := api.Claims(sku(), "pod", api.DRADevices([]api.Slice{slice(t, "n", 1, devices...)}, "n", driver), api.DRANames(sku(), all))
	if err != nil {
		t.Fatal(err)
	}
	var counts []int64
	for _, c := range claims {
		counts = append(counts, c.Spec.Devices.Requests[0].Exactly.Count)
	}
	if !slices.Equal(counts, []int64{32, 32, 6}) || claims[2].Name != "pod-2" {
		t.Errorf("70 devices are asked for in claims of %v", counts)
	}
}

func TestWhatCannotBeClaimed(t *testing.T) {
	have := api.DRADevices([]api.Slice{slice(t, "n", 1, device(0), device(1))}, "n", driver)
	for attribute, want := range map[string]string{"uuid": "publishes no device gpu-5", "version": "has no attribute version", "none": "has no attribute none", "kind": `have "gpu" in the attribute kind`} {
		d := sku()
		d.Attribute = attribute
		indices := []int32{0, 1}
		if attribute == "uuid" {
			indices = []int32{0, 5}
		}
		if _, err := api.Claims(d, "pod", have, api.DRANames(d, indices)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", attribute, err, want)
		}
	}
}

func TestOther(t *testing.T) {
	given := func(driver string, names ...string) *api.Claim {
		c := &api.Claim{}
		for _, n := range names {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, api.Given{Driver: driver, Device: n})
		}
		return c
	}
	names := []string{"gpu-1", "gpu-2"}
	for want, c := range map[string]*api.Claim{"": given(driver, "gpu-2", "gpu-1"), "device gpu-3 of driver " + driver: given(driver, "gpu-1", "gpu-3"),
		"device gpu-1 of driver other": given("other", "gpu-1"), "device gpu-1 of driver " + driver: given(driver, "gpu-1", "gpu-1")} {
		if got := c.ForeignDevice(driver, names); got != want {
			t.Errorf("%v: got %q, want %q", c.Status, got, want)
		}
	}
	if c := given(driver); c.Has() || c.ForeignDevice(driver, names) != "" {
		t.Error("a claim that was given nothing has something")
	}
}
