package docker

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
)

// GPUs are asked for by their names in NVIDIA's specifications of devices, or by its driver's
// numbers: never "all".
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

// TestWhoseFaultAHookIs: what an image has in the way of the driver's files is the image's fault,
// what the machine lacks is not.
func TestWhoseFaultAHookIs(t *testing.T) {
	const hook = "OCI runtime create failed: error running hook #0: exit status 1, stderr: mode 'legacy'\n"
	for text, image := range map[string]bool{
		"nvidia-container-cli: mount error: file creation failed: /d/1f/merged/usr/lib/libnvidia-ml.so.1: file exists": true,
		"nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver":        true,
		"nvidia-container-cli: ldcache error: process /sbin/ldconfig failed with error code: 1":                        true,
		"nvidia-ctk hook update-ldcache: exit status 1":                                                                true,
		"nvidia-container-cli: initialization error: nvml error: driver not loaded":                                    false,
		"nvidia-container-cli: device error: 7: unknown device":                                                        false,
		"nvidia-container-cli: mount error: stat failed: /dev/nvidia0: no such file or directory":                      false,
	} {
		if got := unfitForGPUs(errors.New(hook + text)); got != image {
			t.Errorf("%s: the image's fault: %v", text, got)
		}
	}
	if !errors.Is(errNoPlace, ErrUnfit) {
		t.Error(errNoPlace)
	}
}
