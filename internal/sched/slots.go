package sched

import (
	"slices"

	"github.com/combsched/comb/internal/hashtable"
)

// slotTable finds the slots of jobs by id.
type slotTable struct{ hashtable.Table[slotCell] }

// slotCell is one entry; id 0 is none.
type slotCell struct {
	id   JobID
	slot int32
}

// Hashed implements hashtable.Entry.
func (c slotCell) Hashed() uint32 { return hashID(c.id) }

// hashID spreads ids. They are given out one after the other, so they must not be their own hash: they would stand in
// one long row, whose end every removal would have to look for.
func hashID(id JobID) uint32 {
	const golden = 0x9E3779B97F4A7C15 // multiples of the golden ratio lie evenly (Knuth, 6.4)
	return uint32(uint64(id) * golden >> 32)
}

// get returns a job's slot; false when it is unknown.
func (t *slotTable) get(id JobID) (int32, bool) {
	if len(t.Cells) == 0 {
		return none, false
	}
	i := t.Home(hashID(id))
	for t.Cells[i].id != 0 && t.Cells[i].id != id {
		i = t.After(i)
	}
	return t.Cells[i].slot, t.Cells[i].id != 0
}

// of returns the slot of a job that is known.
func (t *slotTable) of(id JobID) int32 {
	slot, _ := t.get(id)
	return slot
}

// put adds a job that is not there, remove takes out one that is.
func (t *slotTable) put(id JobID, slot int32)    { t.Add(slotCell{id, slot}) }
func (t *slotTable) remove(id JobID, slot int32) { t.Drop(slotCell{id, slot}) }

// ids returns all ids, ascending.
func (t *slotTable) ids() []JobID {
	out := make([]JobID, 0, t.N)
	for _, c := range t.Cells {
		if c.id != 0 {
			out = append(out, c.id)
		}
	}
	slices.Sort(out)
	return out
}

func (t *slotTable) cloneIn(was *slotTable) slotTable {
	return slotTable{t.Table.CloneIn(&was.Table)}
}
