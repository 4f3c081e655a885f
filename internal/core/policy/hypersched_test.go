package policy_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// keeping is a board that keeps for a policy who waits.
type keeping struct {
	*board
	kept model.WaitIndex
}

func (k keeping) WaitIndex() (model.WaitIndex, []model.GangView) { return k.kept, nil }

// An experiment of which all trials wait starts none any more from an instant on that nothing
// reports, and comes to its deadline at another. The policy names both, and whom it wants to
// start changes there and not before.
func TestHyperschedWakes(t *testing.T) {
	for _, c := range []struct {
		rule           string
		ran, run, ends model.Duration // ends is when it ceases to start trials
	}{
		{"four times as long as the longest ran", 10 * minutes, 60 * minutes, 80 * minutes},
		{"the middle of what all take", 10 * minutes, 30 * minutes, 90 * minutes},
	} {
		p := make1(t, "hypersched", "")
		b := &board{total: 2, placed: map[model.GangRef]bool{}}
		k := keeping{b, p.(model.WaitIndexer).NewWaitIndex()}
		b.dated(2, c.run, 120*minutes)
		b.waiting[0].Ran = c.ran
		b.dated(2, c.run) // has room when the other starts no more
		for i := range b.waiting {
			k.kept.Add(&b.waiting[i])
		}
		starts := func() (ids []model.JobID) {
			for w := range p.Rank(k) {
				ids = append(ids, w.Gang.Job)
			}
			return ids
		}
		for _, step := range []struct{ at, next model.Duration }{
			{0, c.ends + 1}, {c.ends, c.ends + 1}, {c.ends + 1, 120 * minutes}, {120 * minutes, 0},
		} {
			b.now = model.Time(step.at)
			if got := p.(model.Timed).NextChange(k); got != model.Time(step.next) {
				t.Errorf("%s: at %v it is to be looked at %v next, not at %v", c.rule, step.at, got, step.next)
			}
			want := "[1]"
			if step.at > c.ends {
				want = "[2]"
			}
			if got := fmt.Sprint(starts()); got != want {
				t.Errorf("%s: at %v it wants to start %s, not %s", c.rule, step.at, got, want)
			}
		}
	}
}
