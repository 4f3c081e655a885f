package sched

// table is a hash table of small entries that never change while they are in it;
// collisions go to the next free cell. What an entry is looked for by is up to who has
// the table.
type table[E entry] struct {
	cells []E // a power of two of them, at most half of them full; zero is free
	n     int
}

// entry says what its place in a table depends on. The zero entry is none.
type entry interface {
	comparable
	hashed() uint32
}

// home is where a search begins, after where it goes on.
func (t *table[E]) home(hash uint32) int { return int(hash) & (len(t.cells) - 1) }
func (t *table[E]) after(i int) int      { return (i + 1) & (len(t.cells) - 1) }

// add adds an entry.
func (t *table[E]) add(e E) {
	if t.n++; 2*t.n > len(t.cells) {
		var none E
		all := t.cells
		t.cells = make([]E, max(16, 2*len(all)))
		for _, o := range all {
			if o != none {
				t.insert(o)
			}
		}
	}
	t.insert(e)
}

func (t *table[E]) insert(e E) {
	var none E
	i := t.home(e.hashed())
	for t.cells[i] != none {
		i = t.after(i)
	}
	t.cells[i] = e
}

// drop takes an entry out, if it is there; those after it that were pushed on by it
// move up, so that no search ends too early.
func (t *table[E]) drop(e E) {
	if len(t.cells) == 0 {
		return
	}
	var none E
	i := t.home(e.hashed())
	for t.cells[i] != e {
		if t.cells[i] == none {
			return
		}
		i = t.after(i)
	}
	t.n--
	for k := t.after(i); t.cells[k] != none; k = t.after(k) {
		// What stands at k may move to i unless its home lies between them.
		away := (k - t.home(t.cells[k].hashed())) & (len(t.cells) - 1)
		if away >= (k-i)&(len(t.cells)-1) {
			t.cells[i] = t.cells[k]
			i = k
		}
	}
	t.cells[i] = none
}

// cloneIn returns a copy in the memory of another table.
func (t *table[E]) cloneIn(was *table[E]) table[E] { return table[E]{again(was.cells, t.cells), t.n} }
