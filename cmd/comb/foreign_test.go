package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

// What words of slurm and kubectl are said to mean is there, and none of them is a command itself.
func TestForeignWords(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, errs: &bytes.Buffer{},
		env: func(string) string { return "" }}
	root := a.root()
	for word := range below {
		if c, _, err := root.Find([]string{"job", word}); err == nil && c.Name() != "job" {
			t.Errorf("job %s is a command", word)
		}
	}
	all := maps.Clone(foreign)
	for word, list := range below {
		all["job "+word] = list
	}
	for word, list := range all {
		if c, _, err := root.Find([]string{word}); err == nil && c != root {
			t.Errorf("%s is a command", word)
		}
		for _, text := range list {
			words, _, _ := strings.Cut(text, " --")
			c, left, err := root.Find(strings.Fields(words))
			if err != nil || c == root || len(left) > 0 {
				t.Errorf("%s is said to mean comb %s, which is not there: %v", word, text, err)
			}
		}
	}
}
