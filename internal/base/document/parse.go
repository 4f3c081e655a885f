package document

import (
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits bound a document. A zero field means the default's.
type Limits struct {
	Bytes  int // of the whole input
	Depth  int // of nested maps and lists
	Nodes  int // values and keys together, over all documents of the input
	Scalar int // bytes of one scalar
}

// DefaultLimits fit a job file: 1 MiB, 32 deep, 10,000 nodes, scalars of 64 KiB.
func DefaultLimits() Limits {
	return Limits{Bytes: 1 << 20, Depth: 32, Nodes: 10_000, Scalar: 64 << 10}
}

// maxKey bounds a key, in bytes.
const maxKey = 1024

func (l Limits) filled() Limits {
	d := DefaultLimits()
	for _, p := range []struct{ have, want *int }{
		{&l.Bytes, &d.Bytes}, {&l.Depth, &d.Depth}, {&l.Nodes, &d.Nodes}, {&l.Scalar, &d.Scalar},
	} {
		if *p.have <= 0 {
			*p.have = *p.want
		}
	}
	return l
}

// Parse reads an input that holds exactly one document. An empty one gives a node of kind Null.
// When there are problems the node is nil, with one exception. If all of them are duplicate keys,
// the node has the first of each, so that other errors can be reported as well.
func Parse(file string, src []byte, l Limits) (*Node, Problems) {
	nodes, problems := newParser(file, l).run(cut(src, l))
	if nodes == nil && len(problems) > 0 {
		return nil, problems
	}
	if len(nodes) == 0 {
		return &Node{file: file, Line: 1, Column: 1}, problems
	}
	if len(nodes) > 1 {
		return nil, append(problems, nodes[1].Problem("only one document is allowed here; remove this one and the \"---\" before it")).Sorted()
	}
	return nodes[0], problems
}

// ParseAll reads an input of any number of documents separated by "---" lines.
// Empty documents are left out. When there are problems the nodes are nil.
func ParseAll(file string, src []byte, l Limits) ([]*Node, Problems) {
	nodes, problems := newParser(file, l).run(cut(src, l))
	if len(problems) > 0 {
		return nil, problems
	}
	return nodes, nil
}

func newParser(file string, l Limits) *parser {
	return &parser{file: file, limits: l.filled(), origin: origin{line: 1, column: 1}}
}

// cut returns the input, cut off right after the byte that makes it too large.
func cut(src []byte, l Limits) string { return string(src[:min(len(src), l.filled().Bytes+1)]) }

// Inside reads the text of a scalar as a document of its own. Its nodes have the positions of the
// outer file (the scalar's own where the text was folded or quoted), and their paths continue the
// scalar's. Problems are as Parse's.
func (n *Node) Inside(l Limits) (*Node, Problems) {
	p := &parser{file: n.file, limits: l.filled(), origin: n.block, outer: n}
	if n.Kind != Scalar || p.origin.line == 0 {
		p.origin = origin{line: n.Line, column: n.Column, fixed: true}
	}
	nodes, problems := p.run(n.Text)
	switch {
	case nodes == nil && len(problems) > 0:
		return nil, problems
	case len(nodes) == 0:
		return &Node{file: n.file, Line: n.Line, Column: n.Column, parent: n}, problems
	case len(nodes) > 1:
		return nil, append(problems, nodes[1].Problem("only one document is allowed here")).Sorted()
	}
	return nodes[0], problems
}

// parser reads one input: it checks the bytes, lets the library make a tree, and makes our own
// tree from that. It collects problems; bad means that going on is useless.
type parser struct {
	file   string
	limits Limits
	origin origin
	outer  *Node

	src      string
	shifts   []shift // where rewritten JSON lacks columns, in order
	cursor   cursor
	nodes    int
	problems Problems
	repeated int // number of problems that are duplicate keys: the rest can be read
	bad      bool
}

func (p *parser) run(src string) ([]*Node, Problems) {
	if len(src) > p.limits.Bytes {
		return nil, Problems{{File: p.file, Message: "the file is too large: at most " + bytesText(p.limits.Bytes) + " are allowed"}}
	}
	if p.src = src; p.badText() {
		return nil, p.problems
	}
	p.src = strings.ReplaceAll(strings.TrimPrefix(p.src, "\ufeff"), "\r\n", "\n")
	if !strings.HasSuffix(p.src, "\n") {
		p.src += "\n" // the last line means the same with and without its newline
	}
	p.escapes()
	p.cursor = newCursor(p.src)
	p.directives()
	p.manyValues()
	docs, message, end := p.read(p.src)
	if message != "" {
		p.syntax(message, end)
	}
	if len(p.problems) > p.repeated || p.bad {
		return nil, p.problems.Sorted()
	}
	return docs, p.problems.Sorted()
}

// read reads the documents of a prefix of the text. It returns the library's error, "" for none,
// and how far the library read.
func (p *parser) read(src string) (docs []*Node, message string, end int) {
	lines := &lineReader{src: src}
	library := yaml.NewDecoder(lines)
	for !p.bad {
		tree, err := decode(library)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err.Error(), lines.off
		}
		if n := p.root(tree); n != nil && n.Kind != Null {
			docs = append(docs, n)
		}
	}
	return docs, "", lines.off
}

// place says where a value is.
type place struct {
	parent *Node
	key    string
	index  int
	depth  int  // of maps and lists around it
	flow   bool // inside brackets
}

// count counts one key or value against the limit.
func (p *parser) count(line, column int) {
	p.nodes++
	if p.nodes > p.limits.Nodes {
		p.fail(line, column, p.tooMany())
	}
}

func (p *parser) tooMany() string {
	return "the document has too many values: at most " + strconv.Itoa(p.limits.Nodes) + " keys and values are allowed"
}

// fail reports a problem that ends the reading.
func (p *parser) fail(line, column int, message string) {
	if !p.bad {
		p.report(line, column, message)
		p.bad = true
	}
}

// report reports a problem at a place of this text and goes on.
func (p *parser) report(line, column int, message string) {
	line, column = p.outside(line, column)
	if len(p.problems) < MaxProblems {
		p.problems = append(p.problems, Problem{File: p.file, Line: line, Column: column, Key: p.outer.Path(), Message: message})
	}
	p.bad = p.bad || len(p.problems) >= MaxProblems
}

// outside turns a place in this text into one in the file that contains it.
func (p *parser) outside(line, column int) (int, int) {
	if p.origin.fixed {
		return p.origin.line, p.origin.column
	}
	return line - 1 + p.origin.line, p.column(line, column) - 1 + p.origin.column
}
