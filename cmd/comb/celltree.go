package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cell"
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
			nodes, err := client.Nodes(c.Context())
			if err != nil {
				return err
			}
			return a.show(out, func(t *table) { drawCells(t, &out, nodes.Nodes) })
		}}
	return noun("cell", "Cells: the topology of the cluster", tree)
}

// cellTree draws cells as lines with the usual branches.
type cellTree struct {
	t     *table
	names map[sched.JobID]rest.NamedJob
	away  map[cell.NodeName]string // why a node without bad devices is not in service
}

func drawCells(t *table, list *rest.CellList, nodes []sched.NodeStatus) {
	d := &cellTree{t: t, names: map[sched.JobID]rest.NamedJob{}, away: map[cell.NodeName]string{}}
	for i := range nodes {
		n := &nodes[i]
		switch {
		case slices.ContainsFunc(n.SKUs, func(s sched.NodeSKU) bool { return s.Bad > 0 }):
		case !n.Up:
			d.away[n.Name] = "down"
		case n.Cordoned:
			d.away[n.Name] = "cordoned"
		case n.Suspect != 0:
			d.away[n.Name] = "suspect"
		}
	}
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
	d.t.row(branch+d.label(c), c.State, vcOf(c), d.job(c.Job), d.health(c))
	for i := range c.Children {
		child := &c.Children[i]
		if i == len(c.Children)-1 {
			d.draw(child, below+"`-- ", below+"    ")
		} else {
			d.draw(child, below+"|-- ", below+"|   ")
		}
	}
}

// health says what is wrong with a cell: that it is bad, or that its node, or all
// that is wrong in it, is out of service for another reason.
func (d *cellTree) health(c *sched.CellStatus) string {
	switch {
	case c.Healthy:
		return "ok"
	case c.Node != "":
		return first(d.away[c.Node], "bad")
	}
	all := ""
	for i := range c.Children {
		one := d.health(&c.Children[i])
		if one != "ok" && all != "" && one != all {
			return "bad"
		}
		if one != "ok" {
			all = one
		}
	}
	return first(all, "bad")
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
