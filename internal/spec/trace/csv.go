package trace

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/combsched/comb/internal/core/model"
)

// field is a column of a table. at is -1 where the file does not have it.
type field struct {
	name string
	at   int
}

// row is one line of a table with separators. After the first error all methods return zero
// values, so that a parser can read like a list of columns.
type row struct {
	file   string
	line   int
	fields [][]byte
	starts []int // byte of the line at which each field begins, from 0
	names  *interner
	err    *Error
}

// split cuts a line into the row's fields. Quotes are those of RFC 4180, within
// one line: a public trace has no line breaks inside a field.
func (r *row) split(line []byte, sep byte) {
	r.err = nil
	r.fields, r.starts = r.fields[:0], r.starts[:0]
	if bytes.IndexByte(line, '"') >= 0 {
		r.splitQuoted(line, sep)
		return
	}
	for at := 0; ; {
		i := bytes.IndexByte(line[at:], sep)
		if i < 0 {
			r.add(line[at:], at)
			return
		}
		r.add(line[at:at+i], at)
		at += i + 1
	}
}

func (r *row) add(value []byte, at int) {
	if len(r.fields) < maxFields {
		r.fields = append(r.fields, value)
		r.starts = append(r.starts, at)
	} else if r.err == nil {
		r.err = &Error{File: r.file, Line: r.line, Column: at + 1, Kind: "wrong number of columns", Row: true,
			Text: fmt.Sprintf("more than %d columns; is this the right format?", maxFields)}
	}
}

func (r *row) splitQuoted(line []byte, sep byte) {
	for at := 0; at <= len(line) && r.err == nil; {
		if at == len(line) || line[at] != '"' {
			end := bytes.IndexByte(line[at:], sep)
			if end < 0 {
				end = len(line) - at
			}
			r.add(line[at:at+end], at)
			at += end + 1
			continue
		}
		value, end := unquote(line, at)
		if end < 0 || end < len(line) && line[end] != sep {
			r.err = &Error{File: r.file, Line: r.line, Column: at + 1, Kind: "bad quotes", Row: true,
				Text: "the closing quote is missing or followed by text; write a quote inside a quoted field twice"}
			return
		}
		r.add(value, at)
		at = end + 1
	}
}

// unquote returns the text of the quoted field that begins at at, and the index after its
// closing quote, or -1.
func unquote(line []byte, at int) ([]byte, int) {
	var value []byte
	for i := at + 1; i < len(line); i++ {
		if line[i] == '"' {
			if i+1 == len(line) || line[i+1] != '"' {
				return value, i + 1
			}
			i++
		}
		value = append(value, line[i])
	}
	return nil, -1
}

// fail notes an error in a column, unless there is one already.
func (r *row) fail(f field, kind, text string) {
	if r.err != nil {
		return
	}
	r.err = &Error{File: r.file, Line: r.line, Field: f.name, Kind: kind, Text: text, Row: true}
	if f.at >= 0 && f.at < len(r.starts) {
		r.err.Column = r.starts[f.at] + 1
	}
}

// raw returns a column's bytes, without spaces around them.
func (r *row) raw(f field) []byte {
	if f.at < 0 || r.err != nil {
		return nil
	}
	return bytes.TrimSpace(r.fields[f.at])
}

// absent reports whether a column is missing or empty. Tables written by pandas hold nan, or
// None for a missing text.
func absent(b []byte) bool {
	return len(b) == 0 || len(b) <= 4 && (bytes.EqualFold(b, []byte("nan")) || bytes.EqualFold(b, []byte("none")))
}

// text returns a column as text; texts that repeat share memory.
func (r *row) text(f field) string {
	b := r.raw(f)
	if kind, why := badText(b); kind != "" {
		r.fail(f, kind, why)
		return ""
	}
	return r.names.of(b)
}

// id returns the column that names the job.
func (r *row) id(f field) string {
	b := r.raw(f)
	if kind, why := badText(b); kind != "" {
		r.fail(f, kind, why)
	} else if len(b) == 0 && r.err == nil {
		r.fail(f, isEmpty, "is empty; every job needs an id")
	}
	return string(b)
}

// badText says what is wrong with a text: its kind and a sentence, or "".
func badText(b []byte) (kind, why string) {
	if len(b) > maxText {
		return "text too long", fmt.Sprintf("has %d bytes; want at most %d", len(b), maxText)
	}
	if plainASCII(b) {
		return "", ""
	}
	if !utf8.Valid(b) {
		return "bad text", "is no valid UTF-8: " + quoted(b) + "; convert the file"
	}
	if i := bytes.IndexFunc(b, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
		return "bad text", fmt.Sprintf("holds the control character %q; remove it", b[i])
	}
	return "", ""
}

