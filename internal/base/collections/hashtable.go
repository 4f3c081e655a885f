package collections

// HashTable is a hash table of small entries that never change while they are in it;
// collisions go to the next free cell. A search begins at Home and goes on with After.
type HashTable[E HashEntry] struct {
	Cells []E // a power of two of them, at most half of them full; zero is free
	N     int // entries
}

// HashEntry says what its place in a table depends on. The zero entry is none.
type HashEntry interface {
	comparable
	// Hashed is the hash of what the entry is looked for by.
	Hashed() uint32
}

// Home is where a search begins; the table must have cells.
func (t *HashTable[E]) Home(hash uint32) int { return int(hash) & (len(t.Cells) - 1) }

// After is where a search goes on after a cell.
func (t *HashTable[E]) After(i int) int { return (i + 1) & (len(t.Cells) - 1) }

// Add adds an entry.
func (t *HashTable[E]) Add(e E) {
	if t.N++; 2*t.N > len(t.Cells) {
		var none E
		all := t.Cells
		t.Cells = make([]E, max(16, 2*len(all)))
		for _, o := range all {
			if o != none {
				t.insert(o)
			}
		}
	}
	t.insert(e)
}

func (t *HashTable[E]) insert(e E) {
	var none E
	i := t.Home(e.Hashed())
	for t.Cells[i] != none {
		i = t.After(i)
	}
	t.Cells[i] = e
}

// Drop takes an entry out, if it is there; those after it that were pushed on by it
// move up, so that no search ends too early.
func (t *HashTable[E]) Drop(e E) {
	if len(t.Cells) == 0 {
		return
	}
	var none E
	i := t.Home(e.Hashed())
	for t.Cells[i] != e {
		if t.Cells[i] == none {
			return
		}
		i = t.After(i)
	}
	t.N--
	for k := t.After(i); t.Cells[k] != none; k = t.After(k) {
		// What stands at k may move to i unless its home lies between them.
		away := (k - t.Home(t.Cells[k].Hashed())) & (len(t.Cells) - 1)
		if away >= (k-i)&(len(t.Cells)-1) {
			t.Cells[i] = t.Cells[k]
			i = k
		}
	}
	t.Cells[i] = none
}

// CloneIn returns a copy in the memory of another table.
func (t *HashTable[E]) CloneIn(was *HashTable[E]) HashTable[E] {
	return HashTable[E]{append(was.Cells[:0], t.Cells...), t.N}
}
