package state

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
)

// loadOf is what a gang asks for, with the text of its SKUs, if all its tasks may use the same
// SKUs and no pinned cell; else nil and "".
func loadOf(members []cell.Member) (budget.Load, string) {
	var all []budget.Sized
	for i := range members {
		m := &members[i]
		if m.Alike || m.Pinned != "" || !slices.Equal(m.SKUs, members[0].SKUs) {
			return nil, ""
		}
		all = append(all, budget.Sized{Size: m.Leaves, Count: m.Tasks})
	}
	return budget.LoadOf(all), fmt.Sprintf("%q", members[0].SKUs)
}
