package script_test

import (
	"fmt"
	"strings"
)

// floor is a random cluster in the short form.
type floor struct {
	chains []floorChain
	vcs    []string
	quota  map[string][]string // by VC: chain=cells
	pins   []string            // lines
	pinned map[string]string   // VC by pin
	policy map[string]string
}

type floorChain struct {
	name, prefix                    string
	nodes, gpus, perSwitch, perRack int
}

// newFloor makes one or two chains and shares them out among the VCs.
func newFloor(g *generator) *floor {
	f := &floor{quota: map[string][]string{}, pinned: map[string]string{}, policy: map[string]string{}}
	f.vcs = []string{"a", "b", "c"}[:1+g.IntN(3)]
	for _, v := range f.vcs {
		f.policy[v] = g.pick("fifo", "fifo:preempt", "drf")
		if g.chance(30) {
			f.policy[v] += " minRun=" + g.pick("10s", "2m") + " budget=" + g.pick("0", "1", "2")
		}
		if g.chance(40) {
			f.policy[v] += " backfill=" + g.pick("easy", "conservative")
		}
	}
	for _, name := range []string{"x", "y"}[:1+g.IntN(2)] {
		f.addChain(g, name)
	}
	return f
}

func (f *floor) addChain(g *generator, name string) {
	c := floorChain{name: name, prefix: name, nodes: 1 + g.IntN(5), gpus: []int{1, 2, 4, 8}[g.IntN(4)]}
	if c.gpus >= 4 && g.chance(60) {
		c.perSwitch = 2
	}
	if c.nodes%2 == 0 && g.chance(50) {
		c.perRack = 2
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
			f.quota[v] = append(f.quota[v], fmt.Sprintf("%s=%s", name, f.cells(g, c, n)))
		}
	}
}

// cells asks for n nodes in one of the ways that give the same leaves.
func (f *floor) cells(g *generator, c floorChain, n int) string {
	switch {
	case c.perRack > 0 && n >= c.perRack && n%c.perRack == 0 && g.chance(50):
		return fmt.Sprintf("%dxrack", n/c.perRack)
	case c.perSwitch > 0 && g.chance(40):
		return fmt.Sprintf("%dxswitch", n*c.gpus/c.perSwitch)
	case g.chance(20):
		return fmt.Sprintf("%dxgpu", n*c.gpus)
	}
	return fmt.Sprint(n)
}

// change gives another configuration: some valid, some not.
func (f *floor) change(g *generator) *floor {
	n := &floor{chains: append([]floorChain{}, f.chains...), vcs: append([]string{}, f.vcs...),
		quota: map[string][]string{}, pins: f.pins, pinned: f.pinned, policy: f.policy}
	for v, q := range f.quota {
		n.quota[v] = append([]string{}, q...)
	}
	c := &n.chains[g.IntN(len(n.chains))]
	step := max(1, c.perRack)
	switch g.IntN(5) {
	case 0:
		c.nodes += step
	case 1:
		if c.nodes > step {
			c.nodes -= step
		}
	case 2:
		delete(n.quota, g.pick(n.vcs...)) // keeps only its pinned cells
	case 3:
		v := g.pick(n.vcs...)
		if q := n.quota[v]; len(q) > 0 {
			n.quota[v] = q[1:]
		}
	case 4:
		n.quota[g.pick(n.vcs...)] = []string{fmt.Sprintf("%s=%d", c.name, 1+g.IntN(c.nodes+2))}
	}
	return n
}

// text is the block of a cluster command.
func (f *floor) text() string {
	var b strings.Builder
	for _, c := range f.chains {
		fmt.Fprintf(&b, "chain %s nodes=%d gpus=%d prefix=%s", c.name, c.nodes, c.gpus, c.prefix)
		if c.perSwitch > 0 {
			fmt.Fprintf(&b, " switch=%d", c.perSwitch)
		}
		if c.perRack > 0 {
			fmt.Fprintf(&b, " racks=%d", c.nodes/c.perRack)
		}
		b.WriteString("\n")
	}
	for _, p := range f.pins {
		b.WriteString(p + "\n")
	}
	for _, v := range f.vcs {
		fmt.Fprintf(&b, "vc %s policy=%s", v, f.policy[v])
		for _, q := range f.quota[v] {
			b.WriteString(" " + q)
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
func (f *floor) chainOf(g *generator, vc string) floorChain {
	c := f.chains[g.IntN(len(f.chains))]
	if q := f.quota[vc]; len(q) > 0 && g.chance(85) {
		name, _, _ := strings.Cut(q[g.IntN(len(q))], "=")
		for _, own := range f.chains {
			if own.name == name {
				c = own
			}
		}
	}
	return c
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
		n += c.nodes * c.gpus
	}
	return n
}
