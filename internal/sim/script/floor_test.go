package script_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/policy"
)

// floor is a random cluster in the short form.
type floor struct {
	chains []floorChain
	vcs    []string           // parents before their children
	quota  map[string][]share // by VC
	pins   []string           // lines
	pinned map[string]string  // VC by pin
	policy map[string]string
	away   *floorChain // it was there and comes back
	half   string      // how fast it is forgotten what VCs borrowed
}

// floorChain is a chain; parts is 0 where leaves are whole devices.
type floorChain struct {
	name, prefix                                   string
	nodes, gpus, parts, perSwitch, perRack, memory int
	missing                                        int // a node that is not in its rack, 0 for none
}

// lacks is how many nodes are not in their racks.
func (c *floorChain) lacks() int {
	if c.perRack > 0 && 0 < c.missing && c.missing <= c.nodes {
		return 1
	}
	return 0
}

// share is a part of a VC's quota: so many cells of a chain's level.
type share struct {
	chain string
	cells int
	level string // rack, node, switch, gpu or part
}

func (s share) text() string {
	if s.level == "node" {
		return fmt.Sprintf("%s=%d", s.chain, s.cells)
	}
	return fmt.Sprintf("%s=%dx%s", s.chain, s.cells, s.level)
}

// level is a level of a chain, with how many leaves a cell of it has.
type level struct {
	name   string
	leaves int
}

// levels lists a chain's levels from the top.
func (c *floorChain) levels() []level {
	each := max(1, c.parts)
	var out []level
	if c.perRack > 0 {
		out = append(out, level{"rack", c.perRack * c.leaves()})
	}
	out = append(out, level{"node", c.leaves()})
	if c.perSwitch > 0 {
		out = append(out, level{"switch", c.perSwitch * each})
	}
	out = append(out, level{"gpu", each})
	if c.parts > 0 {
		out = append(out, level{"part", 1})
	}
	return out
}

// leaves is how many leaves a node has.
func (c *floorChain) leaves() int { return c.gpus * max(1, c.parts) }

// newFloor makes one or two chains and shares them out among the VCs, of which
// some share theirs among children.
func newFloor(g *generator) *floor {
	switch g.kind {
	case crowd, calm, trials, mixed:
		return crowdedFloor(g)
	case divided:
		return dividedFloor(g)
	}
	f := &floor{quota: map[string][]share{}, pinned: map[string]string{}, policy: map[string]string{}}
	f.vcs = []string{"a", "b", "c"}[:1+g.IntN(3)]
	for _, name := range []string{"x", "y"}[:1+g.IntN(2)] {
		f.addChain(g, name)
	}
	for _, v := range slices.Clone(f.vcs) {
		if g.chance(30) {
			f.addChildren(g, v)
		}
	}
	for _, v := range f.vcs {
		f.policy[v] = randomPolicy(g)
	}
	f.half = halfLife(g)
	return f
}

// halfLife is mostly none.
func halfLife(g *generator) string {
	if !g.chance(40) {
		return ""
	}
	return g.pick("5s", "3m", "1h", "2d")
}

