package collections

// HashTable is an open-addressing hash table of small entries that do not change while they are
// in it; a collision goes to the next free cell. A search begins at Home and continues with
// After.
type HashTable[E HashEntry] struct {
	Cells []E // their number is a power of two, at most half are full; a zero cell is free
	N     int // entries
}

// HashEntry is an entry with its hash. The zero entry means no entry.
type HashEntry interface {
	comparable
	// Hashed is the hash of the entry's key.
	Hashed() uint32
}

// Home is the cell where a search begins; the table must have cells.
func (t *HashTable[E]) Home(hash uint32) int { return int(hash) & (len(t.Cells) - 1) }

// After is the next cell of a search.
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

// Drop removes an entry, if it is there. It moves up later entries that were displaced, so that
// no search ends too early.
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
		// The entry at k may move to i unless its home lies between them.
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
