package document

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Reader collects problems and warnings while a document is read into typed
// values. Reading goes on after a problem, so that all are reported at once.
type Reader struct {
	problems Problems
	warnings Problems
}

// NewReader returns a Reader without problems.
func NewReader() *Reader { return &Reader{} }

// Problem reports that n is wrong. Only the first MaxProblems are kept.
func (r *Reader) Problem(n *Node, format string, args ...any) {
	if len(r.problems) < MaxProblems {
		r.problems = append(r.problems, n.Problem(fmt.Sprintf(format, args...)))
	}
}

// Warn reports what is accepted but probably not meant.
func (r *Reader) Warn(n *Node, format string, args ...any) {
	if len(r.warnings) < MaxProblems {
		r.warnings = append(r.warnings, n.Problem(fmt.Sprintf(format, args...)))
	}
}

// Add takes over problems found elsewhere.
func (r *Reader) Add(ps Problems) {
	r.problems = append(r.problems, ps[:min(len(ps), max(0, MaxProblems-len(r.problems)))]...)
}

// Count returns how many problems were reported so far.
func (r *Reader) Count() int { return len(r.problems) }

// Problems returns what was reported, in order of position; nil when nothing was.
func (r *Reader) Problems() Problems {
	if len(r.problems) == 0 {
		return nil
	}
	return r.problems.Sorted()
}

// Warnings returns the warnings in order of position; nil when there are none.
func (r *Reader) Warnings() Problems {
	if len(r.warnings) == 0 {
		return nil
	}
	return r.warnings.Sorted()
}

// Map begins to read n as a map. If n is something else, that is a problem, and the result reads
// as an empty map that reports nothing more. A nil or null node reads as an empty map too. what
// names the map in messages about keys.
func (r *Reader) Map(n *Node, what string) *MapReader {
	m := &MapReader{r: r, node: n, what: what}
	switch {
	case n == nil:
		m.broken = true
	case n.Kind == Map:
		m.fields = n.Fields
		if len(m.fields) > 16 {
			m.index = make(map[string]int32, len(m.fields))
			for i := range m.fields {
				m.index[m.fields[i].Key] = int32(i)
			}
		}
	case n.Kind != Null:
		m.broken = true
		r.Problem(n, "expected %s as a map (key: value), found %s", what, n.describe())
	}
	m.seen = make([]bool, len(m.fields))
	return m
}

// Text limits a string. The zero value accepts any.
type Text struct {
	Default  string
	Required bool
	Max      int // characters; 0: only the document's limit
	OneOf    []string
}

// Range limits an integer. Max 0 with Min 0 means 0 to 2147483647.
type Range struct {
	Min, Max int64
	Default  int64
	Required bool
}

// String reads n as a string. Any scalar will do: "1.10" stays as written.
func (r *Reader) String(n *Node, t Text) string {
	if n == nil || n.Kind == Null {
		return t.Default
	}
	if n.Kind != Scalar {
		r.Problem(n, "expected a string, found %s", n.Kind)
		return t.Default
	}
	if t.Max > 0 && utf8.RuneCountInString(n.Text) > t.Max {
		r.Problem(n, "%s is too long: at most %d characters are allowed", Quote(n.Text), t.Max)
		return t.Default
	}
	if len(t.OneOf) > 0 && !slices.Contains(t.OneOf, n.Text) {
		if len(t.OneOf) == 1 {
			r.Problem(n, "%s is not %s, which alone is possible here", Quote(n.Text), t.OneOf[0])
			return t.Default
		}
		r.Problem(n, "%s is not one of %s%s", Quote(n.Text), strings.Join(t.OneOf, ", "), nearest(n.Text, t.OneOf))
		return t.Default
	}
	return n.Text
}

// Int reads n as an integer in a range.
func (r *Reader) Int(n *Node, g Range) int64 {
	if n == nil || n.Kind == Null {
		return g.Default
	}
	if g.Min == 0 && g.Max == 0 {
		g.Max = math.MaxInt32
	}
	if n.Kind != Scalar || n.Type != Int {
		advice := ""
		if n.Kind == Scalar && n.Text != "" && only(n.Text, "0123456789") {
			advice = "; write it without quotes and leading zeros"
		}
		r.Problem(n, "expected an integer, found %s%s", n.describe(), advice)
		return g.Default
	}
	v, err := parseInt(n.Text)
	if err != nil || v < g.Min || v > g.Max {
		r.Problem(n, "%s is out of range: it must be %d to %d", Quote(n.Text), g.Min, g.Max)
		return g.Default
	}
	return v
}

// Size reads an amount of memory in MiB, or -1 for unlimited; 0 when it is not given.
func (r *Reader) Size(n *Node) int64 {
	if n == nil || n.Kind == Null {
		return 0
	}
	if n.Kind == Scalar && n.Text == "unlimited" {
		return -1
	}
	mib, ok := int64(0), false
	if n.Kind == Scalar && n.Text != "" {
		mib, ok = ParseMemory(n.Text)
	}
	if !ok {
		r.Problem(n, "expected an amount of memory with its unit, such as 64Mi, or unlimited")
	}
	return mib
}

// Float reads n as a finite number between lo and hi; def when it is not given.
func (r *Reader) Float(n *Node, def, lo, hi float64) float64 {
	if n == nil || n.Kind == Null {
		return def
	}
	if n.Kind != Scalar || (n.Type != Int && n.Type != Float) {
		r.Problem(n, "expected a number, found %s", n.describe())
		return def
	}
	var v float64
	var err error
	if n.Type == Int {
		var i int64
		i, err = parseInt(n.Text)
		v = float64(i)
	} else {
		v, err = parseFloat(n.Text)
	}
	if err != nil || !(v >= lo && v <= hi) {
		r.Problem(n, "%s is out of range: it must be %g to %g", Quote(n.Text), lo, hi)
		return def
	}
	return v
}

