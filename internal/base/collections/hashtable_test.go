package collections

import (
	"math/rand/v2"
	"testing"
)

type pair struct{ key, value uint32 }

// Hashed gives many keys the same few homes.
func (p pair) Hashed() uint32 { return p.key % 7 }

// What was added is found until it is dropped, also where many have one home, and a copy is
// another table.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table HashTable[pair]
	held := map[pair]bool{}
	for range 3000 {
		p := pair{1 + r.Uint32N(60), 5}
		if held[p] {
			delete(held, p)
			table.Drop(p)
		} else {
			held[p] = true
			table.Add(p)
		}
		table.Drop(pair{100, 5}) // which was never there
		for key := uint32(1); key <= 60; key++ {
			want := pair{key, 5}
			if found(&table, want) != held[want] {
				t.Fatalf("key %d found: %v, and is there: %v", key, !held[want], held[want])
			}
		}
	}
	twin := table.CloneIn(&HashTable[pair]{Cells: make([]pair, 1, 512)})
	twin.Add(pair{200, 5})
	more := pair{200, 5}
	if table.N != len(held) || twin.N != table.N+1 || found(&table, more) || !found(&twin, more) {
		t.Errorf("%d entries, %d in the copy, want %d", table.N, twin.N, len(held))
	}
}

func found(t *HashTable[pair], p pair) bool {
	for i := t.Home(p.Hashed()); t.Cells[i].key != 0; i = t.After(i) {
		if t.Cells[i] == p {
			return true
		}
	}
	return false
}
