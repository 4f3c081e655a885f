package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

func itoa(n int) string { return strconv.Itoa(n) }

// bytesText writes a size for a message.
func bytesText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return itoa(n>>20) + " MiB"
	case n >= 1<<10 && n%(1<<10) == 0:
		return itoa(n>>10) + " KiB"
	}
	return itoa(n) + " bytes"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(s)
}

// scalarNode makes the node of a plain or quoted scalar that began at start,
// whose line may be behind us.
func (p *parser) scalarNode(at place, start int, text string, quoted bool) *Node {
	var n *Node
	if start >= p.lineStart {
		n = p.node(Scalar, start, at)
	} else {
		n = p.earlier(start, at)
	}
	n.Text = text
	if !quoted {
		n.Kind, n.Type = resolve(text)
	}
	if len(text) > p.limits.Scalar {
		p.fail(p.off, "this text is too long: at most "+bytesText(p.limits.Scalar)+" are allowed in one value")
	}
	return n
}

// earlier makes a scalar node for an offset on a line before the present one.
func (p *parser) earlier(start int, at place) *Node {
	line, lineStart := p.line, p.lineStart
	p.line -= strings.Count(p.src[start:lineStart], "\n")
	p.lineStart = strings.LastIndexByte(p.src[:start], '\n') + 1
	n := p.node(Scalar, start, at)
	p.line, p.lineStart = line, lineStart
	return n
}

// scalar reads a plain or quoted scalar. Further lines of a plain one must be
// indented more than indent.
func (p *parser) scalar(indent int, flow bool) (text string, quoted bool) {
	switch c := p.peek(); c {
	case '"', '\'':
		return p.quoted(c), true
	case '@', '`', '%':
		p.fail(p.off, "a value cannot begin with "+string(rune(c))+"; put it in quotes")
	case '#':
		p.fail(p.off, "a value cannot begin with #; put it in quotes, or a space before the # for a comment")
	case ',', ']', '}':
		p.fail(p.off, "unexpected "+string(rune(c))+"; put text that begins with it in quotes")
	case ':', '-', '?':
		if next := p.at(p.off + 1); isBlank(next) || flow && isFlow(next) {
			p.fail(p.off, "unexpected "+string(rune(c))+"; put text that begins with it in quotes, or a key before a colon")
		}
	}
	if p.bad {
		return "", false
	}
	return p.plain(indent, flow), false
}

