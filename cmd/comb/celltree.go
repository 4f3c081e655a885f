package main

import (
	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
)

func (a *app) cellCommand() *cobra.Command {
	tree := &cobra.Command{Use: "tree", Short: "Draw the physical cells: whose they are, who uses them, what is bad",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
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
			return a.show(out, func(t *table) {
				t.head("CELL", "STATE", "VC", "JOB", "HEALTH")
				for _, l := range cli.CellTree(&out, nodes.Nodes) {
					t.row(l.Cell, l.State, l.VC, l.Job, l.Health)
				}
			})
		}}
	return noun("cell", "Cells: the topology of the cluster", tree)
}
