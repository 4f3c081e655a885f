package core_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// BenchmarkExitWithDeepQueue ends one job and starts the next while very many
// wait behind it.
func BenchmarkExitWithDeepQueue(b *testing.B) {
	for _, depth := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", depth), func(b *testing.B) {
			s := core.New(policy.New)
			now := model.Time(1)
			apply := func(events []model.Event) {
				for _, e := range events {
					s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
				}
			}
			events, _, _ := s.Check(model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 2})}, now)
			apply(events)
			for i := range depth {
				events, _, no := s.Check(model.Submit{Job: gangJob(fmt.Sprint(i), "a", 10, 1, 4)}, now)
				if no != nil {
					b.Fatal(no)
				}
				apply(events)
			}
			s.Decide(now)
			next, job := depth, model.JobID(1)
			for b.Loop() {
				now++
				st, _ := s.Job(job)
				apply(s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: job, N: st.Tasks[0].Attempt}, Task: 0}))
				events, _, _ := s.Check(model.Submit{Job: gangJob(fmt.Sprint(next), "a", 10, 1, 4)}, now)
				apply(events)
				s.Decide(now)
				s.TakeEnded()
				next++
				job++
			}
		})
	}
}

// BenchmarkPlace fills a cluster of many nodes with gangs and lets the oldest end
// when it is nine tenths full.
func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{64, 1024} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := core.New(policy.New)
			now := model.Time(1)
			apply := func(events []model.Event) {
				for _, e := range events {
					s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
				}
			}
			half := int32(nodes / 2)
			events, _, _ := s.Check(model.Reconfigure{Config: cluster(nodes, map[cell.VCName]int32{"a": half, "b": half})}, now)
			apply(events)
			var running []model.JobID
			leaves, i := 0, 0
			for b.Loop() {
				now++
				i++
				size := []int32{1, 2, 4}[i%3]
				vc := []cell.VCName{"a", "b"}[i%2]
				events, ans, no := s.Check(model.Submit{Job: gangJob(fmt.Sprint(i), vc, 10, 1, size)}, now)
				if no != nil {
					b.Fatal(no)
				}
				apply(events)
				s.Decide(now)
				running = append(running, ans.Job)
				for leaves += int(size); leaves > nodes*4*8/10; {
					st, _ := s.Job(running[0])
					apply(s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: running[0], N: 1}, Task: 0}))
					s.Decide(now)
					leaves -= int(st.Leaves)
					running = running[1:]
				}
				s.TakeEnded()
			}
		})
	}
}

// BenchmarkFair looks at a VC in which gangs of some users and shapes wait that do
// not fit: with nothing free, or with leaves free on different nodes.
func BenchmarkFair(b *testing.B) {
	for _, name := range []string{"fifo", "srtf", "drf", "capacity", "tetris", "offers"} {
		for _, idle := range []int32{0, 1} {
			for _, depth := range []int{1_000, 10_000} {
				b.Run(fmt.Sprintf("%s/idle=%d/waiting=%d", name, idle, depth), func(b *testing.B) { fairDepth(b, name, idle, depth) })
			}
		}
	}
}

func fairDepth(b *testing.B, name string, idle int32, depth int) {
	s := core.New(policy.New)
	now := model.Time(1)
	cfg := cluster(16, map[cell.VCName]int32{"a": 16})
	cfg.VCs = []model.VCConfig{{Name: "a", Policy: name}}
	apply := func(c model.Command) {
		events, _, no := s.Check(c, now)
		if no != nil {
			b.Fatal(no)
		}
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
		}
	}
	apply(model.Reconfigure{Config: cfg})
	for i := range 16 {
		j := gangJob(fmt.Sprintf("r%d", i), "a", 10, 1, 4-idle)
		j.User = model.Subject(fmt.Sprintf("u%d", i%8))
		apply(model.Submit{Job: j})
	}
	s.Decide(now)
	next := 0
	submit := func() {
		j := gangJob(fmt.Sprint(next), "a", 10, int32(1+next%2), int32(2+next%3))
		j.User, j.Hints.Duration = model.Subject(fmt.Sprintf("u%d", next%10)), model.Duration(1+next%100)*model.Minute
		apply(model.Submit{Job: j})
		next++
	}
	for range depth {
		submit()
	}
	s.Decide(now)
	for b.Loop() {
		now++
		b.StopTimer()
		submit()
		b.StartTimer()
		s.Decide(now)
		s.Wake()
	}
}
