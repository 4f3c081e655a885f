package walk

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
)

var (
	stoppedAt = regexp.MustCompile(`(?m)^stopped at (step \d+)$`)
	resumedAt = regexp.MustCompile(`(?m)^resumed at (step \d+)$`)
	weights   = regexp.MustCompile(`(?m)^done: step \d+ loss \S+ weights (\w+)$`)
)

// gangWaits: two tasks of two GPUs find only one node of red free.
func gangWaits(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "holder", "--vc", "red", "--gpus", "1"); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "run", "-d", "--name", "gang", "--vc", "red", "--gpus", "2", "--tasks", "2", "--", "true"); err != nil {
		return err
	}
	explained, err := w.must(ctx, "job", "explain", "gang")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(explained.out, "holder"), "explain names the job in the way", "%s", explained.all())
	gang, err := w.job(ctx, "gang")
	if err != nil {
		return err
	}
	w.expect(gang.Phase == "Waiting" && gang.Tasks[0].Attempt == 0 && gang.Tasks[1].Attempt == 0, "not one of its tasks has started", "gang is %s", gang.Phase)
	if err := w.stop(ctx, "holder"); err != nil {
		return err
	}
	if gang, err = w.ended(ctx, "gang"); err != nil {
		return err
	}
	w.expect(gang.Phase == "Succeeded" && gang.Tasks[0].Node != gang.Tasks[1].Node, "when that is stopped, both run, a node each",
		"%s on %s and %s", gang.Phase, gang.Tasks[0].Node, gang.Tasks[1].Node)
	return nil
}

// preempted: a gang of higher priority needs both nodes of red, one of which trains.
func preempted(ctx context.Context, w *walk) error {
	file, err := w.write("resumes.yaml", w.heldTraining("resumes", 150))
	if err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "submit", file); err != nil {
		return err
	}
	if _, err := w.until(ctx, "resumes", "at its tenth step", func(j rest.Job) bool {
		return j.Tasks[0].Progress != nil && j.Tasks[0].Progress.Step >= 10
	}); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "run", "-d", "--name", "urgent", "--vc", "red", "--priority", "prod", "--gpus", "2", "--tasks", "2", "--", "sleep", "1"); err != nil {
		return err
	}
	urgent, err := w.ended(ctx, "urgent")
	if err = errors.Join(err, w.release("resumes")); err != nil {
		return err
	}
	resumes, err := w.ended(ctx, "resumes")
	if err != nil {
		return err
	}
	w.expect(urgent.Phase == "Succeeded" && resumes.Phase == "Succeeded" && resumes.Preempted == 1 && resumes.Counted == 0,
		"both succeed; the preemption is no retry", "urgent %s, resumes %s after %d preemption and %d retries", urgent.Phase, resumes.Phase, resumes.Preempted, resumes.Counted)
	events, err := w.must(ctx, "job", "events", "resumes")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(events.out, "urgent"), "the events name the preemptor", "%s", line(events.out, "urgent"))
	return nil
}

// attemptLogs: the second attempt goes on where the first stopped, and the result is
// that of a run that was never stopped.
func attemptLogs(ctx context.Context, w *walk) error {
	first, err := w.must(ctx, "job", "logs", "resumes", "--attempt", "1")
	if err != nil {
		return err
	}
	second, err := w.must(ctx, "job", "logs", "resumes", "--attempt", "2")
	if err != nil {
		return err
	}
	whole, err := w.must(ctx, "job", "logs", "whole")
	if err != nil {
		return err
	}
	stopped, resumed := match(stoppedAt, first.out), match(resumedAt, second.out)
	w.expect(stopped != "" && stopped == resumed, "attempt 2 goes on where attempt 1 stopped", "stopped at %q, resumed at %q", stopped, resumed)
	a, b := match(weights, second.out), match(weights, whole.out)
	w.expect(a != "" && a == b, "its result is that of an uninterrupted run", "weights %q and %q", a, b)
	none, err := w.comb(ctx, "job", "logs", "resumes", "--attempt", "3")
	if err != nil {
		return err
	}
	w.expect(none.code != 0, "there is no third attempt", "exit code %d: %s", none.code, none.all())
	return nil
}

// borrows: an opportunistic job of red runs on blue's node and leaves when blue wants it.
func borrows(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "own", "--vc", "red", "--gpus", "2", "--tasks", "2"); err != nil {
		return err
	}
	if err := w.hold(ctx, "guest", "--vc", "red", "--priority", "oppo", "--gpus", "2", "--grace", "5s"); err != nil {
		return err
	}
	guest, err := w.job(ctx, "guest")
	if err != nil {
		return err
	}
	lent := guest.Tasks[0].Node
	if _, err := w.must(ctx, "job", "run", "-d", "--name", "owner", "--vc", "blue", "--gpus", "2", "--", "sleep", "1"); err != nil {
		return err
	}
	owner, err := w.ended(ctx, "owner")
	if err != nil {
		return err
	}
	w.expect(owner.Phase == "Succeeded" && owner.Tasks[0].Node == lent, "blue gets its node back from red's guest",
		"owner has %s on %s, the guest ran on %s", strings.ToLower(string(owner.Phase)), owner.Tasks[0].Node, lent)
	if guest, err = w.until(ctx, "guest", "running again", running); err != nil {
		return err
	}
	w.expect(guest.Preempted == 1 && guest.Tasks[0].Attempt == 2, "the guest borrows again afterwards", "preempted %d time, attempt %d", guest.Preempted, guest.Tasks[0].Attempt)
	return w.stop(ctx, "guest", "own")
}

// match is what an expression's group found, or "".
func match(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// line is the first line with a word in it.
func line(text, word string) string {
	for l := range strings.Lines(text) {
		if strings.Contains(l, word) {
			return strings.TrimSpace(l)
		}
	}
	return "no line with " + word
}
