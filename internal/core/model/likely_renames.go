package model

import (
	"fmt"
	"slices"
)

// LikelyRenames warns of added virtual clusters that have the very cells of a removed one: they
// were probably renamed. The cluster file does not say so, and their jobs would be left behind.
func (p *ConfigPlan) LikelyRenames() (texts []string) {
	for i := range p.VCs {
		now := &p.VCs[i]
		was := slices.IndexFunc(p.VCs, func(v VCChange) bool {
			return v.Kind == Removed && now.Kind == Added && now.Was == "" && sameCells(now, &v)
		})
		if was >= 0 {
			from := p.VCs[was].Name
			texts = append(texts, fmt.Sprintf("virtual cluster %s has the cells of %s, which is gone: if it is the same team, write \"formerly: %s\" there; "+
				"else the jobs of %s have no virtual cluster any more", now.Name, from, from, from))
		}
	}
	return texts
}

// sameCells reports whether an added virtual cluster has the cells that a removed one had.
func sameCells(added, removed *VCChange) bool {
	if len(added.Cells)+len(added.Pins) == 0 || len(added.Cells) != len(removed.Cells) ||
		len(added.Pins) != len(removed.Pins) {
		return false
	}
	for i, c := range added.Cells {
		if r := removed.Cells[i]; c.Chain != r.Chain || c.Type != r.Type || c.After != r.Before {
			return false
		}
	}
	for i, c := range added.Pins {
		if c.ID != removed.Pins[i].ID {
			return false
		}
	}
	return true
}
