package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cli"
)

// TestWhatToType: each command that the page for users of OpenPAI names is there, with its flags.
func TestWhatToType(t *testing.T) {
	page, err := os.ReadFile("../../docs/from-openpai.md")
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Errs: &bytes.Buffer{}, Env: func(string) string { return "" }}
	found := 0
	for _, m := range regexp.MustCompile("`comb ([^`]*)`").FindAllStringSubmatch(string(page), -1) {
		words := strings.Fields(m[1])
		c, rest, err := tree(a).Find(words)
		if err != nil || !c.HasParent() || c.HasSubCommands() && len(rest) > 0 {
			t.Errorf("comb %s: there is no such command (%v)", m[1], err)
			continue
		}
		found++
		for _, w := range rest {
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			known := c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
			if len(name) == 1 {
				known = known || c.Flags().ShorthandLookup(name) != nil
			}
			if strings.HasPrefix(w, "-") && !known && name != "" && name != "it" {
				t.Errorf("comb %s: there is no flag %s", m[1], w)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d commands are named", found)
	}
}
