package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestLineStates: lines of files from other systems, empty lines and bars that are cleared, in
// whatever pieces they come.
func TestLineStates(t *testing.T) {
	for _, c := range []struct{ text, file, terminal string }{
		{"a\nb\n", "a,b", "a,b"},
		{"a\r\nb\r\n\r\nc", "a,b,,c", "a,b,,c"},
		{"\r 1%\r 2%\r 3%\n\n", " 1%, 2%, 3%,", " 3%,"},
		{"1%\r   \rend\n", "1%,end", "end"},
		{"x\r\r\ny\r", "x,y", "x,y"},
	} {
		for _, piece := range []int{1, 2, 3, len(c.text)} {
			file, term := &LineWriter{}, &LineWriter{}
			var inFile, onTerminal []string
			for at := 0; at < len(c.text); at += piece {
				p := []byte(c.text[at:min(at+piece, len(c.text))])
				inFile, onTerminal = append(inFile, file.states(p)...), append(onTerminal, term.update(p)...)
			}
			for w, to := range map[*LineWriter]*[]string{file: &inFile, term: &onTerminal} {
				if last := lastState(w.rest); len(last) > 0 {
					*to = append(*to, string(last))
				}
			}
			if got := strings.Join(inFile, ","); got != c.file {
				t.Errorf("%.40q in pieces of %d is %.60q in a file, want %.60q", c.text, piece, got, c.file)
			}
			if got := strings.Join(onTerminal, ","); got != c.terminal {
				t.Errorf("%.40q in pieces of %d is %.60q on a terminal, want %.60q", c.text, piece, got, c.terminal)
			}
		}
	}
	endless, got := bytes.Repeat([]byte("z"), 1000), [2]int{}
	file, term := &LineWriter{}, &LineWriter{}
	for range 1000 {
		for i, lines := range [][]string{file.states(endless), term.update(endless)} {
			got[i] += len(strings.Join(lines, ""))
		}
	}
	if file, term := len(file.rest), len(term.rest); file > maxLine || term > maxLine || got != [2]int{1_000_000 - file, 1_000_000 - term} {
		t.Errorf("of a line without an end %d and %d bytes are kept, %v printed", file, term, got)
	}
	if got := printable("a\x1b[2A\x1b[31mred\x1b]0;title\a\x07\tb\x1b[?25l\xff", true); got != "a\x1b[31mred    b\ufffd\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := printable("\x1b[31mred\x1b[0m\x1b", false); got != "red" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{
		"a\x1b[\x1b8mb":   "amb", // restores the cursor
		"a\x1b[\b\b\bmb":  "amb", // goes back over the prefix
		"a\x1b[>4;2mb":    "ab",  // sets up the keyboard
		"a\x1b[?4mb":      "ab",  // asks the terminal for an answer
		"a\x1b(Bb\x1b=c":  "abc", // of tput sgr0
		"a\u202eb\u2066c": "abc", // turns the direction of the text
		"\x1b[38;5;1mred": "\x1b[38;5;1mred\x1b[0m",
	} {
		if got := printable(text, true); got != want {
			t.Errorf("%q is printed as %q; want %q", text, got, want)
		}
	}
	if got := fit("ab漢字c", 5); got != "ab漢" {
		t.Errorf("%q", got)
	}
}

// TestBothStreamsOfATask: neither stream goes on within a line of the other, in a file; on a
// terminal what has no end yet is shown when nothing else is there, and the other begins anew.
func TestBothStreamsOfATask(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var both bytes.Buffer
		s := NewScreen()
		p := StreamPair{To: [2]*LineWriter{s.Writer(&both, terminal, ""), s.Writer(&both, terminal, "")}}
		for _, piece := range []string{"one\nthr", "!E1\n", "ee\nfo", "", "ur", "", "!E2\n", "five\nlast"} {
			stderr := strings.HasPrefix(piece, "!")
			err := error(nil)
			if piece == "" {
				err = p.Pause()
			} else {
				err = p.Piece(stderr, []byte(strings.ReplaceAll(piece, "!", "")))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Finish(); err != nil {
			t.Fatal(err)
		}
		want := "one\nE1\nthree\nfourE2\nfive\nlast"
		if terminal {
			want = "one\nE1\nthree\nfour\nE2\nfive\nlast\n"
		}
		if both.String() != want {
			t.Errorf("terminal %v: %q, want %q", terminal, both.String(), want)
		}
	}
	var out bytes.Buffer
	s := NewScreen()
	p := StreamPair{To: [2]*LineWriter{s.Writer(&out, false, ""), s.Writer(&out, false, "")}}
	for range 200 {
		if err := p.Piece(false, bytes.Repeat([]byte("z"), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.held[0]) > maxLine || out.Len()+len(p.held[0]) != 200_000 {
		t.Errorf("of a line without an end %d bytes are held, %d written", len(p.held[0]), out.Len())
	}
}
