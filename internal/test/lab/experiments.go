package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func experiments() []experiment {
	return []experiment{
		{1, "VC safety", vcSafety},
		{2, "Priority and preemption", preemption},
		{3, "Opportunistic job", opportunistic},
		{4, "Gang", gang},
		{5, "Incremental", incremental},
	}
}

// submit submits a job file under a name by the command line.
func (l *Lab) submit(ctx context.Context, f *finding, file, name string) (model.JobID, error) {
	path, err := l.file(file, name)
	if err != nil {
		return 0, err
	}
	out, errOut, code, err := l.server.CLI(ctx, "job", "submit", path, "--name", name, "-o", "json")
	if err != nil {
		return 0, err
	}
	if code != 0 {
		return 0, fmt.Errorf("comb job submit %s ends with %d: %s", file, code, strings.TrimSpace(errOut))
	}
	var s rest.Submitted
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return 0, fmt.Errorf("comb job submit %s -o json prints no job: %w: %s", file, err, out)
	}
	f.jobs = append(f.jobs, s.ID)
	return s.ID, l.watch.until(ctx, "the submission was seen", func(t *timeline) bool { return t.jobs[s.ID] != nil })
}

func (l *Lab) untilEnded(ctx context.Context, ids ...model.JobID) error {
	return l.watch.until(ctx, "all jobs ended", func(t *timeline) bool {
		for _, id := range ids {
			if j := t.jobs[id]; j == nil || j.ended == 0 {
				return false
			}
		}
		return true
	})
}

// untilRuns waits until n runs of a job have started.
func (l *Lab) untilRuns(ctx context.Context, id model.JobID, n int) error {
	return l.watch.until(ctx, fmt.Sprintf("job %d started %d tasks", id, n), func(t *timeline) bool {
		j := t.jobs[id]
		return j != nil && len(j.started()) >= n
	})
}

// succeeded checks that the jobs ended well.
func (l *Lab) succeeded(f *finding, ids ...model.JobID) {
	var bad []string
	l.watch.look(func(t *timeline) {
		for _, id := range ids {
			if j := t.jobs[id]; j.phase != model.Succeeded {
				bad = append(bad, fmt.Sprintf("%s is %s", j.spec.Name, j.phase))
			}
		}
	})
	f.check(len(bad) == 0, "all jobs end well", "%d of %d succeeded %s", len(ids)-len(bad), len(ids), strings.Join(bad, ", "))
}

