package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logWriter shows what the demo prints as the test's log.
type logWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// TestExperiments runs the five experiments of make demo.
func TestExperiments(t *testing.T) {
	evidence := filepath.Join(t.TempDir(), "evidence")
	err := Demo(t.Context(), Options{Bin: bin, Files: filepath.Join("..", "..", "..", "testdata", "lab"), Evidence: evidence, Out: logWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(evidence)
	if err != nil || len(files) < 6 {
		t.Errorf("evidence: %d files, %v", len(files), err)
	}
}
