package document

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// good are documents that both this package and a general YAML library read;
// they must agree on every value.
var good = []string{
	"",
	"a: 1\nb: two words\nc: [x, {k: 1, \"q\": 'z'}, ]\n",
	"- a\n- - b\n  - c: 1\n    d:\n    - e\n    f: g\n-\n  h: i\n-\n- ~\n",
	"a:\n  b:\n    c: d\n  e: f\ng: h",
	"a: one\n  two\n\n  three\nb: 1\n",
	"a: |\n  lit\n   more\n\n  end\n\nb: >-\n  fold\n  ed\n\n  para\n    code\n  end\n",
	"a: |+\n  keep\n\nb: |-\n  strip\n\nc: >\n  x\n",
	"a: \"dq \\t \\x41 \\u00e9 \\\n    joined\"\nb: 'it''s\n  folded'\nc: \"two\n\n  lines\"\n",
	"a: http://host:80/p?q=1#frag # comment\nb: 12:30\nc: a#b\nd: \"#no\" #yes\n",
	"a: {b: c,\n  d: [1,\n 2], # comment\n  e: plain\n   text}\n",
	"# head\n\na: 1 # tail\n# foot\n",
	"---\na: 1\n...\n",
	"i: 12\nj: -3\nk: 0x1f\nl: 0o17\nm: 1.5\nn: 1.5e3\no: .5\np: true\nq: False\nr: null\ns: Null\nt: yes\n",
	"command:\n- echo <% $parameters.x %>\n- python -c 'import os; print(os.environ[\"A\"])'\n- if [ -f a ]; then echo b; fi\n",
	"a: - b\n"[:3] + "x - b\n",
	"k: |2\n   x\n  y\n",
	"top:\n- a: |\n    text\n  b: 1\n- |\n  text\n",
	"é: ü\n日本: 語\n",
	"a: b\r\nc:\r\n  - d\r\n",
	"hivedscheduler:\n  config: |\n    physicalCluster:\n      cellTypes:\n        A: {childCellType: B, childCellNumber: 4}\n",
	"a: []\nb: {}\nc: ''\nd: \"\"\n",
	"-1",
	"just text",
	"'quoted'",
	"a: -\n"[:2] + " -x\nb: ?y\nc: :z\n",
}

func TestAgreesWithLibrary(t *testing.T) {
	for _, src := range good {
		n, problems := Parse("x", []byte(src), Limits{})
		if len(problems) > 0 {
			t.Errorf("%q: %v", src, problems)
			continue
		}
		var want any
		if err := yaml.Unmarshal([]byte(src), &want); err != nil {
			t.Errorf("library refuses %q: %v", src, err)
			continue
		}
		if got, want := asJSON(n.Any()), asJSON(want); got != want {
			t.Errorf("%q:\n got %s\nwant %s", src, got, want)
		}
	}
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// TestScalars says what plain scalars mean.
func TestScalars(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want any
	}{
		{"12", int64(12)}, {"+12", int64(12)}, {"-0x10", int64(-16)}, {"0o17", int64(15)},
		{"017", "017"}, {"00", "00"}, {"0", int64(0)}, {"1_000", "1_000"}, {"9223372036854775808", "9223372036854775808"},
		{"1.0", 1.0}, {"1.", 1.0}, {".5", 0.5}, {"-1.5e-3", -0.0015}, {"1e", "1e"}, {".", "."}, {"1.2.3", "1.2.3"},
		{"true", true}, {"FALSE", false}, {"yes", "yes"}, {"on", "on"}, {"~", nil}, {"NULL", nil}, {"\"12\"", "12"}, {"'true'", "true"},
		{"2020-01-01", "2020-01-01"}, {"12:30:45", "12:30:45"}, {"+", "+"}, {"54Gi", "54Gi"}, {"0x", "0x"}, {"e5", "e5"},
	} {
		n, problems := Parse("x", []byte("a: "+tt.src), Limits{})
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.src, problems)
			continue
		}
		if got := n.Get("a").Any(); got != tt.want {
			t.Errorf("%s = %#v, want %#v", tt.src, got, tt.want)
		}
	}
}

