package script

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/combsched/comb/internal/core/model"
)

// Limits of a script; one that needs more is refused.
const (
	maxScript = 1 << 20
	maxLines  = 20000
	maxTasks  = 100000
	maxLeaves = 200000 // of a chain in the short form
)

// stanza is a group of lines that are printed together: comments and blank lines, or commands
// with their output.
type stanza struct {
	text     []string // as written, without "----" and the output after it
	commands []command
}

// command is one line of a script, with the block that "<<END" began.
type command struct {
	line  int
	text  []string // as written
	args  *args
	block string
}

// parse cuts a script into stanzas. In a transcript it leaves out old output, from "----" to
// the next blank line, so that running a transcript reproduces it.
func parse(src []byte) ([]stanza, error) {
	if len(src) > maxScript {
		return nil, fmt.Errorf("the script is %d bytes long; at most %d are read", len(src), maxScript)
	}
	lines := strings.Split(strings.TrimRight(string(src), "\n"), "\n")
	for i, line := range lines {
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("line %d: it is not UTF-8 text; save the script as UTF-8", i+1)
		}
	}
	if len(lines) > maxLines {
		return nil, fmt.Errorf("the script has %d lines; at most %d are read", len(lines), maxLines)
	}
	var out []stanza
	for i := 0; i < len(lines); {
		s, next, err := parseStanza(lines, i)
		if err != nil {
			return nil, err
		}
		for _, st := range s {
			if len(st.text) > 0 {
				out = append(out, st)
			}
		}
		i = next
	}
	return out, nil
}

// parseStanza reads from line i to the next blank line. Without "----" every
// command becomes a stanza of its own.
func parseStanza(lines []string, i int) ([]stanza, int, error) {
	var s stanza
	for ; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
		if lines[i] == "----" {
			for ; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
			}
			return []stanza{s}, i + 1, nil
		}
		if strings.HasPrefix(strings.TrimSpace(lines[i]), "#") {
			s.text = append(s.text, lines[i])
			continue
		}
		c, last, err := parseCommand(lines, i)
		if err != nil {
			return nil, 0, err
		}
		s.text = append(s.text, c.text...)
		s.commands = append(s.commands, c)
		i = last
	}
	return s.split(), i + 1, nil
}

// split makes one stanza of each command with the comments before it.
func (s stanza) split() []stanza {
	if len(s.commands) < 2 {
		return []stanza{s}
	}
	var out []stanza
	text := s.text
	for _, c := range s.commands {
		n := 0
		for n < len(text) && text[n] != c.text[0] {
			n++
		}
		n += len(c.text)
		out = append(out, stanza{text: text[:n], commands: []command{c}})
		text = text[n:]
	}
	if len(text) > 0 {
		out = append(out, stanza{text: text})
	}
	return out
}

// parseCommand reads the command at line i, and returns the index of its last line.
func parseCommand(lines []string, i int) (command, int, error) {
	c := command{line: i + 1, text: []string{lines[i]}}
	line := lines[i]
	end := ""
	if head, tail, ok := strings.Cut(line, "<<"); ok && !strings.Contains(head, `"`) {
		line, end = head, strings.TrimSpace(tail)
		if end == "" {
			return c, i, fmt.Errorf("line %d: after << comes the line that ends the block, as in <<END", i+1)
		}
	}
	a, err := parseArgs(line)
	if err != nil {
		return c, i, fmt.Errorf("line %d: %w", i+1, err)
	}
	c.args = a
	if end == "" {
		return c, i, nil
	}
	for j := i + 1; j < len(lines); j++ {
		c.text = append(c.text, lines[j])
		if strings.TrimSpace(lines[j]) == end {
			c.block = strings.Join(lines[i+1:j], "\n") + "\n"
			return c, j, nil
		}
	}
	return c, i, fmt.Errorf("line %d: no line %q ends the block", i+1, end)
}

// args are the words of a command line: its name, words, and key=value pairs.
type args struct {
	name  string
	words []string
	pairs []pair
	used  map[string]bool
	err   error // the first value that did not parse
}

type pair struct{ key, value string }

