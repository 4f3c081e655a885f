package trace

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// cursor reads one JSON value from memory. Its callers say what must come next. The first
// error stays, with its place. encoding/json is too slow for a million lines a second, and
// does not say where a value of the wrong type is.
type cursor struct {
	file string
	b    []byte
	at   int
	// line and column are those of b[0], from 1 and 0.
	line, column int
	row          bool     // an error concerns only this entry
	keys         [][]byte // of the objects around the present value, for errors
	depth        int
	err          *Error
	names        *interner
	text         []byte // text of the last string with escapes
}

// maxDepth bounds nesting.
const maxDepth = 32

// reset begins with another value, whose first byte is on the given line.
func (c *cursor) reset(b []byte, line int) {
	c.b, c.at, c.line, c.column, c.err, c.depth, c.keys = b, 0, line, 0, nil, 0, c.keys[:0]
}

// fail notes an error at the byte at.
func (c *cursor) fail(at int, kind, format string, args ...any) {
	if c.err != nil {
		return
	}
	at = min(max(at, 0), len(c.b))
	before := c.b[:at]
	column := at - bytes.LastIndexByte(before, '\n')
	if column == at+1 {
		column += c.column // at is on the first line
	}
	c.err = &Error{File: c.file, Line: c.line + bytes.Count(before, []byte("\n")), Column: column,
		Field: string(bytes.Join(c.keys, []byte("."))), Kind: kind, Text: fmt.Sprintf(format, args...), Row: c.row}
}

// look skips white space and returns the next byte, or 0 at the end.
func (c *cursor) look() byte {
	for c.at < len(c.b) {
		switch c.b[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return c.b[c.at]
		}
	}
	return 0
}

// take consumes one byte, which must be want.
func (c *cursor) take(want byte) bool {
	if c.err != nil {
		return false
	}
	if c.look() == want {
		c.at++
		return true
	}
	c.wrong("want " + string(rune(want)))
	return false
}

// wrong says that something else was expected here.
func (c *cursor) wrong(want string) {
	if c.at >= len(c.b) {
		c.fail(c.at, "bad JSON", "the JSON ends too early: %s", want)
		return
	}
	c.fail(c.at, "bad JSON", "%s, found %s", want, quoted(c.b[c.at:min(len(c.b), c.at+20)]))
}

// null consumes null, and reports whether it was there.
func (c *cursor) null() bool {
	if c.err == nil && c.look() == 'n' && bytes.HasPrefix(c.b[c.at:], []byte("null")) {
		c.at += 4
		return true
	}
	return false
}

// object calls each with every key. each must read the value, and the key is valid until it
// does.
func (c *cursor) object(each func(key []byte)) {
	if !c.enter('{') {
		return
	}
	own, seen := len(c.keys), keySet{}
	for first := true; c.err == nil && c.look() != '}'; first = false {
		if !first && !c.comma('}') {
			return
		}
		at := c.at
		key := c.str()
		if !c.take(':') {
			return
		}
		if len(c.text) > 0 {
			key = bytes.Clone(key) // it had escapes, and the next text overwrites it
		}
		c.keys = append(c.keys, key)
		if seen.has(key) {
			c.fail(at, "key twice", "the object has this key twice; remove one of the two")
		}
		each(key)
		c.keys = c.keys[:own]
	}
	c.leave('}')
}

// keySet are the keys of one object so far. A few keys are compared one by one.
type keySet struct {
	few  [16][]byte
	n    int
	many map[string]bool
}

// has adds a key, whose bytes must not change, and reports whether it was there before.
func (k *keySet) has(key []byte) bool {
	for _, f := range k.few[:k.n] {
		if bytes.Equal(f, key) {
			return true
		}
	}
	if k.n < len(k.few) {
		k.few[k.n] = key
		k.n++
		return false
	}
	if k.many == nil {
		k.many = map[string]bool{}
	}
	was := k.many[string(key)]
	k.many[string(key)] = true
	return was
}

// array calls each for every entry; each must read it.
func (c *cursor) array(each func()) {
	if !c.enter('[') {
		return
	}
	for n := 0; c.err == nil && c.look() != ']'; n++ {
		if n > 0 && !c.comma(']') {
			return
		}
		each()
	}
	c.leave(']')
}

// comma consumes the comma that must follow a value unless closing follows.
func (c *cursor) comma(closing byte) bool {
	if c.look() != ',' {
		c.wrong("want , or " + string(rune(closing)))
		return false
	}
	c.at++
	return true
}

func (c *cursor) enter(open byte) bool {
	if c.depth >= maxDepth {
		c.fail(c.at, "bad JSON", "more than %d values inside each other", maxDepth)
	}
	c.depth++
	return c.take(open)
}

func (c *cursor) leave(end byte) {
	c.take(end)
	c.depth--
}