// vcSafety: three jobs to vc1 at once run one after another on vc1's node, while
// the other VC's node stays idle.
func vcSafety(ctx context.Context, l *Lab, f *finding) error {
	ids := make([]model.JobID, 3)
	errs := make([]error, 3)
	var all sync.WaitGroup
	parts := make([]finding, 3)
	for i := range ids {
		all.Go(func() { ids[i], errs[i] = l.submit(ctx, &parts[i], "vc1-test.yaml", fmt.Sprintf("safety-%d", i+1)) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return err
		}
		f.jobs = append(f.jobs, ids[i])
	}
	if err := l.watch.until(ctx, "one job runs", func(t *timeline) bool {
		return len(t.jobs[ids[0]].started())+len(t.jobs[ids[1]].started())+len(t.jobs[ids[2]].started()) > 0
	}); err != nil {
		return err
	}
	if err := l.untilEnded(ctx, ids...); err != nil {
		return err
	}
	var runs []*taskRun
	l.watch.look(func(t *timeline) {
		for _, id := range ids {
			runs = append(runs, t.jobs[id].started()...)
		}
	})
	used := nodes(runs)
	f.check(len(runs) == 3 && most(runs) == 1, "the three jobs run one after another", "%d runs, at most %d at once", len(runs), most(runs))
	f.check(len(used) == 1, "all run on vc1's node", "nodes used: %v", used)
	l.checkIdle(f, used)
	f.observed = fmt.Sprintf("one after another on %v; the other node idle", used)
	own, err := l.ownIntervals(ctx, runs)
	f.check(err == nil && len(own) == 3 && disjoint(own), "the processes' own clocks agree", "%s", spans(own, err))
	waits := l.waits(ids...)
	f.check(waits != "", "the waiting jobs say why", "%s", orNone(waits))
	l.succeeded(f, ids...)
	return nil
}

// checkIdle wants that no attempt of this experiment was placed on another node.
func (l *Lab) checkIdle(f *finding, used []cell.NodeName) {
	others := 0
	l.watch.look(func(t *timeline) {
		for _, e := range t.events {
			if e.Seq <= f.since || e.Kind != "Placed" {
				continue
			}
			var p model.Placed
			if json.Unmarshal(e.Data, &p) != nil {
				others++
				continue
			}
			for i := range p.Placement.Tasks {
				if len(used) == 0 || machine(&p.Placement.Tasks[i]) != used[0] {
					others++
				}
			}
		}
	})
	f.check(others == 0, "the other VC's node stays idle", "%d placements on it", others)
}

// waits lists the reasons for which jobs were seen to wait.
func (l *Lab) waits(ids ...model.JobID) string {
	var out []string
	for _, id := range ids {
		for _, code := range l.watch.codes(id) {
			if !strings.Contains(strings.Join(out, " "), code) {
				out = append(out, code)
			}
		}
	}
	return strings.Join(out, ", ")
}

// interval is when a process lived, by its own clock.
type interval struct{ from, to time.Time }

var (
	beganLine   = regexp.MustCompile(`(?m)^began (\S+) pid (\d+)$`)
	endedLine   = regexp.MustCompile(`(?m)^ended (\S+)$`)
	resumedLine = regexp.MustCompile(`(?m)^resumed at step (\d+)$`)
	stoppedLine = regexp.MustCompile(`(?m)^stopped at step (\d+)$`)
	resultLine  = regexp.MustCompile(`(?m)^done: step \d+ loss \S+ weights (\w+)$`)
)

func (l *Lab) ownIntervals(ctx context.Context, runs []*taskRun) ([]interval, error) {
	var out []interval
	for _, r := range runs {
		text, err := l.log(ctx, *r)
		if err != nil {
			return nil, err
		}
		began, ended := beganLine.FindStringSubmatch(text), endedLine.FindStringSubmatch(text)
		if began == nil || ended == nil {
			return nil, fmt.Errorf("the log of %v does not say when it began and ended", r.attempt)
		}
		from, err := time.Parse(time.RFC3339Nano, began[1])
		if err != nil {
			return nil, err
		}
		to, err := time.Parse(time.RFC3339Nano, ended[1])
		if err != nil {
			return nil, err
		}
		out = append(out, interval{from, to})
	}
	return out, nil
}

// byItself reports whether a run ended without a signal. A pod says a signal and its exit code
// alike: there only a kill is told apart.
func (l *Lab) byItself(r taskRun) bool {
	return r.exit.Signal == 0 || l.opts.Pods != nil && r.exit.Signal == int32(syscall.SIGTERM)
}

func disjoint(all []interval) bool {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.from.Before(b.to) && b.from.Before(a.to) {
				return false
			}
		}
	}
	return true
}

func spans(all []interval, err error) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, i := range all {
		out = append(out, i.from.Format("05.000")+"-"+i.to.Format("05.000"))
	}
	return "seconds " + strings.Join(out, ", ")
}

