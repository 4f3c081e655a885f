package collections

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number int

func (n number) Before(o number) bool { return n < o }

// Whatever goes in comes out in order, also when more comes in between.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[number]
	var held []number
	for range 5000 {
		if len(held) == 0 || r.IntN(5) > 1 {
			n := number(r.IntN(300))
			h.Push(n)
			held = append(held, n)
			continue
		}
		slices.Sort(held)
		if got := h.Pop(); got != held[0] || len(h) != len(held)-1 {
			t.Fatalf("%d of %d came out, want %d", got, len(h), held[0])
		}
		held = held[1:]
	}
}
