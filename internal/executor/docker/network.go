package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// ErrInUse says that there are containers on a network.
var ErrInUse = errors.New("there are containers on it")

// ErrNoRange says that the engine has no addresses left for one more network.
var ErrNoRange = errors.New("the container engine has no addresses left for one more network: " +
	"give it more in its configuration (default-address-pools), or run fewer jobs of several tasks at once")

// Network is a network of containers of this machine.
type Network struct {
	Name   string
	Labels map[string]string
	Apart  bool // its containers cannot reach each other
}

// iccOption is the option of a bridge that says whether its containers reach each other; by default
// they do.
const iccOption = "com.docker.network.bridge.enable_icc"

// Ensure makes a network unless there is one of that name. An existing one that differs is
// replaced if it has the right labels and no containers, else refused. Two calls at the same time
// for one name may make two.
func (e *Engine) Ensure(ctx context.Context, n *Network) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	have, err := e.c.NetworkInspect(ctx, n.Name, client.NetworkInspectOptions{})
	if err == nil {
		why, own := n.differs(&have.Network.Network)
		if why == "" {
			return nil
		}
		if !own || e.Drop(ctx, n.Name) != nil {
			return fmt.Errorf("the network %s is not as it would be made: %s; an administrator ends what uses it and removes it (docker network rm %s)", n.Name, why, n.Name)
		}
	}
	if err == nil || errdefs.IsNotFound(err) {
		_, err = e.c.NetworkCreate(ctx, n.Name, client.NetworkCreateOptions{Driver: bridge, Labels: n.Labels,
			Options: map[string]string{iccOption: fmt.Sprint(!n.Apart)}})
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "address pool"): // engines say so in words only
		return ErrNoRange
	}
	return fmt.Errorf("make the network %s: %s", n.Name, reason(err))
}

// differs says how a network differs from what it should be, "" when it does not, and whether its
// labels are right.
func (n *Network) differs(have *network.Network) (why string, own bool) {
	for _, label := range slices.Sorted(maps.Keys(n.Labels)) {
		if have.Labels[label] != n.Labels[label] {
			return fmt.Sprintf("its label %s is %q, not %q", label, have.Labels[label], n.Labels[label]), false
		}
	}
	switch got := have.Options[iccOption]; {
	case have.Driver != bridge || have.Scope != "local":
		return fmt.Sprintf("it is a network of kind %q of scope %q, not a bridge of this machine", have.Driver, have.Scope), true
	case n.Apart && got != "false":
		return "its containers reach each other", true
	case !n.Apart && got == "false":
		return "its containers do not reach each other", true
	case have.Internal:
		return "its containers reach nothing outside", true
	}
	return "", true
}

// Drop removes a network. ErrInUse says that containers are on it. It is no error when there is
// none.
func (e *Engine) Drop(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := e.c.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	if err != nil && strings.Contains(err.Error(), "active endpoints") && e.freeStale(ctx, name) {
		_, err = e.c.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	}
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case strings.Contains(err.Error(), "active endpoints"):
		return fmt.Errorf("the network %s: %w", name, ErrInUse)
	}
	return fmt.Errorf("remove the network %s: %s", name, reason(err))
}

// freeStale removes from a network the endpoints that a killed engine left: those of containers
// that do not exist any more. It reports whether there were some.
func (e *Engine) freeStale(ctx context.Context, name string) (found bool) {
	r, err := e.c.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if err != nil {
		return false
	}
	for _, end := range r.Network.Containers {
		if _, err := e.c.ContainerInspect(ctx, end.Name, client.ContainerInspectOptions{}); errdefs.IsNotFound(err) {
			_, err = e.c.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: end.Name, Force: true})
			found = found || err == nil
		}
	}
	return found
}

// Networks returns the labels of all networks that have a label of that value, by name.
func (e *Engine) Networks(ctx context.Context, label, value string) (map[string]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).Add("label", label+"="+value)})
	if err != nil {
		return nil, fmt.Errorf("list networks: %s", reason(err))
	}
	found := map[string]map[string]string{}
	for _, n := range r.Items {
		found[n.Name] = n.Labels
	}
	return found, nil
}

// network is a container's place on its network, where others find it by its alias.
func (b *Box) network() *network.NetworkingConfig {
	if b.Net == "" || b.Alias == "" {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{b.Net: {Aliases: []string{b.Alias}}}}
}
