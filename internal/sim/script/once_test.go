package script_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scenarios that failed once, as they were shrunk: whatever the seeds draw by now, these
// are run with the checks of the random runs. Each file says what was wrong.
func TestOnceFailed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../testdata/once/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, kind := readSteps(string(src)), plain
			if bytes.Contains(src, []byte("# calm\n")) { // nothing goes wrong: promises are kept
				kind = calm
			}
			one, two := replay(steps, kind), again(steps, kind)
			switch {
			case one.err != nil:
				t.Error(one.err)
			case one.check.sum() != two.check.sum():
				t.Error("I13: the second run differs from the first")
			}
		})
	}
}

// readSteps reads what render writes, below comments.
func readSteps(src string) []step {
	var out []step
	inside := false
	for line := range strings.Lines(src) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case inside && text == "END":
			inside = false
		case inside:
			out[len(out)-1].block += line
		case text != "" && !strings.HasPrefix(text, "#"):
			text, inside = strings.CutSuffix(text, " <<END")
			out = append(out, step{line: text})
		}
	}
	return out
}
