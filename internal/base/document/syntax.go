package document

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// decode reads the next document; io.EOF when there is none. The library panics on what it
// believes impossible; for untrusted input that is an error too.
func decode(d *yaml.Decoder) (tree *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, fmt.Errorf("yaml: cannot be read (%v)", r)
		}
	}()
	tree = &yaml.Node{}
	return tree, d.Decode(tree)
}

// lineReader returns a text line by line, so that it knows how far the library has read.
type lineReader struct {
	src string
	off int
}

// Read returns at most the rest of a line.
func (r *lineReader) Read(b []byte) (int, error) {
	if r.off == len(r.src) {
		return 0, io.EOF
	}
	rest := r.src[r.off:]
	n := copy(b, rest[:min(len(rest), lineEnd(rest)+1)])
	r.off += n
	return n, nil
}

// fault returns the library's error about a text, "" when it can read it.
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

// syntax reports the library's error about this text. The library tells at most a line, and not
// always that of the mistake. So the place is searched for: it is at the end of the shortest
// prefix of the text that has the same fault.
func (p *parser) syntax(message string, read int) {
	f := &finder{src: p.src, read: read, budget: findBudget}
	end := 0
	switch {
	case inBrackets(message) && f.closable(p.src):
		message, end = unclosed, f.opening()
	case strings.Contains(message, endInQuotes):
		end = f.quote(message)
	default:
		end = f.shortest(message)
		if above, open := f.openAbove(message, end); open {
			message, end = unclosed, above
		} else if above, found := noColonAbove(p.src, message, end); found {
			message, end = "could not find expected ':'", above
		}
	}
	end = mistake(p.src, end, message)
	line, column := placeOf(p.src, end)
	// The text above may have problems of its own, which are reported with this one.
	p.nodes = 0
	_, _, _ = p.read(p.src[:strings.LastIndexByte(p.src[:end], '\n')+1])
	p.fail(line, column, p.advice(message, end))
}

// mistake goes back from the last character of a faulty prefix to the first one of the word that
// is the mistake.
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

// noColonAbove finds the line of a fault that the library sees in the next line. A key without
// its colon becomes the beginning of a text, in which the colon of the next key is the fault.
func noColonAbove(src, message string, end int) (at int, found bool) {
	if !strings.Contains(message, "mapping values are not allowed") {
		return 0, false
	}
	start := strings.LastIndexByte(src[:end], '\n') + 1
	for level := indent(src[start:]); start > 0; {
		above := strings.LastIndexByte(src[:start-1], '\n') + 1
		text := strings.TrimSpace(src[above : start-1])
		if text == "" || indent(src[above:]) != level || strings.Contains(text+" ", ": ") ||
			strings.IndexByte("-#?\"'[]{}&*!|>%@`,", text[0]) >= 0 {
			break
		}
		start, at, found = above, above+level, true
	}
	return at, found
}

// indent counts the spaces before a line's text.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// openAbove finds the open bracket before a fault: a key of the surrounding map follows it in a
// later line.
func (f *finder) openAbove(message string, end int) (at int, found bool) {
	start := strings.LastIndexByte(f.src[:end], '\n') + 1
	line := f.src[start : start+lineEnd(f.src[start:])]
	key, _, colon := strings.Cut(strings.TrimSpace(line)+" ", ": ")
	if !inBrackets(message) || start == 0 || !colon || strings.ContainsAny(key, "[]{},\"' ") {
		return 0, false
	}
	above := &finder{src: f.src[:start], read: start, budget: f.budget}
	if fault(above.src) == "" || !above.closable(above.src) {
		return 0, false
	}
	at = above.opening()
	return at, indent(line) <= indent(f.src[strings.LastIndexByte(f.src[:at], '\n')+1:])
}

// findBudget bounds the bytes that are read again to find one place.
const findBudget = 6 << 20

// finder finds the place of a fault by reading prefixes of the text again.
type finder struct {
	src    string
	read   int // how far the library read before it saw the fault
	budget int
}

// try returns the fault of a text; false when the budget is spent.
func (f *finder) try(src string) (string, bool) {
	if f.budget -= len(src) + 256; f.budget < 0 {
		return "", false
	}
	return fault(src), true
}

