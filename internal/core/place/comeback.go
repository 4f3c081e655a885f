package place

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// WaitsOutDelay reports whether a gang waits for its next try after the platform ended its
// attempt, and for nothing else.
func WaitsOutDelay(s *tables.Tables, j *tables.Job, g int32) bool {
	gg := &j.Gangs[g]
	return gg.After > s.Now && gg.Last != nil && gg.Last.Cause == model.EndPlatform &&
		!j.Quarantined && tables.RareOf(j.Rare).After <= s.Now
}
