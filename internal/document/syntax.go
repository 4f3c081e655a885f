package document

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decode reads the next document; io.EOF when there is none. The library panics
// on what it believes impossible; to a stranger's input that is an error too.
func decode(d *yaml.Decoder) (tree *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, fmt.Errorf("yaml: cannot be read (%v)", r)
		}
	}()
	tree = &yaml.Node{}
	return tree, d.Decode(tree)
}

// fault returns what the library says about a text, "" when it can read it.
func fault(src string) string {
	d := yaml.NewDecoder(strings.NewReader(src))
	for {
		_, err := decode(d)
		if errors.Is(err, io.EOF) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
	}
}

// syntax reports what the library says about this text. Of the place it tells a
// line, and that not always, nor always of the mistake. So the place is sought:
// the shortest beginning of the text that has the same fault ends in it.
func (p *parser) syntax(message string) {
	f := &finder{src: p.src, budget: findBudget}
	end := 0
	switch {
	case inBrackets(message) && f.closable(p.src):
		message, end = unclosed, f.opening("[{", "yaml: ")
	case strings.Contains(message, endInQuotes):
		end = f.opening("\"'", endInQuotes)
	default:
		end = f.shortest(message)
	}
	end = mistake(p.src, end, message)
	line, column := placeOf(p.src, end)
	// What stands above may have problems of its own, to be told with this one.
	p.nodes = 0
	p.read(p.src[:strings.LastIndexByte(p.src[:end], '\n')+1])
	p.fail(line, column, p.advice(message, end))
}

// mistake goes back from the last character of a faulty beginning to the first
// of the word that is the mistake.
func mistake(src string, end int, message string) int {
	start := strings.LastIndexByte(src[:end], '\n') + 1
	switch line := src[start:]; {
	case strings.Contains(message, "unknown anchor"):
		return max(start, strings.LastIndexByte(src[:min(len(src), end+1)], '*'))
	case strings.Contains(message, "could not find expected ':'"):
		return min(end, start+len(line)-len(strings.TrimLeft(line, " ")))
	case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "..."):
		if end <= start+3 {
			return start
		}
	}
	return end
}

// findBudget bounds the bytes that are read again to find one place.
const findBudget = 8 << 20

// finder seeks the place of a fault by reading beginnings of the text again.
type finder struct {
	src    string
	budget int
}

// try returns the fault of a text; false when the budget is spent.
func (f *finder) try(src string) (string, bool) {
	if f.budget -= len(src) + 256; f.budget < 0 {
		return "", false
	}
	return fault(src), true
}

// shortest returns the offset of the last character of the shortest beginning
// with this fault: first by whole lines, so that a word cut in two is no fault of
// its own, then within the line.
func (f *finder) shortest(message string) int {
	same := func(end int) bool {
		if inBrackets(message) {
			return !f.closable(f.src[:end])
		}
		got, ok := f.try(f.src[:end])
		return ok && got == message
	}
	starts := newCursor(f.src).starts[1:]
	at := sort.Search(len(starts), func(i int) bool { return same(starts[i]) })
	from, to := 0, len(f.src)
	if at > 0 {
		from = starts[at-1]
	}
	if at < len(starts) {
		to = starts[at]
	}
	line := f.src[from:to]
	ends := make([]int, 0, len(line))
	for i, r := range line {
		ends = append(ends, from+i+max(1, utf8.RuneLen(r)))
	}
	if f.budget < 0 || len(ends) == 0 {
		return from
	}
	end := ends[min(sort.Search(len(ends), func(i int) bool { return same(ends[i]) }), len(ends)-1)]
	text := strings.TrimRight(f.src[:end], " \t\n")
	if len(text) <= from {
		return from
	}
	_, size := utf8.DecodeLastRuneInString(text)
	return len(text) - size
}

// inBrackets reports a fault that the end of a text inside brackets gives too.
func inBrackets(message string) bool {
	return strings.Contains(message, "did not find expected ',' or") || strings.Contains(message, "expected node content")
}

// closable reports whether a text would do if more followed: what is missing, a
// value or a bracket, is added until the library has nothing to say. A text that
// ends inside quotes would do.
func (f *finder) closable(src string) bool {
	src += "\n"
	for range 3 * maxClosers {
		message, ok := f.try(src)
		switch {
		case !ok:
			return false
		case message == "" || strings.Contains(message, endInQuotes):
			return true
		case strings.Contains(message, "or '}'"):
			src += "}"
		case strings.Contains(message, "or ']'"):
			src += "]"
		case strings.Contains(message, "expected node content"):
			src += " x"
		default:
			return false
		}
	}
	return false
}

// endInQuotes is what the library says of a quoted text without an end.
const endInQuotes = "unexpected end of stream"

// maxClosers is how many brackets may be open for the search to go on.
const maxClosers = 8

// opening returns the offset of the bracket or quote, one of marks, that is open
// at the end: a text that ends before it has no fault with these words, and any
// that ends behind it has.
func (f *finder) opening(marks, words string) int {
	good := func(end int) bool {
		got, ok := f.try(f.src[:end])
		return !ok || !strings.Contains(got, words)
	}
	starts := newCursor(f.src).starts
	from, to := 0, len(f.src)
	for i := len(starts) - 1; i >= 0; i-- {
		if from = starts[i]; good(from) {
			break
		}
		to = from
	}
	if f.budget < 0 {
		return from
	}
	for end := to; end > from; end-- {
		if strings.IndexByte(marks, f.src[end-1]) >= 0 && good(end-1) {
			return end - 1
		}
	}
	return from
}
