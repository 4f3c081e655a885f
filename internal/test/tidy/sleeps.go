package tidy

import "strings"

// sleeps counts the lines of a package's tests that let time pass and say in no comment, on the
// line or above it, why there is nothing to wait for. Under testing/synctest no time passes.
func (t *tree) sleeps(dir string, files []*file) measured {
	out := measured{ruleOf("sleeps"), dir, 0, files[0].path, 1}
	for _, f := range files {
		if !f.test || strings.Contains(f.src, `"testing/synctest"`) {
			continue
		}
		inComments := t.commentLines(f)
		for i, line := range strings.Split(f.src, "\n") {
			before, comment, has := strings.Cut(line, "//")
			sleeps := strings.Contains(before, "time."+"Sleep(")
			out.count(sleeps && !(has && comment != "") && !inComments[i], f, i+1)
		}
	}
	return out
}
