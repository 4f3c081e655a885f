package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Drop()
	os.Exit(code)
}

// A condition is asked until it holds, and no more; one that never holds ends with its time.
func TestWithin(t *testing.T) {
	asked := 0
	Wait(t, "the third answer", func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	if Within(time.Millisecond, func() bool { return false }) {
		t.Error("what never holds held")
	}
}

// The programs are there, and are the same ones for each that asks.
func TestPrograms(t *testing.T) {
	dir, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Programs()
	if again != dir || !filepath.IsAbs(dir) {
		t.Errorf("programs in %s, then in %s", dir, again)
	}
	if out, err := exec.Command(filepath.Join(dir, "comb"), "version").CombinedOutput(); err != nil {
		t.Errorf("comb version: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "train")); err != nil {
		t.Error(err)
	}
}
