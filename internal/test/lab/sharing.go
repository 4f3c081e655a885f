package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// opportunistic: vc1 runs a prod job; an oppo job of vc1 starts at once on the
// idle node of default; a test job of default preempts it; it runs later.
func opportunistic(ctx context.Context, l *Lab, f *finding) error {
	l.hold("owner", "borrower")
	prod, err := l.submitRunning(ctx, f, "vc1-prod.yaml", "owner")
	if err != nil {
		return err
	}
	oppo, err := l.submitRunning(ctx, f, "vc1-oppo.yaml", "borrower")
	if err != nil {
		return err
	}
	if err := l.watch.until(ctx, "the oppo job reported a step", func(t *timeline) bool { return t.jobs[oppo].steps > 0 }); err != nil {
		return err
	}
	test, err := l.submit(ctx, f, "default-test.yaml", "lender")
	if err != nil {
		return err
	}
	err = errors.Join(l.untilRuns(ctx, test, 1), l.release(prod, oppo), l.untilEnded(ctx, prod, oppo, test))
	if err != nil {
		return err
	}
	p, o, d := l.runs(prod), l.runs(oppo), l.runs(test)
	f.check(len(p) == 1 && len(o) == 2 && len(d) == 1, "the oppo job runs twice, the others once", "%d, %d and %d runs", len(o), len(p), len(d))
	if len(p) != 1 || len(o) != 2 || len(d) != 1 {
		return nil
	}
	delay := between(l.submitted(oppo), o[0].started)
	f.check(o[0].placed < p[0].exited && o[0].machine != p[0].machine, "the oppo job starts on the idle node while the prod job runs",
		"%v after its submission, on %s; the prod job is on %s", delay.Round(time.Millisecond), o[0].machine, p[0].machine)
	l.checkStop(f, oppo, test)
	f.observed = fmt.Sprintf("borrowed %s, gave it back to its owner, ran again on %s", o[0].machine, o[1].machine)
	f.check(d[0].machine == o[0].machine && o[0].exited <= d[0].started && d[0].started < p[0].exited,
		"the test job gets default's node while the prod job runs on", "on %s at %s", d[0].machine, clock(d[0].started))
	f.check(o[1].started > d[0].started, "the oppo job runs later", "again at %s on %s", clock(o[1].started), o[1].machine)
	l.checkResume(ctx, f, o)
	l.succeeded(f, prod, oppo, test)
	return nil
}

// submitRunning submits a job and waits until its first task runs.
func (l *Lab) submitRunning(ctx context.Context, f *finding, file, name string) (model.JobID, error) {
	id, err := l.submit(ctx, f, file, name)
	if err != nil {
		return 0, err
	}
	return id, l.untilRuns(ctx, id, 1)
}

func (l *Lab) submitted(id model.JobID) (at model.Time) {
	l.watch.look(func(t *timeline) { at = t.jobs[id].submitted })
	return at
}

// gang: one node is busy; a job of two tasks starts neither until both can
// start, then both together. The cluster file is changed first, on the running
// server: both nodes now belong to default.
func gang(ctx context.Context, l *Lab, f *finding) error {
	file := l.opts.cluster("one-vc.yaml")
	pid := l.server.PID()
	out, errOut, code, err := l.server.CLI(ctx, "config", "apply", "--yes", file)
	if err != nil {
		return err
	}
	f.check(code == 0 && l.server.PID() == pid, "the running server takes the new cluster file", "exit code %d, %s",
		code, oneLine(out+errOut))
	l.hold("busy")
	busy, err := l.submitRunning(ctx, f, "default-test.yaml", "busy")
	if err != nil {
		return err
	}
	two, err := l.submit(ctx, f, "gang-two.yaml", "gang")
	if err != nil {
		return err
	}
	if err := errors.Join(l.untilReason(ctx, two), l.release(busy), l.untilEnded(ctx, busy, two)); err != nil {
		return err
	}
	b, g := l.runs(busy), l.runs(two)
	f.check(len(b) == 1 && len(g) == 2, "one busy run, two of the gang", "%d and %d runs", len(b), len(g))
	if len(b) != 1 || len(g) != 2 {
		return nil
	}
	f.check(g[0].placed >= b[0].exited, "neither task starts until both can", "busy ends at %s, the gang is placed at %s",
		clock(b[0].exited), clock(g[0].placed))
	f.observed = "neither task before both nodes were free, then both at once"
	apart := between(g[0].started, g[1].started)
	f.check(g[0].placed == g[1].placed && g[0].machine != g[1].machine, "then both start, by one decision", "%v apart, on %s and %s",
		apart.Round(time.Millisecond), g[0].machine, g[1].machine)
	own, err := l.ownIntervals(ctx, []*taskRun{&g[0], &g[1]})
	f.check(err == nil && len(own) == 2 && !disjoint(own), "by their own clocks the processes run at the same time", "%s", spans(own, err))
	waits := l.waits(two)
	f.check(waits != "", "the gang says why it waits", "%s", orNone(waits))
	l.succeeded(f, busy, two)
	return nil
}

