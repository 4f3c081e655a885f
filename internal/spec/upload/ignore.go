package upload

import (
	"path"
	"strings"
)

// ignoreFiles say what is left out of an upload, in the syntax of .gitignore. Where a folder
// has both, the rules of the second come last.
var ignoreFiles = []string{".gitignore", ".combignore"}

// rule is one line of an ignore file.
type rule struct {
	base     string   // the folder of the file; "" is the top
	parts    []string // of the pattern, between its slashes
	anchored bool     // it matches only in base, not in folders below
	folders  bool     // it matches only folders
	keep     bool     // it takes back what an earlier rule left out
}

// parseRules reads the lines of an ignore file in the folder base.
func parseRules(base string, text []byte) (rules []rule) {
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if r, ok := parseRule(base, line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseRule(base, line string) (r rule, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return r, false
	}
	r.base = base
	if r.keep = line[0] == '!'; r.keep {
		line = line[1:]
	}
	if r.folders = strings.HasSuffix(line, "/"); r.folders {
		line = line[:len(line)-1]
	}
	r.anchored = strings.Contains(line, "/")
	if line = strings.TrimPrefix(line, "/"); line == "" {
		return r, false
	}
	r.parts = strings.Split(line, "/")
	return r, true
}

// matches reports whether a rule matches a name, which is relative to the top.
func (r *rule) matches(name string, folder bool) bool {
	if r.folders && !folder {
		return false
	}
	if r.base != "" {
		var below bool
		if name, below = strings.CutPrefix(name, r.base+"/"); !below {
			return false
		}
	}
	if !r.anchored {
		return matchPart(r.parts[0], path.Base(name))
	}
	return matchParts(r.parts, strings.Split(name, "/"))
}

// matchParts compares a pattern with a name, part by part. "**" is any number of parts, and
// at the end at least one.
func matchParts(pattern, name []string) bool {
	for i, p := range pattern {
		if p == "**" {
			rest := pattern[i+1:]
			if len(rest) == 0 {
				return len(name) > i
			}
			for from := i; from < len(name); from++ {
				if matchParts(rest, name[from:]) {
					return true
				}
			}
			return false
		}
		if i >= len(name) || !matchPart(p, name[i]) {
			return false
		}
	}
	return len(pattern) == len(name)
}

// matchPart compares one part: "*", "?" and "[...]", as in shells. An invalid pattern matches
// nothing.
func matchPart(pattern, name string) bool {
	for strings.Contains(pattern, "**") { // inside a part it is one star
		pattern = strings.ReplaceAll(pattern, "**", "*")
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return ok && err == nil
}

// ignored reports whether the last rule that matches a name leaves it out.
func ignored(rules []rule, name string, folder bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].matches(name, folder) {
			return !rules[i].keep
		}
	}
	return false
}
