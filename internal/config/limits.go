package config

import (
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/document"
)

// mostFiles is the largest number of open files that a kernel allows one process.
const mostFiles = 1 << 30

// readLimits reads the limits of each process of a task.
func readLimits(r *document.Reader, n *document.Node) (l cell.TaskLimits) {
	if n == nil {
		return l
	}
	m := r.Map(n, "limits")
	l.NoFile = m.Int("nofile", document.Range{Min: 64, Max: mostFiles, Default: 0})
	l.StackMB = size(r, m.Node("stack"))
	l.MemLockMB = size(r, m.Node("memlock"))
	m.Rest()
	return l
}

// size reads MiB, or -1 for unlimited.
func size(r *document.Reader, n *document.Node) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	if n.Kind == document.Scalar && n.Text == "unlimited" {
		return -1
	}
	mib, ok := document.ParseMemory(n.Text)
	if n.Kind != document.Scalar || !ok {
		r.Problem(n, "expected an amount of memory with its unit, such as 64Mi, or unlimited")
	}
	return mib
}
