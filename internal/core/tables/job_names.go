package tables

import (
	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
)

// nameTable finds the slots of the jobs that have not ended by user and name. It keeps hashes, not
// names: names are read in the jobs, where hashes agree. An ended job is taken out by its hash and
// slot. Users choose the names, and if they knew the hash they could choose names that collide. So
// the hash has a key, taken anew from the time and the number of an event whenever a job comes to
// an empty table. Only the order of the table's cells depends on it.
type nameTable struct {
	collections.HashTable[nameCell]
	key    KeyedHash
	veil   func(*model.Job) bool // the jobs that texts do not name; nil hides none
	Reader model.Subject         // texts name this user's jobs NAME; "" is each job's user
}

// NameFor has the texts of a copy of a state name jobs for a reader: the reader's own as NAME,
// others as USER~NAME.
func (s *Tables) NameFor(reader model.Subject) { s.Names.Reader = reader }

// HideNames hides the names of some jobs in the texts of a copy of a state.
func (s *Tables) HideNames(hides func(*model.Job) bool) { s.Names.veil = hides }

// TellFor does what NameFor and HideNames do to a state itself, until back is called. What the
// state caches meanwhile serves every reader: no name of a job is in it.
func (s *Tables) TellFor(reader model.Subject, hides func(*model.Job) bool) (back func()) {
	to, veil := s.Names.Reader, s.Names.veil
	s.Names.Reader, s.Names.veil = reader, hides
	return func() { s.Names.Reader, s.Names.veil = to, veil }
}

// HidesName reports whether texts hide a job's name.
func (s *Tables) HidesName(j *model.Job) bool { return s.Names.veil != nil && s.Names.veil(j) }

// nameCell is one entry; slot is the job's slot plus 1, 0 is none.
type nameCell struct {
	hash uint32
	slot int32
}

// Hashed implements collections.HashEntry.
func (c nameCell) Hashed() uint32 { return c.hash }

// Get returns the slot of a user's job of that name; false if there is none.
func (t *nameTable) Get(user model.Subject, name model.JobName, jobs []Job) (int32, bool) {
	if len(t.Cells) == 0 {
		return None, false
	}
	hash := t.key.Pair(string(user), string(name))
	for i := t.Home(hash); t.Cells[i].slot != 0; i = t.After(i) {
		if c := t.Cells[i]; c.hash == hash && jobs[c.slot-1].Spec.Name == name && jobs[c.slot-1].Spec.User == user {
			return c.slot - 1, true
		}
	}
	return None, false
}

// Put adds a job, in place of any other of its user and name. now and seq are the time and number
// of the event that submitted it.
func (t *nameTable) Put(slot int32, jobs []Job, now model.Time, seq uint64) {
	if t.N == 0 {
		t.key = NewKeyedHash(uint64(now), seq)
	}
	j := &jobs[slot]
	j.named = t.key.Pair(string(j.Spec.User), string(j.Spec.Name))
	if was, ok := t.Get(j.Spec.User, j.Spec.Name, jobs); ok {
		t.Remove(&jobs[was], was)
	}
	t.Add(nameCell{j.named, slot + 1})
}

// Remove takes a job out, if it is there.
func (t *nameTable) Remove(j *Job, slot int32) { t.Drop(nameCell{j.named, slot + 1}) }

// CloneIn returns a copy, in the memory of another table.
func (t *nameTable) CloneIn(was *nameTable) nameTable {
	return nameTable{t.HashTable.CloneIn(&was.HashTable), t.key, t.veil, t.Reader}
}
