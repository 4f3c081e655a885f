package document

import (
	"strings"
	"unicode/utf8"
)

// Limits bound a document. A zero field means the default's.
type Limits struct {
	Bytes  int // of the whole input
	Depth  int // of maps and lists inside each other
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

// Parse reads an input that holds exactly one document. An empty one gives a
// node of kind Null. When there are problems the node is nil.
func Parse(file string, src []byte, l Limits) (*Node, Problems) {
	nodes, problems := ParseAll(file, src, l)
	if len(problems) > 0 {
		return nil, problems
	}
	if len(nodes) == 0 {
		return &Node{file: file, Line: 1, Column: 1}, nil
	}
	if len(nodes) > 1 {
		return nil, Problems{nodes[1].Problem("only one document is allowed here; remove this one and the \"---\" before it")}
	}
	return nodes[0], nil
}

// ParseAll reads an input of any number of documents separated by "---" lines.
// Empty documents are left out. When there are problems the nodes are nil.
func ParseAll(file string, src []byte, l Limits) ([]*Node, Problems) {
	p := &parser{file: file, limits: l.filled(), origin: origin{line: 1, column: 1}}
	return p.run(string(src[:min(len(src), p.limits.Bytes+1)]))
}

// Inside reads the text of a scalar as a document of its own. Its nodes have the
// positions of the outer file (the scalar's own where the text was folded or
// quoted), and their paths go on from the scalar's.
func (n *Node) Inside(l Limits) (*Node, Problems) {
	p := &parser{file: n.file, limits: l.filled(), origin: n.block, outer: n}
	if n.Kind != Scalar || p.origin.line == 0 {
		p.origin = origin{line: n.Line, column: n.Column, fixed: true}
	}
	nodes, problems := p.run(n.Text)
	switch {
	case len(problems) > 0:
		return nil, problems
	case len(nodes) == 0:
		return &Node{file: n.file, Line: n.Line, Column: n.Column, parent: n}, nil
	case len(nodes) > 1:
		return nil, Problems{nodes[1].Problem("only one document is allowed here")}
	}
	return nodes[0], nil
}

// parser is a recursive descent over the bytes of the input; its recursion is
// bounded by Limits.Depth. After a syntax error (bad) every function returns at
// once; other problems are collected and reading goes on.
type parser struct {
	file   string
	limits Limits
	origin origin
	outer  *Node

	src       string
	off       int
	line      int // from 0
	lineStart int
	// column cache: the rune column of byte colOff on the line at lineStart
	colStart, colOff, col int

	depth    int
	nodes    int
	problems Problems
	bad      bool
}

func (p *parser) run(src string) ([]*Node, Problems) {
	p.src = src
	if p.tooBig() || p.badText() {
		return nil, p.problems
	}
	p.src = strings.ReplaceAll(strings.TrimPrefix(p.src, "\ufeff"), "\r\n", "\n")
	var docs []*Node
	for !p.bad {
		p.skipBlank()
		if p.end() {
			break
		}
		if n := p.document(); n != nil && n.Kind != Null {
			docs = append(docs, n)
		}
	}
	if len(p.problems) > 0 {
		return nil, p.problems.Sorted()
	}
	return docs, nil
}

func (p *parser) tooBig() bool {
	if len(p.src) <= p.limits.Bytes {
		return false
	}
	p.problems = Problems{{File: p.file, Message: "the file is too large: at most " + bytesText(p.limits.Bytes) + " are allowed"}}
	return true
}

// badText finds the first byte that cannot be in a text document.
func (p *parser) badText() bool {
	at := -1
	message := ""
	for i, r := range p.src {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(p.src[i:], "\ufffd"):
			at, message = i, "this is not UTF-8 text; save the file as UTF-8"
		case r == '\r' && !strings.HasPrefix(p.src[i:], "\r\n"):
			at, message = i, "a carriage return without a line feed; save the file with Unix line ends"
		case r < 0x20 && r != '\n' && r != '\t' && r != '\r', r == 0x7f:
			at, message = i, "a control character is not allowed in the file; remove it"
		}
		if at >= 0 {
			break
		}
	}
	if at < 0 {
		return false
	}
	p.line = strings.Count(p.src[:at], "\n")
	p.lineStart = strings.LastIndexByte(p.src[:at], '\n') + 1
	p.fail(at, message)
	return true
}

