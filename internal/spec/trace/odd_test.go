package trace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oddities are samples in the layout of the public files with what those have that a
// plain table has not: empty fields, None and NaN, whole numbers with a point, parts of
// GPUs, jobs that never started or never ended, states with a user's number, and rows
// that nobody can make sense of.
var oddities = []struct {
	file, skipped, bad, mended string
	wrong                      []string // what is told of the bad rows
}{
	{"helios.csv", "[{never started 1} {no GPU 1}]", "[{no date 1} {out of range 1}]", "[{state REQUEUED taken as unknown 1}]",
		[]string{`helios.csv:10:29: submit_time: "01/04/2020 00:08" is no date`, "helios.csv:11:15: gpu_num: -1 is out of range"}},
	{"alibaba2023.csv", "[{no GPU 1}]", "[{contradiction 1} {out of range 1}]", "[]",
		[]string{"alibaba2023.csv:8:28: gpu_milli: 2000 is out of range; want 0 to 1000", "alibaba2023.csv:9:55: deletion_time: is before scheduled_time"}},
	{"alibaba2020/pai_task_table.csv", "[{never started 1} {no GPU 1}]", "[{contradiction 1} {no value 1}]", "[]",
		[]string{"pai_task_table.csv:9:58: end_time: is before start_time", "pai_task_table.csv:10:37: inst_num: is empty; want a number"}},
	{"philly.json", "[{never started 1} {no GPU 1}]", "[{no value 1} {unknown word 1}]",
		"[{attempt without a start: taken as the submission 1} {attempt without both times: counts nothing 2}]",
		[]string{`philly.json:16:16: status: "Running" is no status; want Pass, Failed or Killed`, `philly.json:17:5: job "application_1506638472019_10028" has no submitted_time`}},
}

func TestOddSamples(t *testing.T) {
	for _, c := range oddities {
		t.Run(c.file, func(t *testing.T) {
			jobs, r := load(t, sample("odd/"+c.file), Options{Lenient: true})
			for _, got := range [][3]string{{"skipped", fmt.Sprint(r.Skipped()), c.skipped}, {"bad", fmt.Sprint(r.Bad()), c.bad}, {"mended", fmt.Sprint(r.Odd()), c.mended}} {
				if got[1] != got[2] {
					t.Errorf("%s: %s, want %s", got[0], got[1], got[2])
				}
			}
			text, _ := written(t, Comb, jobs)
			golden := sample("odd/" + strings.Split(c.file, "/")[0] + ".golden.jsonl")
			if *update {
				if err := os.WriteFile(golden, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Error(diff)
			}
			strict(t, sample("odd/"+c.file), c.wrong)
		})
	}
}

// strict reads a file that has bad rows; each is told with its place.
func strict(t *testing.T, file string, wrong []string) {
	t.Helper()
	r, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var told []string
	for _, err := range r.Jobs() {
		var e *Error
		if errors.As(err, &e) {
			told = append(told, err.Error())
		}
	}
	if len(told) != len(wrong) {
		t.Fatalf("%d rows are bad: %q", len(told), told)
	}
	for i := range wrong {
		if !strings.Contains(told[i], wrong[i]) {
			t.Errorf("told %q; want %q", told[i], wrong[i])
		}
	}
}
