package metrics_test

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
)

// shared opens a file of the shared traces; nil when there are none here.
func shared(t *testing.T, name string) *os.File {
	t.Helper()
	dir := os.Getenv("COMB_DATA")
	if dir == "" {
		root, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
				break
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The 60-job trace of Tiresias on a cluster with room for everybody: the times of
// the public simulator, to its last digit.
func TestTiresiasWithoutContention(t *testing.T) {
	in := shared(t, "tiresias/60_job.csv")
	if in == nil {
		t.Log("not checked: the completion times of tiresias/60_job.csv without contention; there is no shared data here")
		return
	}
	lines, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(int32(len(lines)), 32, "a:"+strconv.Itoa(len(lines)))
	var m machines
	var facts = map[model.JobID]metrics.Facts{}
	for i, l := range lines[1:] {
		gpus, err1 := strconv.Atoi(l[1])
		submit, err2 := strconv.ParseFloat(l[2], 64)
		seconds, err3 := strconv.ParseFloat(l[5], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("line %d: %v", i+2, l)
		}
		id := model.JobID(i + 1)
		m.end(s, submit)
		s.submit(submit, id, "a", "1x"+l[1])
		first := 32 * i
		s.place(submit, attempt(id, 1), strconv.Itoa(first)+"-"+strconv.Itoa(first+gpus-1))
		facts[id] = metrics.Facts{TraceID: l[0], Model: l[4], Duration: model.Duration(seconds) * model.Second}
		m.running = append(m.running, runner{waiter: waiter{id: id, n: 1}, end: submit + seconds})
	}
	m.end(s, math.Inf(1))
	o := s.fold(t, metrics.Options{Facts: func(id model.JobID, _ *model.Job) metrics.Facts { return facts[id] }})
	for _, c := range []struct {
		what string
		got  metrics.Number
		want float64
	}{{"avg", o.Summary.JCTAvg, 178.4}, {"p50", o.Summary.JCTP50, 125}, {"p95", o.Summary.JCTP95, 308.1},
		{"makespan", o.Summary.Makespan, 3271}, {"queueing", o.Summary.QueueAvg, 0}} {
		if d := float64(c.got) - c.want; math.Abs(d) > .051 {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

// end ends what runs by then, in order of time; nobody waits.
func (m *machines) end(s *stream, to float64) {
	for i := m.next(to); i >= 0; i = m.next(to) {
		s.finish(m.running[i].end, attempt(m.running[i].id, 1))
		m.running = append(m.running[:i], m.running[i+1:]...)
	}
}
