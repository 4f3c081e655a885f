package local

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
)

// eachLimit is a limit of each process, as a role or a SKU sets it.
type eachLimit struct {
	name  string
	value int64 // 0: not set; -1: no limit
	unit  int64 // the unit of the kernel
}

func eachOf(l cell.TaskLimits) []eachLimit {
	return []eachLimit{{"nofile", l.NoFile, 1}, {"stack", l.StackMB, 1 << 20}, {"memlock", l.MemLockMB, 1 << 20}}
}

// has reports whether a limit is set by that name.
func has(l cell.TaskLimits, name string) bool {
	for _, one := range eachOf(l) {
		if one.name == name {
			return one.value != 0
		}
	}
	return false
}

// text is the limit for a message: in MiB where it counts bytes.
func (l eachLimit) text() string {
	switch {
	case l.value < 0:
		return l.name + ": unlimited"
	case l.unit > 1:
		return fmt.Sprintf("%s: %d MiB", l.name, l.value)
	}
	return fmt.Sprintf("%s: %d", l.name, l.value)
}

// ulimits are the limits of each process of a container. One that the engine cannot give is
// refused: it is the job's fault where its role asks for it, else the node's, whose SKU has it.
// Locked memory that is not set is as much as the engine gives: RDMA and pinned memory need it.
func ulimits(role *model.Role, sku *cell.SKU, most func(string) int64) (list []docker.Ulimit,
	refused string, job bool) {
	for _, l := range eachOf(role.Launch.Limits.Or(sku.Limits)) {
		value, said := l.value, l.value != 0
		switch {
		case value > 0:
			value *= l.unit
		case !said && l.name == "memlock":
			value = docker.Unlimited
		case !said:
			continue
		}
		if m := most(l.name); docker.Exceeds(value, m) {
			if said {
				bytes := ""
				if l.unit > 1 {
					bytes = " bytes"
				}
				refused, job = tooMuch(role.Launch.Limits, l, fmt.Sprintf(" is more than the %d%s that the "+
					"container engine of this node can give", m, bytes))
				return nil, refused, job
			}
			value = m
		}
		list = append(list, docker.Ulimit{Name: l.name, Value: value})
	}
	return list, "", false
}

// ungiven finds in an engine's words a limit that it could not give after all; refused is "" when
// the words are about something else. each are the limits of each process, own those that the
// role itself sets.
func ungiven(each, own cell.TaskLimits, words string) (refused string, job bool) {
	name := docker.LimitOf(words)
	for _, l := range eachOf(each) {
		if l.name == name && l.value != 0 {
			return tooMuch(own, l, " is more than the container engine of this node can give ("+words+")")
		}
	}
	return "", false
}

// tooMuch refuses a limit. Where the role itself sets it, the job asks for too much.
func tooMuch(own cell.TaskLimits, l eachLimit, why string) (refused string, job bool) {
	if has(own, l.name) {
		return l.text() + why + ": ask for less (--ulimit, or limits of the role)", true
	}
	by := "the engine's own limit"
	if l.name == "nofile" {
		by += " and the kernel's (fs.nr_open)"
	}
	return l.text() + why + ": an administrator raises " + by +
		", or lowers the limit in the cluster file (limits)", false
}
