package lab

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// goBlocks returns the blocks of Go of a page.
func goBlocks(page string) []string {
	var out []string
	for i, part := range strings.Split(page, "```") {
		if code, is := strings.CutPrefix(part, "go\n"); is && i%2 == 1 {
			out = append(out, code)
		}
	}
	return out
}

// withOwnPolicy builds comb with the policy of docs/own-policy.md: the page's second
// block as a file, the third as a row of the table. With short its first block is
// the policy instead.
func withOwnPolicy(t *testing.T, short bool) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "own-policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlocks(string(page))
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks of Go, want 3", len(blocks))
	}
	folder, err := filepath.Abs(filepath.Join("..", "..", "core", "policy"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(folder, "policy.go"))
	if err != nil {
		t.Fatal(err)
	}
	first := "\t\t{\"capacity\""
	if strings.Count(string(table), first) != 1 {
		t.Fatal("the table of policies does not begin as it did")
	}
	file := blocks[1]
	if short {
		file = "package policy\n\nimport \"github.com/combsched/comb/internal/core/model\"\n\n" + blocks[0]
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range map[string]string{
		"area.go":   file,
		"policy.go": strings.Replace(string(table), first, blocks[2]+first, 1),
	} {
		replace[filepath.Join(folder, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "comb")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, "../../../cmd/comb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the page's policy does not build: %v\n%s", err, said)
	}
	return out
}

// The page on policies of one's own holds: what it shows builds, and orders as it says.
func TestOwnPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// One GPU is taken; behind it wait 100 s, 10 s and 50 s, each for one GPU.
	trace := filepath.Join(dir, "trace.jsonl")
	lines := `{"comb_trace":1}
{"id":"first","submit_us":0,"duration_us":1000000000,"gpus":1}
{"id":"long","submit_us":1000000,"duration_us":100000000,"gpus":1}
{"id":"short","submit_us":2000000,"duration_us":10000000,"gpus":1}
{"id":"middle","submit_us":3000000,"duration_us":50000000,"gpus":1}
`
	if err := os.WriteFile(trace, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	starts := func(comb, policy string) string {
		out := t.TempDir()
		run := exec.Command(comb, "sim", "run", "--trace", trace, "--cluster", "1x1", "--policy", policy, "-o", out)
		if said, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", policy, err, said)
		}
		return order(t, filepath.Join(out, "jobs.csv"))
	}
	whole := withOwnPolicy(t, false)
	for _, c := range []struct{ comb, policy, want string }{
		{withOwnPolicy(t, true), "area", "first short middle long"},
		{whole, "area:patience=2h", "first short middle long"},
		{whole, "area:patience=998", "first long short middle"}, // 999 s, 998 s and 997 s when the first ends
		{whole, "area:patience=60", "first long short middle"},
	} {
		if got := starts(c.comb, c.policy); got != c.want {
			t.Errorf("%s starts %s, want %s", c.policy, got, c.want)
		}
	}
}

// order returns the jobs of a jobs.csv by their starts.
func order(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	name, start := slices.Index(rows[0], "trace_id"), slices.Index(rows[0], "start_s")
	jobs := rows[1:]
	slices.SortStableFunc(jobs, func(a, b []string) int {
		x, _ := strconv.ParseFloat(a[start], 64)
		y, _ := strconv.ParseFloat(b[start], 64)
		return cmp.Compare(x, y)
	})
	var names []string
	for _, j := range jobs {
		names = append(names, j[name])
	}
	return strings.Join(names, " ")
}
