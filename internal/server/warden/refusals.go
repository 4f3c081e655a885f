package warden

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/access"
	"github.com/combsched/comb/internal/identity"
	"github.com/combsched/comb/internal/people"
)

const (
	mostRefusals  = 1000        // that wait to be written; those beyond are counted
	refusalsEvery = time.Second // one line of the audit log for each second of refusals would be too few, one write for each too many
	noteWait      = 10 * time.Second
)

// refusals collects what was refused for want of a right, and writes it to the audit log together.
type refusals struct {
	mu    sync.Mutex
	lines []people.AuditLine
	more  int
	timer *time.Timer
}

// note notes that a right was missing.
func (w *Warden) note(p *identity.Principal, verb access.Verb, o access.Object, why string) {
	object := "the cluster"
	if o.VC != "" {
		object = "VC " + string(o.VC)
		if o.Owner != "" {
			object += ", job of " + o.Owner
		}
	}
	r := &w.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) >= mostRefusals {
		r.more++
		return
	}
	r.lines = append(r.lines, people.AuditLine{Subject: p.User, Verb: string(verb), Object: object, Outcome: people.Refused, Detail: why})
	if r.timer == nil {
		r.timer = time.AfterFunc(refusalsEvery, w.Flush)
	}
}

// Flush writes the refusals that have come together. What cannot be written is in the log of the server.
func (w *Warden) Flush() {
	r := &w.refusals
	r.mu.Lock()
	lines, more := r.lines, r.more
	r.lines, r.more, r.timer = nil, 0, nil
	r.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteWait)
	defer cancel()
	if err := w.People.Note(ctx, lines...); err != nil {
		w.Log.Error("refusals cannot be written to the audit log", "lines", len(lines), "first", strings.TrimSpace(lines[0].Subject+" "+lines[0].Detail), "err", err)
	}
	if more > 0 {
		w.Log.Warn("more was refused than the audit log takes in a second", "refusals", more)
	}
}
