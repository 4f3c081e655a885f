package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestNameTable compares the table with a map while jobs come, end and take names
// that others had.
func TestNameTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var table nameTable
	want := map[JobName]int32{}
	var jobs []job
	var live, spare []int32
	for step := range 20_000 {
		if end := r.IntN(100) < 49; end && len(live) > 0 {
			i := r.IntN(len(live))
			slot := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			table.remove(&jobs[slot], slot)
			delete(want, jobs[slot].spec.Name)
			jobs[slot] = job{}
			spare = append(spare, slot)
			continue
		}
		name := JobName(fmt.Sprint("job-", r.IntN(2000)))
		got, found := table.get(name, jobs)
		if slot, known := want[name]; found != known || found && got != slot {
			t.Fatalf("step %d: %q is in slot %d (%v), want %d (%v)", step, name, got, found, slot, known)
		}
		if found {
			continue
		}
		slot := int32(len(jobs))
		if n := len(spare); n > 0 {
			slot, spare = spare[n-1], spare[:n-1]
		} else {
			jobs = append(jobs, job{})
		}
		jobs[slot] = job{spec: &Job{Name: name}}
		table.put(slot, jobs, Time(step), uint64(step))
		want[name] = slot
		live = append(live, slot)
		if table.N != len(want) {
			t.Fatalf("step %d: it has %d entries, want %d", step, table.N, len(want))
		}
	}
	copied := table.cloneIn(&nameTable{})
	for name, slot := range want {
		if got, ok := copied.get(name, jobs); !ok || got != slot {
			t.Errorf("the copy has %q in slot %d (%v), want %d", name, got, ok, slot)
		}
	}
	// A second job of a name takes its place; the first one that ends then changes nothing.
	first := live[0]
	second := int32(len(jobs))
	jobs = append(jobs, job{spec: &Job{Name: jobs[first].spec.Name}})
	table.put(second, jobs, 1, 1)
	table.remove(&jobs[first], first)
	if got, ok := table.get(jobs[second].spec.Name, jobs); !ok || got != second {
		t.Errorf("the name stands for slot %d (%v), want %d", got, ok, second)
	}
}
