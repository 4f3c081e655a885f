package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/testkit"
)

// step is one command of a console block with the output that the page shows.
type step struct {
	line    int
	command string
	want    []string
}

// consoleSteps reads the console blocks of a page: "$ " starts a command, the
// lines after it are its output, "..." stands for anything.
func consoleSteps(page string) []step {
	var out []step
	inside := false
	for i, text := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(text, "```"):
			inside = text == "```console"
		case inside && strings.HasPrefix(text, "$ "):
			out = append(out, step{line: i + 1, command: text[2:]})
		case inside && len(out) > 0:
			out[len(out)-1].want = append(out[len(out)-1].want, text)
		}
	}
	return out
}

// pattern is a regular expression for the output that a page shows.
func pattern(want []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for _, text := range want {
		parts := strings.Split(text, "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		line := strings.Join(parts, ".*")
		if text == "..." {
			b.WriteString(`(.*\n)?`)
		} else {
			b.WriteString(line + `\s*\n`)
		}
	}
	return regexp.MustCompile(b.String() + `$`)
}

// TestReadme executes the console blocks of README.md, in a home of its own.
// The make commands build and test this very tree: internal/test/tidy checks that
// they exist.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(home, "bin")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(mentioning(home)) })
	done := 0
	for _, s := range consoleSteps(string(page)) {
		switch {
		case strings.HasPrefix(s.command, "make "):
			continue
		case strings.Contains(s.command, "comb serve"):
			serveFor(t, home, s)
		default:
			runStep(t, home, s)
		}
		done++
	}
	if done < 4 {
		t.Errorf("only %d commands of README.md were run", done)
	}
}

func homeCommand(ctx context.Context, home, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// serveFor runs the page's server until the test ends, on a port of its own.
func serveFor(t *testing.T, home string, s step) {
	t.Helper()
	cmd := homeCommand(context.Background(), home, "exec "+s.command+" --listen 127.0.0.1:0")
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("README.md:%d: the server ends with %v:\n%s", s.line, err, log)
		}
		if left := leftovers(home, goneTime); len(left) > 0 {
			t.Errorf("README.md:%d: processes are left behind: %v", s.line, left)
		}
	})
	if !testkit.Within(testkit.Patience, func() bool { return homeCommand(t.Context(), home, "bin/comb job list").Run() == nil }) {
		t.Fatalf("README.md:%d: the server does not answer", s.line)
	}
}

func runStep(t *testing.T, home string, s step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	out, err := homeCommand(ctx, home, s.command).CombinedOutput()
	if err != nil {
		t.Errorf("README.md:%d: %s: %v\n%s", s.line, s.command, err, out)
		return
	}
	if len(s.want) > 0 && !pattern(s.want).Match(out) {
		t.Errorf("README.md:%d: %s prints\n%s\nand the page shows\n%s", s.line, s.command, out, strings.Join(s.want, "\n"))
	}
}

// TestPattern holds the test above to its own rules.
func TestPattern(t *testing.T) {
	cases := []struct {
		want string
		got  string
		ok   bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\nc\n", false},
		{"a ...", "a long tail\n", true},
		{"...\nb", "x\ny\nb\n", true},
		{"...\nb", "b\n", true},
		{"b", "x\nb\n", false},
		{"a.b", "axb\n", false},
	}
	for _, c := range cases {
		if got := pattern(strings.Split(c.want, "\n")).MatchString(c.got); got != c.ok {
			t.Errorf("%q on %q: %v", c.want, c.got, got)
		}
	}
	if got := fmt.Sprint(consoleSteps("```console\n$ a\nb\n```\nc\n")); got != "[{2 a [b]}]" {
		t.Error(got)
	}
}
