// Package examples holds the programs of docs/ to what docs/ shows.
package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPagesShowPrograms: a program of a page is a file here, whole and word for word.
func TestPagesShowPrograms(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	files, err := filepath.Glob("*.[ps][yh]")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(all.String(), "\n"+string(data)+"```\n") {
			t.Errorf("no page shows %s as it is", name)
		}
		if !strings.Contains(all.String(), "(../examples/"+name+")") {
			t.Errorf("no page links %s", name)
		}
	}
}
