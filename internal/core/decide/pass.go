package decide

import (
	"strings"

	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Pass is the work of one Decide, and memory for the next ones.
type Pass struct {
	place.Finder
	PartlyPlaced []model.JobID  // while a VC is walked: jobs of several gangs of which one runs and one found nothing
	Out          []model.Record // what it returns
	Mem          Memory
}

// Memory is what one Decide after the other uses again. A clone begins with memory of its own.
type Memory struct {
	records  []model.Record // for what Decide returns; all up to its length were handed out
	digests  *strings.Builder
	walker   walker          // of the VC that is walked
	heads    []index.Head    // of Ordered
	lines    []model.Line    // of Lines
	waits    []index.Merge   // of opportunistic
	chosen   []index.Chosen  // of Parties
	counts   []int           // the same
	failed   map[string]bool // shapes, of lend
	scratch  any             // of policies
	also     []bool          // by allocation: those that planOver may lift
	tail     tailing         // of planOver
	yielding yielding        // what may leave for its own priority
	fact     [1]model.Event  // of Accept
}

// text writes a digest as 16 hexadecimal digits.
func (m *Memory) text(d model.Digest) string {
	const size = 16
	if m.digests == nil || m.digests.Cap()-m.digests.Len() < size {
		m.digests = &strings.Builder{}
		m.digests.Grow(tables.ArenaChunk * size)
	}
	text := d.Hex()
	m.digests.Write(text[:])
	all := m.digests.String()
	return all[len(all)-size:]
}