// parseArgs splits at blanks outside double quotes.
func parseArgs(line string) (*args, error) {
	a := &args{used: map[string]bool{}}
	var fields []string
	var field strings.Builder
	quoted, some := false, false
	flush := func() {
		if some {
			fields = append(fields, field.String())
		}
		field.Reset()
		some = false
	}
	for _, r := range line {
		switch {
		case r == '"':
			quoted, some = !quoted, true
		case (r == ' ' || r == '\t') && !quoted:
			flush()
		default:
			field.WriteRune(r)
			some = true
		}
	}
	flush()
	if quoted {
		return nil, fmt.Errorf("a double quote is not closed")
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("a block needs a command before <<")
	}
	a.name = fields[0]
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.pairs = append(a.pairs, pair{k, v})
		} else {
			a.words = append(a.words, f)
		}
	}
	return a, nil
}

// word returns the nth word, or "".
func (a *args) word(n int) string {
	if n < len(a.words) {
		return a.words[n]
	}
	return ""
}

// flag reports whether a bare word was given, and marks it as known.
func (a *args) flag(name string) bool {
	for i, w := range a.words {
		if w == name {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return true
		}
	}
	return false
}

// get returns the last value of a key, and marks the key as known.
func (a *args) get(key string) (string, bool) {
	a.used[key] = true
	for i := len(a.pairs) - 1; i >= 0; i-- {
		if a.pairs[i].key == key {
			return a.pairs[i].value, true
		}
	}
	return "", false
}

// has reports whether a key was given.
func (a *args) has(key string) bool {
	return slices.ContainsFunc(a.pairs, func(p pair) bool { return p.key == key })
}

func (a *args) text(key, otherwise string) string {
	if v, ok := a.get(key); ok {
		return v
	}
	return otherwise
}

// oneOf reads one of some words.
func (a *args) oneOf(key, otherwise string, words []string) string {
	v := a.text(key, otherwise)
	if v != otherwise && !slices.Contains(words, v) {
		a.fail("%s=%s: not one of %s", key, v, strings.Join(words, ", "))
	}
	return v
}

func (a *args) number(key string, otherwise int32) int32 {
	v, ok := a.get(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		a.fail("%s=%s: not a whole number", key, v)
	}
	return int32(n)
}

func (a *args) duration(key string, otherwise model.Duration) model.Duration {
	v, ok := a.get(key)
	if !ok {
		return otherwise
	}
	d, err := parseDuration(v)
	if err != nil {
		a.fail("%s=%s: %v", key, v, err)
	}
	return d
}

func (a *args) list(key string) []string {
	v, ok := a.get(key)
	if !ok || v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// unknown returns the pairs whose key was not looked up.
func (a *args) unknown() []pair {
	var out []pair
	for _, p := range a.pairs {
		if !a.used[p.key] {
			out = append(out, p)
		}
	}
	return out
}

// done returns the first error: a bad value, an unknown key, or more words than
// the command takes.
func (a *args) done(words int) error {
	if a.err != nil {
		return a.err
	}
	if u := a.unknown(); len(u) > 0 {
		return fmt.Errorf("%s: %q is not a key of this command", a.name, u[0].key)
	}
	if len(a.words) > words {
		return fmt.Errorf("%s: %q is not understood", a.name, a.words[words])
	}
	return nil
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("%s: "+format, append([]any{a.name}, v...)...)
	}
}

// maxDays is how long a script may wait at once.
const maxDays = 100 * 365

var errDuration = errors.New("not a duration such as 90s, 5m or 2d, of at most 36500d")

// parseDuration reads "90s", "1h30m" or "1d".
func parseDuration(v string) (model.Duration, error) {
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > maxDays {
			return 0, errDuration
		}
		return model.Duration(n) * 24 * model.Hour, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > maxDays*24*time.Hour {
		return 0, errDuration
	}
	return model.Duration(d.Microseconds()), nil
}

// formatDuration prints a duration without empty parts: 1h, 5m, 1m30s, 0s.
func formatDuration(d model.Duration) string {
	s := (time.Duration(d) * time.Microsecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
