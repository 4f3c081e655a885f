package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Folders replaces the folder of a sweep by its runs, in order of their names.
func Folders(dirs []string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "sweep.csv")); err != nil {
			out = append(out, dir)
			continue
		}
		inside, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot read the sweep: %w", err)
		}
		for _, e := range inside {
			run := filepath.Join(dir, e.Name())
			if _, err := os.Stat(filepath.Join(run, "summary.json")); err == nil {
				out = append(out, run)
			}
		}
	}
	return out, nil
}

// Warnings names runs that do not replay the same trace, whose figures differ by more than
// what was to be compared. Folders without a manifest are not checked.
func Warnings(dirs []string) []string {
	var runs []string
	seen := map[string]bool{}
	for _, dir := range dirs {
		var m struct {
			Trace string `json:"trace"`
			Hash  string `json:"trace_sha256"`
		}
		text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
		if err != nil || json.Unmarshal(text, &m) != nil || seen[m.Hash] {
			continue
		}
		seen[m.Hash] = true
		runs = append(runs, fmt.Sprintf("%s (%s)", dir, m.Trace))
	}
	if len(runs) < 2 {
		return nil
	}
	return []string{"these runs have different traces, so their figures cannot be compared: " + strings.Join(runs, ", ")}
}
