package admin

import (
	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
)

func (a *commands) cellCommand() *cobra.Command {
	tree := &cobra.Command{Use: "tree", Short: "Draw the physical cells: whose they are, who uses them, what is bad",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, err := client.Cells(c.Context())
			if err != nil {
				return err
			}
			nodes, err := client.Nodes(c.Context())
			if err != nil {
				return err
			}
			return a.Show(out, func(t *cli.Table) {
				t.Head("CELL", "STATE", "VC", "JOB", "HEALTH")
				for _, l := range cli.CellTree(&out, nodes.Nodes) {
					t.Row(l.Cell, l.State, l.VC, l.Job, l.Health)
				}
			})
		}}
	return cli.Noun("cell", "Cells: the topology of the cluster", tree)
}
