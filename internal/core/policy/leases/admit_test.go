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
	if v := a.Admit(soft); v != 2 {
		t.Errorf("any deadline: %d, want the third", v)
	}
	a.Reset([]int32{8, 0, 0, 8, 8}, 8, PublishedRules())
	if v := a.Admit(soft); v >= 0 {
		t.Errorf("published: deadline %d, want a refusal", v)
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
		if v := a.Admit(large); v >= 0 {
			t.Fatalf("16 GPUs of 8: deadline %d", v)
		}
		if v := a.Admit(small); v >= 0 != c.want {
			t.Errorf("%+v: the next job is promised deadline %d", c.rules, v)
		}
		a.NextBatch()
		if v := a.Admit(small); v < 0 {
			t.Errorf("%+v: it is refused in the next batch", c.rules)
		}
	}
}

// What one job was promised is not given to another.
func TestAdmitPromises(t *testing.T) {
	var a Admission
	a.Reset([]int32{8, 8, -3, 8}, 8, Rules{})
	job := Request{GPUs: 8, Need: 1, Deadlines: []int32{3}}
	for i, want := range []bool{true, true, false} {
		if v := a.Admit(job); v >= 0 != want {
			t.Errorf("job %d: deadline %d", i, v)
		}
	}
	for m, want := range map[int32]bool{3: false, 4: true} {
		if a.Packs(Request{GPUs: 8, Need: 1, Deadlines: []int32{m}}, 0) != want {
			t.Errorf("with %d leases it packs: %v; the fourth is free", m, !want)
		}
	}
	for m, want := range map[int32]bool{2: false, 5: false, 6: true} {
		if a.Packs(Request{GPUs: 8, Need: 3, Deadlines: []int32{m}}, 0) != want {
			t.Errorf("3 of %d leases pack: %v; beyond the horizon leases are empty", m, !want)
		}
	}
	for _, r := range []Request{{}, {GPUs: 1}, {Need: 1}, {GPUs: MaxGPUs + 1, Need: 1}, {GPUs: 1, Need: MaxLeases + 1}, {GPUs: 1, Need: 1, Deadlines: []int32{-5}}, {GPUs: 9, Need: 1, Deadlines: []int32{1 << 30}}} {
		if v := a.Admit(r); v >= 0 {
			t.Errorf("%+v is promised deadline %d", r, v)
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

// The bit planes and their marks admit what the plain test admits.
func TestAdmitTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	admitted, refused := 0, 0
	for range 300 {
		left := make([]int32, 1+r.IntN(20))
		for i := range left {
			left[i] = r.Int32N(65)
		}
		var a Admission
		a.Reset(left, 64, Rules{})
		var kept []promise
		for range 150 {
			req := Request{GPUs: 1 << r.IntN(5), Need: 1 + r.Int32N(4)}
			for m := req.Need + r.Int32N(8); len(req.Deadlines) < 3; m += r.Int32N(5) {
				req.Deadlines = append(req.Deadlines, m)
			}
			want := slices.IndexFunc(req.Deadlines, func(m int32) bool {
				return plainPacks(left, 64, append(slices.Clone(kept), promise{gpus: req.GPUs, need: req.Need, before: m}))
			})
			for i, m := range req.Deadlines {
				if fits := plainPacks(left, 64, append(slices.Clone(kept), promise{gpus: req.GPUs, need: req.Need, before: m})); a.Packs(req, i) != fits {
					t.Fatalf("%+v: option %d packs: %v", req, i, !fits)
				}
			}
			v := a.Admit(req)
			if v != want {
				t.Fatalf("%+v: option %d, want %d", req, v, want)
			}
			if v < 0 {
				refused++
				continue
			}
			admitted++
			kept = append(kept, promise{gpus: req.GPUs, need: req.Need, before: req.Deadlines[v]})
		}
	}
	if admitted < 10_000 || refused < 5_000 {
		t.Errorf("%d admitted and %d not: the test shows little", admitted, refused)
	}
}
