// Package document reads YAML from untrusted input: bounded before anything is built, every value
// with its position, and every problem reported at once.
//
// A library reads the YAML; this package bounds what the library gets, turns its tree into typed
// nodes and says what is wrong in words that help. The language is the part of YAML that people
// write by hand: block and flow maps and lists, plain, quoted and block scalars, comments,
// several documents. Anchors, aliases, merge keys, tags, directives and complex keys are refused
// with advice. Work and memory are linear in the input, which is bounded by Limits. The package
// must not know what any key means.
package document

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a document, and where.
type Problem struct {
	File    string // as the caller named it; may be empty
	Line    int    // from 1; 0 when the problem has no place
	Column  int    // from 1, in characters
	Key     string // dotted path of the value, for example "taskRoles.worker.instances"
	Message string // what is wrong and what to do, one sentence
}

// String gives "file:line:column: key: message", without the parts that are empty.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		if b.Len() > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column))
	}
	for _, part := range []string{p.Key, p.Message} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// Problems is a list of problems, an error when it is not empty.
type Problems []Problem

// Error gives all problems, one a line, in order of position.
func (ps Problems) Error() string {
	lines := make([]string, 0, len(ps))
	for _, p := range ps.Sorted() {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems as an error, nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Sorted returns the problems in order of position, each once.
func (ps Problems) Sorted() Problems {
	out := slices.Clone(ps)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(out)
}

// MaxProblems is how many problems one reading reports; more would help no user.
const MaxProblems = 100

// Quote returns an untrusted text in quotes, cut to a length fit for a message.
func Quote(s string) string {
	const most = 60
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return strconv.Quote(s[:cut]) + fmt.Sprintf("... (%d bytes)", len(s))
}
