package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// bytesText writes a size for a message.
func bytesText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + " MiB"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + " KiB"
	}
	return strconv.Itoa(n) + " bytes"
}

// cursor finds the byte at a line and column. Asked in the order of the text, as a tree is
// walked, all answers together take one pass.
type cursor struct {
	src    string
	starts []int // of the lines, in bytes
	line   int
	column int
	off    int
}

func newCursor(src string) cursor {
	c := cursor{src: src, starts: make([]int, 1, 1+strings.Count(src, "\n"))}
	for i := 0; i < len(src); i++ {
		if src[i] == '\n' {
			c.starts = append(c.starts, i+1)
		}
	}
	return c
}

// seek returns the offset of a line and column, both from 1. If the line is shorter it returns
// the line's end; if there is no such line, the text's.
func (c *cursor) seek(line, column int) int {
	if line < 1 || line > len(c.starts) {
		return len(c.src)
	}
	if line != c.line || column < c.column {
		c.line, c.column, c.off = line, 1, c.starts[line-1]
	}
	for c.column < column && c.off < len(c.src) && c.src[c.off] != '\n' {
		_, size := utf8.DecodeRuneInString(c.src[c.off:])
		c.off += size
		c.column++
	}
	return c.off
}

// text returns a line without its newline, "" when there is none.
func (c *cursor) text(line int) string {
	if line < 1 || line > len(c.starts) {
		return ""
	}
	text, _, _ := strings.Cut(c.src[c.starts[line-1]:], "\n")
	return text
}

// placeOf returns the line and column of an offset.
func placeOf(src string, off int) (line, column int) {
	before := src[:off]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// badText finds the first character that cannot be in a text document.
func (p *parser) badText() bool {
	for i, r := range p.src {
		message := ""
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(p.src[i:], "\ufffd"):
			message = "this is not UTF-8 text; save the file as UTF-8"
		case r == '\r' && !strings.HasPrefix(p.src[i:], "\r\n"):
			message = "a carriage return without a line feed; save the file with Unix line ends"
		case r < 0x20 && r != '\n' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0:
			message = "a control character is not allowed in the file; remove it"
		case r == 0x2028, r == 0x2029, r == 0xfeff && i > 0, r == 0xfffe, r == 0xffff:
			// The library ends a line at the first two; YAML 1.2 does not.
			message = "an invisible character is not allowed in the file; remove it, or write it as \\u" + strconv.FormatInt(int64(r), 16) + " in double quotes"
		}
		if message != "" {
			line, column := placeOf(p.src, i)
			p.fail(line, column, message)
			return true
		}
	}
	return false
}

// directives refuses lines such as "%YAML 1.2". The library drops them from its tree, and a long
// list of them takes it quadratic time. They come before a document: at the start, or after
// "...".
func (p *parser) directives() {
	before := true
	for i, start := range p.cursor.starts {
		line := p.src[start:]
		switch {
		case strings.HasPrefix(line, "...") && isBlank(line[3:]):
			before = true
		case before && strings.HasPrefix(line, "%"):
			p.fail(i+1, 1, "YAML directives are not supported; remove this line")
			return
		case before:
			line = strings.TrimLeft(line[:min(len(line), lineEnd(line))], " \t")
			before = line == "" || line[0] == '#'
		}
	}
}

// manyValues refuses a text that could hold far more values than allowed, because the library
// builds its whole tree before they can be counted. It also counts characters in texts and
// comments that could begin a value, hence the margin. The tree has at most two nodes for each.
func (p *parser) manyValues() {
	const margin = 8
	marks := 0
	for i := 0; i < len(p.src) && !p.bad; i++ {
		switch p.src[i] {
		case ',', '[', '{', '?':
			marks++
		case ':', '-':
			if !isBlank(p.src[i+1:]) {
				continue
			}
			marks++
		default:
			continue
		}
		if marks > margin*p.limits.Nodes {
			line, column := placeOf(p.src, i)
			p.fail(line, column, p.tooMany())
		}
	}
}

// isBlank reports whether a text is empty or begins with a space, tab or line end.
func isBlank(s string) bool { return s == "" || strings.IndexByte(" \t\n", s[0]) >= 0 }

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}
