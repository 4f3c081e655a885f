package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/combsched/comb/internal/test/seeds"
)

// FuzzParse checks on any input: no panic, limits kept, positions inside the
// file, and what was read means the same when it is written out and read again.
func FuzzParse(f *testing.F) {
	for _, src := range good {
		f.Add([]byte(src))
	}
	for _, tt := range bad {
		f.Add([]byte(tt.src))
	}
	for _, src := range hostile() {
		f.Add([]byte(src[:min(len(src), 500)]))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		l := Limits{Bytes: 1 << 16, Depth: 10, Nodes: 2000, Scalar: 1 << 12}
		nodes, problems := ParseAll("f", src, l)
		lines := bytes.Count(src, []byte("\n")) + 1
		for _, p := range problems {
			if p.Line > lines || p.Message == "" || p.Column < 0 || p.Column > len(src)+2 {
				t.Fatalf("problem %+v outside of a file of %d lines", p, lines)
			}
		}
		for _, n := range nodes {
			checkNode(t, n, lines, 0)
			again, problems := Parse("g", []byte(asFlow(n)), Limits{Bytes: 1 << 20, Depth: 11})
			if len(problems) > 0 {
				t.Fatalf("written out as %s it has problems: %v", asFlow(n), problems)
			}
			if got, want := asJSON(again.Any()), asJSON(n.Any()); got != want {
				t.Fatalf("read again as %s, was %s", got, want)
			}
			inside(n, l)
		}
	})
}

// inside reads every string as a document of its own, for panics only.
func inside(n *Node, l Limits) {
	if n.Kind == Scalar {
		n.Inside(l)
	}
	for _, f := range n.Fields {
		inside(f.Value, l)
	}
	for _, item := range n.Items {
		inside(item, l)
	}
}

func checkNode(t *testing.T, n *Node, lines, depth int) {
	if n == nil || n.Line < 1 || n.Line > lines || n.Column < 1 || depth > 10 || !utf8.ValidString(n.Text) || len(n.Text) > 1<<12 {
		t.Fatalf("node %+v at depth %d", n, depth)
	}
	keys := map[string]bool{}
	for _, f := range n.Fields {
		if keys[f.Key] || n.Get(f.Key) != f.Value {
			t.Fatalf("key %q is there twice", f.Key)
		}
		keys[f.Key] = true
		checkNode(t, f.Value, lines, depth+1)
	}
	for _, item := range n.Items {
		checkNode(t, item, lines, depth+1)
	}
}