// floorPolicies are what VCs choose from, every policy there is by its name alone, too; jobs
// name queues p.q, p.r and d, apps, and models.
func floorPolicies() []string {
	const queues = "queues=p:60:80/p.q:70/p.r:30:50/d:40"
	return append(policy.Names(), []string{"fifo:preempt", "fifo:preempt", "drf:by=team,weights=d:3/q:2",
		"capacity:" + queues, "capacity:minimumUserLimit=25,preempt,userLimitFactor=1.5,wait=5," + queues,
		"capacity:interval=60,preempt,round=0.5,userLimitFactor=100," + queues,
		"edf:preempt=no", "fifo:preempt,quantum=0", "srtf:quantum=5", "srsf:quantum=0", "edf:quantum=10", "genie:quantum=0", "las:limits=60/600/3000", "las:order=submission,limits=30/300", "las:limits=30/300,quantum=0", "gittins:delta=60,quantum=7,limits=100/1000", "gittins:learn,delta=60,limits=100/1000",
		"las:limits=30/600,promote=1.5,skewed=m", "gittins:limits=30/600,promote=0.5", "gittins:learn,limits=60,promote=3,skewed=m/n",
		"tetris:by=team,fairness=0.5,work=0", "offers:by=app,refuse=60", "offers:hoard",
		"gandiva:quantum=10,window=20,settle=1", "gandiva:quantum=7,sharers=2,pack=no,moves=100,settle=1", "gandiva:quantum=10,window=5,settle=5,free=0.25,moves=50,grow=0", "gandiva:grow=10", "gandiva:grow=40,sharers=1", "gandiva:grow=never",
		"themis:auction=off,lease=60", "themis:f=0.5,lease=30,slow=m:2,seed=7", "themis:round=0,lease=90",
		"philly:switch=30,node=60,rack=never,early=stop,patience=1", "philly:node=never,permanent=1/2,small=4",
		"philly:early=stop,patience=2,epsilon=0.01,node=0,rack=0", "philly:early=stop,patience=1,epsilon=0.3", "philly:early=warn,patience=1",
		"philly:probe=1,probeTime=60", "philly:probe=2,probeFrom=3,probeTime=200,early=stop",
		"chronus:lease=60,slot=20", "chronus:lease=60,slot=10,restart=1,safety=0", "chronus:lease=120,slot=60,round=split,reward=use",
		"chronus:lease=90,slot=30,rules=published,reward=keep,restart=0", "chronus:lease=60,slot=20,profiler=1,profileTime=20", "chronus:lease=120,slot=30,profiler=2,restart=2"}...)
}

func randomPolicy(g *generator) string {
	policies := floorPolicies()
	if g.kind == shared {
		policies = slices.DeleteFunc(policies, func(p string) bool { return !strings.HasPrefix(p, "gandiva") && p != "fifo:preempt" })
	}
	return withLimits(g, g.pick(policies...))
}

// withLimits adds what a VC has beside its policy.
func withLimits(g *generator, policy string) string {
	if g.kind == moving {
		return policy + " defragmentation=20 minRun=" + g.pick("1s", "10s", "1m")
	}
	if g.chance(30) {
		policy += " minRun=" + g.pick("10s", "2m") + " budget=" + g.pick("0", "1", "2")
	}
	if g.chance(40) && g.kind != shared || *booked {
		policy += " backfill=" + g.pick("easy", "conservative")
	} else if g.chance(50) {
		policy += " defragmentation=" + g.pick("1", "3", "20")
	}
	if g.chance(30) {
		policy += " placement=spread"
	}
	if g.chance(20) {
		policy += " weight=" + g.pick("2", "7")
	}
	return policy
}

func (f *floor) addChain(g *generator, name string) {
	c := floorChain{name: name, prefix: name, nodes: 1 + g.IntN(5), gpus: []int{1, 2, 4, 8}[g.IntN(4)]}
	if c.gpus >= 4 && g.chance(60) {
		c.perSwitch = 2
	}
	if c.nodes%2 == 0 && g.chance(50) {
		c.perRack = 2
	}
	if c.gpus <= 4 && g.chance(40) {
		c.parts = 1 + g.IntN(4)
	}
	if g.chance(60) {
		c.memory = 16_000
	}
	f.chains = append(f.chains, c)
	left := c.nodes
	// A node that is pinned is taken off, and its whole rack with it, so that
	// the rest of the quota is sure to be feasible.
	if left > 2 && g.chance(30) {
		pin := "p" + fmt.Sprint(len(f.chains))
		f.pins = append(f.pins, fmt.Sprintf("pin %s node=%s1 chain=%s", pin, c.prefix, name))
		f.pinned[pin] = g.pick(f.vcs...)
		left -= max(1, c.perRack)
	}
	for _, v := range f.vcs {
		n := g.IntN(left + 1)
		left -= n
		if n > 0 {
			f.quota[v] = append(f.quota[v], cells(g, &c, n))
		}
	}
}

