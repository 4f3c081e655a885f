package place

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// Cache holds what a finder knows of fitting shapes. It depends only on the configuration and
// on the health of nodes, and is dropped when these change.
type Cache struct {
	configs, health uint64                    // versions for which the entries hold
	fitsEmpty       map[loneFit]bool          // whether it fits the cluster with nothing in use
	neverFits       map[tables.FitKey]bool    // by VC and shape, see NeverFits
	close           map[reachKey][]cell.Level // results of ReachLevels
}

// maxJudged bounds how many answers each part of the cache holds.
const maxJudged = 10_000

// remembered returns the cache without stale entries.
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

// Remember stores an answer and returns it. A full map is emptied first.
func Remember[K comparable, V any](m *map[K]V, key K, v V) V {
	if *m == nil || len(*m) > maxJudged {
		*m = map[K]V{}
	}
	(*m)[key] = v
	return v
}
