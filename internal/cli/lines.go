package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Screen is where several tasks print. On a terminal it shows complete lines, and below them one
// line for each task whose last line is still being written, such as a progress bar: each keeps its
// own place and its task's name, whatever the task prints. Elsewhere lines follow each other.
type Screen struct {
	mu    sync.Mutex
	term  *os.File // where the lines that change are drawn; nil where that is no terminal
	live  []liveLine
	drawn int         // lines of live that are on the terminal, above the cursor
	open  *LineWriter // whose line without an end the cursor stands behind, of those that pass bytes as they come
}

// liveLine is what a task has printed of a line so far.
type liveLine struct {
	prefix string // the task
	text   string
	from   *LineWriter // of its streams, that printed last
}

// LineWriter writes whole lines with a prefix, so that tasks do not mix within
// a line. Without a prefix bytes pass as they come.
type LineWriter struct {
	screen *Screen
	out    io.Writer
	term   bool // out is a terminal
	prefix string
	rest   []byte // of a line that has no end yet
	ended  bool   // the last line ended in a carriage return: a line feed behind it ends no other
}

// NewScreen is the terminal of the first of some streams that is one, or no terminal; a stream is
// nil where it is none.
func NewScreen(streams ...*os.File) *Screen { return &Screen{term: cmp.Or(streams...)} }

// Writer returns what one stream of a task is written to, which goes on to out; terminal says that
// this is one. prefix is what every line of the task begins with; without one bytes pass as they
// come.
func (s *Screen) Writer(out io.Writer, terminal bool, prefix string) *LineWriter {
	return &LineWriter{screen: s, out: out, term: terminal, prefix: prefix}
}

// maxLine bounds what is kept of a line without an end.
const maxLine = 64 << 10

// Write implements io.Writer.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	switch {
	case w.prefix == "":
		// What changes has no place below what is not known to end in a line feed.
		if err := w.screen.clear(); err != nil {
			return 0, err
		}
		if w.term && len(p) > 0 {
			if err := w.screen.apart(w); err != nil {
				return 0, err
			}
			if p[len(p)-1] != '\n' {
				w.screen.open = w
			}
		}
		return w.out.Write(p)
	case w.term:
		return len(p), w.screen.print(w, w.update(p), string(lastState(w.rest)))
	}
	for _, line := range w.states(p) {
		if _, err := fmt.Fprintf(w.out, "%s%s\n", w.prefix, line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Finish writes a last line that has no end.
func (w *LineWriter) Finish() {
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	last := lastState(w.rest)
	w.rest = nil
	switch {
	case w.prefix == "":
		_ = w.screen.apart(nil)
	case !w.term && len(last) == 0:
	case w.term && blank(last):
		_ = w.screen.print(w, nil, "")
	case w.term:
		_ = w.screen.print(w, []string{string(last)}, "")
	default:
		fmt.Fprintf(w.out, "%s%s\n", w.prefix, last)
	}
}

// StreamPair is both streams of a task, standard output first, in the order in which they were
// printed. What is not the end of a line yet waits for it as long as more is there, so that neither
// stream goes on within a line of the other.
type StreamPair struct {
	To   [2]*LineWriter
	held [2][]byte
}

// Piece takes what a stream goes on with.
func (p *StreamPair) Piece(stderr bool, text []byte) error {
	i := 0
	if stderr {
		i = 1
	}
	text = append(p.held[i], text...)
	whole := bytes.LastIndexByte(text, '\n') + 1
	if len(text)-whole > maxLine {
		whole = len(text)
	}
	p.held[i] = slices.Clone(text[whole:])
	if whole == 0 {
		return nil
	}
	_, err := p.To[i].Write(text[:whole])
	return err
}

// Pause shows what has no end yet: nothing more is there for now.
func (p *StreamPair) Pause() error {
	for i, text := range p.held {
		if len(text) == 0 {
			continue
		}
		p.held[i] = nil
		if _, err := p.To[i].Write(text); err != nil {
			return err
		}
	}
	return nil
}

// Finish writes last lines that have no end.
func (p *StreamPair) Finish() error {
	err := p.Pause()
	for _, w := range p.To {
		w.Finish()
	}
	return err
}

// states takes in what a task printed, and returns its lines for a file or a pipe: every state of a
// line that a carriage return overwrites is a line of its own, so that nothing is lost.
func (w *LineWriter) states(p []byte) []string {
	var out []string
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexAny(w.rest, "\r\n")
		switch {
		case end < 0 && len(w.rest) < maxLine:
			return out
		case end < 0:
			out, w.rest, w.ended = append(out, string(w.rest)), nil, false
			return out
		}
		line, back := string(w.rest[:end]), w.rest[end] == '\r'
		w.rest = w.rest[end+1:]
		switch {
		case back && blank([]byte(line)): // nothing was overwritten
			continue
		case line != "" || !w.ended:
			out = append(out, line)
		}
		w.ended = back
	}
}

// update takes in what a task printed, and returns the lines that are complete, each as it stood
// last. What was overwritten of the line that is not complete is forgotten.
func (w *LineWriter) update(p []byte) []string {
	var out []string
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			break
		}
		out = append(out, string(lastState(w.rest[:end])))
		w.rest = w.rest[end+1:]
	}
	if last := lastState(w.rest); len(last) >= maxLine {
		out, w.rest = append(out, string(last)), nil
	} else if i := bytes.LastIndexByte(w.rest, '\r'); i >= 0 {
		tail := w.rest[i+1:]
		if len(tail) == 0 {
			w.rest = append(slices.Clone(last), '\r')
		} else {
			w.rest = tail
		}
	}
	return out
}

