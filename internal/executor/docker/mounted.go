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

// ErrOtherMount says that other things are mounted than were meant to be.
var ErrOtherMount = errors.New("is not as the server made it")

// longest bounds what is read of the list of mounts, in bytes.
const longestMounts = 4 << 20

// MountedExactly looks at this process's mounts: below the folder top, which is a small file system
// of the container's own that cannot be written to, there are those named and no others, each once.
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

// exactly is of a text as /proc/self/mountinfo. A name with a blank is written otherwise there, so
// that it is never one that is meant.
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

// kind is a mount's type of file system: the word behind the dash that ends the optional fields.
func kind(fields []string) string {
	if i := slices.Index(fields, "-"); i >= 0 && i+1 < len(fields) {
		return fields[i+1]
	}
	return ""
}
