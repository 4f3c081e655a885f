package config

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
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

// mostGroups bounds the groups of a SKU's tasks, above what devices of any maker need.
const mostGroups = 16

// groupName matches names of a machine's groups.
var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// readTaskGroups reads the groups of a SKU's tasks: names of the machine's groups, or
// numbers.
func readTaskGroups(r *document.Reader, m *document.MapReader) (list []string) {
	items := m.List("groups")
	if len(items) > mostGroups {
		r.Problem(m.Node("groups"), "%d groups are too many: at most %d are allowed", len(items), mostGroups)
		return nil
	}
	for _, item := range items {
		name := r.String(item, document.Text{Max: 32})
		number, err := strconv.ParseUint(name, 10, 31)
		if err == nil {
			name = strconv.FormatUint(number, 10)
		}
		switch {
		case err != nil && !groupName.MatchString(name):
			r.Problem(item, "%s is no group of a machine: write its name, such as render, or its number",
				document.Quote(name))
		case name == "0" || cell.PrivilegedGroup(name):
			r.Problem(item, "the group %s has rights over the whole machine, and no task gets it: "+
				"write that of the devices, such as render or video", name)
		case slices.Contains(list, name):
			r.Problem(item, "the group %s stands here twice", name)
		default:
			list = append(list, name)
		}
	}
	return list
}
