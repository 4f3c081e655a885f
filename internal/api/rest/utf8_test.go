package rest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"
)

// What JSON cannot carry is refused with its place, all of it at once.
func TestTextThatIsNotUTF8(t *testing.T) {
	q := &QuickJob{Command: []string{"printf", "%s", "caf\xe9", "\ufffd ok"}, WorkDir: "/\xff",
		Env: map[string]string{"A": "x\x80", "B\xfe": "1"}, Caller: &Caller{Env: []byte("C=\xe9\x00"), Folder: Folder{Path: "/caf\xe9"}}}
	_, err := encode(SubmitRequest{Quick: q})
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range p.Errors {
		got = append(got, e.String())
	}
	want := []string{
		"quick.command[2]: byte 4, 0xe9, is not UTF-8 text; give it in UTF-8",
		"quick.work_dir: byte 2, 0xff, is not UTF-8 text; give it in UTF-8",
		"quick.env.A: byte 2, 0x80, is not UTF-8 text; give it in UTF-8",
		"quick.env: byte 2, 0xfe, is not UTF-8 text; give it in UTF-8",
		"quick.caller.folder.path: byte 5, 0xe9, is not UTF-8 text; give it in UTF-8",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%q, want\n%q", got, want)
	}
}

// A JSON text that passes is decoded to what it says; the decoder would change any
// other without a word.
func TestCheckJSON(t *testing.T) {
	for text, at := range map[string]int{
		`{"a": "ok \ufffd \/ \\ud800 \ud83d\ude00 é"}`: -1,
		"{\"a\": \"\xe9\"}":                            7,
		`{"a": "x\ud800"}`:                             8,
		`{"a": "\ude00\ud83d"}`:                        7,
		`{"a": "\ud83d\ud83d\ude00"}`:                  7,
		`{"a": "\\\udc00"}`:                            9,
		`"\ud8`:                                        -1, // the decoder says what is wrong with it
		`"\`:                                           -1,
	} {
		if got, detail := CheckJSON([]byte(text)); (detail == "") != (at < 0) || at >= 0 && got != at {
			t.Errorf("%q: at %d %q, want %d", text, got, detail, at)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`"\ud83d\ude00"`, `{"a\ud800": "\\"}`, "\"\xe9\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var s string
		if _, detail := CheckJSON(src); json.Unmarshal(src, &s) != nil || detail != "" {
			return
		}
		again, err := json.Marshal(s)
		if err != nil || !utf8.Valid(src) {
			t.Fatalf("%q passes: %v", src, err)
		}
		var back string
		if err := json.Unmarshal(again, &back); err != nil || back != s {
			t.Fatalf("%q is %q, and %q when it is written and read again", src, s, back)
		}
	})
}
