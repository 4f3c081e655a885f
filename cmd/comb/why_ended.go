package main

import (
	"context"
	"fmt"
	"time"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/kube"
)

// whyEnded says in words why a task is being ended; "" where its job came to its end as usual. It
// names no other user's job but by its number, since more people may see pods than jobs.
func (d *daemon) whyEnded(of kube.Ending) string {
	switch of.Cause {
	case 0, model.EndSucceeded, model.EndCompleted:
		return ""
	case model.EndFailed:
		return "another task of its gang has failed"
	case model.EndStopped, model.EndRequeued:
		return d.whoEnded(of)
	case model.EndDrained:
		if why := d.whyDrained(of.Node); why != "" {
			return why
		}
	}
	text := narrate.Cause(of.Cause)
	if of.By != nil {
		text += fmt.Sprintf(" for job %d", of.By.Job)
	}
	return text
}

// eventsBack are how many of the newest events are looked through for who has asked for a stop.
var eventsBack = []uint64{1024, 128, 16}

// whoEnded says which user asked for the end of a task, and why.
func (d *daemon) whoEnded(of kube.Ending) string {
	said := "its job is stopped by a user"
	if of.Cause == model.EndRequeued {
		said = "its job waits again, since a user wants it so"
	}
	r := d.replica.Load()
	if r == nil {
		return said
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var end uint64
	if err := r.Read(ctx, 0, func(s *core.State) { end = s.Seq() }); err != nil {
		return said
	}
	for _, back := range eventsBack { // the newest are in memory, and how many depends on the start
		tail, err := r.Tail(ctx, end-min(back, end), int(back))
		if err != nil {
			return said
		}
		if text := stopper(tail, of); text != "" {
			return text
		}
		if !tail.Older {
			break
		}
	}
	return said
}

// stopper says who asked for the end of a task in some events, "" where none of them says so.
func stopper(tail engine.Tail, of kube.Ending) (text string) {
	for _, rec := range tail.Records {
		switch e := rec.Event.(type) {
		case model.StopRequested:
			if e.Job == of.Attempt.Job && of.Cause == model.EndStopped {
				text = fmt.Sprintf("its job is stopped by %s", e.Meta.Subject) + narrate.Because(e.Reason)
			}
		case model.JobRequeued:
			if e.Job == of.Attempt.Job && of.Cause == model.EndRequeued {
				text = fmt.Sprintf("its job waits again, since %s wants it so", e.Meta.Subject) +
					narrate.Because(e.Reason)
			}
		}
	}
	return text
}

// whyDrained says who drains a node, and why; "" where that is not known.
func (d *daemon) whyDrained(node cell.NodeName) (text string) {
	r := d.replica.Load()
	if r == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.Read(ctx, 0, func(s *core.State) {
		for _, n := range s.Nodes() {
			if n.Name != node || n.By == "" {
				continue
			}
			text = fmt.Sprintf("node %s is drained by %s", node, n.By) + narrate.Because(n.Reason)
		}
	})
	return text
}
