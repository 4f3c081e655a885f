package document

import (
	"encoding/json"
	"reflect"
	"testing"
)

// JSON escapes what YAML 1.1 does not: a slash, and characters beyond 16 bits as two
// halves. Values are as a JSON reader has them, and places those of the file.
func TestEscapesOfJSON(t *testing.T) {
	for _, src := range []string{
		`{"a\/b": "\/x\\/y\\\/", "p": "\ud83d\ude00 \u00e9 \"\/\"", "q": ["\uD834\uDD1E", "é\/"], "r": "\\ud83d\\ude00"}`,
		"{\n\t\"a\": \"\\/\\/\\/\", \"b\": [\"\\/\", \"x\"],\n\t\"c\": \"\\ud83d\\ude00\"}\n",
	} {
		n, problems := Parse("f", []byte(src), Limits{})
		if problems != nil {
			t.Fatalf("%s: %s", src, problems)
		}
		var want any
		if err := json.Unmarshal([]byte(src), &want); err != nil {
			t.Fatal(err)
		}
		if got := n.Any(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %q, not %q", src, got, want)
		}
	}
	const src = "{\"é\\/\\ud83d\\ude00\": \"\\/\", \"here\": 1,\n\"\\/\": 2, \"there\": \"x\"}"
	n, problems := Parse("f", []byte(src), Limits{})
	if problems != nil {
		t.Fatal(problems)
	}
	for key, want := range map[string][2]int{"here": {1, 35}, "there": {2, 19}} {
		if v := n.Get(key); v.Line != want[0] || v.Column != want[1] {
			t.Errorf("%s stands at %d:%d, not at %v", key, v.Line, v.Column, want)
		}
	}
	for _, bad := range []string{`{"a": "\ud83d"}`, `{"a": "\ud83dx\ude00"}`, `{"a": "\ude00\ud83d"}`, `{"a": "\/",}x`} {
		if _, problems := Parse("f", []byte(bad), Limits{}); problems == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
