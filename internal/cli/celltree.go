package cli

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TreeLine is one cell.
type TreeLine struct {
	Cell, State, VC, Job, Health string
}

// cellTree draws cells as lines with the usual branches.
type cellTree struct {
	lines []TreeLine
	names map[model.JobID]rest.NamedJob
	away  map[cell.NodeName]string // why nothing new starts on a node, if it has no bad devices
}

// CellTree lists the cells of a forest from the top down. It says where a cell without bad
// devices is on a node that is out of service.
func CellTree(list *rest.CellList, nodes []rest.NodeStatus) []TreeLine {
	d := &cellTree{names: map[model.JobID]rest.NamedJob{}, away: map[cell.NodeName]string{}}
	for i := range nodes {
		n := &nodes[i]
		switch {
		case slices.ContainsFunc(n.SKUs, func(s rest.NodeSKU) bool { return s.Bad > 0 }):
		case !n.Up:
			d.away[n.Name] = "down"
		case n.Cordoned:
			d.away[n.Name] = "cordoned"
		case n.Suspect != 0:
			d.away[n.Name] = "suspect"
		case slices.ContainsFunc(n.SKUs, func(s rest.NodeSKU) bool { return s.HeldByOthers > 0 }):
			d.away[n.Name] = "held by others"
		}
	}
	for _, n := range list.Names {
		d.names[n.ID] = n
	}
	for i := range list.Cells {
		d.draw(&list.Cells[i], "", "")
	}
	return d.lines
}

// draw draws a cell and its children. branch is the prefix of its own line, below that of
// theirs.
func (d *cellTree) draw(c *rest.CellStatus, branch, below string) {
	d.lines = append(d.lines, TreeLine{branch + d.label(c), c.State, vcOf(c), d.job(c.Job), d.health(c)})
	for i := range c.Children {
		child := &c.Children[i]
		if i == len(c.Children)-1 {
			d.draw(child, below+"`-- ", below+"    ")
		} else {
			d.draw(child, below+"|-- ", below+"|   ")
		}
	}
}

// health says what is wrong with a cell: it is bad, or its node, or all that is wrong in it,
// is out of service for another reason.
func (d *cellTree) health(c *rest.CellStatus) string {
	switch {
	case c.Healthy:
		return "ok"
	case c.Node != "":
		return cmp.Or(d.away[c.Node], "bad")
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
	return cmp.Or(all, "bad")
}

func (d *cellTree) label(c *rest.CellStatus) string {
	return string(c.Type) + " " + path.Base(c.Address)
}

func vcOf(c *rest.CellStatus) string {
	parts := []string{string(c.VC)}
	if c.Virtual != "" && c.Virtual != string(c.VC) {
		parts = []string{c.Virtual}
	}
	if c.Pinned != "" {
		parts = append(parts, "pinned "+string(c.Pinned))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func (d *cellTree) job(id model.JobID) string {
	if id == 0 {
		return ""
	}
	if n, ok := d.names[id]; ok {
		return fmt.Sprintf("%s (%d)", n.Ref, id)
	}
	return fmt.Sprint(int64(id))
}
