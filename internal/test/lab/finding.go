package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// finding is what one experiment observed.
type finding struct {
	number   int
	title    string
	since    uint64 // events after this one belong to it
	checks   []check
	jobs     []model.JobID
	observed string // in one sentence, for the report
	evidence string // file
}

// check is one expectation with what was observed instead of or for it.
type check struct {
	ok       bool
	want     string
	observed string
}

// check records an expectation; format and args say what was observed.
func (f *finding) check(ok bool, want, format string, args ...any) {
	f.checks = append(f.checks, check{ok, want, fmt.Sprintf(format, args...)})
}

func (f *finding) failed() []check {
	var out []check
	for _, c := range f.checks {
		if !c.ok {
			out = append(out, c)
		}
	}
	return out
}

func (f *finding) print(w io.Writer) {
	for _, c := range f.checks {
		mark := "ok  "
		if !c.ok {
			mark = "FAIL"
		}
		fmt.Fprintf(w, "  %s  %s: %s\n", mark, c.want, c.observed)
	}
}

// writeEvidence keeps the experiment's checks, events and logs in one file.
func (l *Lab) writeEvidence(ctx context.Context, f *finding) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Experiment %d: %s\n\nChecks\n", f.number, f.title)
	f.print(&b)
	b.WriteString("\nEvents: seq, time, kind, data\n")
	l.watch.look(func(t *timeline) {
		for _, e := range t.events {
			if e.Seq > f.since && e.Kind != "Decided" {
				at := time.UnixMicro(int64(e.Time)).Format("15:04:05.000000")
				fmt.Fprintf(&b, "  %d %s %s %s\n", e.Seq, at, e.Kind, e.Data)
			}
		}
	})
	for _, id := range f.jobs {
		for _, r := range l.runs(id) {
			text, err := l.log(ctx, r)
			if err != nil {
				text = fmt.Sprintf("(no log: %v)\n", err)
			}
			fmt.Fprintf(&b, "\nLog of attempt %v, %s %d on %s, process %d\n%s", r.attempt, r.role, r.index, r.node, r.pid, text)
		}
	}
	slug := strings.ToLower(strings.ReplaceAll(f.title, " ", "-"))
	f.evidence = filepath.Join(l.opts.Evidence, fmt.Sprintf("%d-%s.txt", f.number, slug))
	return os.WriteFile(f.evidence, []byte(b.String()), 0o644)
}

// runs returns copies of the started runs of a job.
func (l *Lab) runs(id model.JobID) (out []taskRun) {
	l.watch.look(func(t *timeline) {
		if j := t.jobs[id]; j != nil {
			for _, r := range j.started() {
				out = append(out, *r)
			}
		}
	})
	return out
}

// log reads what a run printed.
func (l *Lab) log(ctx context.Context, r taskRun) (string, error) {
	var b strings.Builder
	_, err := l.watch.client.Logs(ctx, rest.LogQuery{Job: rest.JobRef(r.attempt.Job), Role: r.role, Index: r.index,
		Attempt: r.attempt.N}, &b)
	return b.String(), err
}

// report gathers the findings.
type report struct {
	lab      *Lab
	findings []*finding
}

func (r *report) add(f *finding) { r.findings = append(r.findings, f) }

// finish prints the table and says in its error which expectations failed.
func (r *report) finish() error {
	out := r.lab.opts.Out
	env := environment()
	fmt.Fprintf(out, "\nReport (%.1f s)\n", time.Since(r.lab.start).Seconds())
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "environment\texperiment\tobserved\tevidence")
	var errs []error
	for _, f := range r.findings {
		fmt.Fprintf(tw, "%s\t%d %s\t%s\t%s\n", env, f.number, f.title, f.summary(), f.evidence)
		for _, c := range f.failed() {
			errs = append(errs, fmt.Errorf("experiment %d (%s): expected that %s; observed: %s; see %s",
				f.number, f.title, c.want, c.observed, f.evidence))
		}
	}
	return errors.Join(append(errs, tw.Flush())...)
}

func (f *finding) summary() string {
	bad := f.failed()
	if len(bad) > 0 {
		return fmt.Sprintf("FAILED: %d of %d expectations", len(bad), len(f.checks))
	}
	return fmt.Sprintf("all %d expectations: %s", len(f.checks), f.observed)
}

func environment() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		release = []byte("unknown")
	}
	return fmt.Sprintf("%s %s, %d CPUs, 2 virtual GPUs", runtime.GOOS, strings.TrimSpace(string(release)), runtime.NumCPU())
}

// verifyJournal stops the server and lets the binary decide the whole journal
// again.
func (l *Lab) verifyJournal(ctx context.Context) *finding {
	f := &finding{number: 6, title: "Journal", observed: "decided again bit for bit; no GPU with two owners", evidence: filepath.Join(l.opts.Evidence, "6-journal.txt")}
	err := l.server.Stop()
	f.check(err == nil, "the server ends in good order", "%v", errText(err))
	out, errOut, code, err := l.server.CLI(ctx, "journal", "verify", "--data", l.server.Data)
	last := strings.TrimSpace(out)
	if i := strings.LastIndexByte(last, '\n'); i >= 0 {
		last = last[i+1:]
	}
	f.check(err == nil && code == 0, "deciding the whole journal again agrees", "exit code %d, %s", code, last)
	var two string
	l.watch.look(func(t *timeline) { two = t.twoOwners() })
	f.check(two == "", "no GPU ever has two owners", "%s", orNone(two))
	if err := os.WriteFile(f.evidence, []byte(out+errOut), 0o644); err != nil {
		f.check(false, "the evidence is written", "%v", err)
	}
	f.print(l.opts.Out)
	return f
}

func errText(err error) string {
	if err == nil {
		return "exit code 0"
	}
	return err.Error()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
