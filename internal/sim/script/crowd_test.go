package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// kindOfRun is what a random run is for.
type kindOfRun uint8

const (
	plain   kindOfRun = iota // everything, everywhere
	shared                   // everybody shares
	crowd                    // many of one priority in one VC, each policy in its turn
	calm                     // the same under chronus, and nothing goes wrong
	moving                   // gangs move for others in every VC
	trials                   // experiments under hypersched
	mixed                    // a crowd under chronus on GPUs of several types
	divided                  // devices are called and divided otherwise all the time
)

// Every policy in its turn orders a crowd of one priority in one VC, with faults and other
// configurations: what it does within a priority is met often enough to be judged.
func TestCrowdedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit*2/3)
	found := newFailures(crowd, seeds.Unit*2/3)
	found.tryAll(t, from, to)
	if !t.Failed() && seeds.Modest() {
		found.met.judge(t)
	}
}

// Where nothing goes wrong, jobs are as long as they say and checkpoints lose nothing,
// chronus keeps every promise: who was guaranteed ends before the last of its deadlines.
func TestPromisedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/5)
	found := newFailures(calm, seeds.Unit/5)
	found.tryAll(t, from, to)
	if !t.Failed() && seeds.Modest() && found.met.kept < 50 {
		t.Errorf("%d jobs ended by a guaranteed deadline", found.met.kept)
	}
}

// crowdedFloor is one chain that VC a owns, but for what it leaves to b.
func crowdedFloor(g *generator) *floor {
	f := &floor{quota: map[string][]share{}, pinned: map[string]string{}, policy: map[string]string{}, vcs: []string{"a", "b"}, half: halfLife(g)}
	c := floorChain{name: "x", prefix: "x", nodes: 1 + g.IntN(4), gpus: []int{2, 4, 8}[g.IntN(3)]}
	if c.gpus > 2 && g.chance(50) {
		c.perSwitch = 2
	}
	if g.chance(60) {
		c.memory = 16_000
	}
	f.chains = []floorChain{c}
	f.quota["a"] = []share{cells(g, &c, max(c.nodes-1, 1))}
	f.fragment(g)
	if g.kind == mixed || g.kind == calm && g.chance(50) {
		f.addTypes(g)
	}
	if c.nodes > 1 && g.chance(70) {
		f.quota["b"] = []share{cells(g, &c, 1)}
	}
	if g.kind == trials {
		f.policy["a"], f.policy["b"] = withLimits(g, searching(g)), randomPolicy(g)
		return f
	}
	if g.kind == mixed {
		f.policy["a"] = g.pick(slices.DeleteFunc(floorPolicies(), func(p string) bool { return !strings.HasPrefix(p, "chronus") })...)
		f.policy["a"], f.policy["b"] = withLimits(g, f.policy["a"]), randomPolicy(g)
		return f
	}
	if g.kind == crowd {
		all := policy.Names()
		name := all[g.seed%uint64(len(all))]
		variants := slices.DeleteFunc(floorPolicies(), func(p string) bool {
			of, _, _ := strings.Cut(p, ":")
			return of != name
		})
		f.policy["a"], f.policy["b"] = withLimits(g, g.pick(variants...)), randomPolicy(g)
		if g.seed/uint64(len(all))%3 == 1 { // in each third turn nothing keeps it from letting some leave
			f.policy["a"] = g.pick(slices.DeleteFunc(variants, func(p string) bool { return !preempts(p) })...)
		} else if name == "philly" && g.chance(50) {
			f.policy["a"] = g.pick(slices.DeleteFunc(variants, func(p string) bool { return !strings.Contains(p, "early=stop") })...)
		}
		return f
	}
	for _, vc := range f.vcs {
		f.policy[vc] = g.pick(promising()...) + " budget=1000000"
		if g.chance(20) {
			f.policy[vc] += " backfill=" + g.pick("easy", "conservative")
		} else if g.chance(30) {
			f.policy[vc] += " defragmentation=20"
		}
		if g.chance(20) {
			f.policy[vc] += " placement=spread"
		}
	}
	return f
}

// fragment gives VC a in some calm runs cells of two sizes, or a pinned node.
func (f *floor) fragment(g *generator) {
	c, quota := &f.chains[0], &f.quota["a"][0]
	if g.kind != calm || c.nodes < 3 || quota.level != "node" || !g.chance(40) {
		return
	}
	quota.cells--
	if g.chance(40) {
		f.pins = append(f.pins, fmt.Sprintf("pin p1 node=%s1 chain=%s", c.prefix, c.name))
		f.pinned["p1"] = "a"
		return
	}
	small := c.levels()[len(c.levels())-1]
	f.quota["a"] = append(f.quota["a"], share{c.name, c.leaves() / small.leaves, small.name})
}

