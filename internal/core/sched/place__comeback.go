package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// waitsOutDelay reports whether a gang waits for its next try after the platform ended its
// attempt, and for nothing else.
func waitsOutDelay(s *tables, j *job, g int32) bool {
	gg := &j.gangs[g]
	return gg.after > s.now && gg.last != nil && gg.last.Cause == model.EndPlatform &&
		!j.quarantined && rare(j.odd).after <= s.now
}
