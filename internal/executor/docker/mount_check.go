package docker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOtherMount says that the mounts are not those that the server made.
var ErrOtherMount = errors.New("is not as the server made it")

// longestMounts bounds what is read of the list of mounts, in bytes.
const longestMounts = 4 << 20

// MountedExactly checks this process's mounts. top must be a small read-only file system of the
// container's own, and below it there must be exactly the named mounts, each once.
func MountedExactly(top string, below []string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("/proc %w: it has type %#x, %v", ErrOtherMount, fs.Type, err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestMounts+1))
	if err != nil {
		return err
	}
	if len(text) > longestMounts {
		return fmt.Errorf("%s %w: the list of mounts has more than %d bytes", top, ErrOtherMount, longestMounts)
	}
	return exactly(string(text), top, below)
}

// exactly checks the text of /proc/self/mountinfo. A name with a blank is escaped there, so it
// never equals an expected one.
func exactly(mountinfo, top string, below []string) error {
	seen := map[string]int{}
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			return fmt.Errorf("%s %w: a line of the mounts cannot be read", top, ErrOtherMount)
		}
		point, options := fields[4], strings.Split(fields[5], ",")
		if point != top && !strings.HasPrefix(point, top+"/") {
			continue
		}
		if seen[point]++; seen[point] > 1 {
			return fmt.Errorf("%s %w: two things are mounted there", point, ErrOtherMount)
		}
		if point != top && !slices.Contains(below, point) {
			return fmt.Errorf("%s %w: it is mounted, and not by the server", point, ErrOtherMount)
		}
		if point == top && (kind(fields) != "tmpfs" || !slices.Contains(options, "ro")) {
			return fmt.Errorf("%s %w: it can be written to", point, ErrOtherMount)
		}
	}
	for _, point := range append([]string{top}, below...) {
		if seen[point] == 0 {
			return fmt.Errorf("%s %w: nothing is mounted there", point, ErrOtherMount)
		}
	}
	return nil
}

// kind is the type of a mount's file system: the word behind the dash that ends the optional
// fields.
func kind(fields []string) string {
	if i := slices.Index(fields, "-"); i >= 0 && i+1 < len(fields) {
		return fields[i+1]
	}
	return ""
}