// first returns the smallest of 0 to n from which on bad holds, n when it holds for none below.
// It searches from the end, where the mistake usually is: the first near steps by one, then in
// growing leaps. When the budget is spent it returns the best known.
func (f *finder) first(n, near int, bad func(int) bool) int {
	lo, hi := -1, n
	for step := 1; hi > 0 && lo < 0; near-- {
		i := max(0, hi-step)
		switch is := bad(i); {
		case f.budget < 0:
			return hi
		case is:
			hi = i
		default:
			lo = i
		}
		if near <= 0 {
			step *= 2
		}
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		is := bad(mid)
		if f.budget < 0 {
			return hi
		}
		if is {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// shortest returns the offset of the last character of the shortest prefix with this fault. It
// searches by whole lines first, so that a word cut in two is not a fault of its own, and then
// within the line.
func (f *finder) shortest(message string) int {
	same := func(end int) bool {
		if inBrackets(message) {
			return !f.closable(f.src[:end])
		}
		got, ok := f.try(f.src[:end])
		return ok && got == message
	}
	starts := newCursor(f.src).starts
	lines, _ := slices.BinarySearch(starts, f.read)
	at := f.first(min(lines, len(starts)-1), 0, func(i int) bool { return same(starts[i]) })
	from, to := starts[max(0, at-1)], starts[at]
	line := strings.TrimRight(f.src[from:to], " \t\n")
	ends := make([]int, 0, len(line))
	for i, r := range line {
		ends = append(ends, from+i+utf8.RuneLen(r))
	}
	i := 0
	if f.budget >= 0 {
		i = f.first(len(ends)-1, 0, func(i int) bool { return same(ends[i]) })
	}
	if f.budget < 0 || i < 0 {
		return from + len(line) - len(strings.TrimLeft(line, " "))
	}
	text := strings.TrimRight(f.src[:ends[i]], " ")
	_, size := utf8.DecodeLastRuneInString(text)
	return max(from, len(text)-size)
}

// inBrackets reports a fault that a text which ends inside brackets has, too.
func inBrackets(message string) bool {
	return strings.Contains(message, "did not find expected ',' or") || strings.Contains(message, "expected node content")
}

// closable reports whether a text would be valid if more followed: it adds what is missing, a
// value or a bracket, until the library reports nothing. A text that ends inside quotes would be
// valid.
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

// endInQuotes is the library's error about a quoted text without an end.
const endInQuotes = "unexpected end of stream"

// maxClosers is how many open brackets closable tries to close.
const maxClosers = 8

// opening returns the offset of the outermost bracket that is open at the end: a text that ends
// before it has no fault, and any longer one has.
func (f *finder) opening() int {
	good := func(end int) bool {
		got, ok := f.try(f.src[:end])
		return !ok || got == ""
	}
	starts := newCursor(f.src).starts
	at := max(1, f.first(len(starts)-1, 4, func(i int) bool { return !good(starts[i]) }))
	return mark(f.src, starts[at-1:at+1], "[{", good)
}

// quote returns the offset of the quote that is open at the end. The library tells its line,
// except for the first line.
func (f *finder) quote(message string) int {
	good := func(end int) bool {
		got, ok := f.try(f.src[:end])
		return !ok || !strings.Contains(got, endInQuotes)
	}
	starts := append(newCursor(f.src).starts, len(f.src))
	line := 1
	if _, err := fmt.Sscanf(message, "yaml: line %d:", &line); err != nil || line < 1 || line >= len(starts) || !good(starts[line-1]) {
		line = 1
	}
	return mark(f.src, starts[line-1:line+1], "\"'", good)
}

// mark returns the last offset in a line that holds one of the marks and before which all is
// good; the line's start when there is none. line has the line's two ends.
func mark(src string, line []int, marks string, good func(int) bool) int {
	for end := line[1]; end > line[0]; end-- {
		if strings.IndexByte(marks, src[end-1]) >= 0 && good(end-1) {
			return end - 1
		}
	}
	return line[0]
}
