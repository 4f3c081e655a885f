package people

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/access"
)

// setIDs changes numbers and notes the old and new ones.
func setIDs(ids *access.IDs, uid, gid *int64, what *[]string) (wrong []string) {
	for _, one := range []struct {
		name  string
		field *int64
		to    *int64
	}{{"uid", &ids.UID, uid}, {"gid", &ids.GID, gid}} {
		switch {
		case one.to == nil:
			continue
		case *one.to == 0:
			wrong = append(wrong, fmt.Sprintf("the %s 0 is root's: no task of a user runs with it", one.name))
			continue
		}
		was := *one.field
		if *one.field = *one.to; *one.to == access.NoID {
			*one.field = 0
		}
		if *one.field == was {
			continue
		}
		*what = append(*what, fmt.Sprintf("%s %s, was %s", one.name, number(*one.field), number(was)))
	}
	return wrong
}

// number is a number as text.
func number(id int64) string {
	if id == 0 {
		return "none"
	}
	return fmt.Sprint(id)
}

// withIDs adds the numbers of a new user or group to a line of the audit log.
func withIDs(detail string, ids access.IDs) string {
	var list []string
	if detail != "" {
		list = append(list, detail)
	}
	if ids.UID != 0 {
		list = append(list, fmt.Sprintf("uid %d", ids.UID))
	}
	if ids.GID != 0 {
		list = append(list, fmt.Sprintf("gid %d", ids.GID))
	}
	return strings.Join(list, ", ")
}

// checkIDs refuses numbers of the platform itself.
func (d *Directory) checkIDs(ids access.IDs) (wrong []string) {
	for _, id := range []int64{ids.UID, ids.GID} {
		if id != 0 && slices.Contains(d.Platform, id) {
			wrong = append(wrong, fmt.Sprintf("%d is a number with which Comb itself runs: take another", id))
		}
	}
	return slices.Compact(wrong)
}

// TaskIDs are the numbers with which a user's tasks run; zero IDs say nothing. An unknown
// user, and numbers with which Comb itself runs, are errors, so that tasks never run as the
// server.
func (d *Directory) TaskIDs(user string) (access.IDs, error) {
	u, err := d.User(user)
	if err != nil {
		return access.IDs{}, err
	}
	ids := access.TaskIDs(&u, func(name string) (access.Group, bool) {
		g, err := d.Group(name)
		return g, err == nil
	})
	if len(d.checkIDs(ids)) > 0 { // the server now runs as this user
		return access.IDs{}, problem(ErrInvalid, "tasks of user %s would run with uid %d and gid %d, and Comb "+
			"itself runs with one of them now: an administrator gives the user another (comb user update %s --uid N "+
			"--gid N)",
			user, ids.UID, ids.GID, user)
	}
	return ids, nil
}
