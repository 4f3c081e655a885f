package sched

import (
	"hash/maphash"
	"slices"
)

// nameTable finds the slots of the jobs that have not ended by name. It keeps hashes
// and no names: these are read in the jobs, only where hashes agree, and a job that
// ends is taken out by its hash and slot. Collisions go to the next free cell. Names
// are chosen by strangers, so hashes have a seed of chance; nothing else depends on it.
type nameTable struct {
	seed  maphash.Seed
	cells []nameCell // a power of two of them, at most half of them full
	n     int
}

// nameCell is one entry; slot is one more than the job's, 0 is none.
type nameCell struct {
	hash uint32
	slot int32
}

func newNameTable() nameTable { return nameTable{seed: maphash.MakeSeed()} }

func (t *nameTable) hash(name JobName) uint32 { return uint32(maphash.String(t.seed, string(name))) }

// after is the cell after another, home where a search begins.
func (t *nameTable) after(i int) int      { return (i + 1) & (len(t.cells) - 1) }
func (t *nameTable) home(hash uint32) int { return int(hash) & (len(t.cells) - 1) }

// get returns the slot of the job of a name; false when there is none.
func (t *nameTable) get(name JobName, jobs []job) (int32, bool) {
	if len(t.cells) == 0 {
		return none, false
	}
	h := t.hash(name)
	for i := t.home(h); t.cells[i].slot != 0; i = t.after(i) {
		if c := t.cells[i]; c.hash == h && jobs[c.slot-1].spec.Name == name {
			return c.slot - 1, true
		}
	}
	return none, false
}

// put adds a job, in place of any other of its name.
func (t *nameTable) put(slot int32, jobs []job) {
	j := &jobs[slot]
	if was, ok := t.get(j.spec.Name, jobs); ok {
		t.remove(&jobs[was], was)
	}
	if t.n++; 2*t.n > len(t.cells) {
		all := t.cells
		t.cells = make([]nameCell, max(16, 2*len(all)))
		for _, c := range all {
			if c.slot != 0 {
				t.insert(c)
			}
		}
	}
	j.named = t.hash(j.spec.Name)
	t.insert(nameCell{j.named, slot + 1})
}

func (t *nameTable) insert(c nameCell) {
	i := t.home(c.hash)
	for t.cells[i].slot != 0 {
		i = t.after(i)
	}
	t.cells[i] = c
}

// remove takes a job out, if it is there; those after it that were pushed on by it
// move up, so that no search ends too early.
func (t *nameTable) remove(j *job, slot int32) {
	if len(t.cells) == 0 {
		return
	}
	i := t.home(j.named)
	for t.cells[i].slot != slot+1 {
		if t.cells[i].slot == 0 {
			return
		}
		i = t.after(i)
	}
	t.n--
	for k := t.after(i); t.cells[k].slot != 0; k = t.after(k) {
		// What stands at k may move to i unless its home lies between them.
		away := (k - t.home(t.cells[k].hash)) & (len(t.cells) - 1)
		if away >= (k-i)&(len(t.cells)-1) {
			t.cells[i] = t.cells[k]
			i = k
		}
	}
	t.cells[i] = nameCell{}
}

func (t *nameTable) clone() nameTable { return nameTable{t.seed, slices.Clone(t.cells), t.n} }
