package document

import "strings"

// blockHeader is what stands behind "|" or ">".
type blockHeader struct {
	folded bool
	indent int  // explicit, 0 when not given
	chomp  byte // '-', '+' or 0
}

// blockScalar reads a literal (|) or folded (>) scalar.
func (p *parser) blockScalar(at place) *Node {
	n := p.node(Scalar, p.off, at)
	h := p.blockHeader()
	if p.bad {
		return nil
	}
	if !p.end() {
		p.newline()
	}
	indent := at.indent + h.indent
	if h.indent == 0 {
		indent = max(p.blockIndent(), at.indent+1)
	} else if at.indent < 0 {
		indent = h.indent
	}
	if !h.folded {
		n.block = origin{line: p.line + p.origin.line, column: indent + p.origin.column}
		if p.origin.fixed {
			n.block = origin{}
		}
	}
	lines := p.blockLines(indent)
	size := len(lines)
	for _, line := range lines {
		size += len(line)
	}
	if size > p.limits.Scalar+1 {
		p.fail(p.off, "this text is too long: at most "+bytesText(p.limits.Scalar)+" are allowed in one value")
		return nil
	}
	n.Text = assemble(lines, h)
	return n
}

func (p *parser) blockHeader() blockHeader {
	h := blockHeader{folded: p.peek() == '>'}
	for p.off++; ; p.off++ {
		c := p.peek()
		switch {
		case c >= '1' && c <= '9' && h.indent == 0:
			h.indent = int(c - '0')
			continue
		case (c == '-' || c == '+') && h.chomp == 0:
			h.chomp = c
			continue
		}
		break
	}
	start := p.off
	p.spaces()
	if !p.atLineEnd() || p.peek() == '#' && p.off == start {
		p.fail(p.off, "unexpected text behind | or >; begin the text on the next line, or put a value that begins with it in quotes")
		return h
	}
	for p.off < len(p.src) && p.peek() != '\n' {
		p.off++
	}
	return h
}

// blockIndent returns the indentation of the first line that is not blank.
func (p *parser) blockIndent() int {
	for off := p.off; off < len(p.src); {
		line, _, _ := strings.Cut(p.src[off:], "\n")
		if text := strings.TrimLeft(line, " "); text != "" {
			return len(line) - len(text)
		}
		off += len(line) + 1
	}
	return 0
}

// blockLines takes the lines of a block scalar, without their indentation, and
// leaves the position at the start of the line behind them.
func (p *parser) blockLines(indent int) []string {
	var lines []string
	for !p.end() {
		line, _, more := strings.Cut(p.src[p.off:], "\n")
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		if spaces < indent && spaces < len(line) {
			break
		}
		if indent == 0 && (p.atMarker("---") || p.atMarker("...")) {
			break
		}
		lines = append(lines, line[min(indent, len(line)):])
		p.off += len(line)
		if !more {
			break
		}
		p.newline()
	}
	return lines
}

// assemble joins a block scalar's lines by its header.
func assemble(lines []string, h blockHeader) string {
	body := len(lines)
	for body > 0 && lines[body-1] == "" {
		body--
	}
	var b strings.Builder
	if h.folded {
		foldLines(&b, lines[:body])
	} else {
		b.WriteString(strings.Join(lines[:body], "\n"))
	}
	switch {
	case h.chomp == '+':
		b.WriteString(strings.Repeat("\n", len(lines)-body))
		if body > 0 {
			b.WriteByte('\n')
		}
	case h.chomp == 0 && body > 0:
		b.WriteByte('\n')
	}
	return b.String()
}

// foldLines joins lines by spaces; blank lines become line ends, and lines that
// begin with a space or tab keep the line ends around them.
func foldLines(b *strings.Builder, lines []string) {
	blanks, before := 0, -1 // before: 1 after an indented line, 0 after a text line
	for _, line := range lines {
		if line == "" {
			blanks++
			continue
		}
		now := 0
		if line[0] == ' ' || line[0] == '\t' {
			now = 1
		}
		switch {
		case before < 0:
			b.WriteString(strings.Repeat("\n", blanks))
		case before == 0 && now == 0 && blanks == 0:
			b.WriteByte(' ')
		case before == 0 && now == 0:
			b.WriteString(strings.Repeat("\n", blanks))
		default:
			b.WriteString(strings.Repeat("\n", blanks+1))
		}
		b.WriteString(line)
		blanks, before = 0, now
	}
}
