package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// PriorityClass is a priority with its name in OpenPAI.
type PriorityClass struct {
	Name     string
	Priority cell.Priority
}

// DefaultPriority is the priority of a job that asks for none.
const DefaultPriority = cell.Priority(10)

// PriorityClasses returns the classes, the highest first.
func PriorityClasses() []PriorityClass {
	return []PriorityClass{{"crit", 120}, {"prod", 100}, {"test", DefaultPriority}, {"oppo", cell.Opportunistic}}
}

// PriorityNames returns their names, the highest first.
func PriorityNames() (names []string) {
	for _, c := range PriorityClasses() {
		names = append(names, c.Name)
	}
	return names
}

// PriorityNamed returns the priority of a name; false if there is no such class.
func PriorityNamed(name string) (cell.Priority, bool) {
	for _, c := range PriorityClasses() {
		if c.Name == name {
			return c.Priority, true
		}
	}
	return 0, false
}

// PriorityName returns the name of a priority; "" if it has none.
func PriorityName(p cell.Priority) string {
	for _, c := range PriorityClasses() {
		if c.Priority == p {
			return c.Name
		}
	}
	return ""
}
