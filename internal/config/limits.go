package config

import (
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/document"
)

// readLimits reads the limits of each process of a task.
func readLimits(r *document.Reader, n *document.Node) (l cell.TaskLimits) {
	if n == nil {
		return l
	}
	m := r.Map(n, "limits")
	l.NoFile = m.Int("nofile", document.Range{Min: cell.LeastFiles, Max: cell.MostFiles})
	l.StackMB = r.Size(m.Node("stack"))
	l.MemLockMB = r.Size(m.Node("memlock"))
	m.Rest()
	return l
}
