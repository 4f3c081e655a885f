package leases

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A soft job whose first deadline does not pack is admitted under its second; the
// published test refuses it.
func TestAdmitAnyDeadline(t *testing.T) {
	soft := Request{GPUs: 8, Need: 2, Deadlines: []int32{2, 3, 5}}
	var a Admission
	a.Reset([]int32{8, 0, 0, 8, 8}, 8, Rules{})
	if v := a.Admit(soft); v.Option != 2 {
		t.Errorf("any deadline: %+v, want the third", v)
	}
	a.Reset([]int32{8, 0, 0, 8, 8}, 8, PublishedRules())
	if v := a.Admit(soft); v.Admitted() || v.Extended != 4 {
		t.Errorf("published: %+v, want a refusal that 4 leases would do", v)
	}
}

// A refused job does not stand in the way of the next; in the published test it
// does, until the batch ends.
func TestAdmitAfterRefusal(t *testing.T) {
	small := Request{GPUs: 1, Need: 1, Deadlines: []int32{4}}
	large := Request{GPUs: 16, Need: 2, Deadlines: []int32{3}}
	for _, c := range []struct {
		rules Rules
		want  bool
	}{{Rules{}, true}, {Rules{KeepRejected: true}, false}} {
		var a Admission
		a.Reset([]int32{8, 8, 8, 8}, 8, c.rules)
		if v := a.Admit(large); v.Admitted() || v.Extended != 0 {
			t.Fatalf("16 GPUs of 8: %+v", v)
		}
		if v := a.Admit(small); v.Admitted() != c.want {
			t.Errorf("%+v: the next job's verdict is %+v", c.rules, v)
		}
		a.NextBatch()
		if v := a.Admit(small); !v.Admitted() {
			t.Errorf("%+v: in the next batch: %+v", c.rules, v)
		}
	}
}

// What one job was promised is not given to another.
func TestAdmitPromises(t *testing.T) {
	var a Admission
	a.Reset([]int32{8, 8, -3, 8}, 8, Rules{})
	job := Request{GPUs: 8, Need: 1, Deadlines: []int32{3}}
	for i, want := range []bool{true, true, false} {
		if v := a.Admit(job); v.Admitted() != want {
			t.Errorf("job %d: %+v", i, v)
		}
	}
	if v := a.Admit(job); v.Extended != 4 {
		t.Errorf("%+v: the fourth lease is free", v)
	}
	if v := a.Admit(Request{GPUs: 8, Need: 3, Deadlines: []int32{2}}); v.Admitted() || v.Extended != 6 {
		t.Errorf("%+v: beyond the horizon leases are empty, 6 are enough", v)
	}
	for _, r := range []Request{{}, {GPUs: 1}, {Need: 1}, {GPUs: MaxGPUs + 1, Need: 1}, {GPUs: 1, Need: MaxLeases + 1}, {GPUs: 1, Need: 1, Deadlines: []int32{-5}}, {GPUs: 9, Need: 1, Deadlines: []int32{1 << 30}}} {
		if v := a.Admit(r); v.Admitted() {
			t.Errorf("%+v is admitted: %+v", r, v)
		}
	}
}

// plainPacks is the published test, written plainly.
func plainPacks(left []int32, full int32, jobs []promise) bool {
	room := slices.Clone(left)
	for len(room) < 64 {
		room = append(room, full)
	}
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(p, q promise) int {
		return cmp.Or(cmp.Compare(q.gpus, p.gpus), cmp.Compare(p.before-p.need, q.before-q.need), cmp.Compare(q.before, p.before))
	})
	for _, p := range jobs {
		n := int32(0)
		for t := p.before - 1; t >= 0 && n < p.need; t-- {
			if room[t] >= p.gpus {
				room[t] -= p.gpus
				n++
			}
		}
		if n < p.need {
			return false
		}
	}
	return true
}

// The bit planes admit whom the plain test admits, and the extended deadline packs
// while one lease less does not.
func TestAdmitTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	admitted, extended := 0, 0
	for range 500 {
		left := make([]int32, 1+r.IntN(20))
		for i := range left {
			left[i] = r.Int32N(17)
		}
		var a Admission
		a.Reset(left, 16, Rules{})
		var kept []promise
		for range 12 {
			req := Request{GPUs: 1 << r.IntN(5), Need: 1 + r.Int32N(4)}
			for m := req.Need + r.Int32N(8); len(req.Deadlines) < 3; m += r.Int32N(5) {
				req.Deadlines = append(req.Deadlines, m)
			}
			want := slices.IndexFunc(req.Deadlines, func(m int32) bool {
				return plainPacks(left, 16, append(slices.Clone(kept), promise{req.GPUs, req.Need, m, 0}))
			})
			for i, m := range req.Deadlines {
				if fits := plainPacks(left, 16, append(slices.Clone(kept), promise{req.GPUs, req.Need, m, 0})); a.Packs(req, i) != fits {
					t.Fatalf("%+v: option %d packs: %v", req, i, !fits)
				}
			}
			v := a.Admit(req)
			if v.Option != want {
				t.Fatalf("%+v: option %d, want %d", req, v.Option, want)
			}
			if v.Admitted() {
				admitted++
				kept = append(kept, promise{req.GPUs, req.Need, req.Deadlines[v.Option], 0})
				continue
			}
			extended++
			with := func(m int32) bool {
				return plainPacks(left, 16, append(slices.Clone(kept), promise{req.GPUs, req.Need, m, 0}))
			}
			if v.Extended <= req.Deadlines[0] || !with(v.Extended) || with(v.Extended-1) {
				t.Fatalf("%+v: %d leases are said to be the fewest", req, v.Extended)
			}
		}
	}
	if admitted < 1000 || extended < 500 {
		t.Errorf("%d admitted and %d not: the test shows little", admitted, extended)
	}
}
