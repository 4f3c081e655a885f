package tables

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// TestNameTable compares the table with a map while jobs of some users come, end and take
// names that others had.
func TestNameTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var table nameTable
	type key struct {
		user model.Subject
		name model.JobName
	}
	want := map[key]int32{}
	var jobs []Job
	var live, spare []int32
	for step := range 20_000 {
		if end := r.IntN(100) < 49; end && len(live) > 0 {
			i := r.IntN(len(live))
			slot := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			table.Remove(&jobs[slot], slot)
			delete(want, key{jobs[slot].Spec.User, jobs[slot].Spec.Name})
			jobs[slot] = Job{}
			spare = append(spare, slot)
			continue
		}
		k := key{model.Subject(fmt.Sprint("user-", r.IntN(3))), model.JobName(fmt.Sprint("job-", r.IntN(700)))}
		got, found := table.Get(k.user, k.name, jobs)
		if slot, known := want[k]; found != known || found && got != slot {
			t.Fatalf("step %d: %v is in slot %d (%v), want %d (%v)", step, k, got, found, slot, known)
		}
		if found {
			continue
		}
		slot := int32(len(jobs))
		if n := len(spare); n > 0 {
			slot, spare = spare[n-1], spare[:n-1]
		} else {
			jobs = append(jobs, Job{})
		}
		jobs[slot] = Job{Spec: &model.Job{User: k.user, Name: k.name}}
		table.Put(slot, jobs, model.Time(step), uint64(step))
		want[k] = slot
		live = append(live, slot)
		if table.N != len(want) {
			t.Fatalf("step %d: it has %d entries, want %d", step, table.N, len(want))
		}
	}
	copied := table.CloneIn(&nameTable{})
	for k, slot := range want {
		if got, ok := copied.Get(k.user, k.name, jobs); !ok || got != slot {
			t.Errorf("the copy has %v in slot %d (%v), want %d", k, got, ok, slot)
		}
	}
	// A second job of a user and name takes its place; the first one that ends then changes
	// nothing.
	first := live[0]
	second := int32(len(jobs))
	jobs = append(jobs, Job{Spec: &model.Job{User: jobs[first].Spec.User, Name: jobs[first].Spec.Name}})
	table.Put(second, jobs, 1, 1)
	table.Remove(&jobs[first], first)
	if got, ok := table.Get(jobs[second].Spec.User, jobs[second].Spec.Name, jobs); !ok || got != second {
		t.Errorf("the name stands for slot %d (%v), want %d", got, ok, second)
	}
}

// TestNamesAreTheirUsers: where a user ends and a name begins counts, and so does who is whose
// reader.
func TestNamesAreTheirUsers(t *testing.T) {
	var table nameTable
	jobs := []Job{{Spec: &model.Job{User: "a", Name: "bc"}}, {Spec: &model.Job{User: "ab", Name: "c"}}, {Spec: &model.Job{User: "ab", Name: "bc"}}}
	for slot := range jobs {
		table.Put(int32(slot), jobs, 1, 1)
	}
	for slot := range jobs {
		if got, ok := table.Get(jobs[slot].Spec.User, jobs[slot].Spec.Name, jobs); !ok || got != int32(slot) {
			t.Errorf("%v is in slot %d (%v), want %d", jobs[slot].Spec, got, ok, slot)
		}
	}
	if _, ok := table.Get("a", "c", jobs); ok {
		t.Error("a's c is a job")
	}
	if mine, others := model.JobName("bc").ShownTo("a", "a"), model.JobName("bc").ShownTo("a", "ab"); mine != "bc" || others != "ab~bc" {
		t.Errorf("a reads %q and %q", mine, others)
	}
}
