package task

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Groups are found by name and number; those with rights over the machine never are.
func TestGroups(t *testing.T) {
	_, file := files(t, "", "root:x:0:\nvideo:x:44:\nrender:x:109:\nshadow:x:42:\ndocker:x:998:\nalias:x:42:\n")
	dir := t.TempDir()
	sockets := []string{"unix://" + dir + "/none"}
	engines := []int{os.Getegid(), os.Getegid()}
	if os.Geteuid() == 0 {
		engines = []int{4711, 4712}
	}
	for i, engine := range engines {
		socket := filepath.Join(dir, fmt.Sprint(i))
		if err := errors.Join(os.WriteFile(socket, nil, 0o600), os.Chown(socket, -1, engine)); err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, "unix://"+socket)
	}
	for _, c := range []struct{ names, want, fault string }{
		{"", "[]", ""}, {"render video", "[109 44]", ""}, {"109 render 7000", "[109 7000]", ""},
		{"nothing", "", "the group nothing of its SKU is not in this machine's /etc/group"},
		{"0", "", "has rights over all of it"}, {"root", "", "has rights over all of it"}, {"42", "", "the group 42 of its SKU, 42 on this machine, has rights"},
		{"alias", "", "has rights"}, {"998", "", "has rights"},
		{fmt.Sprint(engines[0]), "", "has rights"}, {fmt.Sprint(engines[1]), "", "has rights"},
	} {
		got, err := groups(strings.Fields(c.names), sockets,
			func(name string) bool { return name == "shadow" || name == "docker" }, file)
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) || c.fault == "" && (err != nil || fmt.Sprint(got) != c.want) {
			t.Errorf("%s: %v, %v, want %s%s", c.names, got, err, c.want, c.fault)
		}
	}
}
