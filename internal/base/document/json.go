package document

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// shift says that behind a column of a line, the text lacks some columns of its file.
type shift struct{ line, column, lacks int }

// escapes rewrites the two escapes of JSON that YAML 1.1 lacks: "\/" and surrogate pairs. It
// changes only JSON, where backslashes are in strings alone.
func (p *parser) escapes() {
	if !strings.Contains(p.src, `\`) || !json.Valid([]byte(p.src)) {
		return
	}
	var out strings.Builder
	at := shift{line: 1, column: 1}
	for rest := p.src; rest != ""; {
		from, to := escape(rest)
		out.WriteString(to)
		at.column += utf8.RuneCountInString(to)
		switch {
		case to == "\n":
			at = shift{line: at.line + 1, column: 1}
		case len(to) < from:
			at.lacks += from - len(to)
			p.shifts = append(p.shifts, at)
		}
		rest = rest[from:]
	}
	p.src = out.String()
}

// escape returns the length of the first character or escape of a JSON text in bytes, and how
// YAML writes it.
func escape(rest string) (from int, to string) {
	_, size := utf8.DecodeRuneInString(rest)
	switch {
	case rest[0] != '\\':
		return size, rest[:size]
	case rest[1] == '/':
		return 2, "/"
	case rest[1] == 'u' && len(rest) >= 12 && rest[6:8] == `\u`:
		high, _ := strconv.ParseUint(rest[2:6], 16, 32)
		low, err := strconv.ParseUint(rest[8:12], 16, 32)
		if r := utf16.DecodeRune(rune(high), rune(low)); err == nil && r != utf8.RuneError {
			return 12, fmt.Sprintf(`\U%08x`, r)
		}
	}
	return 2, rest[:2]
}

// column returns the column in the file of a place in the text.
func (p *parser) column(line, column int) int {
	i := sort.Search(len(p.shifts), func(i int) bool {
		s := p.shifts[i]
		return s.line > line || s.line == line && s.column > column
	})
	if i > 0 && p.shifts[i-1].line == line {
		column += p.shifts[i-1].lacks
	}
	return column
}
