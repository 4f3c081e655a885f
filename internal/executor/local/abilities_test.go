package local

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

func TestAbilities(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		var x engine.AbilityReporter = newWorld(t, change).e
		if got, _ := x.Abilities(engine.Leaves{}); !slices.Contains(got, model.CanSuspend) || !slices.Contains(got, model.CanPack) {
			t.Errorf("it can %v", got)
		}
	})
	w := newWorld(t, func(o *Options) { o.NoSuspend = true })
	if got, _ := w.e.Abilities(engine.Leaves{}); !slices.Equal(got, []model.Ability{model.CanPack}) {
		t.Errorf("it can %v", got)
	}
}
