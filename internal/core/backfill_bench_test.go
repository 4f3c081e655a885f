package core_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// BenchmarkBackfill ends one job of a full VC and decides, while a gang that
// needs an eighth of it waits before a thousand small ones, by mode.
func BenchmarkBackfill(b *testing.B) {
	for _, mode := range []string{"none", "easy", "conservative"} {
		for _, nodes := range []int32{64, 1024} {
			b.Run(fmt.Sprintf("%s/nodes=%d", mode, nodes), func(b *testing.B) { benchBackfill(b, mode, nodes) })
		}
	}
}

func benchBackfill(b *testing.B, mode string, nodes int32) {
	s := core.New(policy.New)
	now := model.Time(1)
	apply := func(events []model.Event) {
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
		}
	}
	cfg := cluster(int(nodes), map[cell.VCName]int32{"a": nodes})
	cfg.VCs[0].Backfill = mode
	events, _, _ := s.Check(model.Reconfigure{Config: cfg}, now)
	apply(events)
	jobs := 0
	submit := func(tasks, leaves int32, limit model.Duration) {
		jobs++
		j := gangJob(fmt.Sprint(jobs), "a", 10, tasks, leaves)
		j.TimeLimit = limit
		events, _, no := s.Check(model.Submit{Job: j}, now)
		if no != nil {
			b.Fatal(no.Message)
		}
		apply(events)
	}
	for i := range nodes {
		submit(1, 4, model.Hour+model.Duration(i)*model.Minute)
	}
	s.Decide(now)
	submit(nodes/8, 4, model.Hour)
	for range 1000 {
		submit(1, 1, 90*model.Minute)
	}
	s.Decide(now)
	running := make([]model.JobID, 0, nodes)
	for i := range nodes {
		running = append(running, model.JobID(i+1))
	}
	for b.Loop() {
		now += model.Time(model.Second)
		id := running[0]
		running = running[1:]
		j, _ := s.Job(id)
		for o, t := range j.Tasks {
			apply(s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: id, Gang: t.Gang, N: t.Attempt}, Task: int32(o)}))
		}
		for _, r := range s.Decide(now) {
			if e, ok := r.Event.(model.Placed); ok {
				running = append(running, e.Attempt.Job)
				submit(1, 1, 90*model.Minute)
			}
		}
		s.TakeEnded()
		if len(running) == 0 {
			b.Fatal("nothing runs")
		}
	}
}
