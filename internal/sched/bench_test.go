package sched_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/sched"
)

// BenchmarkExitWithDeepQueue ends one job and starts the next while very many
// wait behind it.
func BenchmarkExitWithDeepQueue(b *testing.B) {
	for _, depth := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", depth), func(b *testing.B) {
			s := sched.New(policy.New)
			now := sched.Time(1)
			apply := func(events []sched.Event) {
				for _, e := range events {
					s.Apply(sched.Record{Seq: s.Seq() + 1, Time: now, Event: e})
				}
			}
			events, _, _ := s.Check(sched.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 2})}, now)
			apply(events)
			for i := range depth {
				events, _, no := s.Check(sched.Submit{Job: gangJob(fmt.Sprint(i), "a", 10, 1, 4)}, now)
				if no != nil {
					b.Fatal(no)
				}
				apply(events)
			}
			s.Decide(now)
			next, job := depth, sched.JobID(1)
			for b.Loop() {
				now++
				st, _ := s.Job(job)
				apply(s.Accept(sched.TaskExited{Attempt: sched.AttemptID{Job: job, N: st.Tasks[0].Attempt}, Task: 0}))
				events, _, _ := s.Check(sched.Submit{Job: gangJob(fmt.Sprint(next), "a", 10, 1, 4)}, now)
				apply(events)
				s.Decide(now)
				s.TakeEnded()
				next++
				job++
			}
		})
	}
}
