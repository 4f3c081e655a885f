package task

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/test/testkit"
)

// Files are told of when they come by rename, also where the kernel has no watch left.
func TestWatch(t *testing.T) {
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	for name, few := range map[string]bool{"heard": false, "looked for": true} {
		t.Run(name, func(t *testing.T) {
			dir, told := t.TempDir(), make(chan bool, 100)
			if few {
				none := had
				none.Cur = 3
				if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
					t.Fatal(err)
				}
			}
			WatchRenames(dir, []string{"stop", "turn"}, func() { told <- true })
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
				t.Fatal(err)
			}
			put := func(name string) {
				t.Helper()
				tmp := filepath.Join(dir, name+".new")
				if err := os.WriteFile(tmp, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"stop", "turn", "turn"} {
				put(name)
				select {
				case <-told:
				case <-time.After(testkit.Patience):
					t.Fatalf("%s came and was not told", name)
				}
			}
			put("other")
			select {
			case <-told:
				t.Error("a file of another name was told")
			case <-time.After(5 * pollPause):
			}
		})
	}
}
