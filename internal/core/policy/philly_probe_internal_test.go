package policy

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// What jobs on probation cost, and how much less that is than at their usual size, is
// summed up in the note about the VC.
func TestProbeNote(t *testing.T) {
	p := &probing{&philly{probe: probe{nodes: 1, lasts: 600 * model.Second, from: 2}}}
	rigid := model.GangView{Ref: model.GangRef{Job: 1}, Leaves: 4, Ran: 100 * model.Second}
	elastic := model.GangView{Ref: model.GangRef{Job: 2}, Leaves: 2, Ran: 50 * model.Second,
		Sizes: model.Sizes{Least: 1, Most: 4, Usual: 4, Now: 1, MemberLeaves: 2}}
	note := p.Learn(p.Learn(nil, &rigid), &elastic)
	if got, want := string(note), "probe 2 ended, 500 GPU-seconds, 300 saved"; got != want {
		t.Errorf("noted %q, want %q", got, want)
	}
	proven, small := rigid, rigid
	proven.Ran, small.Leaves = 600*model.Second, 1
	for _, g := range []*model.GangView{&proven, &small} {
		if got := p.Learn(note, g); got != nil {
			t.Errorf("noted %q of a job that was not on probation", got)
		}
	}
}
