package engine_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
)

// flaw is a policy that panics at one place from when it sees a waiting job called a bomb.
type flaw struct {
	model.Policy
	at string
}

func (f flaw) breaks(at string, g *model.GangView) {
	if f.at == at && g.Hints.Model == "bomb" {
		panic("broken " + at)
	}
}

func (f flaw) Rank(v model.View) iter.Seq[model.Wish] {
	for g := range v.Waiting() {
		f.breaks("Rank", &g)
	}
	if f.at == "Key" {
		for range v.WaitingByKey(1) {
			break
		}
	}
	return f.Policy.Rank(v)
}

func (f flaw) Key(g *model.GangView) model.Key {
	f.breaks("Key", g)
	return model.Key{}
}

func (f flaw) NextChange(v model.View) model.Time {
	for g := range v.Waiting() {
		f.breaks("NextChange", &g)
	}
	return 0
}

// flawed gives a VC that asks for las a policy with a flaw.
func flawed(at string) model.Policies {
	return func(c model.VCConfig) (model.Policy, error) {
		p, err := policy.New(c)
		if c.Policy == "las" {
			p = flaw{p, at}
		}
		return p, err
	}
}

// failures are the PolicyFailed events of a journal.
func failures(t *testing.T, m *engine.Memory) (out []model.PolicyFailed) {
	t.Helper()
	if err := m.Replay(ctx, 0, func(rec model.Record) error {
		if e, ok := rec.Event.(model.PolicyFailed); ok {
			out = append(out, e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFailedPolicy: a policy that panics, in a decision, while an event is applied, or when it
// is asked for its next change, is replaced in its VC alone, and stays so over a restart until
// a configuration is applied; no input is lost.
func TestFailedPolicy(t *testing.T) {
	for _, at := range []string{"Rank", "Key", "NextChange"} {
		t.Run(at, func(t *testing.T) { failedPolicy(t, at) })
	}
}

func failedPolicy(t *testing.T, at string) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	c := config(3)
	c.VCs[0].Policy = "las"
	r.give(model.Reconfigure{Config: c}, nil)
	r.options.Policies = flawed(at)
	var bomb, after engine.Reply
	err := r.run(
		func() { r.give(submit(job("first", "a", 2, model.Hour)), nil) },
		func() { // which waits, so that lines are kept
			r.give(submit(job("second", "a", 2, model.Hour)), nil)
			r.give(submit(job("other", "b", 1, 0)), nil)
		},
		func() { r.give(submit(bombJob("a")), &bomb) },
		func() { r.give(submit(job("after", "a", 1, 0)), &after) },
		func() {
			if bomb.Err != nil || bomb.Refusal != nil || after.Err != nil || r.phase(4) != model.Waiting {
				t.Errorf("the bomb: %+v; after: %+v", bomb, after)
			}
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := failures(t, m)
	if len(got) != 1 || got[0].VC != "a" || got[0].Policy != "las" || len(got[0].Stack) != 16 {
		t.Fatalf("failures: %+v", got)
	}
	sound(t, m, r.options.Policies, r.engine.Replica())

	r.world.Reopen(true)
	if err := r.run(
		func() { r.give(model.Stop{Job: 1}, nil) },
		r.pass(model.Minute),
		func() {
			if second, other := r.phase(2), r.phase(3); second != model.Active || other != model.Active {
				t.Errorf("the second job is %s, that of b %s", second, other)
			}
			r.state(func(s *core.State) {
				if v := s.VCs()[0]; v.Policy != "fifo" || v.Failed == nil || *v.Failed != got[0] {
					t.Errorf("VC a: %+v", v)
				}
			})
			r.give(model.Stop{Job: 4}, nil)
			r.give(model.Reconfigure{Config: c}, nil)
		},
		r.pass(model.Minute),
		func() {
			r.state(func(s *core.State) {
				if v := s.VCs()[0]; v.Policy != "las" || v.Failed != nil {
					t.Errorf("VC a: %+v", v)
				}
			})
		},
	); err != nil {
		t.Fatal(err)
	}
	if n := len(failures(t, m)); n != 1 {
		t.Errorf("%d failures", n)
	}
	sound(t, m, r.options.Policies, r.engine.Replica())
}

// TestPolicyFailsAtStart: a policy that panics when the loop first asks it for its next change,
// as that of another version may, is replaced before anything is taken in.
func TestPolicyFailsAtStart(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	c := config(3)
	c.VCs[0].Policy = "las"
	r.give(model.Reconfigure{Config: c}, nil)
	r.options.Policies = flawed("nowhere")
	if err := r.run(
		func() { r.give(submit(job("first", "a", 2, 0)), nil) },
		func() { r.give(submit(bombJob("a")), nil) },
	); err != nil {
		t.Fatal(err)
	}
	r.options.Policies = flawed("NextChange")
	r.world.Reopen(true)
	if err := r.run(func() { r.give(model.Stop{Job: 1}, nil) }, r.pass(model.Minute), func() {
		if p := r.phase(2); p != model.Active {
			t.Errorf("the bomb is %s", p)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n := len(failures(t, m)); n != 1 {
		t.Errorf("%d failures", n)
	}
	sound(t, m, flawed("nowhere"), r.engine.Replica())
}

// without are the policies of a program in which some cannot be made: it panics over them, or
// does not know them.
func without(panics bool, names ...string) model.Policies {
	return func(c model.VCConfig) (model.Policy, error) {
		if !slices.Contains(names, c.Policy) {
			return policy.New(c)
		}
		if panics {
			panic("no " + c.Policy)
		}
		return nil, fmt.Errorf("there is no policy %s", c.Policy)
	}
}

// TestPolicyUnmadeAtStart: a program that cannot make the policy of a VC opens the journal of one
// that could, serves the VC by fifo and says so, before anything is decided and over a restart;
// the first program goes on from there. Nobody's work ends.
func TestPolicyUnmadeAtStart(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprint("panics: ", panics), func(t *testing.T) { policyUnmade(t, panics) })
	}
}

// serves checks which policy serves the first VC, and what is said where that is not its own.
func serves(t *testing.T, s *core.State, policy string, words ...string) {
	t.Helper()
	v := s.VCs()[0]
	if v.Policy != policy || (v.Failed != nil) != (len(words) > 0) || len(s.FailedToMake()) > 0 {
		t.Errorf("VC a: %+v, failed %+v, unmade %v", v.Policy, v.Failed, s.FailedToMake())
	}
	for _, word := range words {
		if v.Failed == nil || !strings.Contains(v.Failed.Words(), word) {
			t.Errorf("VC a does not say %q: %+v", word, v.Failed)
		}
	}
}

func policyUnmade(t *testing.T, panics bool) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	c := config(3)
	c.VCs[0].Policy = "las"
	r.give(model.Reconfigure{Config: c}, nil)
	if err := r.run(
		func() { r.give(submit(job("first", "a", 2, 0)), nil) },
		func() { r.give(submit(job("second", "a", 2, 0)), nil) },
	); err != nil {
		t.Fatal(err)
	}
	says := func(policy string, words ...string) func() {
		return func() { r.state(func(s *core.State) { serves(t, s, policy, words...) }) }
	}
	r.options.Policies = without(panics, "las")
	for range 2 {
		r.world.Reopen(true)
		if err := r.run(func() { r.give(submit(job("more", "b", 1, 0)), nil) },
			says("fifo", "the policy las of virtual cluster a cannot be made by this version", "no", "fifo without parameters serves it")); err != nil {
			t.Fatal(err)
		}
	}
	if got := failures(t, m); len(got) != 1 || got[0].VC != "a" || got[0].Policy != "las" || got[0].Why == "" {
		t.Errorf("failures: %+v", got)
	}
	report, err := engine.Verify(ctx, m, r.options.Policies)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Message, "cannot be made by this version") {
		t.Errorf("journal verify without the policy: %+v, %v", report, err)
	}
	r.options.Policies = policy.New
	r.world.Reopen(true)
	if err := r.run(says("fifo", "cannot be made"),
		func() { r.give(model.Reconfigure{Config: c}, nil) }, says("las"),
		func() { r.give(model.Stop{Job: 1}, nil) }, r.pass(model.Minute),
		func() {
			if p := r.phase(2); p != model.Active {
				t.Errorf("the second job is %s", p)
			}
		}); err != nil {
		t.Fatal(err)
	}
	sound(t, m, policy.New, r.engine.Replica())
}

// grudge is a policy that breaks the decision on a job of a certain name when it is over,
// and blames the job.
type grudge struct{ model.Policy }

func (g grudge) Learn(_ []byte, v *model.GangView) []byte {
	if v.Hints.Model == "bomb" {
		panic(brokenOn{v.Ref.Job})
	}
	return nil
}

// TestQuarantineAgain: a job that is set aside and breaks the decision again is left to end,
// and all others go on.
func TestQuarantineAgain(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	r.options.Policies = func(c model.VCConfig) (model.Policy, error) {
		p, err := policy.New(c)
		return grudge{p}, err
	}
	if err := r.run(
		func() { r.give(submit(bombJob("a")), nil) },
		func() {
			r.give(submit(job("next", "a", 2, 0)), nil)
			r.give(model.Stop{Job: 1}, nil)
		},
		r.pass(model.Minute),
		func() {
			if p, next := r.phase(1), r.phase(2); p != "" || next != model.Active {
				t.Errorf("the bomb is %q, the next job %q", p, next)
			}
		},
	); err != nil {
		t.Fatal(err)
	}
	var times []int32
	if err := m.Replay(ctx, 0, func(rec model.Record) error {
		if q, ok := rec.Event.(model.Quarantined); ok {
			times = append(times, q.Times)
		}
		return nil
	}); err != nil || fmt.Sprint(times) != "[0 2]" {
		t.Errorf("set aside %v, %v", times, err)
	}
	sound(t, m, r.options.Policies, r.engine.Replica())
}

// TestConfiguredPolicyFails: a policy that panics as soon as a configuration brings it is replaced
// with that configuration in force, also where it failed before; no input of the round is lost.
func TestConfiguredPolicyFails(t *testing.T) {
	for _, at := range []string{"Rank", "Key", "NextChange"} {
		t.Run(at, func(t *testing.T) { configuredPolicyFails(t, at) })
	}
}

func configuredPolicyFails(t *testing.T, at string) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	r.options.Policies = flawed(at)
	c := config(3)
	c.VCs[0].Policy = "las"
	replies := make([]engine.Reply, 4)
	served := func() {
		r.state(func(s *core.State) {
			if v := s.VCs()[0]; v.Policy != "fifo" || v.Failed == nil || v.Failed.Policy != "las" || s.Config().VCs[0].Policy != "las" {
				t.Errorf("VC a: %+v", v)
			}
		})
	}
	if err := r.run(
		func() { r.give(submit(job("first", "a", 2, model.Hour)), nil) },
		func() { r.give(submit(bombJob("a")), nil) },
		func() {
			r.give(submit(job("before", "a", 1, 0)), &replies[0])
			r.give(model.Reconfigure{Config: c}, &replies[1])
			r.give(submit(job("behind", "b", 1, 0)), &replies[2])
		},
		served,
		func() { r.give(model.Reconfigure{Config: c}, &replies[3]) },
		served,
	); err != nil {
		t.Fatal(err)
	}
	for i, reply := range replies {
		if reply.Err != nil || reply.Refusal != nil || reply.Seq == 0 {
			t.Errorf("reply %d: %+v", i, reply)
		}
	}
	if p := r.phase(4); p != model.Active {
		t.Errorf("the job of b is %s", p)
	}
	if n := len(failures(t, m)); n != 2 {
		t.Errorf("%d failures", n)
	}
	sound(t, m, r.options.Policies, r.engine.Replica())
}

// TestPolicyUnmadeIsMended: the configuration that a server is started with gives the VC the same
// policy with parameters that it knows. It comes with the first round, and is in force.
func TestPolicyUnmadeIsMended(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	c := config(3)
	c.VCs[0].Policy, c.VCs[0].Params = "las", []model.Param{{Key: "limits", Value: "100/1000"}}
	r.give(model.Reconfigure{Config: c}, nil)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	r.options.Policies = func(c model.VCConfig) (model.Policy, error) {
		if len(c.Params) > 0 {
			return nil, fmt.Errorf("there is no parameter %s", c.Params[0].Key)
		}
		return policy.New(c)
	}
	r.world.Reopen(true)
	mended := config(3)
	mended.VCs[0].Policy = "las"
	r.give(model.Reconfigure{Config: mended}, nil)
	if err := r.run(func() { r.state(func(s *core.State) { serves(t, s, "las") }) }); err != nil {
		t.Fatal(err)
	}
	if got := failures(t, m); len(got) != 1 {
		t.Errorf("failures: %+v", got)
	}
	sound(t, m, policy.New, r.engine.Replica())
}
