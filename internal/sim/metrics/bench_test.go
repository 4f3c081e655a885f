package metrics_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
)

// busy is a stream of jobs on 64 nodes of 8 GPUs and 8 VCs, at any time with some
// hundred waiting: each job has the eight records that it has in a run.
func busy(jobs int) [][]model.Record {
	s := newStream(64, 8, "a:8", "b:8", "c:8", "d:8", "e:8", "f:8", "g:8", "h:8")
	batches := [][]model.Record{s.records}
	const behind, long = 300, 400
	for i := range jobs + behind + long {
		from := len(s.records)
		at := float64(i)
		if k := i - behind - long; k >= 0 {
			a := attempt(model.JobID(k+1), 1)
			s.add(at, model.TaskExited{Attempt: a}, model.JobCompleting{Job: a.Job})
			s.finish(at, a)
		}
		if k := i - behind; k >= 0 && k < jobs {
			node := int32(k) % 64
			s.start(at, attempt(model.JobID(k+1), 1), cell.LeafID(node*8+int32(k/64)%8))
		}
		if i < jobs {
			s.submit(at, model.JobID(i+1), string(rune('a'+i%8)), "1x1")
		}
		s.add(at, model.Decided{Now: s.now})
		batches = append(batches, s.records[from:])
	}
	return batches
}

// start places a gang of one task on one leaf.
func (s *stream) start(at float64, a model.AttemptID, l cell.LeafID) {
	t := cell.Task{Node: "n", SKU: "gpu", Leaves: []cell.LeafID{l}, Devices: []int32{0}}
	s.add(at, model.Placed{Attempt: a, Placement: cell.Placement{Tasks: []cell.Task{t}}}, model.TaskStarted{Attempt: a})
}

func BenchmarkAdd(b *testing.B) {
	batches := busy(20_000)
	n := 0
	for _, batch := range batches {
		n += len(batch)
	}
	for _, c := range []struct {
		name string
		rows bool
	}{{"fold", false}, {"fold and jobs.csv", true}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o := metrics.Options{}
				if c.rows {
					o.Ended = metrics.NewJobsWriter(io.Discard, 0).Write
				}
				f := metrics.New(o)
				for _, batch := range batches {
					f.Add(batch)
				}
				if _, err := f.Finish(0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*20_000*3), "ns/event")
		})
	}
}

// What a fold keeps of a job that ended does not grow with the job's life.
func TestMemoryOfEndedJobs(t *testing.T) {
	batches := busy(30_000)
	var before, after runtime.MemStats
	f := metrics.New(metrics.Options{})
	add := func(bs [][]model.Record) {
		for _, b := range bs {
			f.Add(b)
		}
		runtime.GC()
	}
	add(batches[:5_000])
	runtime.ReadMemStats(&before)
	add(batches[5_000:])
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / 25_000; each > 64 {
		t.Errorf("an ended job leaves %d bytes", each)
	}
	if _, err := f.Finish(0); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(batches)
}
