package script_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/sim/script"
)

var rewrite = flag.Bool("rewrite", false, "write what scripts print into their files")

const scripts = "../../../testdata/script"

// scriptFiles lists all scripts, those in folders as well.
func scriptFiles(t *testing.T) []string {
	var files []string
	err := filepath.WalkDir(scripts, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".txt" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", scripts, err)
	}
	return files
}

// Every transcript of testdata/script prints itself again.
func TestScripts(t *testing.T) {
	for _, file := range scriptFiles(t) {
		name, _ := filepath.Rel(scripts, strings.TrimSuffix(file, ".txt"))
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := transcript(file, src)
			if err != nil {
				t.Error(err)
			}
			if *rewrite && (err == nil || errors.Is(err, script.ErrAssert)) {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(src), string(got)); diff != "" {
				t.Errorf("the reaction differs (-file +now); if it is right, run with -args -rewrite:\n%s", diff)
			}
		})
	}
}

// crashEvery is how many appends go well between two crashes of one run: enough that what is
// recovered has gone on for a while before it is recovered again.
const crashEvery = 12

// A crash before or after any append of any script changes nothing that an assert sees, starts
// nothing twice and leaves a sound journal. A run crashes at each so manieth append, the next run
// at those behind them, until each append had its crash.
func TestCrashAtEveryAppend(t *testing.T) {
	t.Parallel()
	for _, file := range scriptFiles(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// One has crashes of its own; progress is told once, and a crash may lose it.
		if bytes.Contains(src, []byte("\ncrash ")) || bytes.Contains(src, []byte("\nprogress ")) {
			continue
		}
		runs, every := crashEvery, crashEvery
		if testing.Short() || filepath.Base(filepath.Dir(file)) == "hived" {
			runs, every = 1, 7 // also long scripts about what the core decides
		}
		for i, when := range []string{"before", "after"} {
			for n, crashed := 1, true; crashed && n <= runs; n++ {
				mode := fmt.Sprintf("crash %s append=%d every=%d\n\n", when, n+i, every)
				out, err := transcript(file, append([]byte(mode), src...))
				if crashed = bytes.Contains(out, []byte("crash; recovered")); err != nil {
					t.Fatalf("%s, %s: %v\n%s", filepath.Base(file), strings.TrimSpace(mode), err, out)
				}
			}
		}
	}
}

func transcript(name string, src []byte) ([]byte, error) {
	var out bytes.Buffer
	err := script.Run(context.Background(), &out, name, src)
	return out.Bytes(), err
}

// The examples of these pages are transcripts too.
func TestDocs(t *testing.T) {
	for _, page := range []string{"script", "preemption"} {
		t.Run(page, func(t *testing.T) { checkExamples(t, "../../../docs/"+page+".md") })
	}
}

func checkExamples(t *testing.T, file string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const open, shut = "```script\n", "```\n"
	var page strings.Builder
	rest, examples := string(src), 0
	for {
		before, tail, found := strings.Cut(rest, open)
		page.WriteString(before)
		if !found {
			break
		}
		example, after, closed := strings.Cut(tail, shut)
		if !closed {
			t.Fatalf("%s: example %d is not closed", file, examples+1)
		}
		got, err := transcript(file, []byte(example))
		if err != nil {
			t.Errorf("example %d: %v", examples+1, err)
		}
		page.WriteString(open + string(got) + shut)
		rest = after
		examples++
	}
	if examples == 0 {
		t.Fatalf("%s has no examples", file)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(src), page.String()); diff != "" {
		t.Errorf("an example prints something else (-page +now):\n%s", diff)
	}
}

// A plain file of commands gives a transcript, and that gives itself.
func TestPlainFile(t *testing.T) {
	plain := []byte("# two jobs\ncluster nodes=1 gpus=2\nsubmit a gpus=2 duration=10s\nsubmit b duration=1s\nwait 1m\nassert ended=2\n")
	first, err := transcript("plain", plain)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(first, []byte("----\n")); n != 5 {
		t.Errorf("%d commands are printed, want 5:\n%s", n, first)
	}
	again, err := transcript("transcript", first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(again)); diff != "" {
		t.Errorf("a transcript does not give itself:\n%s", diff)
	}
}

