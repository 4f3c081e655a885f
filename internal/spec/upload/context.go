package upload

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// dockerIgnore says what is left out of the build context of an image.
const dockerIgnore = ".dockerignore"

// OpenContext looks at the build context of an image. It does as Open, but only .dockerignore
// says what is left out. The Dockerfile, a name in the folder, and .dockerignore itself are
// always in it.
func OpenContext(dir, dockerfile string, limits Limits) (*Folder, error) {
	if !Within(dockerfile) {
		return nil, fmt.Errorf("the Dockerfile %s is not in the folder %s: name it as it is called in there", dockerfile, dir)
	}
	w := &walker{limits: limits, context: &buildContext{always: map[string]bool{dockerfile: true, dockerIgnore: true}}}
	f, err := open(dir, w)
	if err == nil && !w.context.taken[dockerfile] {
		return nil, errors.Join(fmt.Errorf("the folder %s has no file %s: name the one with the image's steps with --file", dir, dockerfile), f.Close())
	}
	return f, err
}

// buildContext is what is particular to the build context of an image.
type buildContext struct {
	always map[string]bool // names that are never left out
	rules  []dockerRule
	keeps  bool            // some rule takes back what another left out
	taken  map[string]bool // names that are in it
}

// dockerRule is one line of a .dockerignore. Names are relative to the folder's top.
type dockerRule struct {
	parts []string
	keep  bool
}

// readDockerRules reads the lines of a .dockerignore.
func readDockerRules(text []byte) (rules []dockerRule, keeps bool) {
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, keep := strings.CutPrefix(strings.TrimSpace(line), "!")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line = strings.TrimPrefix(path.Clean(line), "/"); line == "" {
			continue
		}
		rules, keeps = append(rules, dockerRule{strings.Split(line, "/"), keep}), keeps || keep
	}
	return rules, keeps
}

// leavesOut reports whether a name is left out. The last rule that matches it, or a folder that
// it is in, decides.
func (c *buildContext) leavesOut(name string) bool {
	if c.always[name] {
		return false
	}
	parts, out := strings.Split(name, "/"), false
	for i := range c.rules {
		if r := &c.rules[i]; r.keep == out && r.about(parts) {
			out = !r.keep
		}
	}
	return out
}

// about reports whether a rule matches a name, or a folder that it is in.
func (r *dockerRule) about(name []string) bool {
	if len(r.parts) == 1 && r.parts[0] == "." {
		return true
	}
	for n := range name {
		if matchParts(r.parts, name[:n+1]) {
			return true
		}
	}
	return false
}

// mayContain reports whether something in a folder that is left out may be in the context.
func (c *buildContext) mayContain(name string) bool {
	if c.keeps {
		return true
	}
	for always := range c.always {
		if strings.HasPrefix(always, name+"/") {
			return true
		}
	}
	return false
}

// takeContext takes an entry, after the folders that it is in.
func (w *walker) takeContext(e entry) error {
	c := w.context
	if c.taken == nil {
		c.taken = map[string]bool{}
	}
	if c.taken[e.name] {
		return nil
	}
	if dir := path.Dir(e.name); dir != "." {
		st, err := w.f.root.Lstat(dir)
		if err != nil || !st.IsDir() {
			return errors.Join(ErrChanged, err)
		}
		if err := w.takeContext(entry{name: dir, mode: st.Mode().Perm() | fs.ModeDir}); err != nil {
			return err
		}
	}
	c.taken[e.name] = true
	w.take(e)
	return nil
}
