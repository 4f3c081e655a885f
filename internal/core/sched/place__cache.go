package sched

import (
	"github.com/combsched/comb/internal/core/cell"
)

// cache is what a finder remembers of what fits. It follows from the configuration and the health
// of the cluster, and is forgotten when these change.
type cache struct {
	configs, health uint64                     // of the tables, then
	lonely          map[loneFit]bool           // what fits the cluster with nothing in use
	never           map[whatFits]bool          // by VC and shape: it never fits
	close           map[closeness][]cell.Level // how near a shape can be
}

// maxJudged bounds how many answers each part of the cache holds.
const maxJudged = 10_000

// remembered returns the cache, without what is stale.
func (s *finder) remembered() *cache {
	c := &s.cache
	if c.configs != s.configs {
		*c = cache{configs: s.configs, health: s.health}
	}
	if c.health != s.health {
		c.health, c.lonely = s.health, nil
	}
	return c
}

// remember notes an answer; where there are too many, the others are forgotten.
func remember[K comparable, V any](m *map[K]V, key K, v V) V {
	if *m == nil || len(*m) > maxJudged {
		*m = map[K]V{}
	}
	(*m)[key] = v
	return v
}