// document reads one document. The position is at its first content.
func (p *parser) document() *Node {
	explicit, inline := false, false
	for p.atMarker("...") || p.atMarker("---") {
		if explicit && p.atMarker("---") {
			return nil
		}
		explicit = p.atMarker("---")
		p.off += 3
		p.spaces()
		if !p.atLineEnd() {
			inline = true
			break
		}
		p.skipBlank()
	}
	if p.end() {
		return nil
	}
	if p.peek() == '%' && p.off == p.lineStart {
		p.fail(p.off, "YAML directives are not supported; remove this line")
		return nil
	}
	n := p.value(place{parent: p.outer, indent: -1, inline: inline})
	p.skipBlank()
	if !p.bad && !p.end() && !p.atMarker("---") && !p.atMarker("...") {
		p.fail(p.off, "this does not belong to what is above; check the indentation and the quotes")
	}
	return n
}

// place says where a value stands.
type place struct {
	parent *Node
	key    string
	index  int
	indent int  // of the map or list around it; -1 at the top
	inline bool // behind "key:" on one line, where no map or list may begin
}

// node makes a node at a byte offset and counts it.
func (p *parser) node(kind Kind, off int, at place) *Node {
	p.count(off)
	line, column := p.position(off)
	return &Node{Kind: kind, Line: line, Column: column, file: p.file, parent: at.parent, key: at.key, index: at.index}
}

func (p *parser) count(off int) {
	p.nodes++
	if p.nodes > p.limits.Nodes {
		p.fail(off, "the document has too many values: at most "+itoa(p.limits.Nodes)+" keys and values are allowed")
	}
}

// enter counts one level of nesting; leave it with p.depth--.
func (p *parser) enter(off int) {
	p.depth++
	if p.depth > p.limits.Depth {
		p.fail(off, "maps and lists are nested too deep: at most "+itoa(p.limits.Depth)+" levels are allowed")
	}
}

// fail reports a problem after which nothing more can be read.
func (p *parser) fail(off int, message string) {
	if !p.bad {
		p.report(off, message)
		p.bad = true
	}
}

// report notes a problem on the present line and goes on.
func (p *parser) report(off int, message string) {
	line, column := p.position(off)
	if len(p.problems) < MaxProblems {
		key := ""
		if p.outer != nil {
			key = p.outer.Path()
		}
		p.problems = append(p.problems, Problem{File: p.file, Line: line, Column: column, Key: key, Message: message})
	}
	p.bad = p.bad || len(p.problems) >= MaxProblems
}

// position returns the line and column of a byte on the present line.
func (p *parser) position(off int) (line, column int) {
	if p.origin.fixed {
		return p.origin.line, p.origin.column
	}
	if p.colStart != p.lineStart || p.colOff > off || p.col == 0 {
		p.colStart, p.colOff, p.col = p.lineStart, p.lineStart, 1
	}
	p.col += utf8.RuneCountInString(p.src[p.colOff:off])
	p.colOff = off
	return p.line + p.origin.line, p.col + p.origin.column - 1
}

func (p *parser) end() bool { return p.bad || p.off >= len(p.src) }

// peek returns the byte at the position, 0 at the end.
func (p *parser) peek() byte { return p.at(p.off) }

func (p *parser) at(off int) byte {
	if off < len(p.src) {
		return p.src[off]
	}
	return 0
}

// column0 returns the byte column of the position, which in indentation is the
// number of spaces before it.
func (p *parser) column0() int { return p.off - p.lineStart }

// atMarker reports whether a document marker stands at the start of this line.
func (p *parser) atMarker(marker string) bool {
	return p.off == p.lineStart && strings.HasPrefix(p.src[p.off:], marker) && isBlank(p.at(p.off+3))
}

// isBlank reports a space, tab, line end or the end of the text.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == 0 }

// atLineEnd reports whether only a comment may follow on this line. The
// position is behind any spaces.
func (p *parser) atLineEnd() bool {
	c := p.peek()
	return p.end() || c == '\n' || c == '#' && (p.off == p.lineStart || isBlank(p.src[p.off-1]))
}

// spaces skips spaces and tabs and reports whether there was a tab.
func (p *parser) spaces() (tab bool) {
	for ; p.peek() == ' ' || p.peek() == '\t'; p.off++ {
		tab = tab || p.peek() == '\t'
	}
	return tab
}

// newline steps over a line end.
func (p *parser) newline() {
	p.off++
	p.line++
	p.lineStart = p.off
}

// skipBlank goes to the next content over spaces, comments and line ends, and
// reports whether it crossed a line end.
func (p *parser) skipBlank() (crossed bool) {
	for !p.end() {
		tab := p.spaces()
		if !p.atLineEnd() {
			if tab && strings.TrimLeft(p.src[p.lineStart:p.off], " \t") == "" {
				p.fail(p.off-1, "a tab is used for indentation; use spaces")
			}
			return crossed
		}
		for !p.end() && p.peek() != '\n' {
			p.off++
		}
		if !p.end() {
			p.newline()
			crossed = true
		}
	}
	return crossed
}
