package attend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/executor/progress"
)

func TestWhatIsToldOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "progress")
	tell := &teller{file: file}
	next := func() string {
		t.Helper()
		lines, size, _, err := tell.next()
		if err != nil {
			t.Fatal(err)
		}
		tell.at += size
		return string(lines)
	}
	write := func(text string, flag int) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		text string
		flag int
		want string
	}{
		{"", os.O_APPEND, ""},
		{"{1}\n{2", os.O_APPEND, "{1}\n"},
		{"", os.O_APPEND, ""},
		{"}\n", os.O_APPEND, "{2}\n"},
		{"{3}\n", os.O_TRUNC, "{3}\n"}, // begun anew, and shorter
		{strings.Repeat("x", progress.Longest+1), os.O_APPEND, ""},
		{"\n{4}\n", os.O_APPEND, "\n{4}\n"},
	} {
		write(step.text, step.flag)
		if got := next(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if lines, _, _, err := tell.next(); err == nil || lines != nil {
		t.Errorf("a link is followed: %q, %v", lines, err)
	}
}

func TestAddressesStandForNames(t *testing.T) {
	t.Setenv("MASTER_ADDR", "comb-a-1-0-1-1.comb-a")
	t.Setenv("HOSTS", "comb-a-1-0-1-1.comb-a:20,comb-a-1-0-1-11.comb-a:20")
	address(map[string]string{"comb-a-1-0-1-1.comb-a": "10.0.0.1", "comb-a-1-0-1-11.comb-a": "10.0.0.2"})
	if a, b := os.Getenv("MASTER_ADDR"), os.Getenv("HOSTS"); a != "10.0.0.1" || b != "10.0.0.1:20,10.0.0.2:20" {
		t.Errorf("they are %q and %q", a, b)
	}
}
