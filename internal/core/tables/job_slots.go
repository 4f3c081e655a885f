package tables

import (
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
)

// SlotTable finds the slots of jobs by id.
type SlotTable struct{ collections.HashTable[entry] }

// entry is a job's id and slot; id 0 is none.
type entry struct {
	id   model.JobID
	slot int32
}

// Hashed implements collections.HashEntry.
func (c entry) Hashed() uint32 { return hashID(c.id) }

// hashID spreads ids. They are given out one after the other: if they were their own hashes they
// would fill neighbouring cells, and each removal would have to look for the end of that run.
func hashID(id model.JobID) uint32 {
	const golden = 0x9E3779B97F4A7C15 // multiples of the golden ratio lie evenly (Knuth, 6.4)
	return uint32(uint64(id) * golden >> 32)
}

// Get returns a job's slot; false when it is unknown.
func (t *SlotTable) Get(id model.JobID) (int32, bool) {
	if len(t.Cells) == 0 {
		return -1, false
	}
	i := t.Home(hashID(id))
	for t.Cells[i].id != 0 && t.Cells[i].id != id {
		i = t.After(i)
	}
	return t.Cells[i].slot, t.Cells[i].id != 0
}

// Of returns the slot of a known job.
func (t *SlotTable) Of(id model.JobID) int32 {
	slot, _ := t.Get(id)
	return slot
}

// Put adds a job that is not in the table.
func (t *SlotTable) Put(id model.JobID, slot int32) { t.Add(entry{id, slot}) }

// Remove takes out a job that is.
func (t *SlotTable) Remove(id model.JobID, slot int32) { t.Drop(entry{id, slot}) }

// IDs returns all ids, ascending.
func (t *SlotTable) IDs() []model.JobID {
	out := make([]model.JobID, 0, t.N)
	for _, c := range t.Cells {
		if c.id != 0 {
			out = append(out, c.id)
		}
	}
	slices.Sort(out)
	return out
}

// CloneIn returns a copy, in the memory of another table.
func (t *SlotTable) CloneIn(was *SlotTable) SlotTable {
	return SlotTable{t.HashTable.CloneIn(&was.HashTable)}
}
