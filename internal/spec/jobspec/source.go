package jobspec

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// secretMask replaces the value of a secret in Source.
const secretMask = "******"

// isMasked reports whether a value is the mask that an export shows for a secret.
func isMasked(n *document.Node) bool {
	return n != nil && n.Kind == document.Scalar && n.Text == secretMask
}

// refuseMasked reports a secret whose value the file does not contain.
func refuseMasked(r *document.Reader, n *document.Node) {
	if isMasked(n) {
		r.Problem(n, "this file is an export of a job, which shows its secrets as %s: write the value in its place, "+
			"or leave the secret out where nothing uses it (comb job clone --secrets FILE fills them in of a job "+
			"that is here)", secretMask)
	}
}

// maskSecrets returns the file with every value under secrets replaced. In an ordinary file
// only the lines of secrets change. Comments there are dropped, because they may hold old
// values. Where the lines of secrets hold other things too, or passwords are elsewhere, the
// file is written anew from its values.
func maskSecrets(file string, src []byte, root *document.Node, passwords []*document.Node) string {
	secrets := root.Get("secrets")
	some := secrets != nil && len(secrets.Fields) > 0
	switch {
	case len(passwords) > 0: // they may be anywhere
	case !some:
		return string(src)
	default:
		masked := cutSecrets(string(src), root)
		if again, problems := document.Parse(file, []byte(masked), document.Limits{Bytes: 2 * maxSource}); len(problems) == 0 {
			if sameMasked(root, again) {
				return masked
			}
		}
	}
	var b strings.Builder
	writeNode(&b, maskNodes(maskedRoot(root), passwords), 0)
	return strings.TrimPrefix(b.String(), "\n") + "\n"
}

// cutSecrets replaces the lines from the key secrets up to the next key. The caller checks
// that this was right.
func cutSecrets(src string, root *document.Node) string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(src, "\ufeff"), "\r\n", "\n"), "\n")
	first, next := 0, len(lines)+1
	for _, f := range root.Fields {
		switch {
		case f.Key == "secrets":
			first = f.Line
		case first > 0 && f.Line < next:
			next = f.Line
		}
	}
	if first < 1 || first > len(lines) || next <= first {
		return ""
	}
	var b strings.Builder
	b.WriteString("secrets:")
	writeNode(&b, maskNode(root.Get("secrets")), 1)
	out := append(append([]string{}, lines[:first-1]...), b.String())
	if next <= len(lines) {
		out = append(out, lines[next-1:]...)
		return strings.Join(out, "\n")
	}
	return strings.Join(out, "\n") + "\n"
}

// sameMasked reports whether b is a with only its secrets masked.
func sameMasked(a, b *document.Node) bool {
	return same(maskedRoot(a), b)
}

func same(a, b *document.Node) bool {
	if a.Kind != b.Kind || a.Type != b.Type || a.Text != b.Text || len(a.Fields) != len(b.Fields) || len(a.Items) != len(b.Items) {
		return false
	}
	for i := range a.Fields {
		if a.Fields[i].Key != b.Fields[i].Key || !same(a.Fields[i].Value, b.Fields[i].Value) {
			return false
		}
	}
	for i := range a.Items {
		if !same(a.Items[i], b.Items[i]) {
			return false
		}
	}
	return true
}

func maskedRoot(root *document.Node) *document.Node {
	out := &document.Node{Kind: root.Kind}
	for _, f := range root.Fields {
		if f.Key == "secrets" {
			f.Value = maskNode(f.Value)
		}
		out.Fields = append(out.Fields, f)
	}
	return out
}

// maskNodes copies a value with some of its nodes masked. The depth is bounded by that of a
// document.
func maskNodes(n *document.Node, masked []*document.Node) *document.Node {
	if slices.Contains(masked, n) {
		return maskNode(n)
	}
	out := *n
	out.Fields, out.Items = nil, nil
	for _, f := range n.Fields {
		out.Fields = append(out.Fields, document.Field{Key: f.Key, Value: maskNodes(f.Value, masked)})
	}
	for _, item := range n.Items {
		out.Items = append(out.Items, maskNodes(item, masked))
	}
	return &out
}

func maskNode(n *document.Node) *document.Node {
	out := &document.Node{Kind: n.Kind}
	switch n.Kind {
	case document.Map:
		for _, f := range n.Fields {
			out.Fields = append(out.Fields, document.Field{Key: f.Key, Value: maskNode(f.Value)})
		}
	case document.List:
		for _, item := range n.Items {
			out.Items = append(out.Items, maskNode(item))
		}
	default:
		out.Kind, out.Type, out.Text = document.Scalar, document.String, secretMask
	}
	return out
}

// writeNode writes a value in YAML's block form after a key's colon or a list's dash. The
// depth is bounded by that of a document.
func writeNode(b *strings.Builder, n *document.Node, depth int) {
	indent := "\n" + strings.Repeat("  ", depth)
	switch {
	case n.Kind == document.Map && len(n.Fields) == 0:
		b.WriteString(" {}")
	case n.Kind == document.List && len(n.Items) == 0:
		b.WriteString(" []")
	case n.Kind == document.Null:
		b.WriteString(" null")
	case n.Kind == document.Scalar && n.Type != document.String:
		b.WriteString(" " + n.Text)
	case n.Kind == document.Scalar:
		b.WriteString(" " + quoteYAML(n.Text))
	}
	for _, f := range n.Fields {
		b.WriteString(indent + keyYAML(f.Key) + ":")
		writeNode(b, f.Value, depth+1)
	}
	for _, item := range n.Items {
		b.WriteString(indent + "-")
		writeNode(b, item, depth+1)
	}
}

// keyYAML quotes a key unless it is plainly a name.
func keyYAML(key string) string {
	switch strings.ToLower(key) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return quoteYAML(key)
	}
	if identPattern.MatchString(key) {
		return key
	}
	return quoteYAML(key)
}

// quoteYAML writes text as a double-quoted scalar. JSON's escapes are valid in YAML; it also
// escapes the characters that JSON allows and YAML does not.
func quoteYAML(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return strconv.QuoteToASCII(s) // not reached: a string always encodes
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\x7f`)
}
