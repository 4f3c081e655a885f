package local

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor"
)

// ends is a connection within this process.
func ends(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []*net.UnixConn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		list = append(list, c.(*net.UnixConn))
	}
	return list[0], list[1]
}

// TestLongest: the longest command that may be run gets through, also one of characters that JSON
// writes with six.
func TestLongest(t *testing.T) {
	for name, argv := range map[string][]string{
		"plain": {strings.Repeat("a", executor.MaxCommand-1)}, "escaped": {strings.Repeat("\x01", executor.MaxCommand-1)},
		"signs": {strings.Repeat("<", executor.MaxCommand-1)}, "many": append([]string{"a"}, make([]string, executor.MaxCommand-2)...),
	} {
		c := executor.Command{Argv: argv, Term: strings.Repeat("x", 64), Terminal: &executor.Size{Rows: 1, Cols: 1}}
		if err := check(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, b := ends(t)
		go func() { _ = send(a, request{Command: &c}) }()
		var r request
		if _, err := receive(b, &r); err != nil || len(r.Command.Argv) != len(argv) || r.Command.Argv[0] != argv[0] {
			t.Errorf("%s: %v", name, err)
		}
	}
}
