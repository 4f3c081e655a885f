package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMoreProblems makes the mistakes that nested virtual clusters, parts of
// devices, older names and the keys of virtual clusters allow.
func TestMoreProblems(t *testing.T) {
	div := "G: {childCellType: P, childCellNumber: 2, isDeviceLevel: true}\nN: {childCellType: G, childCellNumber: 2, isNodeLevel: true}"
	for name, tt := range map[string]struct{ src, want string }{
		"nested": {cluster(someTypes, someCells, "v:\n  virtualCells: [{cellType: R.N, cellNumber: 2}]\n  virtualClusters:\n    a: {virtualCells: [{cellType: R, cellNumber: 1}]}\n    b.c: {virtualCells: [{cellType: R.N, cellNumber: 1}, {cellType: R.N.G, cellNumber: 3}]}\n    d: {virtualClusters: {e: {virtualCells: [{cellType: R.N.G, cellNumber: 1}]}}}\nw.x: {virtualClusters: {y: {}}}\nv.a: {virtualCells: [{cellType: R.N, cellNumber: 1}]}"),
			"f:13:52: virtualClusters.v.virtualClusters.a.virtualCells[0].cellNumber: chain R, level 3 (R): 1 cell is promised inside v (v.a 1), but of its cells only 0 are left after the levels above; lower a cellNumber or give v more cells\n" +
				"f:14:7: virtualClusters.v.virtualClusters.\"b.c\": the virtual cluster \"b.c\" must not contain a dot: dots separate the names of nested virtual clusters\n" +
				"f:14:90: virtualClusters.v.virtualClusters.\"b.c\".virtualCells[1].cellNumber: chain R, level 1 (G): 3 cells are promised inside v (v.b.c 3), but of its cells only 2 are left after the levels above; lower a cellNumber or give v more cells\n" +
				"f:15:78: virtualClusters.v.virtualClusters.d.virtualClusters.e.virtualCells[0].cellNumber: chain R, level 1 (G): 1 cell is promised inside v.d (v.d.e 1), but of its cells only 0 are left after the levels above; lower a cellNumber or give v.d more cells\n" +
				"f:16:3: virtualClusters.\"w.x\": the virtual cluster \"w.x\" must not contain a dot: dots separate the names of nested virtual clusters\n" +
				"f:17:3: virtualClusters.\"v.a\": the virtual cluster at line 13 has the name \"v.a\" too; rename one of them\n" +
				"f:17:52: virtualClusters.\"v.a\".virtualCells[0].cellNumber: chain R, level 2 (N): 3 cells are promised (v 2, v.a 1), but only 2 are left after the levels above; lower a cellNumber or add cells"},
		"deep": {cluster(someTypes, someCells, "v: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {virtualClusters: {a: {}}}}}}}}}}}}}}}}}"),
			"f:10:179: virtualClusters.v.virtualClusters.a.virtualClusters.a.virtualClusters.a.virtualClusters.a.virtualClusters.a.virtualClusters.a.virtualClusters.a.virtualClusters.a: virtual clusters are nested too deep: at most 8 levels are allowed"},
		"defragmentation": {cluster(someTypes, someCells, "v: {defragmentation: {movesPerHour: -1}}\nw: {defragmentation: {movesPerHour: 2}, backfill: easy}\nx: {defragmentation: {moves: 2}}"),
			"f:10:39: virtualClusters.v.defragmentation.movesPerHour: \"-1\" is out of range: it must be 0 to 1000\n" +
				"f:11:24: virtualClusters.w.defragmentation: backfill and defragmentation do not go together: bookings rest on when jobs end, and a move puts that off; remove one of the two\n" +
				"f:12:24: virtualClusters.x.defragmentation: the defragmentation needs the key \"movesPerHour\"\n" +
				"f:12:25: virtualClusters.x.defragmentation.moves: unknown key in the defragmentation; known are movesPerHour"},
		"a wrong number hides nothing": {cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a, pinnedCellId: P}, {cellAddress: a, pinnedCellId: P}, {cellAddress: b}]", "v: {}"),
			"f:8:19: physicalCluster.physicalCells[0].cellChildren: 3 children are written here, but the type R has childCellNumber 2; write all of them or none, or define another type with 3\n" +
				"f:8:55: physicalCluster.physicalCells[0].cellChildren[1]: the node \"a\" is already in the chain R, at line 8; a machine can be in a chain only once\n" +
				"f:8:86: physicalCluster.physicalCells[0].cellChildren[1].pinnedCellId: the pinned cell \"P\" is already at line 8; each needs its own id"},
		"vc keys": {cluster(someTypes, someCells, "v: {backfill: eazy, minRunTime: 1y, preemptionBudget: -1}\nw: {backfill: [a], minRunTime: 40d, preemptionBudget: many}"),
			"f:10:17: virtualClusters.v.backfill: \"eazy\" is not one of none, easy, conservative; did you mean easy?\n" +
				"f:10:35: virtualClusters.v.minRunTime: expected a duration such as 90s, 2h30m or 1d12h, or a number of seconds\n" +
				"f:10:57: virtualClusters.v.preemptionBudget: \"-1\" is out of range: it must be 0 to 1000000\n" +
				"f:11:17: virtualClusters.w.backfill: expected a string, found a list\n" +
				"f:11:34: virtualClusters.w.minRunTime: the duration \"40d\" is out of range: it must be 0s to 30d\n" +
				"f:11:57: virtualClusters.w.preemptionBudget: expected an integer, found the text \"many\""},
		"formerly": {cluster(someTypes, "- cellType: R\n  formerly: r\n  cellChildren: [{cellAddress: a, formerly: x}, {cellAddress: b, formerly: x}]\n- cellType: R\n  cellChildren: [{cellAddress: c, formerly: b}, {cellAddress: d, formerly: d, cellChildren: [{formerly: e}, {}]}]", "v: {formerly: v}\nw: {formerly: v}\nx: {formerly: y}\nz: {formerly: y}\nq: {formerly: a b}"),
			"f:8:15: physicalCluster.physicalCells[0].formerly: only a node can have an older name; remove the key, or put it at the cell that is the machine\n" +
				"f:9:78: physicalCluster.physicalCells[0].cellChildren[1].formerly: the node \"a\" was \"x\" too, at line 9; a machine has one name\n" +
				"f:11:47: physicalCluster.physicalCells[1].cellChildren[0].formerly: the node \"b\" is still in this file; only one that is gone can have got another name\n" +
				"f:11:78: physicalCluster.physicalCells[1].cellChildren[1].formerly: this node is called \"d\" now; write its older name, or remove the key\n" +
				"f:11:107: physicalCluster.physicalCells[1].cellChildren[1].cellChildren[0].formerly: only a node can have an older name; remove the key, or put it at the cell that is the machine\n" +
				"f:13:17: virtualClusters.v.formerly: this virtual cluster is called \"v\" now; write its older name, or remove the key\n" +
				"f:14:17: virtualClusters.w.formerly: the virtual cluster \"v\" is still in this file, at line 13; only one that is gone can have got another name\n" +
				"f:16:17: virtualClusters.z.formerly: another virtual cluster was \"y\", at line 15; its jobs can go to one only\n" +
				"f:17:17: virtualClusters.q.formerly: \"a b\" is no good name for a virtual cluster: use at most 253 letters, digits, \"-\", \"_\" and \".\""},
		"an empty name is nobody's parent": {cluster(someTypes, someCells, "\"\": \nb: {virtualCells: [{cellType: R, cellNumber: 1}]}"),
			"f:10:3: virtualClusters: \"\" is no good name for a virtual cluster: use at most 253 letters, digits, \"-\", \"_\" and \".\""},
		"a key given twice hides nothing": {cluster(someTypes, "- {cellType: R, cellChildren: [{cellAddress: a}, {cellAddress: b}, {cellAddress: c}]}", "v: {backfill: easy, backfill: none, policy: nope}"),
			"f:7:33: physicalCluster.physicalCells[0].cellChildren: 3 children are written here, but the type R has childCellNumber 2; write all of them or none, or define another type with 3\n" +
				"f:9:23: the key \"backfill\" is already given at line 9, column 7; keep one of them\n" +
				"f:9:47: virtualClusters.v.policy: there is no policy \"nope\"; known are drf, fifo"},
		"no weight": {cluster(someTypes, someCells, "v: {virtualCells: [{cellType: R, cellNumber: 1}], opportunisticWeight: 0}\nw: {opportunisticWeight: -1}"),
			"f:10:74: virtualClusters.v.opportunisticWeight: a weight is at least 1; lending: none here keeps what \"v\" leaves unused from all others, lending: none at the others keeps what they leave unused from \"v\"\n" +
				"f:11:28: virtualClusters.w.opportunisticWeight: \"-1\" is out of range: it must be 1 to 1000000"},
		"a rack lacks a node": {cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a}]\n- cellType: R\n  cellAddress: r\n  pinnedCellId: P\n  cellChildren: [{cellAddress: b}]\n- cellType: R\n  cellChildren: [{cellAddress: c, cellChildren: [{}]}, {cellAddress: d}]", "v: {virtualCells: [{cellType: R, cellNumber: 2}]}\nw: {pinnedCells: [{pinnedCellId: P}]}"),
			"f:11:19: physicalCluster.physicalCells[1].pinnedCellId: cells are missing in what \"P\" names, so that it is no R; write all of them, or pin what is in it\n" +
				"f:14:51: physicalCluster.physicalCells[2].cellChildren[0].cellChildren: 1 children are written here, but the type N has childCellNumber 2; write all of them or none, or define another type with 1\n" +
				"f:16:48: virtualClusters.v.virtualCells[0].cellNumber: chain R, level 3 (R): 2 cells are promised (v 2), but only 1 is left after the levels above and 1 pinned; cells are missing in 2 of type R, of which only what is inside counts; lower a cellNumber or add cells"},
		"what cannot be read has no other problems": {"physicalCluster:\n  skuTypes: {G: {gpu: 1, cpu: 0.0004}, H: {gpu: x, part: mig}}\n  cellTypes: {N: {childCellType: G, childCellNumber: 1, isNodeLevel: true}}\n  physicalCells: [{cellType: N, cellAddress: n}]\nvirtualClusters: {v: {virtualCells: [{cellType: N, cellNumber: 1.5}]}}\nnodes: {n: {cpu: many, memory: lots, gpu: none}}\n",
			"f:2:31: physicalCluster.skuTypes.G.cpu: \"0.0004\" cores are too few: 1m is the smallest that counts, and 0 is not limited\n" +
				"f:2:49: physicalCluster.skuTypes.H.gpu: expected an integer, found the text \"x\"\n" +
				"f:5:64: virtualClusters.v.virtualCells[0].cellNumber: expected an integer, found \"1.5\"\n" +
				"f:6:18: nodes.n.cpu: expected a number of cores such as 4, 0.5 or 500m, at most 1000000; found \"many\"\n" +
				"f:6:32: nodes.n.memory: expected an amount of memory with its unit, such as 54Gi or 10240Mi; 1Mi is the smallest that counts; found \"lots\"\n" +
				"f:6:43: nodes.n.gpu: expected an integer, found the text \"none\""},
		"speeds of a chain that is none": {cluster(someTypes, "- {cellType: X}", "v: ") + "throughputs: {m: {G: {1: 1}}}\n",
			"f:7:16: physicalCluster.physicalCells[0].cellType: the cell type \"X\" is not defined in cellTypes; known are N, R"},
		"no part": {cluster(div, "- {cellType: N, cellAddress: n}", "v: "),
			"f:7:5: physicalCluster.physicalCells[0]: the leaves P of the chain N are parts of a device; say which in skuTypes: {P: {part: mig}} for slices that the hardware isolates, or part: share"},
		"device": {"physicalCluster:\n  skuTypes:\n    P: {part: half}\n    Q: {part: mig, gpu: 2}\n    R: {part: share, device: cpu}\n    S: {part: mig, device: amd}\n    T: {part: share, gpu: 1}\n  cellTypes:\n    D: {childCellType: T, childCellNumber: 2, isDeviceLevel: true, isNodeLevel: true}\n    N: {childCellType: T, childCellNumber: 2, isNodeLevel: true}\n    E: {childCellType: F, childCellNumber: 2, isDeviceLevel: true}\n    F: {childCellType: T, childCellNumber: 2, isDeviceLevel: true}\n    M: {childCellType: E, childCellNumber: 2, isNodeLevel: true}\n    O: {childCellType: N, childCellNumber: 2, isDeviceLevel: true}\n  physicalCells: [{cellType: N, cellAddress: n}, {cellType: M, cellAddress: m}, {cellType: O}]\nvirtualClusters: {v: }\n",
			"f:3:15: physicalCluster.skuTypes.P.part: \"half\" is not one of mig, share\n" +
				"f:4:25: physicalCluster.skuTypes.Q.gpu: a leaf that is a part of a device is one part; write gpu: 1\n" +
				"f:5:15: physicalCluster.skuTypes.R.part: a SKU of device cpu is no part of a device; remove part, or name the device and gpu: 1\n" +
				"f:6:15: physicalCluster.skuTypes.S.part: only NVIDIA devices have MIG slices; write part: share\n" +
				"f:7:5: physicalCluster.skuTypes.T: the leaves T are parts of a device, but no type of the chain N is the device; set isDeviceLevel: true at it\n" +
				"f:9:62: physicalCluster.cellTypes.D.isDeviceLevel: \"D\" is a whole machine, so it cannot be one device; put a type for the device between the machine and its parts\n" +
				"f:15:61: physicalCluster.physicalCells[1].cellType: the types M.E.F.T need their device level below the machine and only once; keep isDeviceLevel: true at the type that is one device\n" +
				"f:15:92: physicalCluster.physicalCells[2].cellType: the types O.N.T need their device level below the machine and only once; keep isDeviceLevel: true at the type that is one device"},
		"parts": {"physicalCluster:\n  skuTypes: {P: {part: mig, gpu: 1}, G: {gpu: 1}, H: {gpu: 1, part: mig}}\n  cellTypes:\n    D: {childCellType: P, childCellNumber: 2, isDeviceLevel: true}\n    N: {childCellType: D, childCellNumber: 2, isNodeLevel: true}\n    M: {childCellType: G, childCellNumber: 2, isNodeLevel: true}\n    E: {childCellType: H, childCellNumber: 2, isDeviceLevel: true}\n    O: {childCellType: E, childCellNumber: 1, isNodeLevel: true}\n  physicalCells:\n  - {cellType: N, cellAddress: n, cellChildren: [{cellAddress: x}, {cellAddress: 3, cellChildren: [{cellAddress: 3}, {cellAddress: \"4:1\"}]}]}\n  - {cellType: N, cellAddress: o, cellChildren: [{cellAddress: 3}, {cellAddress: 3}]}\n  - {cellType: M, cellAddress: o, cellChildren: [{cellAddress: 3}, {cellAddress: \"2:1\"}]}\n  - {cellType: O, cellAddress: o, cellChildren: [{cellAddress: 3}]}\nvirtualClusters: {v: }\n",
			"f:10:50: physicalCluster.physicalCells[0].cellChildren[0]: the address \"x\" of a D must be its device index: 0 to 999999\n" +
				"f:10:100: physicalCluster.physicalCells[0].cellChildren[1].cellChildren[0]: the address \"3\" of a P must name its device and its part: 3:0 to 3:999999\n" +
				"f:10:118: physicalCluster.physicalCells[0].cellChildren[1].cellChildren[1]: the address \"4:1\" of a P must name its device and its part: 3:0 to 3:999999\n" +
				"f:11:68: physicalCluster.physicalCells[1].cellChildren[1]: this machine has a P with the address 3:0 already, at line 11; addresses of one type must differ\n" +
				"f:11:68: physicalCluster.physicalCells[1].cellChildren[1]: this machine has a P with the address 3:1 already, at line 11; addresses of one type must differ\n" +
				"f:12:50: physicalCluster.physicalCells[2].cellChildren[0]: the device 3 of this machine is divided at another place of the file, so it cannot be a whole G here; remove one of the two\n" +
				"f:12:68: physicalCluster.physicalCells[2].cellChildren[1]: the address \"2:1\" of a G must be its device index: 0 to 999999\n" +
				"f:12:82: physicalCluster.physicalCells[2].cellChildren[1].cellAddress: \"2:1\" is no good name for a cell: use at most 253 letters, digits, \"-\", \"_\" and \".\"\n" +
				"f:13:50: physicalCluster.physicalCells[3].cellChildren[0]: the device 3 of this machine is a whole device at line 12, so it cannot be divided here; remove one of the two"},
		"twice over": {cluster(someTypes+"\nM: {childCellType: G, childCellNumber: 0, isNodeLevel: true}", someCells+"\n- {cellType: M, cellAddress: m}", "v: {virtualCells: [{cellType: R, cellNumber: 2}, {cellType: R.N.G, cellNumber: 1}, {cellType: M, cellNumber: 5}], policy: nope}"),
			"f:6:44: physicalCluster.cellTypes.M.childCellNumber: \"0\" is out of range: it must be 1 to 1000000\n" +
				"f:12:48: virtualClusters.v.virtualCells[0].cellNumber: chain R, level 3 (R): 2 cells are promised (v 2), but only 1 is left after the levels above; lower a cellNumber or add cells\n" +
				"f:12:82: virtualClusters.v.virtualCells[1].cellNumber: chain R, level 1 (G): 1 cell is promised (v 1), but only 0 are left after the levels above; lower a cellNumber or add cells\n" +
				"f:12:125: virtualClusters.v.policy: there is no policy \"nope\"; known are drf, fifo"},
	} {
		c, warnings, problems := Parse("f", []byte(tt.src), known)
		if name == "what cannot be read has no other problems" && len(warnings) > 0 {
			t.Error(warnings)
		}
		if got := problems.Error(); got != tt.want {
			t.Errorf("%s:\n%s\n%s", name, got, cmp.Diff(strings.Split(tt.want, "\n"), strings.Split(got, "\n")))
		}
		if c != nil {
			t.Errorf("%s: a cluster in spite of problems", name)
		}
	}
}

