package access

import (
	"cmp"
	"fmt"
)

// NoID, in a change, takes a number away.
const NoID = -1

// Bounds of the numbers that tasks run with.
const (
	// LowestID is the first number that a user's tasks may run with: those below are of the
	// machine's own users and groups.
	LowestID  = 1000
	highestID = 1<<31 - 2
	// unmapped is the number that kernels and NFS servers show in place of those that they do not
	// map.
	unmapped = 65534
)

// IDs are the numbers of a user and its group on the machines; 0 is that nothing is said.
type IDs struct {
	UID int64 `json:"uid,omitempty"`
	GID int64 `json:"gid,omitempty"`
}

// Check returns all that is wrong with the numbers, a sentence each.
func (i IDs) Check() (wrong []string) {
	for _, one := range []struct {
		what  string
		value int64
	}{{"uid", i.UID}, {"gid", i.GID}} {
		if one.value != 0 && (one.value < LowestID || one.value > highestID || one.value == unmapped) {
			wrong = append(wrong, fmt.Sprintf("the %s %d is not possible: want %d to %d, without %d",
				one.what, one.value, LowestID, highestID, unmapped))
		}
	}
	return wrong
}

// TaskIDs are the numbers that a user's tasks run with; the zero IDs are those of the image, or of
// the server. The uid is the user's own, else that of the first of its groups, by name, that has
// one; the gid likewise, else the uid's number. A gid alone changes nothing. The virtual cluster
// of a job does not count: what a user writes in one belongs to it in the others.
func TaskIDs(u *User, group func(name string) (Group, bool)) IDs {
	ids := u.IDs
	for _, name := range u.AllGroups() {
		if g, ok := group(name); ok {
			ids.UID, ids.GID = cmp.Or(ids.UID, g.UID), cmp.Or(ids.GID, g.GID)
		}
	}
	if ids.UID == 0 {
		return IDs{}
	}
	ids.GID = cmp.Or(ids.GID, ids.UID)
	return ids
}