// str reads a string. Its bytes are valid until the next call.
func (c *cursor) str() []byte {
	if c.err != nil {
		return nil
	}
	c.text = c.text[:0]
	if c.look() != '"' {
		c.wrong("want a text in quotes")
		return nil
	}
	start := c.at + 1
	for i := start; i < len(c.b); i++ {
		switch {
		case c.b[i] == '"':
			c.at = i + 1
			return c.checked(c.b[start:i], start)
		case c.b[i] == '\\':
			return c.escaped(start)
		case c.b[i] < ' ':
			c.fail(i, "bad JSON", "a control character inside a text; write \\u%04x", c.b[i])
			return nil
		}
	}
	c.fail(c.at, "bad JSON", "the closing quote of this text is missing")
	return nil
}

func (c *cursor) checked(b []byte, at int) []byte {
	if kind, why := badText(b); kind != "" {
		c.fail(at, kind, "%s", why)
	}
	return b
}

// escaped reads a string with backslashes, which begins at start.
func (c *cursor) escaped(start int) []byte {
	for i := start; i < len(c.b) && c.err == nil; {
		switch c.b[i] {
		case '"':
			c.at = i + 1
			return c.checked(c.text, start)
		case '\\':
			i = c.escape(i)
		default:
			c.text = append(c.text, c.b[i])
			i++
		}
	}
	c.fail(start-1, "bad JSON", "the closing quote of this text is missing")
	return nil
}

// escape adds the character of the escape at i, and returns the index after it.
func (c *cursor) escape(i int) int {
	if i+1 < len(c.b) {
		if k := bytes.IndexByte([]byte(`"\/bfnrt`), c.b[i+1]); k >= 0 {
			c.text = append(c.text, "\"\\/\b\f\n\r\t"[k])
			return i + 2
		}
		if r, ok := c.unicode(i); ok {
			if low, more := c.unicode(i + 6); more && utf16.IsSurrogate(r) {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					c.text = utf8.AppendRune(c.text, both)
					return i + 12
				}
			}
			c.text = utf8.AppendRune(c.text, r)
			return i + 6
		}
	}
	c.fail(i, "bad JSON", `an unknown escape; JSON has \" \\ \/ \b \f \n \r \t and \uXXXX`)
	return len(c.b)
}

func (c *cursor) unicode(i int) (rune, bool) {
	if i+6 > len(c.b) || c.b[i] != '\\' || c.b[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(c.b[i+2:i+6]), 16, 16)
	return rune(n), err == nil
}

// name reads a text that repeats in the file; null is none.
func (c *cursor) name() string {
	if c.null() {
		return ""
	}
	b := c.str()
	if c.err != nil {
		return ""
	}
	return c.names.of(b)
}

// number reads a number times 10^digits.
func (c *cursor) number(digits int, in span) int64 {
	if c.err != nil {
		return 0
	}
	c.look()
	start := c.at
	for c.at < len(c.b) && bytes.IndexByte([]byte("+-.0123456789eE"), c.b[c.at]) >= 0 {
		c.at++
	}
	v, wrong := decimal(c.b[start:c.at], digits)
	switch {
	case wrong == isEmpty:
		c.wrong("want a number")
	case wrong == notANumber:
		c.fail(start, notANumber, "%s is not a number", quoted(c.b[start:c.at]))
	case wrong != "" || v < in.from || v > in.to:
		unit := int64(math.Pow10(digits))
		c.fail(start, tooLarge, "%s is out of range; want %d to %d", c.b[start:min(c.at, start+40)], in.from/unit, in.to/unit)
	}
	if c.err != nil {
		return 0
	}
	return v
}

// whole reads a whole number. It is the fast path of the comb format.
func (c *cursor) whole(in span) int64 {
	if c.err != nil {
		return 0
	}
	c.look()
	start, v := c.at, int64(0)
	for c.at < len(c.b) && c.at < start+18 && c.b[c.at] >= '0' && c.b[c.at] <= '9' {
		v = v*10 + int64(c.b[c.at]-'0')
		c.at++
	}
	if c.at > start && v <= in.to && v >= in.from && (c.at == len(c.b) || bytes.IndexByte([]byte("+-.0123456789eE"), c.b[c.at]) < 0) {
		return v
	}
	c.at = start
	v = c.number(0, in)
	if c.err == nil && bytes.IndexByte(c.b[start:c.at], '.') >= 0 {
		c.fail(start, notANumber, "%s is not a whole number", quoted(c.b[start:c.at]))
		return 0
	}
	return v
}

// skip consumes any value.
func (c *cursor) skip() {
	switch b := c.look(); {
	case c.err != nil:
	case b == '{':
		c.object(func([]byte) { c.skip() })
	case b == '[':
		c.array(c.skip)
	case b == '"':
		c.str()
	case c.null():
	case bytes.HasPrefix(c.b[c.at:], []byte("true")):
		c.at += 4
	case bytes.HasPrefix(c.b[c.at:], []byte("false")):
		c.at += 5
	default:
		c.number(0, span{math.MinInt64, math.MaxInt64})
	}
}

// end checks that nothing follows.
func (c *cursor) end() {
	if c.err == nil && c.look() != 0 || c.err == nil && c.at < len(c.b) {
		c.wrong("want the end of the value")
	}
}
