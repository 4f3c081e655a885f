package document

import (
	"math"
	"strconv"
	"strings"
)

// Kind is the shape of a node.
type Kind uint8

// The kinds of node. Null is "nothing written", "~" or "null".
const (
	Null Kind = iota
	Scalar
	List
	Map
)

// String names the kind as a message does.
func (k Kind) String() string {
	return [...]string{"nothing", "a scalar", "a list", "a map"}[k]
}

// ScalarType is what a scalar means by YAML 1.2's core schema. Quoted and block
// scalars are always strings.
type ScalarType uint8

// The types of scalar.
const (
	String ScalarType = iota
	Int
	Float
	Bool
)

// Node is one value of a document with its place. It never changes after Parse.
type Node struct {
	Kind   Kind
	Type   ScalarType // of a Scalar
	Text   string     // of a Scalar: its text without quotes, folded and unescaped
	Line   int        // from 1
	Column int        // from 1, in characters
	Fields []Field    // of a Map, in file order; keys are unique
	Items  []*Node    // of a List

	file   string
	parent *Node
	key    string // in a Map parent
	index  int    // in a List parent
	// block is where the text of a literal block scalar starts, so that a document inside it has
	// the right positions.
	block origin
}

// Field is one entry of a Map.
type Field struct {
	Key    string
	Line   int // of the key
	Column int
	Value  *Node // never nil; of kind Null when empty
}

// At returns a node at the field's key, as a place for problems.
func (f Field) At() *Node {
	n := &Node{Line: f.Line, Column: f.Column, key: f.Key}
	if f.Value != nil {
		n.file, n.parent = f.Value.file, f.Value.parent
	}
	return n
}

// origin maps positions in a text inside another document to the outer document.
type origin struct {
	line, column int  // of the text's first character
	fixed        bool // every position is the scalar's own
}

// Path returns the node's dotted path from the root, for example
// "taskRoles.worker.commands[2]"; the root's is empty.
func (n *Node) Path() string {
	if n == nil {
		return ""
	}
	var parts []string
	for ; n.parent != nil; n = n.parent {
		switch {
		case n.parent.Kind == List:
			parts = append(parts, "["+strconv.Itoa(n.index)+"]")
		case n.key != "":
			parts = append(parts, "."+pathKey(n.key))
		}
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	return strings.TrimPrefix(b.String(), ".")
}

// pathKey returns a key as it appears in a path.
func pathKey(key string) string {
	if strings.ContainsAny(key, ".[] \t\n\"'") || len(key) > 60 {
		return Quote(key)
	}
	return key
}

// Get returns the value of a key, nil when the node is no map or has no such key.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Problem makes a problem at the node.
func (n *Node) Problem(message string) Problem {
	if n == nil {
		return Problem{Message: message}
	}
	return Problem{File: n.file, Line: n.Line, Column: n.Column, Key: n.Path(), Message: message}
}

// Any returns the node as plain Go values: map[string]any, []any, string, int64, float64, bool or
// nil. An integer beyond int64 stays a string.
func (n *Node) Any() any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case Map:
		m := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			m[f.Key] = f.Value.Any()
		}
		return m
	case List:
		l := make([]any, len(n.Items))
		for i, item := range n.Items {
			l[i] = item.Any()
		}
		return l
	case Scalar:
		return n.scalar()
	}
	return nil
}

func (n *Node) scalar() any {
	switch n.Type {
	case Int:
		if v, err := parseInt(n.Text); err == nil {
			return v
		}
	case Float:
		if v, err := parseFloat(n.Text); err == nil {
			return v
		}
	case Bool:
		return strings.EqualFold(n.Text, "true")
	}
	return n.Text
}

// describe says what a node is, for a message about what it should be.
func (n *Node) describe() string {
	if n.Kind != Scalar {
		return n.Kind.String()
	}
	if n.Type == String {
		return "the text " + Quote(n.Text)
	}
	return Quote(n.Text)
}

// parseInt reads an integer of YAML's core schema.
func parseInt(s string) (int64, error) {
	sign, digits := "", s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, digits = strings.TrimPrefix(s[:1], "+"), s[1:]
	}
	switch {
	case strings.HasPrefix(digits, "0x"):
		return strconv.ParseInt(sign+digits[2:], 16, 64)
	case strings.HasPrefix(digits, "0o"):
		return strconv.ParseInt(sign+digits[2:], 8, 64)
	}
	return strconv.ParseInt(sign+digits, 10, 64)
}

// parseFloat reads a floating-point number of YAML's core schema.
func parseFloat(s string) (float64, error) {
	switch strings.ToLower(strings.TrimPrefix(s, "+")) {
	case ".inf":
		return math.Inf(1), nil
	case "-.inf":
		return math.Inf(-1), nil
	case ".nan":
		return math.NaN(), nil
	}
	return strconv.ParseFloat(s, 64)
}

// resolve gives the meaning of a plain scalar.
func resolve(text string) (Kind, ScalarType) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null, String
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Scalar, Bool
	case ".nan", ".NaN", ".NAN":
		return Scalar, Float
	}
	body := text
	if body[0] == '+' || body[0] == '-' {
		body = body[1:]
	}
	switch {
	case body == ".inf" || body == ".Inf" || body == ".INF":
		return Scalar, Float
	case len(body) > 2 && body[:2] == "0x" && only(body[2:], "0123456789abcdefABCDEF"):
		return Scalar, Int
	case len(body) > 2 && body[:2] == "0o" && only(body[2:], "01234567"):
		return Scalar, Int
	case body != "" && only(body, "0123456789"):
		// "007" is a name rather than a number: YAML's versions disagree about it.
		if len(body) > 1 && body[0] == '0' {
			return Scalar, String
		}
		return Scalar, Int
	case isFloat(body):
		return Scalar, Float
	}
	return Scalar, String
}

func only(s, set string) bool {
	return strings.Trim(s, set) == ""
}

// isFloat matches digits, an optional fraction and an optional exponent.
func isFloat(s string) bool {
	mantissa, exponent, has := s, "", false
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, has = s[:i], s[i+1:], true
	}
	if has {
		exponent = strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")
		if exponent == "" || !only(exponent, "0123456789") {
			return false
		}
	}
	whole, fraction, dot := strings.Cut(mantissa, ".")
	if !dot && !has {
		return false
	}
	return only(whole, "0123456789") && only(fraction, "0123456789") && whole+fraction != ""
}
