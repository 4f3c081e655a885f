package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
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
			return a.show(out, func(t *table) { drawCells(t, &out) })
		}}
	return noun("cell", "Cells: the topology of the cluster", tree)
}

// cellTree draws cells as lines with the usual branches.
type cellTree struct {
	t     *table
	names map[sched.JobID]rest.NamedJob
}

func drawCells(t *table, list *rest.CellList) {
	d := &cellTree{t: t, names: map[sched.JobID]rest.NamedJob{}}
	for _, n := range list.Names {
		d.names[n.ID] = n
	}
	t.head("CELL", "STATE", "VC", "JOB", "HEALTH")
	for i := range list.Cells {
		d.draw(&list.Cells[i], "", "")
	}
}

// draw draws one cell and those below it. branch stands before its own line,
// below before theirs.
func (d *cellTree) draw(c *sched.CellStatus, branch, below string) {
	health := "ok"
	if !c.Healthy {
		health = "bad"
	}
	d.t.row(branch+d.label(c), c.State, vcOf(c), d.job(c.Job), health)
	for i := range c.Children {
		child := &c.Children[i]
		if i == len(c.Children)-1 {
			d.draw(child, below+"`-- ", below+"    ")
		} else {
			d.draw(child, below+"|-- ", below+"|   ")
		}
	}
}

func (d *cellTree) label(c *sched.CellStatus) string {
	return string(c.Type) + " " + path.Base(c.Address)
}

func vcOf(c *sched.CellStatus) string {
	parts := []string{string(c.VC)}
	if c.Virtual != "" && c.Virtual != string(c.VC) {
		parts = []string{c.Virtual}
	}
	if c.Pinned != "" {
		parts = append(parts, "pinned "+string(c.Pinned))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func (d *cellTree) job(id sched.JobID) string {
	if id == 0 {
		return ""
	}
	if n, ok := d.names[id]; ok {
		return fmt.Sprintf("%s (%d)", n.Name, id)
	}
	return number(id)
}
