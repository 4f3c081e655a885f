package task

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Account is a user that a task runs as.
type Account struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"` // besides its own
	Name   string   `json:"name,omitempty"`
	Home   string   `json:"home,omitempty"`
}

// longest bounds what is read of a file of an image, in bytes.
const longest = 1 << 20

// LookupAccount finds an image's user in this container's /etc/passwd and /etc/group. "" is root;
// else it is a name or number, optionally with :GROUP. A number need not be in a file.
func LookupAccount(text string) (Account, error) { return lookup(text, "/etc/passwd", "/etc/group") }

func lookup(text, passwd, groups string) (Account, error) {
	name, group, _ := strings.Cut(text, ":")
	if name == "" {
		name = "0"
	}
	a := Account{Home: "/"}
	users, err := lines(passwd, 7)
	if err != nil {
		return a, err
	}
	known, err := lines(groups, 4)
	if err != nil {
		return a, err
	}
	u := find(users, 2, name)
	if u == nil {
		u = find(users, 0, name)
	}
	uid, number := id(name)
	switch {
	case u != nil:
		a.UID, _ = id(u[2])
		a.GID, _ = id(u[3])
		a.Name, a.Home = u[0], u[5]
		if group == "" {
			a.Groups = others(known, a.Name, a.GID)
		}
	case number:
		a.UID = uid
	default:
		return a, fmt.Errorf("the image's user %q is not in its /etc/passwd: give it a USER that is there", text)
	}
	if group == "" {
		return a, nil
	}
	if gid, number := id(group); number {
		a.GID = gid
		return a, nil
	}
	g := find(known, 0, group)
	if g == nil {
		return a, fmt.Errorf("the image's group %q is not in its /etc/group: give it a USER that is there", group)
	}
	a.GID, _ = id(g[2])
	return a, nil
}

// lines are the lines of a file of users or groups that have all fields and valid numbers. A
// missing file has none.
func lines(path string, fields int) ([][]string, error) {
	text, err := readAccounts(path)
	if err != nil {
		return nil, err
	}
	var list [][]string
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < fields || f[0] == "" || strings.ContainsAny(f[0][:1], "+-#") {
			continue
		}
		_, ok := id(f[2])
		if _, gid := id(f[3]); ok && (gid || fields == 4) {
			list = append(list, f)
		}
	}
	return list, nil
}

// readAccounts reads a plain file, also through links: these lead to nothing outside this
// container. It does not wait for the other end of a pipe.
func readAccounts(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("its %s cannot be read (%w): use one with a file there", path, errors.Unwrap(err))
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return "", fmt.Errorf("its %s is not a plain file: use one with a file there", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, longest+1))
	if err != nil || len(text) > longest {
		return "", fmt.Errorf("its %s cannot be read, or has more than %d bytes: use one with a smaller file", path, longest)
	}
	return string(text), nil
}

func find(lines [][]string, field int, value string) []string {
	i := slices.IndexFunc(lines, func(f []string) bool { return f[field] == value })
	if i < 0 {
		return nil
	}
	return lines[i]
}

// id reads the number of a user or group.
func id(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err == nil
}

// mostGroups is the kernel's limit.
const mostGroups = 65536

// others are the groups of a user besides its own.
func others(groups [][]string, name string, own uint32) []uint32 {
	var list []uint32
	for _, g := range groups {
		gid, _ := id(g[2])
		if gid != own && len(list) < mostGroups && slices.Contains(strings.Split(g[3], ","), name) && !slices.Contains(list, gid) {
			list = append(list, gid)
		}
	}
	return list
}