// addTypes gives VC a nodes of one or two more types, as large as the others.
func (f *floor) addTypes(g *generator) {
	for _, name := range []string{"y", "z"}[:1+g.IntN(2)*g.IntN(2)] {
		c := f.chains[0]
		c.name, c.prefix, c.nodes = name, name, 1+g.IntN(3)
		f.chains = append(f.chains, c)
		f.quota["a"] = append(f.quota["a"], cells(g, &c, c.nodes))
	}
}

// preempts reports whether a policy with parameters may let some leave within a priority,
// as far as its parameters say.
func preempts(p string) bool {
	switch of, _, _ := strings.Cut(p, ":"); of {
	case "capacity", "fifo":
		return strings.Contains(p, "preempt")
	}
	return !strings.Contains(p, "preempt=no")
}

// promising are the parameters of chronus without its profiler. What a start costs there
// is what it may take here: two seconds, and one until somebody has left.
func promising() []string {
	var out []string
	for _, p := range floorPolicies() {
		if strings.HasPrefix(p, "chronus:") && !strings.Contains(p, "profiler") {
			out = append(out, quick.ReplaceAllString(p, "restart=10"))
		}
	}
	return out
}

var quick = regexp.MustCompile(`restart=[0-2]\b`)

// oneOfMany is a job like many others: a small gang, mostly of one VC and priority.
func (g *generator) oneOfMany(name, vc string) string {
	prio, tasks, leaves := g.pick("prod", "test", "test", "test"), 1, 1+g.IntN(2)*g.IntN(2)
	run, grace := g.runTime(), g.IntN(40)
	if (g.kind == crowd || g.kind == mixed) && !strings.Contains(run, "deadline") && g.chance(40) {
		run += fmt.Sprintf(" deadline=%ds", 1+g.IntN(600))
	}
	if g.kind == crowd || g.kind == calm || g.kind == mixed {
		node := g.plan.chains[0].gpus
		vc, prio = g.pick("a", "a", "a", "a", "b"), g.pick("test", "test", "test", "test", "test", "test", "test", "prod", "oppo", "oppo")
		leaves = 1 << g.IntN(4)
		if (g.kind == crowd || g.kind == mixed) && g.chance(20) {
			leaves = 1 + g.IntN(node)
		}
		if leaves > node {
			tasks, leaves = leaves/node, node
		}
		if g.kind == calm && g.chance(15) { // tasks that leave parts of nodes over
			tasks, leaves = 2+g.IntN(3), 1+g.IntN(node)
		} else if g.kind == calm && g.chance(20) { // or that need not stand together
			tasks, leaves = tasks*leaves, 1
		}
	}
	if g.kind == calm {
		duration := 1 + g.IntN(400)
		run, grace, prio = fmt.Sprintf("duration=%ds checkpoint", duration), 1, g.pick("test", "test", "test", "test", "oppo")
		if g.chance(60) {
			run += fmt.Sprintf(" deadline=%ds", duration+1+g.IntN(1200))
		}
	}
	text := fmt.Sprintf("submit %s vc=%s prio=%s %s grace=%ds key=k%d r0=%dx%d", name, vc, prio, run, grace, g.next, tasks, leaves)
	if g.kind == shared && g.chance(30) {
		text = strings.TrimSuffix(text, fmt.Sprintf("=%dx%d", tasks, leaves))
		usual := 1 + g.IntN(3)
		text += fmt.Sprintf("=1..%dx%d size=%d", usual+g.IntN(5), leaves, usual)
	}
	if len(g.plan.chains) > 1 && g.kind == mixed || g.kind == calm {
		text = g.somewhere(text, tasks, leaves)
	}
	if g.kind == calm && g.chance(10) {
		text += fmt.Sprintf(" r1=%dx%d", 1+g.IntN(2), 1+g.IntN(leaves))
	}
	if g.kind == calm && len(g.plan.pins) > 0 && g.chance(25) {
		text += " pinned=p1"
	}
	return text
}

// somewhere lets a job use some types only, or have several sizes.
func (g *generator) somewhere(text string, tasks, leaves int) string {
	if g.chance(30) {
		text = strings.TrimSuffix(text, fmt.Sprintf("=%dx%d", tasks, leaves))
		text += fmt.Sprintf("=%d..%dx%d", tasks, tasks+1+g.IntN(3), leaves)
	}
	if len(g.plan.chains) > 1 && g.chance(30) {
		text += "@" + g.pick("x", "y", "x|y")
	}
	return text
}

// whoRuns picks a job that is active, where there is one.
func (g *generator) whoRuns(otherwise string) string {
	var active []string
	for _, j := range g.sc.check.state.Jobs() {
		if j.Phase == model.Active {
			active = append(active, string(j.Name))
		}
	}
	if len(active) == 0 {
		return otherwise
	}
	return g.pick(active...)
}
