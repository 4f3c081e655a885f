package trace

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a file: where it is, what is wrong and what to do.
type Error struct {
	File   string
	Line   int    // from 1; 0 is the file as a whole
	Column int    // byte of the line at which the field begins, from 1; 0 is the whole line
	Field  string // column or key, or ""
	Kind   string // a few words for counting, such as "not a number"
	Text   string
	// Row says that only this entry is bad, and that those after it can be read.
	Row bool
}

// Error is "file:line:column: field: what is wrong; what to do".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Line > 0 && e.Column > 0 {
		fmt.Fprintf(&b, ":%d", e.Column)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Text)
	return b.String()
}

// Count is how often something occurred.
type Count struct {
	What string `json:"what"`
	N    int64  `json:"n"`
}

// counts counts by name, sorted by name.
type counts []Count

func (c *counts) add(what string) { c.addN(what, 1) }

func (c *counts) addN(what string, n int64) {
	i, found := slices.BinarySearchFunc(*c, what, func(x Count, w string) int { return strings.Compare(x.What, w) })
	if found {
		(*c)[i].N += n
	} else {
		*c = slices.Insert(*c, i, Count{what, n})
	}
}

// quoted shows a field of a file in an error, shortened.
func quoted(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