// cells asks for n nodes in one of the ways that give the same leaves.
func cells(g *generator, c *floorChain, n int) share {
	switch {
	case c.perRack > 0 && n >= c.perRack && n%c.perRack == 0 && g.chance(50):
		return share{c.name, n / c.perRack, "rack"}
	case c.perSwitch > 0 && g.chance(40):
		return share{c.name, n * c.gpus / c.perSwitch, "switch"}
	case c.parts > 0 && g.chance(20):
		return share{c.name, n * c.leaves(), "part"}
	case g.chance(20):
		return share{c.name, n * c.gpus, "gpu"}
	}
	return share{c.name, n, "node"}
}

// addChildren gives one or two children some of a VC's cells, whole or divided
// further, and sometimes its pinned cell; they may have children in their turn.
func (f *floor) addChildren(g *generator, v string) {
	left := slices.Clone(f.quota[v])
	for _, name := range []string{".u", ".w"}[:1+g.IntN(2)] {
		child := v + name
		if slices.Contains(f.vcs, child) {
			continue
		}
		f.vcs = append(f.vcs, child)
		for i := range left {
			n := g.IntN(left[i].cells + 1)
			if n == 0 {
				continue
			}
			left[i].cells -= n
			own := left[i]
			own.cells = n
			f.quota[child] = append(f.quota[child], f.divide(g, own))
		}
		for _, pin := range []string{"p1", "p2"} {
			if f.pinned[pin] == v && g.chance(30) {
				f.pinned[pin] = child
			}
		}
		if strings.Count(child, ".") < 3 && g.chance(25) {
			f.addChildren(g, child)
		}
	}
}

// divide asks for a share's cells, or for some cells of a lower level that fit
// into them.
func (f *floor) divide(g *generator, s share) share {
	levels := f.chain(s.chain).levels()
	at := slices.IndexFunc(levels, func(l level) bool { return l.name == s.level })
	if at < 0 || at == len(levels)-1 || g.chance(50) {
		return s
	}
	to := levels[at+1+g.IntN(len(levels)-1-at)]
	n := s.cells * levels[at].leaves / to.leaves
	return share{s.chain, n - g.IntN(2)*g.IntN(n), to.name}
}

func (f *floor) chain(name string) *floorChain {
	for i := range f.chains {
		if f.chains[i].name == name {
			return &f.chains[i]
		}
	}
	return nil
}

// parent is the VC that a VC is part of, "" for none.
func parent(vc string) string {
	if at := strings.LastIndexByte(vc, '.'); at >= 0 {
		return vc[:at]
	}
	return ""
}

// change gives another configuration: some valid, some not.
func (f *floor) change(g *generator) *floor {
	if g.kind == divided {
		return f.changeDevices(g)
	}
	n := &floor{chains: slices.Clone(f.chains), vcs: slices.Clone(f.vcs), quota: map[string][]share{},
		pins: f.pins, pinned: maps.Clone(f.pinned), policy: maps.Clone(f.policy), half: f.half}
	for v, q := range f.quota {
		n.quota[v] = slices.Clone(q)
	}
	c := &n.chains[g.IntN(len(n.chains))]
	step := max(1, c.perRack)
	v := g.pick(n.vcs...)
	switch g.IntN(10) {
	case 0:
		c.nodes, c.missing = c.nodes+step, 0
	case 1:
		if c.perRack > 0 && g.chance(60) {
			c.missing = 2 + g.IntN(c.nodes-1) // the first may be pinned
		} else if c.nodes > step {
			c.nodes -= step
		}
	case 2:
		delete(n.quota, v) // keeps only its pinned cells
	case 3:
		if q := n.quota[v]; len(q) > 0 {
			n.quota[v] = q[1:]
		}
	case 4:
		n.quota[v] = []share{{c.name, 1 + g.IntN(c.nodes+2), "node"}}
	case 5:
		n.addChildren(g, v)
	case 6:
		n.without(v)
	case 7:
		n.policy[v] = randomPolicy(g)
	case 8: // other parts of the same devices, or none
		if c.gpus <= 4 {
			c.parts = g.IntN(5)
			n.wholeUnless(c)
		}
	case 9:
		n.half = halfLife(g)
	}
	for _, v := range n.vcs {
		if n.policy[v] == "" {
			n.policy[v] = randomPolicy(g)
		}
	}
	return n
}

