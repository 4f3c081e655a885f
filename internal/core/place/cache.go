package place

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// Cache is what a finder remembers of what fits. It follows from the configuration and the health
// of the cluster, and is forgotten when these change.
type Cache struct {
	configs, health uint64                     // of the tables, then
	fitsEmpty       map[loneFit]bool           // what fits the cluster with nothing in use
	neverFits       map[tables.FitKey]bool     // by VC and shape: it never fits
	close           map[closeness][]cell.Level // how near a shape can be
}

// maxJudged bounds how many answers each part of the cache holds.
const maxJudged = 10_000

// remembered returns the cache, without what is stale.
func (s *Finder) remembered() *Cache {
	c := &s.Cache
	if c.configs != s.Configs {
		*c = Cache{configs: s.Configs, health: s.Health}
	}
	if c.health != s.Health {
		c.health, c.fitsEmpty = s.Health, nil
	}
	return c
}

// Remember notes an answer; where there are too many, the others are forgotten.
func Remember[K comparable, V any](m *map[K]V, key K, v V) V {
	if *m == nil || len(*m) > maxJudged {
		*m = map[K]V{}
	}
	(*m)[key] = v
	return v
}
