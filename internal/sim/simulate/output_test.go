package simulate_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// contents are the files of a folder with what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		return all
	}
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			text = []byte("folder")
		}
		all[f.Name()] = string(text)
	}
	return all
}

// A run that is interrupted, or fails, leaves the results of the one before as they
// were; in a folder that was not there it leaves nothing. What a killed run left does
// not get in the way, nor into the results.
func TestUnfinishedRunsLeaveNothing(t *testing.T) {
	trace := mixed(t, 1, 60)
	dir := filepath.Join(t.TempDir(), "out")
	run := func(p string, interruptAfter int) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := 0
		_, err := simulate.RunInto(ctx, simulate.Folder{Dir: dir}, simulate.Spec{Cluster: "6x4", Policy: p}, &simulate.Trace{Path: trace},
			simulate.Options{Policies: policy.New, Ended: func(*metrics.Row) {
				if n++; n == interruptAfter {
					cancel()
				}
			}})
		return err
	}
	if err := run("fifo", 10); err == nil {
		t.Fatal("an interrupted run succeeds")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("an interrupted run leaves %v", contents(t, dir))
	}
	if err := run("fifo", 0); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if before["manifest.json"] == "" || before["jobs.csv"] == "" {
		t.Fatalf("results are %v", before)
	}
	if err := run("srtf", 50); err == nil {
		t.Fatal("an interrupted run succeeds")
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("an interrupted run changes what was there: %v", after)
	}
	// As kill -9 would leave it.
	if err := os.MkdirAll(filepath.Join(dir, ".unfinished"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jobs.csv", "strange.csv"} {
		if err := os.WriteFile(filepath.Join(dir, ".unfinished", name), []byte("half a li"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run("srtf", 0); err != nil {
		t.Fatal(err)
	}
	after := contents(t, dir)
	names := func(m map[string]string) (out []string) {
		for n := range m {
			out = append(out, n)
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(names(before), names(after)) || after["jobs.csv"] == before["jobs.csv"] {
		t.Errorf("files are %v, were %v", names(after), names(before))
	}
}
