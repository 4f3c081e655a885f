package tables

import (
	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
)

// nameTable finds the slots of the jobs that have not ended by user and name. It keeps hashes and
// no names: these are read in the jobs, only where hashes agree, and a job that ends is taken out
// by its hash and slot. Names are chosen by strangers, who could choose such as stand in one long
// row if they knew how they are hashed: so that depends on a key that is taken anew, from the time
// and the number of an event, whenever a name comes to an empty table. The order of cells alone
// does.
type nameTable struct {
	collections.HashTable[nameCell]
	key    KeyedHash
	veil   func(*model.Job) bool // whose names the texts hide; nil is none's
	Reader model.Subject         // for whom the texts name jobs; "" is the job's user
}

// NameFor has the texts of a copy of a state name jobs as their reader does: NAME is the reader's
// own, USER~NAME another's.
func (s *Tables) NameFor(reader model.Subject) { s.Names.Reader = reader }

// Veil hides names of jobs in what a copy of a state says.
func (s *Tables) Veil(hides func(*model.Job) bool) { s.Names.veil = hides }

// Telling is both for a state itself, until back is called. What the state remembers meanwhile
// serves every reader: no name of a job is in it.
func (s *Tables) Telling(reader model.Subject, hides func(*model.Job) bool) (back func()) {
	to, veil := s.Names.Reader, s.Names.veil
	s.Names.Reader, s.Names.veil = reader, hides
	return func() { s.Names.Reader, s.Names.veil = to, veil }
}

// Veiled reports whether it hides that of one.
func (s *Tables) Veiled(j *model.Job) bool { return s.Names.veil != nil && s.Names.veil(j) }

// nameCell is one entry; slot is one more than the job's, 0 is none.
type nameCell struct {
	hash uint32
	slot int32
}

// Hashed implements collections.HashEntry.
func (c nameCell) Hashed() uint32 { return c.hash }

// Get returns the slot of the job of that name of a user; false when there is none.
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

// Put adds a job, in place of any other of its user and name. The event with that time and
// number did it.
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

func (t *nameTable) CloneIn(was *nameTable) nameTable {
	return nameTable{t.HashTable.CloneIn(&was.HashTable), t.key, t.veil, t.Reader}
}