// asFlow writes a node in flow style: strings in double quotes, the rest plain.
func asFlow(n *Node) string {
	switch n.Kind {
	case Map:
		var parts []string
		for _, f := range n.Fields {
			parts = append(parts, quoted(f.Key)+": "+asFlow(f.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case List:
		var parts []string
		for _, item := range n.Items {
			parts = append(parts, asFlow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Scalar:
		if n.Type == String {
			return quoted(n.Text)
		}
		return n.Text
	}
	return "~"
}

// quoted writes a string as JSON does, with what a file may not hold escaped.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, r := range strings.TrimSpace(b.String()) {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// TestStyles writes random values in random styles and reads them back.
func TestStyles(t *testing.T) {
	for seed := range seeds.Of(t, 3000) {
		w := &writer{r: rand.New(rand.NewPCG(seed, 1))}
		v := w.random(0)
		src := w.root(v)
		n, problems := Parse("f", []byte(src), Limits{})
		if len(problems) > 0 {
			t.Fatalf("seed %d: %v\n%s", seed, problems, src)
		}
		if got, want := asJSON(n.Any()), asJSON(v); got != want {
			t.Fatalf("seed %d:\n%s\n got %s\nwant %s", seed, src, got, want)
		}
	}
}

// writer writes values as YAML in styles drawn by chance.
type writer struct{ r *rand.Rand }

func (w *writer) random(depth int) any {
	kind := w.r.IntN(6)
	if depth > 4 {
		kind = w.r.IntN(4)
	}
	switch kind {
	case 0:
		return int64(w.r.IntN(2000) - 1000)
	case 1:
		return [...]any{true, false, nil, 2.5}[w.r.IntN(4)]
	case 4:
		m := map[string]any{}
		for range w.r.IntN(4) {
			m[w.text(false)] = w.random(depth + 1)
		}
		return m
	case 5:
		l := []any{}
		for range w.r.IntN(4) {
			l = append(l, w.random(depth+1))
		}
		return l
	}
	return w.text(true)
}

func (w *writer) text(lines bool) string {
	words := []string{"a", "node-1", "x: y", "- z", "#c", "it's", "\"q\"", "true", "12", "", " ", "é", "[", "}", "key:", "<% $x %>", "|", "\\n", "~", "a  b", "*s", "&t", "!u", "null", "\t"}
	s := words[w.r.IntN(len(words))]
	for range w.r.IntN(3) {
		sep := " "
		if lines && w.r.IntN(3) == 0 {
			sep = []string{"\n", "\n\n", "\n  "}[w.r.IntN(3)]
		}
		s += sep + words[w.r.IntN(len(words))]
	}
	return s
}

func (w *writer) root(v any) string {
	head := []string{"", "# comment\n", "---\n", "\n\n"}[w.r.IntN(4)]
	return head + strings.TrimPrefix(w.block(v, 0), "\n") + []string{"", "\n", "\n# end\n", "\n...\n"}[w.r.IntN(4)]
}

// block writes a value behind "key:" or "-": on the same line with a space
// before it, or on the next lines with the given indentation.
func (w *writer) block(v any, indent int) string {
	pad := strings.Repeat(" ", indent)
	step := 1 + w.r.IntN(4)
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || w.r.IntN(4) == 0 {
			return " " + w.flow(v)
		}
		var b strings.Builder
		for _, k := range sortedKeys(v) {
			inner := indent + step
			if _, ok := v[k].([]any); ok && w.r.IntN(2) == 0 {
				inner = indent // a list may stand below its key
			}
			b.WriteString(w.noise() + "\n" + pad + w.key(k) + ":" + w.block(v[k], inner))
		}
		return b.String()
	case []any:
		if len(v) == 0 || w.r.IntN(4) == 0 {
			return " " + w.flow(v)
		}
		var b strings.Builder
		for _, item := range v {
			text := w.block(item, indent+1+step)
			if below, ok := strings.CutPrefix(text, "\n"+pad+strings.Repeat(" ", 1+step)); ok && w.r.IntN(2) == 0 {
				text = strings.Repeat(" ", step) + below // beside the dash
			}
			b.WriteString(w.noise() + "\n" + pad + "-" + text)
		}
		return b.String()
	case string:
		if s, ok := w.literal(v, pad); ok && w.r.IntN(2) == 0 {
			return s
		}
	}
	return " " + w.flow(v)
}

// literal writes a text as a literal block scalar where it can be one.
func (w *writer) literal(s, pad string) (string, bool) {
	body, last := strings.CutSuffix(s, "\n")
	if body == "" || pad == "" || strings.HasPrefix(body, " ") || strings.HasPrefix(body, "\n") || strings.HasSuffix(body, "\n") || strings.HasPrefix(body, "\t") {
		return "", false
	}
	head := " |-\n"
	if last {
		head = " |\n"
	}
	return head + pad + strings.ReplaceAll(body, "\n", "\n"+pad), true
}

// noise is what may stand between entries without meaning anything.
func (w *writer) noise() string {
	return []string{"", "", "", "\n", "\n\n"}[w.r.IntN(5)]
}

func (w *writer) key(s string) string {
	if plainSafe(s) {
		return s
	}
	return quoted(s)
}

// plainSafe reports whether a text may be written without quotes anywhere.
func plainSafe(s string) bool {
	if s == "" || strings.ContainsAny(s, ":#[]{},&*!|>'\"%@`\n\t\\~") || strings.TrimSpace(s) != s || s[0] == '-' || s[0] == '<' {
		return false
	}
	kind, typ := resolve(s)
	return kind == Scalar && typ == String
}

func (w *writer) flow(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, w.key(k)+": "+w.flow(v[k]))
		}
		return "{" + strings.Join(parts, ","+w.gap()) + w.gap() + "}"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, w.flow(item))
		}
		return "[" + strings.Join(parts, w.gap()+",") + w.gap() + "]"
	case string:
		switch {
		case plainSafe(v) && w.r.IntN(3) > 0:
			return v
		case !strings.ContainsAny(v, "\n") && w.r.IntN(2) == 0:
			return "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		return quoted(v)
	case nil:
		return "~"
	}
	return fmt.Sprint(v)
}

func (w *writer) gap() string { return []string{"", " ", "  "}[w.r.IntN(3)] }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