func isFlow(c byte) bool { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' }

// plain reads a plain scalar and folds its lines. The position comes to stand
// behind its last character.
func (p *parser) plain(indent int, flow bool) string {
	first := p.plainLine(flow)
	var b *strings.Builder
	for !p.bad {
		breaks := p.continues(indent, flow)
		if breaks == 0 {
			break
		}
		if b == nil {
			b = &strings.Builder{}
			b.WriteString(first)
		}
		b.WriteString(fold(breaks))
		b.WriteString(p.plainLine(flow))
		if !flow && p.keyFollows() {
			p.fail(p.off, "unexpected \": \" in a text over several lines; check the indentation, or put the text in quotes")
		}
	}
	if b == nil {
		return first
	}
	return b.String()
}

// keyFollows looks for a key's colon without moving.
func (p *parser) keyFollows() bool {
	off := p.off
	defer func() { p.off = off }()
	return p.atColon()
}

// fold gives what n line ends in a row become in folded text.
func fold(n int) string {
	if n == 1 {
		return " "
	}
	return strings.Repeat("\n", n-1)
}

// plainLine reads a plain scalar's text to the end of the line, a comment, a
// key's colon or, in flow, an indicator.
func (p *parser) plainLine(flow bool) string {
	start, last := p.off, p.off
	for ; ; p.off++ {
		c := p.peek()
		if p.off >= len(p.src) || c == '\n' ||
			c == ':' && (isBlank(p.at(p.off+1)) || flow && isFlow(p.at(p.off+1))) ||
			c == '#' && p.off > start && isBlank(p.src[p.off-1]) ||
			flow && isFlow(c) {
			break
		}
		if c != ' ' && c != '\t' {
			last = p.off + 1
		}
	}
	p.off = last
	return p.src[start:last]
}

// continues moves to the next line of a plain scalar and returns the number of
// line ends crossed; 0, without moving, when the scalar ends here.
func (p *parser) continues(indent int, flow bool) int {
	off, breaks := p.off, 0
	lineStart := p.lineStart
	for ; off < len(p.src); off++ {
		switch c := p.src[off]; c {
		case ' ', '\t':
			continue
		case '\n':
			breaks++
			lineStart = off + 1
			continue
		}
		break
	}
	if breaks == 0 || off >= len(p.src) || p.src[off] == '#' {
		return 0
	}
	if flow {
		if c := p.src[off]; isFlow(c) || c == ':' && (isBlank(p.at(off+1)) || isFlow(p.at(off+1))) {
			return 0
		}
	} else if off-lineStart <= indent {
		return 0
	}
	if off == lineStart && (strings.HasPrefix(p.src[off:], "---") || strings.HasPrefix(p.src[off:], "...")) && isBlank(p.at(off+3)) {
		return 0
	}
	p.off, p.lineStart = off, lineStart
	p.line += breaks
	return breaks
}

// quotedText collects a quoted text; what is before kept came from escapes, and
// trailing spaces are not cut from it.
type quotedText struct {
	b    []byte
	kept int
}

// quoted reads a text in single or double quotes.
func (p *parser) quoted(quote byte) string {
	open := p.mark()
	var t quotedText
	p.off++
	for !p.end() {
		switch c := p.peek(); {
		case c == quote && quote == '\'' && p.at(p.off+1) == quote:
			t.b = append(t.b, quote)
			p.off += 2
		case c == quote:
			p.off++
			return string(t.b)
		case c == '\\' && quote == '"':
			t.b = p.escape(t.b)
			t.kept = len(t.b)
		case c == '\n':
			p.foldQuoted(&t)
		default:
			t.b = append(t.b, c)
			p.off++
		}
		if len(t.b) > p.limits.Scalar {
			p.fail(p.off, "this text is too long: at most "+bytesText(p.limits.Scalar)+" are allowed in one value")
		}
	}
	p.line, p.lineStart = open.line, open.lineStart
	p.fail(open.off, "the closing "+string(rune(quote))+" of this text is missing")
	return ""
}

// foldQuoted folds the line ends inside a quoted text.
func (p *parser) foldQuoted(t *quotedText) {
	for len(t.b) > t.kept && (t.b[len(t.b)-1] == ' ' || t.b[len(t.b)-1] == '\t') {
		t.b = t.b[:len(t.b)-1]
	}
	breaks := 0
	for !p.end() && p.peek() == '\n' {
		p.newline()
		breaks++
		if p.atMarker("---") || p.atMarker("...") {
			p.fail(p.off, "the document ends inside a quoted text; the closing quote is missing")
		}
		p.spaces()
	}
	t.b = append(t.b, fold(breaks)...)
	t.kept = len(t.b)
}

// unescape gives the meaning of a one-letter escape, "" when it has none.
func unescape(c byte) string {
	const letters = "abt\tnvfre \"/\\"
	const meanings = "\a\b\t\t\n\v\f\r\x1b \"/\\"
	if i := strings.IndexByte(letters, c); i >= 0 {
		return meanings[i : i+1]
	}
	switch c {
	case 'N':
		return "\u0085"
	case '_':
		return "\u00a0"
	case 'L':
		return "\u2028"
	case 'P':
		return "\u2029"
	}
	return ""
}

// escape reads one escape of a double-quoted text and appends it.
func (p *parser) escape(b []byte) []byte {
	c := p.at(p.off + 1)
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case c == '\n':
		p.off++
		p.newline()
		p.spaces()
	case digits > 0:
		code, err := strconv.ParseUint(p.src[p.off+2:min(len(p.src), p.off+2+digits)], 16, 32)
		if err != nil || p.off+2+digits > len(p.src) || code == 0 || !utf8.ValidRune(rune(code)) {
			p.fail(p.off, "a bad \\"+string(rune(c))+" escape; it needs "+itoa(digits)+" hexadecimal digits of a character other than 0")
			return b
		}
		p.off += 2 + digits
		return utf8.AppendRune(b, rune(code))
	case unescape(c) != "":
		p.off += 2
		return append(b, unescape(c)...)
	default:
		p.fail(p.off, "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes")
	}
	return b
}
