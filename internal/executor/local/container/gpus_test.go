package container

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
)

// GPUs are asked for by their names in NVIDIA's specifications of devices, or by its driver's numbers: never "all".
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		box  Box
		want []container.DeviceRequest
	}{
		{Box{}, nil},
		{Box{GPUs: []string{"0", "3:1"}, CDI: true}, []container.DeviceRequest{{Driver: "cdi", DeviceIDs: []string{"nvidia.com/gpu=0", "nvidia.com/gpu=3:1"}}}},
		{Box{GPUs: []string{"2"}}, []container.DeviceRequest{{Driver: "nvidia", DeviceIDs: []string{"2"}, Capabilities: [][]string{{"gpu", "compute", "utility"}}}}},
	} {
		if diff := cmp.Diff(c.want, c.box.host().DeviceRequests); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.box, diff)
		}
	}
	for text, want := range map[string]bool{
		`could not select device driver "nvidia" with capabilities: [[gpu compute utility]]`: true,
		"CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=7":             true,
		"no such image": false,
	} {
		if noGPUs(errors.New(text)) != want {
			t.Errorf("%s", text)
		}
	}
}
