package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cli"
)

// What words of slurm and kubectl are said to mean is there, and none of them is a command itself.
func TestForeignWords(t *testing.T) {
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Errs: &bytes.Buffer{},
		Env: func(string) string { return "" }}
	root := tree(a)
	for word := range cli.JobWords {
		if c, _, err := root.Find([]string{"job", word}); err == nil && c.Name() != "job" {
			t.Errorf("job %s is a command", word)
		}
	}
	all := maps.Clone(cli.ForeignWords)
	for word, list := range cli.JobWords {
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