// lastState is what a terminal shows of a line: what stands behind the last carriage return that
// has something behind it.
func lastState(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// apart ends a line on the terminal that has no end yet, where another stream than its own goes on.
func (s *Screen) apart(next *LineWriter) error {
	before := s.open
	s.open = nil
	if before == nil || before == next {
		return nil
	}
	_, err := io.WriteString(before.out, "\n")
	return err
}

// print puts complete lines of a task on the terminal, and draws the lines that change below them.
func (s *Screen) print(w *LineWriter, lines []string, live string) error {
	if err := s.undraw(); err != nil {
		return err
	}
	if s.keep(w, live); len(lines) > 0 || len(s.live) > 0 {
		if err := s.apart(nil); err != nil {
			return err
		}
	}
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&out, "%s%s\n", w.prefix, printable(line, true))
	}
	if _, err := io.WriteString(w.out, out.String()); err != nil {
		return err
	}
	_, err := io.WriteString(s.term, s.draw())
	return err
}

// undraw takes the lines that change from the terminal.
func (s *Screen) undraw() error {
	if s.drawn == 0 {
		return nil
	}
	_, err := fmt.Fprintf(s.term, "\x1b[%dA\r\x1b[J", s.drawn)
	s.drawn = 0
	return err
}

// clear takes them from the terminal for good.
func (s *Screen) clear() error {
	s.live = nil
	return s.undraw()
}

// keep remembers what a task has printed of a line; what its other stream had there gives way to
// it.
func (s *Screen) keep(w *LineWriter, text string) {
	i := slices.IndexFunc(s.live, func(l liveLine) bool { return l.prefix == w.prefix })
	hide := blank([]byte(text))
	switch {
	case i < 0 && !hide:
		s.live = append(s.live, liveLine{w.prefix, text, w})
		slices.SortStableFunc(s.live, func(a, b liveLine) int { return strings.Compare(a.prefix, b.prefix) })
	case i >= 0 && !hide:
		s.live[i].text, s.live[i].from = text, w
	case i >= 0 && s.live[i].from == w:
		s.live = slices.Delete(s.live, i, i+1)
	}
}

// draw is the lines that change, cut to the terminal's width: the last ones, where it has fewer
// rows.
func (s *Screen) draw() string {
	columns, rows := 80, 24
	if size, err := unix.IoctlGetWinsize(int(s.term.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 &&
		size.Row > 0 {
		columns, rows = int(size.Col), int(size.Row)
	}
	show := s.live[max(0, len(s.live)-(rows-1)):]
	var out strings.Builder
	for _, l := range show {
		out.WriteString(fit(l.prefix+printable(l.text, false), columns-1) + "\n")
	}
	s.drawn = len(show)
	return out.String()
}

// fit cuts a text to so many columns. Letters of wide scripts and pictures take two.
func fit(text string, columns int) string {
	for i, r := range text {
		columns--
		if r >= 0x2e80 {
			columns--
		}
		if columns < 0 {
			return text[:i]
		}
	}
	return text
}

// printable is a text without what moves the cursor or sets up the terminal; with colors it keeps
// those, and ends them.
func printable(text string, colors bool) string {
	var out strings.Builder
	colored := false
	for text = strings.ToValidUTF8(text, "\ufffd"); text != ""; {
		if text[0] == '\x1b' {
			n, color := escape(text)
			if color && colors {
				out.WriteString(text[:n])
				colored = true
			}
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		if text = text[n:]; r == '\t' || r >= ' ' && r < 0x7f || r >= 0xa0 && r != '\u202e' &&
			(r < '\u2066' || r > '\u2068') {
			out.WriteRune(r)
		}
	}
	if colored {
		out.WriteString("\x1b[0m")
	}
	return strings.ReplaceAll(out.String(), "\t", "    ")
}

// escape measures the control sequence that a text begins with, and says whether it is one that
// sets colors.
func escape(text string) (n int, color bool) {
	if len(text) < 2 {
		return len(text), false
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			switch c := text[i]; {
			case c < 0x20 || c > 0x7e: // no part of one: it ends here
				return i, false
			case c >= 0x40:
				return i + 1, c == 'm' && strings.Trim(text[2:i], "0123456789;:") == ""
			}
		}
		return len(text), false
	case ']', 'P', '^', '_': // up to a bell or ESC \
		for i := 2; i < len(text); i++ {
			if text[i] == '\a' {
				return i + 1, false
			}
			if text[i] == '\x1b' {
				return min(i+2, len(text)), false
			}
		}
		return len(text), false
	}
	i := 1
	for i < len(text)-1 && text[i] >= 0x20 && text[i] < 0x30 { // such as ESC ( B
		i++
	}
	if text[i] < 0x20 || text[i] > 0x7e {
		return i, false
	}
	return i + 1, false
}
