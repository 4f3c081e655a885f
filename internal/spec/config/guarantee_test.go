package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/test/seeds"
)

// TestGuaranteesAgreeWithCore compares, on random clusters, the arithmetic that
// finds over-commitment with the core, which lays the cells out and counts.
func TestGuaranteesAgreeWithCore(t *testing.T) {
	refused := 0
	for seed := range seeds.Of(t, 2000) {
		src := randomCluster(rand.New(rand.NewPCG(seed, 7)))
		root, problems := document.Parse("f", []byte(src), Limits())
		if len(problems) > 0 {
			t.Fatalf("seed %d: %v\n%s", seed, problems, src)
		}
		b := &builder{Reader: document.NewReader()}
		b.read(root)
		over := len(b.Problems()) > 0
		if over && !strings.Contains(b.Problems().Error(), " promised") {
			t.Fatalf("seed %d: %v\n%s", seed, b.Problems(), src)
		}
		c := b.config()
		if _, err := cell.New(&c.Cluster); (err != nil) != over {
			t.Fatalf("seed %d: here %v, the core %v\n%s", seed, b.Problems(), err, src)
		}
		if over {
			refused++
		}
	}
	if seeds.Modest() && (refused < 200 || refused > 1800) {
		t.Errorf("%d of 2000 clusters are refused: the test looks at one side only", refused)
	}
}

// randomCluster writes a chain of three levels with pinned cells and quotas that
// just fit or just do not.
func randomCluster(r *rand.Rand) string {
	gpus, nodes, racks := 1+r.IntN(4), 1+r.IntN(3), 1+r.IntN(3)
	var b strings.Builder
	if r.IntN(3) == 0 { // the leaves are parts of one device
		fmt.Fprintf(&b, "physicalCluster:\n  skuTypes: {P: {gpu: 1, part: mig}}\n  cellTypes:\n    G: {childCellType: P, childCellNumber: %d, isDeviceLevel: true}\n", 1+r.IntN(3))
	} else {
		b.WriteString("physicalCluster:\n  cellTypes:\n")
	}
	fmt.Fprintf(&b, "    N: {childCellType: G, childCellNumber: %d, isNodeLevel: true}\n", gpus)
	fmt.Fprintf(&b, "    R: {childCellType: N, childCellNumber: %d}\n  physicalCells:\n", nodes)
	var pins []string
	pin := func(one int) string {
		if r.IntN(one) > 0 {
			return ""
		}
		pins = append(pins, fmt.Sprintf("P%d", len(pins)))
		return ", pinnedCellId: " + pins[len(pins)-1]
	}
	for i := range racks {
		before := len(pins)
		fmt.Fprintf(&b, "  - {cellType: R%s, cellChildren: [", pin(6))
		whole := len(pins) > before
		there := nodes
		if !whole && r.IntN(6) == 0 {
			there = 1 + r.IntN(nodes) // others may be missing
		}
		for j := range there {
			before = len(pins)
			fmt.Fprintf(&b, "{cellAddress: n%d-%d", i, j)
			if !whole {
				b.WriteString(pin(5))
			}
			if !whole && len(pins) == before {
				b.WriteString(", cellChildren: [")
				for range gpus {
					b.WriteString("{" + strings.TrimPrefix(pin(8), ", ") + "}, ")
				}
				b.WriteString("]")
			}
			b.WriteString("}, ")
		}
		b.WriteString("]}\n")
	}
	b.WriteString("virtualClusters:\n")
	for v := range 2 {
		fmt.Fprintf(&b, "  v%d:\n    virtualCells:\n", v)
		fmt.Fprintf(&b, "    - {cellType: R, cellNumber: %d}\n", r.IntN(1+racks/2))
		fmt.Fprintf(&b, "    - {cellType: R.N, cellNumber: %d}\n", r.IntN(1+racks*nodes/2))
		fmt.Fprintf(&b, "    - {cellType: R.N.G, cellNumber: %d}\n    pinnedCells:\n", r.IntN(1+racks*nodes*gpus/2))
		for i, id := range pins {
			if i%3 == v { // every third is nobody's
				fmt.Fprintf(&b, "    - {pinnedCellId: %s}\n", id)
			}
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "    virtualClusters:\n")
			for child := range 1 + r.IntN(2) {
				fmt.Fprintf(&b, "      c%d: %s\n", child, randomChild(r, 1+r.IntN(2)))
			}
		}
	}
	return b.String()
}

// randomChild writes a virtual cluster inside another, with its own inside.
func randomChild(r *rand.Rand, depth int) string {
	text := fmt.Sprintf("{virtualCells: [{cellType: R, cellNumber: %d}, {cellType: R.N, cellNumber: %d}, {cellType: R.N.G, cellNumber: %d}]",
		r.IntN(6)/5, r.IntN(4)/3, r.IntN(3)/2)
	if depth > 1 {
		text += fmt.Sprintf(", virtualClusters: {d: %s}", randomChild(r, depth-1))
	}
	return text + "}"
}
