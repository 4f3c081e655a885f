package people

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/access"
)

// How refusals, and lines beyond what is one user's bound, are written to the audit log. A
// program that asks again and again for what it may not do makes a line a minute, and not one
// for each request.
const (
	refusalsEvery = time.Second // a first refusal is written after this time,
	againEvery    = time.Minute // and how often it was repeated, after this time
	mostKinds     = 10          // of one principal that are told apart between two writes; others are one
	mostRefusals  = 1000        // kinds that are remembered in all; others are one
	noteWait      = 10 * time.Second
)

// refusals collects what was refused for lack of a right, and what a user does too often for
// a line each. It writes summaries of them to the audit log.
type refusals struct {
	mu      sync.Mutex
	kinds   map[refusal]*refused
	kindsOf map[string]int // number of kinds, by principal
	timer   *time.Timer
}

// refusal is the kind of a refusal.
type refusal struct{ subject, verb, object, outcome string }

// refused counts the refusals of one kind. It is dropped when none came for againEvery.
type refused struct {
	why   string    // reason of the first one
	from  string    // address from which that came
	n     int       // how many are not written yet
	first time.Time // when the first of those n came
	wrote time.Time // when the last line was written; zero is never
}

// others stands for all kinds beyond those that are told apart.
const others = "more than is told apart"

// noteRefusal counts the refusal of a request for lack of a right.
func (w *Authorizer) noteRefusal(ctx context.Context, p *access.Principal, verb access.Verb, o access.Object, why string) {
	object := "the cluster"
	if o.VC != "" {
		object = "VC " + string(o.VC)
		if o.Owner != "" {
			object += ", job of " + o.Owner
		}
	}
	w.refusals.add(refusal{p.User, string(verb), object, Refused}, why, ClientAddress(ctx), time.Now())
	w.startTimer(refusalsEvery)
}

// CountLine counts a line of the audit log that is not written by itself, since its user has too
// many.
func (w *Authorizer) CountLine(l AuditLine) {
	w.refusals.add(refusal{l.Subject, l.Verb, "several", l.Outcome}, "more than are written one by one", l.From,
		time.Now())
	w.startTimer(refusalsEvery)
}

// add counts one refusal.
func (r *refusals) add(k refusal, why, from string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds, r.kindsOf = map[refusal]*refused{}, map[string]int{}
	}
	e := r.kinds[k]
	if e == nil {
		switch {
		case len(r.kinds) >= mostRefusals:
			k = refusal{others, "several", others, k.outcome}
		case r.kindsOf[k.subject] >= mostKinds:
			k.verb, k.object = "several", others
		}
		if e = r.kinds[k]; e == nil {
			e = &refused{why: why, from: from, first: now}
			r.kinds[k] = e
			r.kindsOf[k.subject]++
		}
	}
	if e.n++; e.n == 1 {
		e.first = now
	}
}

// due returns the lines that are to be written by now, or with all every line. It drops kinds
// that were not repeated. more reports whether some are left for later. The next refusal
// starts its own timer.
func (r *refusals) due(now time.Time, all bool) (lines []AuditLine, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	for k, e := range r.kinds {
		switch {
		case !all && !e.wrote.IsZero() && now.Sub(e.wrote) < againEvery:
			more = true
			continue
		case e.n == 0:
			delete(r.kinds, k)
			if r.kindsOf[k.subject]--; r.kindsOf[k.subject] == 0 {
				delete(r.kindsOf, k.subject)
			}
			continue
		}
		detail := e.why
		if e.n > 1 || !e.wrote.IsZero() {
			detail = fmt.Sprintf("%d times since %s: %s", e.n, e.first.UTC().Format(time.RFC3339), e.why)
		}
		lines = append(lines, AuditLine{Subject: k.subject, Verb: k.verb, Object: k.object,
			Outcome: k.outcome, Detail: detail, From: e.from})
		e.n, e.wrote, more = 0, now, true
	}
	slices.SortFunc(lines, func(a, b AuditLine) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Object,
			b.Object), cmp.Compare(a.Outcome, b.Outcome))
	})
	return lines, more
}

// startTimer starts the timer of the next write, unless it runs.
func (w *Authorizer) startTimer(after time.Duration) {
	r := &w.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		r.timer = time.AfterFunc(after, func() { w.write(false) })
	}
}

// Flush writes all refusals that are not written yet.
func (w *Authorizer) Flush() { w.write(true) }

// write writes the refusals that are due. Lines that cannot be written go to the server's
// log.
func (w *Authorizer) write(all bool) {
	lines, more := w.refusals.due(time.Now(), all)
	if more && !all {
		w.startTimer(refusalsEvery)
	}
	if len(lines) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteWait)
	defer cancel()
	if err := w.People.WriteSummaries(ctx, lines...); err != nil {
		w.Log.Error("refusals cannot be written to the audit log", "lines", len(lines), "first", lines[0].Subject+" "+lines[0].Detail, "err", err)
	}
}
