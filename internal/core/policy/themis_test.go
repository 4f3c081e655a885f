package policy_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Of six GPUs one is offered, since the lease of job 11 has just ended; job 1 wants three.
// It takes them from those that have run for a lease and are less badly off, these first,
// once it has waited for a lease itself and is worse off for sharing. Job 13 is within its
// first lease, and 14 is worse off than job 1.
func TestThemisCollects(t *testing.T) {
	const minute = model.Minute
	now := model.Time(100 * model.Hour)
	for _, c := range []struct {
		name           string
		waited, length model.Duration
		want           string
	}{
		{"badly off", 30 * minute, minute, "[1: 15 11 12]"},
		{"it has just come", 9 * minute, minute, "[]"},
		{"its part would not be better", 30 * minute, 24 * model.Hour, "[]"},
		{"it ends before it would on its part", 15 * minute, 10 * minute, "[]"}, // after 25 of 35 minutes
		{"12 is worse off", 30 * minute, 10 * minute, "[]"},
	} {
		b := newBoard(6)
		b.free, b.now = 0, now
		p := make1(t, "themis", "round=0 lease=600")
		b.stander = p.(model.RunKeyed)
		for _, r := range []struct {
			job             model.JobID
			ran, before, of model.Duration
		}{
			{11, 10 * minute, 0, 2 * model.Hour}, {12, 25 * minute, model.Hour, 2 * model.Hour}, {13, 9 * minute, 0, 2 * model.Hour},
			{14, 35 * minute, 90 * model.Hour, minute}, {15, 39 * minute, 0, 2 * model.Hour}, {16, 0, 0, model.Hour},
		} {
			b.running = append(b.running, model.GangView{Ref: model.GangRef{Job: r.job}, Order: int64(r.job), Leaves: 1, Gangs: 1,
				Submitted: now.Add(-r.ran - r.before), Started: now.Add(-r.ran), Ran: r.ran, Hints: &model.Hints{Duration: r.of}})
		}
		b.wait("ann", 3)
		g := &b.waiting[0]
		g.Submitted, g.Since, g.Gangs, g.Hints = now.Add(-c.waited), now.Add(-c.waited), 1, &model.Hints{Duration: c.length}
		got := []string{}
		for w := range p.Rank(b) {
			s := fmt.Sprint(w.Gang.Job, ":")
			for o := range w.Preemptible {
				s += fmt.Sprint(" ", o.Job)
			}
			got = append(got, s)
		}
		is(t, c.name, fmt.Sprint(got), c.want)
	}
}
