package task

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Groups finds the extra groups of tasks on this machine, by name or number. It refuses groups
// with rights over the machine: that of root, powerful ones, and those that own sockets of
// container engines.
func Groups(names, sockets []string, powerful func(string) bool) ([]uint32, error) {
	return groups(names, sockets, powerful, "/etc/group")
}

func groups(names, sockets []string, powerful func(string) bool, file string) (list []uint32, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	known, err := lines(file, 4)
	if err != nil {
		return nil, fmt.Errorf("look for the groups of its SKU: this machine: %w", err)
	}
	var engines []uint32
	for _, socket := range sockets {
		if st, err := os.Stat(strings.TrimPrefix(socket, "unix://")); err == nil {
			if by, ok := st.Sys().(*syscall.Stat_t); ok {
				engines = append(engines, by.Gid)
			}
		}
	}
	for _, name := range names {
		gid, number := id(name)
		if !number {
			g := find(known, 0, name)
			if g == nil {
				return nil, fmt.Errorf("the group %s of its SKU is not in this machine's /etc/group: "+
					"an administrator makes it, or corrects the cluster file (groups)", name)
			}
			gid, _ = id(g[2])
		}
		refused := gid == 0 || slices.Contains(engines, gid) || slices.ContainsFunc(known, func(f []string) bool {
			n, _ := id(f[2])
			return n == gid && powerful(f[0])
		})
		if refused {
			return nil, fmt.Errorf("the group %s of its SKU, %d on this machine, has rights over all of it: "+
				"an administrator takes it out of the cluster file (groups)", name, gid)
		}
		if !slices.Contains(list, gid) {
			list = append(list, gid)
		}
	}
	return list, nil
}