func plainASCII(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// span is a range of allowed values.
type span struct{ from, to int64 }

// number reads a column times 10^digits; an absent column is 0.
func (r *row) number(f field, digits int, in span) int64 {
	b := r.raw(f)
	if f.at < 0 || r.err != nil {
		return 0
	}
	v, wrong := decimal(b, digits)
	unit := int64(math.Pow10(digits))
	switch {
	case wrong == isEmpty:
		r.fail(f, isEmpty, "is empty; want a number")
	case wrong == notANumber:
		r.fail(f, notANumber, quoted(b)+" is not a number")
	case wrong != "" || v > in.to || v < in.from:
		r.fail(f, tooLarge, fmt.Sprintf("%s is out of range; want %d to %d", b[:min(len(b), 40)], in.from/unit, in.to/unit))
	}
	if r.err != nil {
		return 0
	}
	return v
}

// whole reads a column as a whole number. 3.0 is one too, since pandas writes that.
func (r *row) whole(f field, in span) int64 {
	if b := r.raw(f); r.err == nil && f.at >= 0 {
		if dot := bytes.IndexByte(b, '.'); dot >= 0 && len(bytes.Trim(b[dot+1:], "0")) > 0 {
			r.fail(f, notANumber, quoted(b)+" is not a whole number")
		}
	}
	return r.number(f, 0, in)
}

// optional is number, or 0 where the field is empty or nan.
func (r *row) optional(f field, digits int, in span) int64 {
	if f.at < 0 || absent(r.raw(f)) {
		return 0
	}
	return r.number(f, digits, in)
}

var (
	anyTime  = span{0, maxTime}
	anyCount = span{0, maxCount}
)

// seconds reads a column of seconds since some start.
func (r *row) seconds(f field) int64 { return r.number(f, 6, anyTime) }

// minutes reads a column of whole minutes.
func (r *row) minutes(f field) int64 {
	return r.whole(f, span{0, maxTime / int64(model.Minute)}) * int64(model.Minute)
}

// gpus reads a number of GPUs. 0 is allowed; callers skip such jobs.
func (r *row) gpus(f field) int32 { return int32(r.whole(f, span{0, MaxGPUs})) }

// interner shares the memory of texts that repeat.
type interner struct{ seen map[string]string }

func (n *interner) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n.seen[string(b)]; ok {
		return s
	}
	s := string(b)
	if n.seen == nil {
		n.seen = map[string]string{}
	}
	if len(n.seen) < 1<<16 && len(s) <= 256 {
		n.seen[s] = s
	}
	return s
}

// table reads the lines of a file with columns.
type table struct {
	*lines
	sep     byte
	columns int // number that every row must have; 0 until the header is read
	row     row
}

func newTable(l *lines, sep byte) *table {
	return &table{lines: l, sep: sep, row: row{file: l.file, names: &interner{}}}
}

// read returns the next row that is not empty.
func (t *table) read() (*row, error) {
	for {
		line, err := t.next()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		t.row.line = t.n
		t.row.split(line, t.sep)
		if n := len(t.row.fields); t.columns > 0 && n != t.columns && t.row.err == nil {
			t.row.err = &Error{File: t.file, Line: t.n, Kind: "wrong number of columns", Row: true,
				Text: fmt.Sprintf("the line has %d columns, not %d; a text with a separator in it needs quotes", n, t.columns)}
		}
		return &t.row, nil
	}
}

// header reads the line of names and finds the wanted columns by name, in any order. Columns
// whose wanted name begins with "?" may be absent.
func (t *table) header(wanted ...string) ([]field, error) {
	r, err := t.read()
	if err != nil {
		return nil, err
	}
	if r.err != nil {
		r.err.Row = false
		return nil, r.err
	}
	var have []string
	for _, b := range r.fields {
		have = append(have, string(bytes.TrimSpace(b)))
	}
	fields, missing := bind(have, wanted)
	if len(missing) > 0 {
		do := "is this the right format?"
		if len(missing) == 1 && missing[0] == "vc" {
			do = "--vc NAME puts all jobs into one virtual cluster"
		}
		return nil, &Error{File: t.file, Line: r.line, Kind: "missing columns",
			Text: fmt.Sprintf("the header lacks %s; %s", strings.Join(missing, ", "), do)}
	}
	for _, f := range fields {
		if last := lastIndex(have, f.name); last > f.at {
			return nil, &Error{File: t.file, Line: r.line, Column: r.starts[last] + 1, Field: f.name, Kind: "column twice",
				Text: "the header names this column twice; remove one of the two"}
		}
	}
	t.columns = len(have)
	return fields, nil
}

// lastIndex is the last index of a name, or -1.
func lastIndex(names []string, name string) int {
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] == name {
			return i
		}
	}
	return -1
}

func bind(have, wanted []string) (fields []field, missing []string) {
	for _, w := range wanted {
		name, optional := strings.CutPrefix(w, "?")
		at := slices.Index(have, name)
		fields = append(fields, field{name, at})
		if at < 0 && !optional {
			missing = append(missing, name)
		}
	}
	return fields, missing
}