// Bool reads n as true or false.
func (r *Reader) Bool(n *Node, def bool) bool {
	if n == nil || n.Kind == Null {
		return def
	}
	if n.Kind != Scalar || n.Type != Bool {
		r.Problem(n, "expected true or false, found %s", n.describe())
		return def
	}
	return strings.EqualFold(n.Text, "true")
}

// List returns n's items; when n is something else, that is a problem.
func (r *Reader) List(n *Node) []*Node {
	if n == nil || n.Kind == Null {
		return nil
	}
	if n.Kind != List {
		r.Problem(n, "expected a list (lines that start with \"- \"), found %s", n.describe())
		return nil
	}
	return n.Items
}

// Strings reads n as a list of strings, each limited by t.
func (r *Reader) Strings(n *Node, t Text) []string {
	items := r.List(n)
	out := make([]string, 0, len(items))
	for _, item := range items {
		if item.Kind == Null {
			r.Problem(item, "expected a string, found nothing")
			continue
		}
		out = append(out, r.String(item, t))
	}
	return out
}

// MapReader reads the keys of one map; make it with Reader.Map. It remembers which keys were
// read; Rest reports the others.
type MapReader struct {
	r      *Reader
	node   *Node
	what   string
	fields []Field
	index  map[string]int32 // for a large map
	seen   []bool
	asked  []string
	broken bool // n was no map: missing keys are not reported
}

// Self returns the node that is read, nil when there is none.
func (m *MapReader) Self() *Node { return m.node }

// Fields returns all entries in file order and counts them as read.
func (m *MapReader) Fields() []Field {
	for i := range m.seen {
		m.seen[i] = true
	}
	return m.fields
}

// Node returns the value of a key: nil when absent, of kind Null when empty.
func (m *MapReader) Node(key string) *Node {
	m.asked = append(m.asked, key)
	i := m.find(key)
	if i < 0 {
		return nil
	}
	m.seen[i] = true
	return m.fields[i].Value
}

func (m *MapReader) find(key string) int {
	if m.index != nil {
		if i, ok := m.index[key]; ok {
			return int(i)
		}
		return -1
	}
	return slices.IndexFunc(m.fields, func(f Field) bool { return f.Key == key })
}

// Has reports whether a key has a value; it does not count as reading.
func (m *MapReader) Has(key string) bool {
	i := m.find(key)
	return i >= 0 && m.fields[i].Value.Kind != Null
}

// Require reports each key that is missing or empty.
func (m *MapReader) Require(keys ...string) {
	for _, key := range keys {
		if m.broken || m.Has(key) {
			continue
		}
		at := m.node
		if i := m.find(key); i >= 0 {
			at = m.fields[i].Value
			m.r.Problem(at, "a value is required here")
			continue
		}
		m.r.Problem(at, "%s needs the key %s", m.what, Quote(key))
	}
}

// String reads a key as a string.
func (m *MapReader) String(key string, t Text) string {
	if t.Required {
		m.Require(key)
	}
	return m.r.String(m.Node(key), t)
}

// Int reads a key as an integer.
func (m *MapReader) Int(key string, g Range) int64 {
	if g.Required {
		m.Require(key)
	}
	return m.r.Int(m.Node(key), g)
}

// Bool reads a key as true or false.
func (m *MapReader) Bool(key string, def bool) bool { return m.r.Bool(m.Node(key), def) }

// Float reads a key as a finite number between lo and hi.
func (m *MapReader) Float(key string, def, lo, hi float64) float64 {
	return m.r.Float(m.Node(key), def, lo, hi)
}

// List returns the items of a key's list.
func (m *MapReader) List(key string) []*Node { return m.r.List(m.Node(key)) }

// Strings reads a key as a list of strings.
func (m *MapReader) Strings(key string, t Text) []string { return m.r.Strings(m.Node(key), t) }

// Map begins to read a key as a map; absent reads as empty.
func (m *MapReader) Map(key, what string) *MapReader { return m.r.Map(m.Node(key), what) }

// Rest reports every key that was not read, with the nearest one that was.
func (m *MapReader) Rest() {
	for i, f := range m.fields {
		if m.seen[i] || len(m.r.problems) >= MaxProblems {
			continue
		}
		m.r.Problem(f.At(), "unknown key in %s%s", m.what, DidYouMean(f.Key, m.asked))
	}
}

// DidYouMean returns "; did you mean X?" with the candidate nearest to word, or
// the list of candidates when none is near and they are few, or "".
func DidYouMean(word string, candidates []string) string {
	if best := nearest(word, candidates); best != "" {
		return best
	}
	if len(candidates) == 0 || len(candidates) > 32 {
		return ""
	}
	known := slices.Compact(slices.Sorted(slices.Values(candidates)))
	return "; known are " + strings.Join(known, ", ")
}

// nearest returns "; did you mean X?" with the candidate nearest to word, "" when
// none is near.
func nearest(word string, candidates []string) string {
	best, distance := "", max(2, len(word)/3)+1
	if len(word) <= 64 {
		for _, c := range candidates {
			if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance && d < len(c) {
				best, distance = c, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance counts insertions, deletions, changes and swaps of neighbours.
func editDistance(a, b string) int {
	if len(b) > 64 {
		return len(b)
	}
	var before []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
}
