package docker

import (
	"errors"
	"strings"
	"testing"
)

// What an image can do to the mounts is seen in the list of them.
func TestExactly(t *testing.T) {
	const (
		root = "30 20 0:40 / / rw,relatime - overlay overlay rw\n31 30 0:41 / /proc rw - proc proc rw\n"
		top  = "32 30 0:42 / /comb ro,nosuid,nodev shared:7 master:1 - tmpfs tmpfs rw,size=64k\n"
		bin  = "33 32 8:1 /usr/bin/comb /comb/bin/comb ro - ext4 /dev/sda1 rw\n"
		work = "34 32 8:1 /data/shared /comb/shared rw - ext4 /dev/sda1 rw\n"
	)
	for _, c := range []struct{ what, text, fault string }{
		{"as it is made", root + top + bin + work, ""},
		{"another folder of a like name", root + top + bin + work + "35 30 0:43 / /combed rw - tmpfs tmpfs rw\n", ""},
		{"/comb is a link", root + strings.ReplaceAll(top+bin+work, " /comb", " /etc"), "/comb is not as the server made it: nothing is mounted there"},
		{"a volume that a link leads to", root + top + bin + work + "35 34 8:1 /volumes/x /comb/shared/x rw - ext4 /dev/sda1 rw\n", "/comb/shared/x"},
		{"a volume over the work", root + top + bin + work + work, "/comb/shared is not as the server made it: two things"},
		{"a name with a blank", root + top + bin + work + "35 34 8:1 / /comb/shared\\040x rw - ext4 /dev/sda1 rw\n", `/comb/shared\040x`},
		{"a part is missing", root + top + work, "/comb/bin/comb is not as the server made it: nothing"},
		{"a part was taken away", root + top + bin + strings.ReplaceAll(work, "/comb/shared ", "/comb/shared//deleted "), "/comb/shared//deleted"},
		{"it can be written to", root + strings.ReplaceAll(top, "ro,", "rw,") + bin + work, "can be written to"},
		{"not a file system of its own", root + strings.ReplaceAll(top, "tmpfs tmpfs", "ext4 tmpfs") + bin + work, "can be written to"},
		{"a short line", root + top + bin + work + "35 34 8:1 /\n", "cannot be read"},
		{"nothing", "", "/comb is not as the server made it"},
	} {
		err := exactly(c.text, "/comb", []string{"/comb/bin/comb", "/comb/shared"})
		if c.fault == "" && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.fault != "" && (!errors.Is(err, ErrOtherMount) || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.fault)
		}
	}
}

// The machine that tests run on has nothing of the kind.
func TestExactlyHere(t *testing.T) {
	if err := MountedExactly("/comb", []string{"/comb/bin/comb"}); !errors.Is(err, ErrOtherMount) {
		t.Errorf("%v", err)
	}
}