func TestPositions(t *testing.T) {
	src := "a: 1\n日本:\n  - x\n  - {k: \"v\", l: [p,\n     q]}\n  - multi\n    line\n  - |\n    text\nend: z\n"
	n, problems := Parse("f", []byte(src), Limits{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	var walk func(*Node)
	walk = func(n *Node) {
		got = append(got, fmt.Sprintf("%d:%d %s", n.Line, n.Column, n.Path()))
		for _, f := range n.Fields {
			walk(f.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	walk(n)
	want := []string{
		"1:1 ", "1:4 a", "3:3 日本", "3:5 日本[0]", "4:5 日本[1]", "4:9 日本[1].k", "4:17 日本[1].l", "4:18 日本[1].l[0]",
		"5:6 日本[1].l[1]", "6:5 日本[2]", "8:5 日本[3]", "10:6 end",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// bad lists what is refused, with the exact text that users see.
var bad = []struct{ src, want string }{
	{"a: b: c", `f:1:5: unexpected ": "; put the value in quotes, or the inner map on a line of its own with more indentation`},
	{"a: 1\na: 2\n", `f:2:1: the key "a" is already given at line 1, column 1; keep one of them`},
	{"a: &x 1\nb: *x\n<<: {c: 1}\nd: !!str 2\n", "f:1:4: anchors (&name) are not supported; write the value out, or put text that begins with & in quotes\n" +
		"f:2:4: aliases (*name) are not supported; write the value out, or put text that begins with * in quotes\n" +
		"f:3:1: merge keys (<<) are not supported; write the keys out\n" +
		"f:4:4: tags (!name) are not supported; remove it, or put text that begins with ! in quotes"},
	{"a:\n\t- b\n", "f:2:1: a tab is used for indentation; use spaces"},
	{"a:\n    b: 1\n  c: 2\n", "f:3:3: this does not belong to what is above; check the indentation and the quotes"},
	{"  a: 1\nb: 2\n", "f:2:1: this does not belong to what is above; check the indentation and the quotes"},
	{"a: \"x", `f:1:4: the closing " of this text is missing`},
	{"b: 1\na: 'x\n  y\n", `f:2:4: the closing ' of this text is missing`},
	{"a: [1, 2\nb: 3\n", "f:1:4: the closing ] of this is missing"},
	{"a: [1, [2, 3]\n", "f:1:4: the closing ] of this is missing"},
	{"a: {b: 1\n---\n", "f:2:1: expected a comma or } here, found \"---\"; put text that holds brackets, commas or quotes in quotes"},
	{"a: {b:1}\n", `f:1:8: the key "b:1" has no value; write "key: value" with a space behind the colon`},
	{"a: {b}\n", `f:1:6: the key "b" has no value; write "key: value" with a space behind the colon`},
	{"a: [,]\n", "f:1:5: unexpected ,; put text that begins with it in quotes"},
	{"a: [x y] z\n", "f:1:10: unexpected text behind a value; put the value in quotes, or this on its own line"},
	{"a: \"x\" y\n", "f:1:8: unexpected text behind a value; put the value in quotes, or this on its own line"},
	{"a: 1\nb\nc: 2\n", `f:2:1: expected "key: value" here, found "b"; a colon and a space must follow the key`},
	{"a: 1\nb:2\n", `f:2:1: expected "key: value" here, found "b:2"; a colon and a space must follow the key`},
	{"a: 1\n- b\n", "f:2:1: a list item where a key is expected; check the indentation"},
	{"name train\ntype: job\n", `f:1:1: expected "key: value" here, found "name train"; a colon and a space must follow the key`},
	{"a:1\nb: 2\n", `f:1:1: expected "key: value" here, found "a:1"; a colon and a space must follow the key`},
	{"a:\n  x\n  y\n  b: 2\n", `f:2:3: expected "key: value" here, found "x"; a colon and a space must follow the key`},
	{"a:\n  b: {x: 1\n  c: 1\n", "f:2:6: the closing } of this is missing"},
	{"a: - b\n", "f:1:4: a list cannot begin on this line; put its first \"- \" on the next line"},
	{"a: x\n  b: y\n", `f:2:4: unexpected ": "; put the value in quotes, or the inner map on a line of its own with more indentation`},
	{"?", `f:1:1: complex keys ("? ") are not supported; write "key: value"`},
	{"{? a: b}", `f:1:4: complex keys ("? ") are not supported; write "key: value"`},
	{"a:\n[b]\n", "f:2:1: expected \"key: value\" here, found \"[b]\"; a colon and a space must follow the key"},
	{"a:\n|\n", "f:2:1: this does not belong to what is above; check the indentation and the quotes"},
	{"{a: b:}", "f:1:5: a \":\" without a value; put the text in quotes, or a value behind the colon"},
	{"-\ta\n", "f:1:2: a tab is used for indentation; use spaces"},
	{"a: [b]#c\n", "f:1:7: unexpected # behind a value; put the value in quotes, or a space before the # for a comment"},
	{"a: \"b\"#c\n", "f:1:7: unexpected # behind a value; put the value in quotes, or a space before the # for a comment"},
	{"a: ! b\n", "f:1:4: tags (!name) are not supported; remove it, or put text that begins with ! in quotes"},
	{"a: *b\n", "f:1:4: aliases (*name) are not supported; write the value out, or put text that begins with * in quotes"},
	{"a: &b [*b]\n", "f:1:4: anchors (&name) are not supported; write the value out, or put text that begins with & in quotes\n" +
		"f:1:8: aliases (*name) are not supported; write the value out, or put text that begins with * in quotes"},
	{"&a b: c\n", "f:1:1: anchors, aliases and tags are not supported; put the key in quotes"},
	{": a\n", "f:1:1: this does not belong to what is above; check the indentation and the quotes"},
	{"a: b\u0085c\n", "f:1:5: a control character is not allowed in the file; remove it"},
	{"a: b\u2028c\n", "f:1:5: an invisible character is not allowed in the file; remove it, or write it as \\u2028 in double quotes"},
	{"a: 1\na: 2\nb: [\n", "f:2:1: the key \"a\" is already given at line 1, column 1; keep one of them\nf:3:4: the closing ] of this is missing"},
	{"a\n...\n%TAG ! x\n---\nb\n", "f:3:1: YAML directives are not supported; remove this line"},
	{"? a\n: b\n", `f:1:1: complex keys ("? ") are not supported; write "key: value"`},
	{"[a]: b\n", "f:1:1: a list or map cannot be a key; put it in quotes"},
	{"%YAML 1.2\n---\na: 1\n", "f:1:1: YAML directives are not supported; remove this line"},
	{"a: @x\n", "f:1:4: a value cannot begin with @; put it in quotes"},
	{"a: %x\n", "f:1:4: a value cannot begin with %; put it in quotes"},
	{"a: \"\\q\"\n", `f:1:5: unknown escape in double quotes; write \\ for a backslash, or use single quotes`},
	{"a: \"\\u00\"\n", `f:1:6: a bad escape in double quotes; \x needs 2 hexadecimal digits, \u 4 and \U 8`},
	{"a: \"\\x00\"\n", "f:1:4: this text holds a NUL character; remove the escape that stands for it"},
	{"a: | x\n  y\n", "f:1:6: unexpected text behind | or >; begin the text on the next line, or put a value that begins with it in quotes"},
	{"a: 1\n---\nb: 2\n", `f:3:1: only one document is allowed here; remove this one and the "---" before it`},
	{"a: x\x00y", "f:1:5: a control character is not allowed in the file; remove it"},
	{"ok: 1\na: \xff\n", "f:2:4: this is not UTF-8 text; save the file as UTF-8"},
	{"a: 1\rb: 2", "f:1:5: a carriage return without a line feed; save the file with Unix line ends"},
}

func TestProblems(t *testing.T) {
	for _, tt := range bad {
		n, problems := Parse("f", []byte(tt.src), Limits{})
		if got := problems.Error(); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.src, got, tt.want)
		}
		twice := strings.Count(tt.want, "is already given at") == len(problems)
		if n != nil && !twice {
			t.Errorf("%q: a node in spite of problems", tt.src)
		}
		if all, _ := ParseAll("f", []byte(tt.src), Limits{}); twice && all != nil {
			t.Errorf("%q: nodes in spite of problems", tt.src)
		}
	}
}

// Where keys that are given twice are all that is wrong, the first of each can be read.
func TestGivenTwice(t *testing.T) {
	n, problems := Parse("f", []byte("a: 1\na: 2\nb: {c: 3, c: 4}\n"), Limits{})
	if len(problems) != 2 || n.Get("a").Text != "1" || n.Get("b").Get("c").Text != "3" {
		t.Errorf("%v, %v", problems, n)
	}
	n, problems = Parse("f", []byte(strings.Repeat("a: 1\n", MaxProblems+2)), Limits{})
	if len(problems) != MaxProblems || n != nil {
		t.Errorf("%d problems, %v", len(problems), n)
	}
	n, problems = Parse("f", []byte("a: 1\na: 2\n---\nb: 1\n"), Limits{})
	if len(problems) != 2 || n != nil {
		t.Errorf("%v, %v", problems, n)
	}
}

// hostile are inputs made to exhaust a reader; each must be answered at once.
func hostile() map[string]string {
	million := 1_000_000
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		prev := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+prev+",", 9) + "]\n"
	}
	return map[string]string{
		"alias bomb":       bomb,
		"flow lists":       strings.Repeat("[", million),
		"flow maps":        strings.Repeat("{a: ", million/4),
		"block lists":      strings.Repeat("- ", million/2),
		"growing maps":     growing(1400),
		"key name":         strings.Repeat("k", million) + ": 1",
		"value":            "k: " + strings.Repeat("v", million),
		"many keys":        numbered(100_000),
		"one key again":    strings.Repeat("a: 1\n", 200_000),
		"commas":           "[" + strings.Repeat(",", million),
		"brackets":         strings.Repeat("[]", million/2),
		"open quote":       "a: \"" + strings.Repeat("x\n", million/2),
		"quoted lines":     "a: \"" + strings.Repeat("\n", million) + "\"",
		"open single":      "a: '" + strings.Repeat("''", million/2),
		"anchors":          strings.Repeat("&a ", million/3),
		"aliases in list":  "[" + strings.Repeat("*a,", million/3),
		"tags":             strings.Repeat("!a ", million/3),
		"documents":        strings.Repeat("---\n", million/4),
		"full documents":   strings.Repeat("---\na\n", million/6),
		"comments":         strings.Repeat("# x\n", million/4),
		"spaces":           strings.Repeat(" ", million),
		"blank lines":      strings.Repeat("\n", million),
		"folded":           "a: >\n" + strings.Repeat("  x\n", million/4),
		"plain lines":      "a: x\n" + strings.Repeat("  x\n", million/4),
		"flow plain lines": "a: [x\n" + strings.Repeat("  x\n", million/4),
		"colons":           strings.Repeat(":", million),
		"one line flow":    "[" + strings.Repeat("{a: \"b\"},", million/9) + "]",
		"tag directives":   strings.Repeat("%TAG !a! b\n", million/11) + "---\na",
		"late directives":  "a\n...\n" + strings.Repeat("%FOO\n", million/5) + "---\na",
		"dedent comments":  strings.Repeat("- ", 9000) + "a\n" + strings.Repeat("# x\n", million/5),
		"indent comments":  strings.Repeat("- ", 9000) + "a\n" + strings.Repeat("  # x\n\n", million/9) + "- a",
		"comment items":    strings.Repeat("#a\n- a # x\n#b\n", million/15),
		"comment nulls":    strings.Repeat("-\n#x\n", million/5),
		"long comment":     "# " + strings.Repeat("x", million) + "\na: b",
		"deep and wide":    strings.Repeat("[", 9000) + strings.Repeat("a,", million/3) + strings.Repeat("]", 9000),
		"deep lines":       strings.Repeat("- ", 9000) + "a\n" + strings.Repeat("- a\n", million/5),
		"up and down":      strings.Repeat(strings.Repeat("- ", 900)+"a\n", 500),
		"questions":        strings.Repeat("?\n", million/2),
		"flow questions":   "[" + strings.Repeat("? a, ", million/5) + "]",
		"colons in flow":   "[" + strings.Repeat(":,", million/2) + "]",
		"keys in flow":     "{" + strings.Repeat("a,", million/2) + "}",
		"hashes":           "a: b" + strings.Repeat(" a#", million/3),
		"tight comments":   strings.Repeat("- \"a\"#x\n", million/9),
		"literals":         strings.Repeat("- |\n a\n", million/8),
		"late mistake":     strings.Repeat("- a\n", million/5) + "b",
		"late bracket":     strings.Repeat("- a\n", million/5) + "- [",
		"early bracket":    "- [\n" + strings.Repeat("a,\n", million/5),
		"bracket per line": strings.Repeat("- [\n", million/5),
		"late quote":       strings.Repeat("- a\n", million/5) + "- 'x",
		"long line":        strings.Repeat("é ", million/3) + ": : :",
	}
}

func growing(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// TestPlaceInLargeFile breaks one line of a large file: the line must be told
// also where reading again is bounded.
func TestPlaceInLargeFile(t *testing.T) {
	for _, lines := range []int{100, 5000, 40_000} {
		for mistake, column := range map[string]int{"k: [x] y": 8, "k: 'x": 4, "k: x: y": 5, "k: @x": 4, "word": 1} {
			src := numbered(lines) + mistake + "\n" + strings.ReplaceAll(numbered(lines), "k", "q")
			start := time.Now()
			_, problems := Parse("f", []byte(src), Limits{Bytes: 8 << 20, Nodes: 400_001})
			if len(problems) != 1 {
				t.Fatalf("%s: %v", mistake, problems)
			}
			t.Logf("%8d bytes, %-8s: %v in %v", len(src), mistake, problems, time.Since(start))
			far := problems[0].Line - lines - 1
			if lines <= 5000 && (far != 0 || problems[0].Column != column) || far < 0 || far > 8 {
				t.Errorf("%d lines, %s: %v, want %d:%d", lines, mistake, problems, lines+1, column)
			}
		}
	}
}

// TestHostile bounds time and memory on inputs made to exhaust a reader. The
// time bound is far above what is needed and far below what a quadratic reader
// would take.
func TestHostile(t *testing.T) {
	limits := []Limits{{}, {Bytes: 8 << 20, Nodes: 400_000, Scalar: 8 << 20}}
	if testing.Short() {
		limits = limits[:1] // a cluster file's limits take long under the race detector
	}
	for name, src := range hostile() {
		for _, l := range limits {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := busy(t)
			n, problems := Parse("f", []byte(src), l)
			took := busy(t) - start
			runtime.ReadMemStats(&after)
			t.Logf("%-16s %7d bytes, up to %6d values: %8v, %3d MiB allocated in all", name, len(src), l.filled().Nodes, took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
			if used := after.TotalAlloc - before.TotalAlloc; used > 700<<20 {
				t.Errorf("%s: allocated %d MiB", name, used>>20)
			}
			if took > slowness*15*time.Second {
				t.Errorf("%s: took %v of processor time", name, took)
			}
			if (n == nil) != (len(problems) > 0) || len(problems) > MaxProblems {
				t.Errorf("%s: node %v with %d problems", name, n != nil, len(problems))
			}
			if len(problems.Error()) > 100*500 {
				t.Errorf("%s: the message has %d bytes", name, len(problems.Error()))
			}
		}
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name, src, want string
	}{
		{"bytes", strings.Repeat("a", 2000), "f: the file is too large: at most 1 KiB are allowed"},
		{"depth", "a:\n b:\n  c:\n   d: 1\n", "f:4:4: maps and lists are nested too deep: at most 3 levels are allowed"},
		{"flow depth", "[[[[1]]]]", "f:1:4: maps and lists are nested too deep: at most 3 levels are allowed"},
		{"nodes", strings.Repeat("- a\n", 20), "f:10:3: the document has too many values: at most 10 keys and values are allowed"},
		{"scalar", "a: " + strings.Repeat("x", 65), "f:1:4: this text is too long: at most 64 bytes are allowed in one value"},
		{"quoted", "a: \"" + strings.Repeat("x", 65) + "\"", "f:1:4: this text is too long: at most 64 bytes are allowed in one value"},
		{"literal", "a: |\n  " + strings.Repeat("x", 65), "f:1:4: this text is too long: at most 64 bytes are allowed in one value"},
	} {
		_, problems := Parse("f", []byte(tt.src), Limits{Bytes: 1024, Depth: 3, Nodes: 10, Scalar: 64})
		if got := problems.Error(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestParseAll(t *testing.T) {
	nodes, problems := ParseAll("f", []byte("a: 1\n---\n---\n- b\n...\n# end\n--- c\n"), Limits{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []any
	for _, n := range nodes {
		got = append(got, n.Any())
	}
	if d := cmp.Diff([]any{map[string]any{"a": int64(1)}, []any{"b"}, "c"}, got); d != "" {
		t.Error(d)
	}
}

func TestInside(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"x:\n  config: |\n    a: 1\n    a: 2\n", `f:4:5: x.config: the key "a" is already given at line 3, column 5; keep one of them`},
		{"x:\n  config: |\n\n    a: [\n", `f:4:8: x.config: the closing ] of this is missing`},
		{"x:\n  config: \"a: [\"\n", `f:2:11: x.config: the closing ] of this is missing`},
		{"x:\n  config: >\n    a: b: c\n", `f:2:11: x.config: unexpected ": "; put the value in quotes, or the inner map on a line of its own with more indentation`},
	} {
		n, problems := Parse("f", []byte(tt.src), Limits{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		_, problems = n.Get("x").Get("config").Inside(Limits{})
		if got := problems.Error(); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.src, got, tt.want)
		}
	}
	n, _ := Parse("f", []byte("x:\n  config: |\n    a:\n      b: [1, 2]\n"), Limits{})
	in, problems := n.Get("x").Get("config").Inside(Limits{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b := in.Get("a").Get("b").Items[1]
	if got := b.Problem("m").String(); got != "f:4:14: x.config.a.b[1]: m" {
		t.Error(got)
	}
}

// busy is the processor time that this process has used: unlike the clock it says as
// much on a loaded machine.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
