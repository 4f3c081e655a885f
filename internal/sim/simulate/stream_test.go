package simulate_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// Results do not depend on whether a trace is kept, as by a sweep, or read while it is
// replayed: of a file in order and of one that is not, with rows that are passed over.
func TestReadingWhileReplaying(t *testing.T) {
	file := generated(t, 2500)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	lines = append(lines, "bad,1,x,1,v\n", "none,2,1,0,v\n")
	rows := lines[1:]
	random := rand.New(rand.NewPCG(1, 1))
	for _, shuffled := range []bool{false, true} {
		if shuffled {
			random.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
		}
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		results := func(keep bool) map[string]string {
			dir := filepath.Join(t.TempDir(), "out")
			tr := &simulate.Trace{Path: file, Options: trace.Options{Lenient: true}}
			if keep {
				if err := tr.Keep(); err != nil {
					t.Fatal(err)
				}
			}
			spec := simulate.Spec{Cluster: "40x8", VCs: "from-trace", Policy: "las:limits=median"}
			if _, err := simulate.RunInto(context.Background(), simulate.Folder{Dir: dir}, spec, tr, simulate.Options{Policies: policy.New}); err != nil {
				t.Fatal(err)
			}
			return contents(t, dir)
		}
		kept, read := results(true), results(false)
		for name, text := range kept {
			if read[name] != text {
				t.Errorf("shuffled %v: %s differs", shuffled, name)
			}
		}
		if m := read["manifest.json"]; !strings.Contains(m, `"not a number"`) || !strings.Contains(m, `"no GPU"`) {
			t.Errorf("shuffled %v: rows passed over are not counted: %s", shuffled, m)
		}
	}
}

// Bad rows of any format are told ten at once, whether the trace is needed before the
// run or read while it runs.
func TestBadRowsAreToldTogether(t *testing.T) {
	dir := t.TempDir()
	table, lines := filepath.Join(dir, "t.csv"), filepath.Join(dir, "t.jsonl")
	good, bad := "a,1,1,1,v\n", "b,x,1,1,v\n"
	if err := os.WriteFile(table, []byte("job_id,submit_s,duration_s,num_gpus,vc\n"+good+strings.Repeat(bad, 12)), 0o600); err != nil {
		t.Fatal(err)
	}
	good, bad = `{"id":"a","submit_us":1,"duration_us":1,"gpus":1}`+"\n", `{"id":"b","submit_us":"x","gpus":1}`+"\n"
	if err := os.WriteFile(lines, []byte("{\"comb_trace\":1}\n"+good+strings.Repeat(bad, 12)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{table, lines} {
		for _, vcs := range []string{"", "from-trace"} {
			_, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "2x2", VCs: vcs, Policy: "fifo"}, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New})
			if err == nil || strings.Count(err.Error(), file+":") != trace.ShownErrors || !strings.Contains(err.Error(), file+":3:") {
				t.Errorf("%s with vcs %q: %v", file, vcs, err)
			}
		}
	}
}
