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

// Screen is the output of several tasks. On a terminal it prints complete lines. Below them
// it draws one line for each task with an incomplete last line, such as a progress bar: in
// its own place, with its task's name, whatever the task prints. Elsewhere lines follow each
// other.
type Screen struct {
	mu    sync.Mutex
	term  *os.File // on which changing lines are drawn; nil is none
	live  []liveLine
	drawn int         // how many lines of live are on the terminal, above the cursor
	open  *LineWriter // the writer without a prefix that left the cursor after an incomplete line
}

// liveLine is a line that a task has not completed.
type liveLine struct {
	prefix string // of the task
	text   string
	from   *LineWriter // the one of its streams that printed last
}

// LineWriter writes complete lines with a prefix, so that tasks do not mix within a line.
// Without a prefix bytes pass unchanged.
type LineWriter struct {
	screen *Screen
	out    io.Writer
	term   bool // out is a terminal
	prefix string
	rest   []byte // the line that is not complete
	ended  bool   // the last line ended in a carriage return: a line feed after it belongs to it
}

// NewScreen uses the first terminal among some streams; nil streams are no terminals.
func NewScreen(streams ...*os.File) *Screen { return &Screen{term: cmp.Or(streams...)} }

// Writer returns the writer for one stream of a task, which goes on to out. terminal says
// that out is one. prefix begins every line of the task; without it bytes pass unchanged.
func (s *Screen) Writer(out io.Writer, terminal bool, prefix string) *LineWriter {
	return &LineWriter{screen: s, out: out, term: terminal, prefix: prefix}
}

// maxLine bounds the memory of an incomplete line.
const maxLine = 64 << 10

// Write implements io.Writer.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	switch {
	case w.prefix == "":
		// Changing lines cannot be drawn below output that may not end in a line feed.
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

// Finish writes a last incomplete line.
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

// StreamPair is both streams of a task, standard output first, in the order in which they
// were written. An incomplete line is held back as long as more follows, so that no stream
// continues within a line of the other.
type StreamPair struct {
	To   [2]*LineWriter
	held [2][]byte
}

// Piece receives the next bytes of a stream.
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

// Pause prints incomplete lines, since nothing more is there for now.
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

// Finish writes last incomplete lines.
func (p *StreamPair) Finish() error {
	err := p.Pause()
	for _, w := range p.To {
		w.Finish()
	}
	return err
}

// states processes the output of a task for a file or a pipe, and returns its lines. Every
// state of a line that a carriage return overwrites becomes a line of its own, so that
// nothing is lost.
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

// update processes the output of a task, and returns the complete lines in their last states.
// Overwritten text of the incomplete line is dropped.
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

// lastState is what a terminal shows of a line: the text after the last carriage return that
// has text after it.
func lastState(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// apart ends an incomplete line on the terminal before another stream continues.
func (s *Screen) apart(next *LineWriter) error {
	before := s.open
	s.open = nil
	if before == nil || before == next {
		return nil
	}
	_, err := io.WriteString(before.out, "\n")
	return err
}

// print prints complete lines of a task, and draws the changing lines below them.
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

// undraw removes the changing lines from the terminal.
func (s *Screen) undraw() error {
	if s.drawn == 0 {
		return nil
	}
	_, err := fmt.Fprintf(s.term, "\x1b[%dA\r\x1b[J", s.drawn)
	s.drawn = 0
	return err
}

// clear removes the changing lines for good.
func (s *Screen) clear() error {
	s.live = nil
	return s.undraw()
}

// keep stores the incomplete line of a task. It replaces that of the task's other stream.
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

// draw is the changing lines, cut to the terminal's width; only the last ones, if it has
// fewer rows.
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

// fit cuts a text to a number of columns. Characters of wide scripts and pictures take two.
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

// printable removes what moves the cursor or sets up the terminal. With colors it keeps
// colors, and ends them.
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

// escape returns the length of the control sequence at the start of a text, and whether it
// sets colors.
func escape(text string) (n int, color bool) {
	if len(text) < 2 {
		return len(text), false
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text); i++ {
			switch c := text[i]; {
			case c < 0x20 || c > 0x7e: // not part of a sequence, which ends here
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
