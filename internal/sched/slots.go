package sched

import "slices"

// slotTable finds the slots of jobs by id. Collisions go to the next free cell. Ids
// are given out one after the other, so they must not be their own hash: they would
// stand in one long row, whose end every removal would have to look for.
type slotTable struct {
	cells []slotCell // a power of two of them, at most half of them full
	n     int
}

// slotCell is one entry; id 0 is none.
type slotCell struct {
	id   JobID
	slot int32
}

// home is where a job's search begins.
func (t *slotTable) home(id JobID) int {
	const golden = 0x9E3779B97F4A7C15 // multiples of the golden ratio lie evenly (Knuth, 6.4)
	return int(uint64(id) * golden >> 32 & uint64(len(t.cells)-1))
}

// after is the cell after another.
func (t *slotTable) after(i int) int { return (i + 1) & (len(t.cells) - 1) }

// get returns a job's slot; false when it is unknown.
func (t *slotTable) get(id JobID) (int32, bool) {
	if len(t.cells) == 0 {
		return none, false
	}
	i := t.home(id)
	for t.cells[i].id != 0 && t.cells[i].id != id {
		i = t.after(i)
	}
	return t.cells[i].slot, t.cells[i].id != 0
}

// of returns the slot of a job that is known.
func (t *slotTable) of(id JobID) int32 {
	slot, _ := t.get(id)
	return slot
}

// put adds a job that is not there.
func (t *slotTable) put(id JobID, slot int32) {
	if t.n++; 2*t.n > len(t.cells) {
		all := t.cells
		t.cells = make([]slotCell, max(16, 2*len(all)))
		for _, c := range all {
			if c.id != 0 {
				t.insert(c)
			}
		}
	}
	t.insert(slotCell{id, slot})
}

func (t *slotTable) insert(c slotCell) {
	i := t.home(c.id)
	for t.cells[i].id != 0 {
		i = t.after(i)
	}
	t.cells[i] = c
}

// remove takes out a job that is there; those after it that were pushed on by it
// move up, so that no search ends too early.
func (t *slotTable) remove(id JobID) {
	t.n--
	i := t.home(id)
	for t.cells[i].id != id {
		i = t.after(i)
	}
	for k := t.after(i); t.cells[k].id != 0; k = t.after(k) {
		// What stands at k may move to i unless its home lies between them.
		away := (k - t.home(t.cells[k].id)) & (len(t.cells) - 1)
		if away >= (k-i)&(len(t.cells)-1) {
			t.cells[i] = t.cells[k]
			i = k
		}
	}
	t.cells[i] = slotCell{}
}

// ids returns all ids, ascending.
func (t *slotTable) ids() []JobID {
	out := make([]JobID, 0, t.n)
	for _, c := range t.cells {
		if c.id != 0 {
			out = append(out, c.id)
		}
	}
	slices.Sort(out)
	return out
}

func (t *slotTable) clone() slotTable { return slotTable{slices.Clone(t.cells), t.n} }
