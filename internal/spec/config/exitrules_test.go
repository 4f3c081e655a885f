package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/exit"
)

func TestExitRules(t *testing.T) {
	src := cluster(someTypes, someCells, someVCs) + "exitRules:\n- {code: 75, log: 'NCCL .* timeout', class: transient, means: the network hung, budget: 3}\n" +
		"- {code: 80, codeTo: 89, class: permanent, means: its data is broken, next: bring new data}\n- {signal: 10, class: user, means: it was told to}\n"
	c, _, problems := Parse("f", []byte(src), known)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []exit.Rule{{From: 75, To: 75, Log: "NCCL .* timeout", Ruling: exit.Ruling{Class: exit.Transient, Means: "the network hung", Budget: 3}},
		{From: 80, To: 89, Ruling: exit.Ruling{Class: exit.Permanent, Means: "its data is broken", Next: "bring new data"}},
		{Signal: 10, Ruling: exit.Ruling{Class: exit.User, Means: "it was told to"}}}
	if diff := cmp.Diff(want, c.Config.ExitRules); diff != "" {
		t.Error(diff)
	}
}
