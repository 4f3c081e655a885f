package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// readSecrets flattens the secrets into paths, the keys that templates use. Its messages do
// not quote values.
func (p *parser) readSecrets(n *document.Node) {
	switch {
	case n == nil || n.Kind == document.Null:
	case isMasked(n):
		refuseMasked(p.r, n)
	case n.Kind == document.Map:
		p.flatten("", n)
	default:
		p.r.Problem(n, "expected secrets as a map (name: value)")
	}
}

func (p *parser) flatten(path string, n *document.Node) {
	switch n.Kind {
	case document.Map:
		for _, f := range n.Fields {
			p.flatten(join(path, f.Key), f.Value)
		}
	case document.List:
		for i, item := range n.Items {
			p.flatten(join(path, strconv.Itoa(i)), item)
		}
	default:
		if _, twice := p.secrets[path]; twice {
			p.r.Problem(n, "two secrets have the path %s; rename one", document.Quote(path))
		}
		if strings.IndexByte(path+n.Text, 0) >= 0 {
			p.r.Problem(n, "a secret cannot hold a zero byte")
		}
		refuseMasked(p.r, n)
		p.secrets[path] = scalar(n)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// lookup returns the value of a reference in the commands of one role.
func (p *parser) lookup(r *role, ref string) (string, error) {
	rootName, path, _ := strings.Cut(ref, ".")
	switch rootName {
	case "$parameters":
		return p.find(p.parameters, rootName, path, ref)
	case "$secrets":
		value, ok := p.secrets[path]
		if !ok {
			return "", fmt.Errorf("there is no secret %s%s", document.Quote(path), p.hint(path, p.sortedSecrets()))
		}
		return value, nil
	}
	kind := strings.TrimPrefix(rootName, "$")
	chosen := r.chosen[kind]
	if chosen == nil {
		return "", fmt.Errorf("%s needs the role's key %q, which names a prerequisite of type %s; there are: %s", ref, kind, kind, list(p.prerequisiteNames(kind)))
	}
	if path == "version" && chosen.Get(path) == nil {
		return "latest", nil
	}
	return p.find(chosen, rootName, path, kind+"/"+scalar(chosen.Get("name"))+"/"+path)
}

// found is the result of looking up a reference.
type found struct {
	value string
	err   error
}

// find walks a path from a node down to a scalar, once for each key.
func (p *parser) find(n *document.Node, at, path, key string) (string, error) {
	f, known := p.found[key]
	if !known {
		f.value, f.err = p.walk(n, at, path)
		p.found[key] = f
	}
	return f.value, f.err
}

func (p *parser) walk(n *document.Node, at, path string) (string, error) {
	for part := range strings.SplitSeq(path, ".") {
		next := n.Get(part)
		if n != nil && n.Kind == document.List {
			if i, err := strconv.Atoi(part); err == nil && i < len(n.Items) && allDigits(part) {
				next = n.Items[i]
			}
		}
		if next == nil {
			return "", fmt.Errorf("%s has no %s%s", at, document.Quote(part), p.hint(part, keys(n)))
		}
		n, at = next, at+"."+part
	}
	return p.text(n, at)
}

// text returns a scalar as it is written, and a list of scalars joined by commas, as OpenPAI
// does.
func (p *parser) text(n *document.Node, at string) (string, error) {
	switch n.Kind {
	case document.Map:
		return "", fmt.Errorf("%s is a map: name one of its values%s", at, p.hint("", keys(n)))
	case document.List:
		items := make([]string, len(n.Items))
		for i, item := range n.Items {
			if item.Kind == document.Map || item.Kind == document.List {
				return "", fmt.Errorf("%s is a list of maps or lists: name one value, such as %s[0]", at, at)
			}
			items[i] = scalar(item)
		}
		return strings.Join(items, ","), nil
	}
	return scalar(n), nil
}

// scalar returns a scalar as it is written; null is the empty text.
func scalar(n *document.Node) string {
	if n.Kind == document.Null {
		return ""
	}
	return n.Text
}

func keys(n *document.Node) []string {
	if n == nil {
		return nil
	}
	out := make([]string, len(n.Fields))
	for i, f := range n.Fields {
		out[i] = f.Key
	}
	return out
}

func (p *parser) sortedSecrets() []string {
	if p.secretNames == nil {
		p.secretNames = slices.Sorted(maps.Keys(p.secrets))
	}
	return p.secretNames
}