// wholeUnless makes shares of parts into as many of devices, where a chain has no
// parts any more.
func (f *floor) wholeUnless(c *floorChain) {
	for _, q := range f.quota {
		for i := range q {
			if q[i].chain == c.name && q[i].level == "part" && c.parts == 0 {
				q[i].level = "gpu"
			}
		}
	}
}

// without removes a VC with all its children, unless no VC would be left.
func (f *floor) without(vc string) {
	stay := slices.DeleteFunc(slices.Clone(f.vcs), func(v string) bool { return v == vc || strings.HasPrefix(v, vc+".") })
	if len(stay) > 0 {
		f.vcs = stay
	}
}

// text is the block of a cluster command.
func (f *floor) text() string {
	var b strings.Builder
	for _, c := range f.chains {
		fmt.Fprintf(&b, "chain %s nodes=%d gpus=%d prefix=%s", c.name, c.nodes, c.gpus, c.prefix)
		if c.memory > 0 {
			fmt.Fprintf(&b, " gpuMemory=%d", c.memory)
		}
		if c.parts > 0 {
			fmt.Fprintf(&b, " parts=%d", c.parts)
		}
		if c.perSwitch > 0 {
			fmt.Fprintf(&b, " switch=%d", c.perSwitch)
		}
		if c.perRack > 0 {
			fmt.Fprintf(&b, " racks=%d", c.nodes/c.perRack)
		}
		if c.lacks() > 0 {
			fmt.Fprintf(&b, " missing=%s%d", c.prefix, c.missing)
		}
		b.WriteString("\n")
	}
	for _, p := range f.pins {
		b.WriteString(p + "\n")
	}
	for i, v := range f.vcs {
		fmt.Fprintf(&b, "vc %s policy=%s", v, f.policy[v])
		if i == 0 && len(f.vcs)%2 == 0 { // what sizes are chosen by
			b.WriteString(" speeds=*:1:10,*:2:19,*:4:34")
			if len(f.chains) > 1 {
				b.WriteString(",*:1@y:25,*:2@y:47,*:4@y:80,*:1@z:12")
			}
		}
		if f.half != "" && i == 0 {
			b.WriteString(" halfLife=" + f.half)
		}
		if up := parent(v); up != "" {
			b.WriteString(" parent=" + up)
		}
		for _, q := range f.quota[v] {
			b.WriteString(" " + q.text())
		}
		for _, pin := range []string{"p1", "p2"} {
			if f.pinned[pin] == v {
				b.WriteString(" pinned=" + pin)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// chainOf picks a chain, mostly one that the VC owns cells of.
func (f *floor) chainOf(g *generator, vc string) *floorChain {
	if q := f.quota[vc]; len(q) > 0 && g.chance(85) {
		return f.chain(q[g.IntN(len(q))].chain)
	}
	return &f.chains[g.IntN(len(f.chains))]
}

func (f *floor) nodes() []string {
	var out []string
	for _, c := range f.chains {
		for i := range c.nodes {
			out = append(out, fmt.Sprintf("%s%d", c.prefix, i+1))
		}
	}
	return out
}

func (f *floor) leaves() int {
	n := 0
	for _, c := range f.chains {
		n += (c.nodes - c.lacks()) * c.leaves()
	}
	return n
}
