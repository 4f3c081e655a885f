package engine_test

import (
	"iter"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/sched"
)

// plain starts and stops; able can do what it says.
type plain struct{}

func (plain) Do(sched.Action) {}

type able struct {
	plain
	can []sched.Ability
}

func (a able) Abilities() []sched.Ability { return a.can }

// needy is a policy that needs what its VC's policy is called.
type needy struct{ needs []sched.Ability }

func (needy) Rank(sched.View) iter.Seq[sched.Wish] { return func(func(sched.Wish) bool) {} }
func (n needy) Needs() []sched.Ability             { return n.needs }

func policies(c sched.VCConfig) (sched.Policy, error) {
	switch c.Policy {
	case "slices":
		return needy{[]sched.Ability{sched.CanSuspend, sched.CanPack}}, nil
	case "packs":
		return needy{[]sched.Ability{sched.CanPack}}, nil
	}
	return policy.New(c)
}

func TestPoliciesThatNeedWhatTheExecutorLacks(t *testing.T) {
	c := &sched.Config{VCs: []sched.VCConfig{{Name: "vision", Policy: "slices"}, {Name: "speech", Policy: "fifo"},
		{Name: "text", Policy: "packs"}, {Name: "odd", Policy: "no such policy"}}}
	for _, tt := range []struct {
		x    engine.Executor
		want []string // each a part of one line
	}{
		{able{can: []sched.Ability{sched.CanPack, sched.CanSuspend}}, nil},
		{able{can: []sched.Ability{sched.CanPack}}, []string{"vision: the policy slices needs an executor that can suspend tasks"}},
		{able{}, []string{"vision: the policy slices needs an executor that can suspend", "vision: the policy slices needs an executor that can run",
			"text: the policy packs needs an executor that can run the tasks of several jobs on one device"}},
		{plain{}, []string{"vision", "vision", "text"}},
	} {
		err := engine.CheckAbilities(c, policies, tt.x)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(tt.want) {
			t.Fatalf("%+v: %v", tt.x, err)
		}
		for i, want := range tt.want {
			if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "choose another policy") {
				t.Errorf("%q does not say %q", lines[i], want)
			}
		}
	}
}
