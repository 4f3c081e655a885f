package hunt

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/combsched/comb/internal/core/policy"
)

// Sizes are the numbers of nodes of random cases.
func Sizes() []int { return []int{30, 120, 1000, 4096} }

// Random is a mixed workload, the same for the same seed: policies, quotas at several levels, gangs
// of all kinds and sizes, priorities, bookings, faults and other configurations.
func Random(seed uint64, nodes int) Case {
	g := generator{Rand: rand.New(rand.NewPCG(seed, uint64(nodes))), nodes: nodes}
	g.Name = fmt.Sprintf("random %d/%d", seed, nodes)
	g.cluster("cluster")
	for range 40 + g.IntN(60) {
		g.line()
	}
	return g.Case
}

type generator struct {
	*rand.Rand
	Case
	nodes, jobs int
	layout      string // of the nodes
}

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// cluster divides the nodes among two VCs, in cells of several levels.
func (g *generator) cluster(command string) {
	if g.layout == "" {
		perRack := []int{2, 5, 8}[g.IntN(3)]
		if g.nodes%perRack != 0 {
			perRack = 2
		}
		g.layout = fmt.Sprintf("nodes=%d gpus=8 switch=4 racks=%d", g.nodes, g.nodes/perRack)
	}
	// Each VC owns a third at most, in parts: whole racks, nodes, switches, and single GPUs.
	third := g.nodes * 8 / 3
	quota := func() string {
		var parts []string
		left := third
		perRack := 8 * 8
		if n := left / 4 / perRack; n > 0 && g.IntN(2) == 0 {
			parts, left = append(parts, fmt.Sprintf("%dxrack", n)), left-n*perRack
		}
		if n := left / 2 / 8; n > 0 && g.IntN(2) == 0 {
			parts, left = append(parts, fmt.Sprint(n)), left-n*8
		}
		if n := left / 2 / 4; n > 0 && g.IntN(3) == 0 {
			parts, left = append(parts, fmt.Sprintf("%dxswitch", n)), left-n*4
		}
		if left > 0 {
			parts = append(parts, fmt.Sprintf("%dxgpu", left))
		}
		return strings.Join(parts, "+")
	}
	c := fmt.Sprintf("%s %s vcs=a:%s,b:%s policy=a:%s,b:%s", command, g.layout, quota(), quota(), g.pick(policy.Names()...), g.pick(policy.Names()...))
	switch g.IntN(4) {
	case 0:
		c += " backfill=" + g.pick("easy", "conservative")
	case 1:
		c += " defragmentation=20"
	}
	if g.IntN(5) == 0 {
		c += " placement=spread"
	}
	g.add("%s", c)
}

func (g *generator) line() {
	switch n := g.IntN(100); {
	case n < 70:
		g.submit()
	case n < 82:
		g.add("wait %s", g.pick("10s", "1m", "5m", "1h"))
	case n < 88 && g.jobs > 0:
		g.add("stop j%d", g.IntN(g.jobs))
	case n < 92:
		g.add("node n%d %s", 1+g.IntN(g.nodes), g.pick("down", "up", "cordon", "uncordon"))
	case n < 95:
		g.add("leaf n%d:%d %s", 1+g.IntN(g.nodes), g.IntN(8), g.pick("bad", "good"))
	case n < 96:
		g.cluster("reconfigure")
	case n < 97:
		g.add("heal")
	default:
		g.submit()
	}
}

// submit submits a job of any size, as often small as large.
func (g *generator) submit() {
	tasks := 1
	for most := g.nodes; tasks < most && g.IntN(4) > 0; {
		tasks *= 2
	}
	tasks = 1 + g.IntN(tasks)
	role := fmt.Sprintf("worker=%dx%d", tasks, 1+g.IntN(8))
	if g.IntN(8) == 0 {
		role = fmt.Sprintf("worker=1..%dx%d size=%d", tasks, 1+g.IntN(4), tasks)
	}
	if g.IntN(6) == 0 {
		role += fmt.Sprintf(" ps=%dx%d", 1+g.IntN(3), 1+g.IntN(3))
	}
	c := fmt.Sprintf("submit j%d vc=%s prio=%s duration=%dm %s", g.jobs, g.pick("a", "a", "b"), g.pick("oppo", "test", "test", "prod", "3", "7", "20", "55", "300"), 1+g.IntN(120), role)
	if g.IntN(3) == 0 {
		c += " checkpoint"
	}
	if g.IntN(4) == 0 {
		c += " lazy"
	}
	if g.IntN(4) == 0 {
		c += fmt.Sprintf(" limit=%dm", 1+g.IntN(200))
	}
	if g.IntN(6) == 0 {
		c += fmt.Sprintf(" deadline=%dm", 10+g.IntN(500))
	}
	g.jobs++
	g.add("%s", c)
}