func TestFailedAssert(t *testing.T) {
	out, err := transcript("x", []byte("cluster nodes=1\nsubmit a\nassert a phase=Waiting\nassert active=1\n"))
	if !errors.Is(err, script.ErrAssert) {
		t.Fatalf("got %v, want ErrAssert", err)
	}
	if want := `FAILED: phase is "Active", not "Waiting"`; !bytes.Contains(out, []byte(want)) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// What is wrong in a script is said with its line.
func TestMistakes(t *testing.T) {
	const cluster = "cluster nodes=1 gpus=2\n"
	tests := []struct{ src, want string }{
		{"submit a\n", `x:1: submit: a script begins with cluster`},
		{cluster + "sumbit a\n", `x:2: there is no command "sumbit"`},
		{cluster + "submit a wrker=2y4\n", `x:2: submit: wrker=2y4 is neither a key of submit nor a role`},
		{cluster + "wait soon\n", `x:2: wait: not a duration`},
		{cluster + "wait -5s\n", `x:2: wait: not a duration`},
		{cluster + "exit a\n", `x:2: exit: there is no job "a"`},
		{cluster + "node n7 down\n", `x:2: there is no node "n7"`},
		{cluster + "submit a reason=\"b\n", `x: line 2: a double quote is not closed`},
		{"cluster <<END\nchain v nodes=1\n", `x: line 1: no line "END" ends the block`},
		{"cluster <<END\nchain v nodes=3 racks=2\nEND\n", `do not divide`},
		{"cluster <<END\nchain v nodes=1\nvc a w=1\nEND\n", `there is no chain "w"`},
		{"cluster nodes=1 vcs=a:1 policy=x:drf\n", `policy=x:drf: vcs names no VC x`},
		{cluster + "assert a\n", `x:2: assert: say what must hold`},
		{cluster + "at 5s\nat 1s\n", `x:3: at: it is already 5s`},
	}
	for _, test := range tests {
		_, err := transcript("x", []byte(test.src))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q\n got %v\nwant %s", test.src, err, test.want)
		}
	}
}

func TestLimits(t *testing.T) {
	_, err := transcript("x", bytes.Repeat([]byte("wait 1s\n"), 30000))
	if err == nil || !strings.Contains(err.Error(), "lines") {
		t.Errorf("got %v, want a limit on lines", err)
	}
	_, err = transcript("x", []byte("cluster nodes=1\nsubmit a retries=-2 duration=1ms\nwait 10000d\n"))
	if err == nil || !strings.Contains(err.Error(), "batches") {
		t.Errorf("got %v, want a limit on events", err)
	}
	_, err = transcript("x", []byte("cluster nodes=2000000000 gpus=64\n"))
	if err == nil || !strings.Contains(err.Error(), "leaves") {
		t.Errorf("got %v, want a limit on leaves", err)
	}
	_, err = transcript("x", bytes.Repeat([]byte("#"), 2<<20))
	if err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v, want a limit on bytes", err)
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte("cluster nodes=2 gpus=2\nsubmit a worker=2x1 lazy\nexit a\nrestart\nshow cells\n"))
	f.Add([]byte("cluster <<END\nchain v nodes=1\nvc a v=1\nEND\n----\nx\n\nsubmit b vc=a\n"))
	f.Add([]byte("\n----"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 2000 {
			return
		}
		out, err := transcript("x", src)
		if err != nil && !errors.Is(err, script.ErrAssert) {
			return
		}
		again, _ := transcript("x", out)
		if !bytes.Equal(out, again) {
			t.Errorf("a transcript does not give itself:\n%s\nbut\n%s", out, again)
		}
	})
}