// preemption: vc1 runs a test job; a prod job arrives: the first is stopped with
// grace and checkpoints, the second runs, then the first resumes and both end.
func preemption(ctx context.Context, l *Lab, f *finding) error {
	l.hold("preempted")
	first, err := l.submit(ctx, f, "vc1-test.yaml", "preempted")
	if err != nil {
		return err
	}
	if err := l.watch.until(ctx, "the first job reported a step", func(t *timeline) bool { return t.jobs[first].steps > 0 }); err != nil {
		return err
	}
	second, err := l.submit(ctx, f, "vc1-prod.yaml", "urgent")
	if err != nil {
		return err
	}
	if err := errors.Join(l.untilRuns(ctx, second, 1), l.release(first), l.untilEnded(ctx, first, second)); err != nil {
		return err
	}
	a, b := l.runs(first), l.runs(second)
	f.check(len(a) == 2 && len(b) == 1, "the first job runs twice, the second once", "%d and %d runs", len(a), len(b))
	if len(a) != 2 || len(b) != 1 {
		return nil
	}
	l.checkStop(f, first, second)
	f.observed = fmt.Sprintf("stopped after %d steps, resumed after the prod job on %s", l.steps(first, a[0].exited), b[0].machine)
	took := between(l.stopTime(first), a[0].exited)
	f.check(took >= 0 && l.byItself(a[0]), "it ends by itself within its grace", "%v after SIGTERM, exit code %d", took.Round(time.Millisecond), a[0].exit.Code)
	f.check(a[0].exited <= b[0].started && b[0].exited <= a[1].started, "the second runs in between, on the same node",
		"%s runs %s-%s on %s", "urgent", clock(b[0].started), clock(b[0].exited), b[0].machine)
	l.checkResult(ctx, f, l.checkResume(ctx, f, a))
	l.succeeded(f, first, second)
	return nil
}

// steps is the last step that a job had reported by a time.
func (l *Lab) steps(id model.JobID, by model.Time) (step int64) {
	l.watch.look(func(t *timeline) {
		for _, e := range t.events {
			var p model.Progress
			if e.Kind == "Progress" && e.Time <= by && json.Unmarshal(e.Data, &p) == nil && p.Attempt.Job == id {
				step = max(step, p.Step)
			}
		}
	})
	return step
}

func clock(t model.Time) string { return time.UnixMicro(int64(t)).Format("15:04:05.000") }

func (l *Lab) stopTime(id model.JobID) (at model.Time) {
	l.watch.look(func(t *timeline) {
		if s := t.jobs[id].stops; len(s) > 0 {
			at = s[0].at
		}
	})
	return at
}

// checkStop wants exactly one stop of the victim, for the preemptor.
func (l *Lab) checkStop(f *finding, victim, by model.JobID) {
	l.watch.look(func(t *timeline) {
		stops := t.jobs[victim].stops
		ok := len(stops) == 1 && stops[0].stop.Cause == model.EndPreempted && stops[0].stop.By != nil && stops[0].stop.By.Job == by
		seen := "no stop"
		if len(stops) > 0 {
			seen = fmt.Sprintf("%d stop, cause %s, grace %v", len(stops), stops[0].stop.Cause, time.Duration(stops[0].stop.Grace)*time.Microsecond)
		}
		f.check(ok, fmt.Sprintf("%s is preempted by %s", t.jobs[victim].spec.Name, t.jobs[by].spec.Name), "%s", seen)
	})
}

// checkResume wants that the second run goes on where the first stopped. It
// returns the second run's log.
func (l *Lab) checkResume(ctx context.Context, f *finding, runs []taskRun) string {
	before, err1 := l.log(ctx, runs[0])
	after, err2 := l.log(ctx, runs[1])
	stopped, resumed := number(stoppedLine, before), number(resumedLine, after)
	f.check(err1 == nil && err2 == nil && resumed > 0 && stopped == resumed, "it resumes from its checkpoint",
		"stopped at step %d, resumed at step %d", stopped, resumed)
	return after
}

// checkResult wants that a resumed run ends with the weights of a run of the same
// job file that was never stopped.
func (l *Lab) checkResult(ctx context.Context, f *finding, after string) {
	var whole []taskRun
	l.watch.look(func(t *timeline) {
		if j := t.byName["safety-1"]; j != nil {
			for _, r := range j.started() {
				whole = append(whole, *r)
			}
		}
	})
	if len(whole) != 1 {
		return
	}
	text, err := l.log(ctx, whole[0])
	want, got := resultLine.FindStringSubmatch(text), resultLine.FindStringSubmatch(after)
	ok := err == nil && want != nil && got != nil && want[1] == got[1]
	f.check(ok, "its result is that of an uninterrupted run", "weights %v and %v", last(got), last(want))
}

func last(match []string) string {
	if len(match) == 0 {
		return "missing"
	}
	return match[len(match)-1]
}

func number(re *regexp.Regexp, text string) int {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}
