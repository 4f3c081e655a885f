package admin

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/discover"
)

// clusterCommands are the commands for clusters that have no server yet.
type clusterCommands struct{ *cli.App }

// all are the commands.
func (k *clusterCommands) all() []*cobra.Command {
	return []*cobra.Command{k.discover(), k.check()}
}

// maxNamed is how many of the left out nodes are named.
const maxNamed = 10

func (k *clusterCommands) discover() *cobra.Command {
	var flags api.Flags
	c := &cobra.Command{Use: "discover", Short: "Propose a cluster file for the nodes of a Kubernetes cluster",
		Long: `Propose a cluster file for the nodes of a Kubernetes cluster: the GPUs of each as its device plugin, a driver for
dynamic resource allocation, or its labels tell, in cells by zone, block, rack and NVLink domain where labels say them. All belongs to one virtual cluster:
say which team owns what, and start the server with the file. Nodes for the control plane are left out.`,
		Example: "  comb cluster discover > cluster.yaml\n  comb config validate cluster.yaml\n  comb serve --executor kubernetes --cluster cluster.yaml", Args: cobra.NoArgs}
	flags.AddFile(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := api.Open(api.Options{Kubeconfig: flags.File, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		nodes, err := client.Nodes(c.Context())
		if err != nil {
			return fmt.Errorf("cannot ask %s for its nodes: %s", client.Host(), cli.Clean(api.ErrorText(err), false))
		}
		published, err := client.Slices(c.Context(), "", "")
		if err != nil && !api.NeverAccepts(err) { // else there is none, or it may not be read
			return fmt.Errorf("cannot ask %s for the devices of its nodes: %s", client.Host(),
				cli.Clean(api.ErrorText(err), false))
		}
		running, err := client.Others(c.Context(), "", "")
		switch {
		case err != nil && api.NeverAccepts(err):
			fmt.Fprintf(k.Errs, "pods of all namespaces may not be listed, so what DaemonSets ask for "+
				"is not taken off the nodes: leave CPUs and memory for them (%s)\n",
				cli.Clean(api.ErrorText(err), false))
		case err != nil:
			return fmt.Errorf("cannot ask %s for the pods of its nodes: %s", client.Host(),
				cli.Clean(api.ErrorText(err), false))
		}
		p := discover.Propose(nodes, published, running)
		if p.Included == 0 {
			return fmt.Errorf("the Kubernetes cluster at %s has no node that jobs could run on (%d nodes are left out)%s", client.Host(), len(p.LeftOut), cli.Clean(clusterList(p.LeftOut), false))
		}
		if len(p.LeftOut) > 0 {
			fmt.Fprintf(k.Errs, "%d of %d nodes are left out%s\n", len(p.LeftOut), len(nodes),
				cli.Clean(clusterList(p.LeftOut), false))
		}
		_, err = io.WriteString(k.Out, p.File)
		return err
	}
	return c
}

func clusterList(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	text := ": " + strings.Join(nodes[:min(len(nodes), maxNamed)], "; ")
	if more := len(nodes) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
