// Package mutant plants faults in the decision core and sees whether the suite
// catches them. A fault is a change of the source: the program that users run
// knows nothing of it, and the change is laid over the file only for the run of
// one test.
package mutant

// fault is one change of one line or two. The text it replaces must stand in the
// file exactly once.
type fault struct {
	name     string
	file     string
	old, new string
	fast     bool // `make test` plants it: it is caught within seconds
}

const (
	space   = "internal/cell/space.go"
	cluster = "internal/cell/cluster.go"
)

var faults = []fault{
	{name: "safety is off by one", file: space, fast: true,
		old: "		if left < 0 {\n			return false\n", new: "		if left < -1 {\n			return false\n"},
	{name: "a promise to a dead job stays", file: "internal/sched/decide.go", fast: true,
		old: "			s.emit(Unreserved{Attempt: a.id, Reason: \"its job ends\"})\n			continue\n", new: "			continue\n"},
}
