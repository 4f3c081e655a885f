package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// eachCell calls f for every cell of the forest, parents first.
func eachCell(cells []model.CellStatus, f func(*model.CellStatus)) {
	for i := range cells {
		f(&cells[i])
		eachCell(cells[i].Children, f)
	}
}

// findCells returns the cells that a script names: by the address from the top, by the name
// of a node, or by a node and an address inside it. One machine may be a cell of several
// chains; chain then selects one.
func findCells(cells []model.CellStatus, name, chain string) []model.CellStatus {
	var out []model.CellStatus
	for i := range cells {
		if chain != "" && chain != string(cells[i].Type) {
			continue
		}
		eachCell(cells[i:i+1], func(c *model.CellStatus) {
			if c.Address == name || strings.HasSuffix(c.Address, "/"+name) && strings.HasPrefix(name, string(c.Node)) && c.Node != "" {
				out = append(out, *c)
			}
		})
	}
	return out
}

// bound reports whether a VC's preassigned cell is bound at or below a cell.
func bound(c *model.CellStatus) bool {
	return c.Virtual != "" || slices.ContainsFunc(c.Children, func(k model.CellStatus) bool { return bound(&k) })
}

// freeCells returns the cells below which no VC's preassigned cell is bound, the largest ones
// that are wholly free. These are a chain's free lists, in order of address.
func freeCells(top *model.CellStatus) []*model.CellStatus {
	if !bound(top) {
		return []*model.CellStatus{top}
	}
	var out []*model.CellStatus
	for i := range top.Children {
		if top.Virtual == "" {
			out = append(out, freeCells(&top.Children[i])...)
		}
	}
	return out
}

// showFree prints the free lists, one line for a chain's level, top level first.
func showFree(out *strings.Builder, cells []model.CellStatus) {
	for i := 0; i < len(cells); {
		chain := cells[i].Type
		var free []*model.CellStatus
		for ; i < len(cells) && cells[i].Type == chain; i++ {
			free = append(free, freeCells(&cells[i])...)
		}
		slices.SortStableFunc(free, func(a, b *model.CellStatus) int { return int(b.Level) - int(a.Level) })
		fmt.Fprintf(out, "%s:", chain)
		level := cell.Level(0)
		for _, c := range free {
			if c.Level != level {
				fmt.Fprintf(out, " %s", c.Type)
				level = c.Level
			}
			fmt.Fprintf(out, " %s%s", c.Address, map[bool]string{false: "(bad)"}[c.Healthy])
		}
		if len(free) == 0 {
			out.WriteString(" none")
		}
		out.WriteString("\n")
	}
}

// showBindings prints which physical cell stands for which preassigned cell.
func showBindings(out *strings.Builder, cells []model.CellStatus) {
	var lines []string
	var walk func(cells []model.CellStatus)
	walk = func(cells []model.CellStatus) {
		for i := range cells {
			c := &cells[i]
			if c.Virtual == "" {
				walk(c.Children)
				continue
			}
			line := fmt.Sprintf("%s is %s %s", c.Virtual, c.Type, c.Address)
			if c.Pinned != "" {
				line += " pinned " + string(c.Pinned)
			}
			if !c.Healthy {
				line += ", bad"
			}
			lines = append(lines, line+"\n")
		}
	}
	walk(cells)
	slices.Sort(lines)
	out.WriteString(strings.Join(lines, ""))
}

// assertCell compares one physical cell:
//
//	assert cell=n1/0 [chain=gpu-node] state=Used for=a/0 by=job health=bad priority=test listed=no
func (s *Session) assertCell(a *args) ([]string, error) {
	name, chain := a.text("cell", ""), a.text("chain", "")
	var found []model.CellStatus
	free := ""
	err := s.read(func(st *core.State) {
		cells := st.Cells()
		found = findCells(cells, name, chain)
		for i := range cells {
			for _, c := range freeCells(&cells[i]) {
				if len(found) == 1 && c.Address == found[0].Address && c.Type == found[0].Type {
					free = "yes"
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("assert: %d cells are called %q; give the whole address, and chain= when several chains have it", len(found), name)
	}
	c := found[0]
	if free == "" {
		free = "no"
	}
	by := ""
	if c.Job != 0 {
		by = s.jobName(c.Job)
	}
	priority := formatPriority(c.Priority)
	if c.Priority == cell.Free {
		priority = "free"
	}
	return compare(a, []fact{
		{"state", c.State}, {"for", c.Virtual}, {"vc", string(c.VC)}, {"by", by}, {"type", string(c.Type)},
		{"health", map[bool]string{true: "good", false: "bad"}[c.Healthy]},
		{"pinned", string(c.Pinned)}, {"priority", priority}, {"listed", free},
	}), nil
}

// assertVC compares a VC's counters:
//
//	assert vc=a guaranteed=8 used=4 borrowed=0 lent=0 bad=0 waiting=1 active=2 bound=1
func (s *Session) assertVC(a *args) ([]string, error) {
	name := a.text("vc", "")
	var vcs []model.VCStatus
	if err := s.read(func(st *core.State) { vcs = st.VCs() }); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(vcs, func(v model.VCStatus) bool { return string(v.Name) == name })
	if i < 0 {
		return nil, fmt.Errorf("assert: there is no VC %q", name)
	}
	v := vcs[i]
	var bound int32
	for _, q := range v.Cells {
		bound += q.Bound
	}
	return compare(a, []fact{
		{"guaranteed", fmt.Sprint(v.Guaranteed)}, {"used", fmt.Sprint(v.Used)}, {"borrowed", fmt.Sprint(v.Opportunistic)},
		{"lent", fmt.Sprint(v.Lent)}, {"bad", fmt.Sprint(v.Bad)},
		{"held", fmt.Sprint(v.HeldByOthers)}, {"waiting", fmt.Sprint(v.Waiting)},
		{"active", fmt.Sprint(v.Active)}, {"bound", fmt.Sprint(bound)},
	}), nil
}

// assertFreeCells compares the free list of one chain: assert chain=rack listed="rack-1 n3/0".
func (s *Session) assertFreeCells(a *args) ([]string, error) {
	chain := a.text("chain", "")
	known := false
	var names []string
	err := s.read(func(st *core.State) {
		cells := st.Cells()
		for i := range cells {
			if string(cells[i].Type) != chain {
				continue
			}
			known = true
			for _, c := range freeCells(&cells[i]) {
				names = append(names, c.Address)
			}
		}
	})
	if err == nil && !known {
		err = fmt.Errorf("assert: there is no chain %q", chain)
	}
	return compare(a, []fact{{"listed", strings.Join(names, " ")}}), err
}

// cellName is the type and the address of the cell with this number in an event. The forest
// is built at the first call.
func (s *Session) cellName(id cell.CellID) string {
	if s.forest == nil {
		c, err := cell.New(s.cluster)
		if err != nil {
			return fmt.Sprintf("cell %d", id)
		}
		s.forest = c.Forest()
	}
	c := &s.forest.Cells[id]
	return fmt.Sprintf("%s %s", s.forest.Chains[c.Chain].Types[c.Level-1], s.forest.Path(id))
}

// inParts reports whether the leaves of a SKU are parts of devices.
func (s *Session) inParts(sku cell.TypeName) bool {
	return slices.ContainsFunc(s.cluster.SKUs, func(k cell.SKU) bool { return k.Name == sku && k.Part != "" })
}