// TestNoFollowers: a mistake is told once, and hides no other one.
func TestNoFollowers(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"limits of users": {cluster(someTypes, someCells, "v:\n  userLimits: {gpus: -3}\n"),
			[]string{`virtualClusters.v.userLimits.gpus: "-3" is out of range`}},
		"a role": {cluster(someTypes, someCells, "v:\n  access: {administrator: [x]}\n"), []string{"did you mean administrators?"}},
		"a node's level, and a node": {cluster("N: {childCellType: G, childCellNumber: 2, isNodelevel: true}",
			"- {cellType: N, cellAddress: \"\\u540d \\u524d\"}", "v: ") + "nodes: {ghost: {cpu: 1}}\n",
			[]string{"did you mean isNodeLevel?", "is no good name for", "no cell is on the node"}},
		"a dot": {cluster("N.A: {childCellType: G, childCellNumber: 2, isNodeLevel: true}",
			"- {cellType: N-A, cellAddress: n}", "v: ") + "nodes: {ghost: {cpu: 1}}\n",
			[]string{"must not contain a dot", "no cell is on the node"}},
		"cores": {cluster(someTypes, someCells, someVCs) + "nodes: {a: {cpu: lots}}\n",
			[]string{`500m, at most 1000000; found "lots"`}},
	} {
		_, _, problems := Parse("f", []byte(c.file), Policies{Named: true})
		if len(problems) != len(c.want) {
			t.Errorf("%s: %d problems, want %d:\n%v", name, len(problems), len(c.want), problems)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(problems.Error(), want) {
				t.Errorf("%s: nothing says %q:\n%v", name, want, problems)
			}
		}
	}
}