// untilReason waits until it was seen why a job waits, or until it waits no more.
func (l *Lab) untilReason(ctx context.Context, id model.JobID) error {
	for len(l.watch.codes(id)) == 0 && len(l.runs(id)) == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until job %d says why it waits", id)
		case <-time.After(poll):
		}
	}
	return nil
}

// incremental: one node is busy; one task starts at once, the other later. A
// gang of four on two GPUs is refused; four incremental tasks run two at a time.
func incremental(ctx context.Context, l *Lab, f *finding) error {
	l.hold("busy", "four")
	busy, err := l.submitRunning(ctx, f, "default-test.yaml", "busy")
	if err != nil {
		return err
	}
	two, err := l.submit(ctx, f, "incremental-two.yaml", "incremental")
	if err != nil {
		return err
	}
	l.checkRefusal(ctx, f)
	if err := errors.Join(l.untilRuns(ctx, two, 1), l.release(busy), l.untilEnded(ctx, busy, two)); err != nil {
		return err
	}
	b, g := l.runs(busy), l.runs(two)
	f.check(len(b) == 1 && len(g) == 2, "one busy run, two incremental ones", "%d and %d runs", len(b), len(g))
	if len(b) == 1 && len(g) == 2 {
		delay := between(l.submitted(two), g[0].started)
		f.check(g[0].placed < b[0].exited && g[0].machine != b[0].machine, "one task starts on the idle node while the other is busy",
			"%v after its submission, on %s", delay.Round(time.Millisecond), g[0].machine)
		f.check(g[1].started >= min(b[0].exited, g[0].exited), "the other starts later", "%v later, on %s",
			between(g[0].started, g[1].started).Round(time.Millisecond), g[1].machine)
	}
	four, err := l.submit(ctx, f, "incremental-four.yaml", "four")
	if err != nil {
		return err
	}
	if err := errors.Join(l.untilRuns(ctx, four, 2), l.release(four), l.untilEnded(ctx, four)); err != nil {
		return err
	}
	l.checkTwoAtATime(f, four)
	f.observed = "one task at once, the other later; four tasks two at a time; a gang of four refused"
	l.succeeded(f, busy, two, four)
	return nil
}

// checkRefusal wants that a gang of four is refused with a reason.
func (l *Lab) checkRefusal(ctx context.Context, f *finding) {
	_, err := l.submit(ctx, &finding{}, "gang-four.yaml", "too-large")
	text := "it was accepted"
	if err != nil {
		text = err.Error()
	}
	taken := false
	l.watch.look(func(t *timeline) { taken = t.byName["too-large"] != nil })
	f.check(err != nil && !errors.Is(err, ctx.Err()) && !taken &&
		strings.Contains(text, "asks for 4 GPUs") && strings.Contains(text, "more than the 2 GPUs"),
		"a gang of four on two GPUs is refused with the reason", "%s", oneLine(text))
}

func (l *Lab) checkTwoAtATime(f *finding, four model.JobID) {
	var runs []*taskRun
	l.watch.look(func(t *timeline) { runs = t.jobs[four].started() })
	firstExit := model.Time(0)
	for _, r := range runs {
		if firstExit == 0 || r.exited < firstExit {
			firstExit = r.exited
		}
	}
	ok := len(runs) == 4 && most(runs) == 2 && runs[1].started < firstExit
	f.check(ok, "four incremental tasks run two at a time", "%d runs, at most %d at once, on %v", len(runs), most(runs), nodes(runs))
}

// oneLine shortens what a command printed for the report.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 160 {
		s = fmt.Sprintf("%.160s...", s)
	}
	return s
}
