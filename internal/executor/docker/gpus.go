package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ErrNoGPUs says that the engine cannot give NVIDIA GPUs.
var ErrNoGPUs = errors.New("the container engine cannot give NVIDIA GPUs to containers: an administrator installs NVIDIA's container toolkit on this node, " +
	"or names the device files of the SKU in the cluster file (deviceFiles)")

// cdiKind is the kind of GPUs in the device specifications (CDI) of NVIDIA's toolkit.
const cdiKind = "nvidia.com/gpu="

// ByCDI reports whether the engine knows NVIDIA GPUs by CDI. Else they are requested from its own
// driver, which runs NVIDIA's hook.
func (e *Engine) ByCDI(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the container engine for GPUs: %s", reason(err))
	}
	for _, d := range r.Info.DiscoveredDevices {
		if strings.HasPrefix(d.ID, cdiKind) {
			return true, nil
		}
	}
	return false, nil
}

// requests are the GPUs that a container gets besides its device files.
func (b *Box) requests() []container.DeviceRequest {
	switch {
	case len(b.GPUs) == 0:
		return nil
	case !b.CDI:
		return []container.DeviceRequest{{Driver: "nvidia", DeviceIDs: b.GPUs, Capabilities: [][]string{{"gpu", "compute", "utility"}}}}
	}
	names := make([]string, len(b.GPUs))
	for i, id := range b.GPUs {
		names[i] = cdiKind + id
	}
	return []container.DeviceRequest{{Driver: "cdi", DeviceIDs: names}}
}

// noGPUs reports whether a start failed because the engine has no driver for the requested GPUs.
// Engines say so in words only.
func noGPUs(err error) bool {
	return strings.Contains(err.Error(), "could not select device driver") || strings.Contains(err.Error(), "unresolvable CDI devices")
}

// errNoPlace says that an image cannot take what a GPU needs inside; the machine's GPUs are not
// to blame.
var errNoPlace = fmt.Errorf("%w: NVIDIA's container toolkit cannot put the files of the GPUs' driver into it, "+
	"since its own are in the way or its CUDA needs a newer driver: use another one", ErrUnfit)

// unfitForGPUs reports whether a start failed in NVIDIA's hook because of the image, not of the
// machine. Hooks say so in words only.
func unfitForGPUs(err error) bool {
	_, hook, ok := strings.Cut(err.Error(), "nvidia-c") // -container-cli, -ctk or -cdi-hook
	has := func(text string) bool { return strings.Contains(hook, text) }
	return ok && (has("requirement error") || has("ldcache error") || has("update-ldcache") ||
		has("mount error") && has("/merged/"))
}
