package place

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// InBackOff reports whether a gang waits for nothing but the back-off after the platform
// ended its attempt.
func InBackOff(s *tables.Tables, j *tables.Job, g int32) bool {
	gg := &j.Gangs[g]
	return gg.After > s.Now && gg.Last != nil && gg.Last.Cause == model.EndPlatform &&
		!j.Quarantined && tables.RareOf(j.Rare).After <= s.Now
}
