package document

import (
	"math"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	src := "name: 12\ncount: \"3\"\nbig: 99999999999\nflag: yes\nkinds: gpx\nlist: x\nsub:\n  a: 1\n  naem: x\nrate: .inf\nlong: abcdef\nempty:\nstrings: [a, 1, ~, [b]]\ninst: 1\n\"odd.key\": 1\n"
	n, problems := Parse("f", []byte(src), Limits{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := NewReader()
	m := r.Map(n, "the thing")
	if got := m.String("name", Text{Required: true}); got != "12" {
		t.Errorf("name %q", got)
	}
	m.Int("count", Range{})
	if got := m.Int("big", Range{Min: 1, Max: 10, Default: 7}); got != 7 {
		t.Errorf("big %d", got)
	}
	m.Bool("flag", false)
	m.String("kinds", Text{OneOf: []string{"gpu", "cpu"}})
	m.List("list")
	sub := m.Map("sub", "the sub")
	sub.Int("a", Range{Max: 5})
	sub.String("name", Text{})
	sub.Require("name")
	sub.Rest()
	m.Float("rate", 0, 0, 1e9)
	m.String("long", Text{Max: 3})
	m.String("empty", Text{Required: true})
	m.Strings("strings", Text{})
	m.Int("instances", Range{Required: true})
	m.Map("name", "the name")
	m.Rest()
	r.Warn(m.Self(), "only a warning")
	want := strings.TrimPrefix(`
f:1:1: the thing needs the key "instances"
f:1:7: name: expected the name as a map (key: value), found "12"
f:2:8: count: expected an integer, found the text "3"; write it without quotes and leading zeros
f:3:6: big: "99999999999" is out of range: it must be 1 to 10
f:4:7: flag: expected true or false, found the text "yes"
f:5:8: kinds: "gpx" is not one of gpu, cpu; did you mean gpu?
f:6:7: list: expected a list (lines that start with "- "), found the text "x"
f:8:3: sub: the sub needs the key "name"
f:9:3: sub.naem: unknown key in the sub; did you mean name?
f:10:7: rate: ".inf" is out of range: it must be 0 to 1e+09
f:11:7: long: "abcdef" is too long: at most 3 characters are allowed
f:12:7: empty: a value is required here
f:13:17: strings[2]: expected a string, found nothing
f:13:20: strings[3]: expected a string, found a list
f:14:1: inst: unknown key in the thing; did you mean list?
f:15:1: "odd.key": unknown key in the thing; known are big, count, empty, flag, instances, kinds, list, long, name, rate, strings, sub`, "\n")
	if got := r.Problems().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.Warnings().Error(); got != "f:1:1: only a warning" {
		t.Errorf("warnings %s", got)
	}
	if r.Problems().Err() == nil || NewReader().Problems().Err() != nil {
		t.Error("Err is wrong")
	}
}

func TestReaderOfNothing(t *testing.T) {
	r := NewReader()
	m := r.Map(nil, "nothing")
	if m.String("a", Text{Default: "d"}) != "d" || m.Int("b", Range{Default: 4}) != 4 || !m.Bool("c", true) ||
		m.List("d") != nil || m.Map("e", "e").Has("f") || m.Float("g", 2, 0, 1) != 2 || len(m.Fields()) != 0 {
		t.Error("defaults are lost")
	}
	m.Require("a")
	m.Rest()
	empty, _ := Parse("f", []byte("# nothing\n"), Limits{})
	r.Map(empty, "the file").Require("a")
	if got := r.Problems().Error(); got != `f:1:1: the file needs the key "a"` {
		t.Error(got)
	}
}

func TestOnlyValue(t *testing.T) {
	n, _ := Parse("f", []byte("type: template\n"), Limits{})
	r := NewReader()
	r.Map(n, "the job").String("type", Text{OneOf: []string{"job"}})
	if got := r.Problems().Error(); got != `f:1:7: type: "template" is not job, which alone is possible here` {
		t.Error(got)
	}
}

func TestManyProblems(t *testing.T) {
	n, problems := Parse("f", []byte(numbered(4000)), Limits{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r := NewReader()
	m := r.Map(n, "it")
	if got := m.Int("k3999", Range{}); got != 1 {
		t.Error(got)
	}
	m.Rest()
	r.Add(Problems{{Message: "late"}})
	if got := len(r.Problems()); got != MaxProblems {
		t.Errorf("%d problems", got)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"cellType", "cellAddress", "cellChildren", "pinnedCellId"}
	for word, want := range map[string]string{
		"celltype": "cellType", "cellTyep": "cellType", "pinnedCellID": "pinnedCellId", "cellChilden": "cellChildren", "cellAdress": "cellAddress",
	} {
		if got := DidYouMean(word, known); got != "; did you mean "+want+"?" {
			t.Errorf("%s%s", word, got)
		}
	}
	if got := DidYouMean("zzzzzzzzzzzz", nil); got != "" {
		t.Error(got)
	}
}

func TestNumbers(t *testing.T) {
	if v, err := parseInt("-0x8000000000000000"); err != nil || v != math.MinInt64 {
		t.Error(v, err)
	}
	if got := Quote(strings.Repeat("é", 40)); len(got) > 100 || !strings.HasSuffix(got, "... (80 bytes)") {
		t.Error(got)
	}
}
