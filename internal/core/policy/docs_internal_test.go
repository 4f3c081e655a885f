package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page of policies has a section for each policy, which names all of its parameters and
// says when to choose it.
func TestParametersAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		for _, name := range strings.Split(title, ", ") {
			sections[name] = body
		}
	}
	for _, m := range table() {
		a := &args{policy: m.name}
		m.make(a)
		body, ok := sections[m.name]
		if !ok {
			t.Errorf("docs/policies.md has no section on %s", m.name)
		}
		for _, key := range a.known {
			if !strings.Contains(body, "`"+key+"`") {
				t.Errorf("the section on %s of docs/policies.md does not name its parameter %s", m.name, key)
			}
		}
		if !strings.Contains(body, "*Choose") {
			t.Errorf("the section on %s does not say when to choose it", m.name)
		}
	}
}
