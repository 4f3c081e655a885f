package collections_test

import (
	"math/rand/v2"
	"testing"

	"github.com/combsched/comb/internal/base/collections"
)

// What was added and not removed is found in order, in a copy too, and nothing else.
func TestSparse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 64, 65, 4096, 5000} {
		s, in := collections.NewSparseSet(n), make([]bool, n)
		for range 300 {
			k := r.IntN(n)
			if in[k] = r.IntN(3) > 0; in[k] {
				s.Add(int32(k))
			} else {
				s.Remove(int32(k))
			}
		}
		copied := s.Clone()
		within, rest := s.CloneIn(make([]uint64, s.Words()+1))
		if len(rest) != 1 {
			t.Errorf("of %d: %d words of the slab are left, want 1", n, len(rest))
		}
		for k := range in {
			s.Remove(int32(k))
		}
		for _, c := range []*collections.SparseSet{&copied, &within} {
			at := c.Next(0)
			for k := range in {
				if in[k] != (at == int32(k)) {
					t.Fatalf("of %d: %d is in: %v, next is %d", n, k, in[k], at)
				}
				if in[k] {
					at = c.Next(at + 1)
				}
			}
			if at != -1 {
				t.Errorf("of %d: %d is next after all", n, at)
			}
		}
		if s.Next(0) != -1 {
			t.Errorf("of %d: taking all out of the first left %d", n, s.Next(0))
		}
	}
}
