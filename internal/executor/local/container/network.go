package container

import (
	"context"
	"errors"
	"fmt"
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
	Apart  bool // its containers do not reach each other
}

// Ensure makes a network unless there is one of that name. Two calls at once for one name may make two.
func (e *Engine) Ensure(ctx context.Context, n *Network) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := e.c.NetworkInspect(ctx, n.Name, client.NetworkInspectOptions{})
	if errdefs.IsNotFound(err) {
		_, err = e.c.NetworkCreate(ctx, n.Name, client.NetworkCreateOptions{Driver: bridge, Labels: n.Labels,
			Options: map[string]string{"com.docker.network.bridge.enable_icc": fmt.Sprint(!n.Apart)}})
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "address pool"): // engines say it in words only
		return ErrNoRange
	}
	return fmt.Errorf("make the network %s: %s", n.Name, reason(err))
}

// Drop removes a network. ErrInUse says that containers are on it; one that is not there is what is wanted.
func (e *Engine) Drop(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := e.c.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case strings.Contains(err.Error(), "active endpoints"):
		return fmt.Errorf("the network %s: %w", name, ErrInUse)
	}
	return fmt.Errorf("remove the network %s: %s", name, reason(err))
}

// Networks returns the labels of all networks with a label of that value, by name.
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

// network is how a container is on its network: there the others find it by its alias.
func (b *Box) network() *network.NetworkingConfig {
	if b.Net == "" || b.Alias == "" {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{b.Net: {Aliases: []string{b.Alias}}}}
}
