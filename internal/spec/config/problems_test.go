package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cluster puts a file together from its parts. Lines 1 to 3 are fixed, so that
// the cell types begin at line 4.
func cluster(types, cells, vcs string) string {
	return "# a cluster\nphysicalCluster:\n  cellTypes:\n" + indent(types, 4) + "  physicalCells:\n" + indent(cells, 2) + "virtualClusters:\n" + indent(vcs, 2)
}

func indent(text string, n int) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+pad) + "\n"
}

const (
	someTypes = "N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}\nR: {childCellType: N, childCellNumber: 2}"
	someCells = "- cellType: R\n  cellChildren: [{cellAddress: a}, {cellAddress: b}]"
	someVCs   = "v: {virtualCells: [{cellType: R, cellNumber: 1}]}"
)

func TestProblems(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"empty":        {"", "f:1:1: the cluster file needs the key \"physicalCluster\"\nf:1:1: the cluster file needs the key \"virtualClusters\""},
		"not a map":    {"- a", "f:1:1: expected the cluster file as a map (key: value), found a list"},
		"unknown keys": {"physicalClustr: {}\nvirtualClusters: {v: {virtualCell: []}}\n", "f:1:1: the cluster file needs the key \"physicalCluster\"\nf:1:1: physicalClustr: unknown key in the cluster file; did you mean physicalCluster?\nf:2:23: virtualClusters.v.virtualCell: unknown key in the virtual cluster \"v\"; did you mean virtualCells?"},
		"no parts":     {"physicalCluster: {}\nvirtualClusters: {}\n", "f:1:18: physicalCluster: physicalCluster needs the key \"cellTypes\"\nf:1:18: physicalCluster: physicalCluster needs the key \"physicalCells\"\nf:2:18: virtualClusters: there is no virtual cluster; at least one is needed to submit jobs to"},
		"exit rules": {cluster(someTypes, someCells, someVCs) + "exitRules:\n- {class: transient, means: x}\n- {code: 300, log: '(', class: mine, means: x, budget: 1}\n- {codeTo: 3, code: 4, class: user, means: x, budget: 2}\n",
			"f:12:3: exitRules[0]: the rule would fit every failure: give it a code, a signal or a log\nf:13:10: exitRules[1].code: \"300\" is out of range: it must be 1 to 255\nf:13:20: exitRules[1].log: \"(\" is no regular expression: error parsing regexp: missing closing ): `(`\nf:13:32: exitRules[1].class: \"mine\" is no class: want user, transient, conflict, permanent, platform, resource\nf:14:12: exitRules[2].codeTo: codeTo is the last of several codes: want a code that is not above it\nf:14:55: exitRules[2].budget: a budget is of tries that do not count: of the classes transient, conflict and platform alone"},
		"wrapper": {"hivedscheduler: {}\n", "f:1:17: hivedscheduler: hivedscheduler needs the key \"config\" with the cluster file as a block (config: |)"},
		"in wrapper": {"hivedscheduler:\n  config: |\n    physicalCluster:\n      cellTypes: {N: {childCellType: G, childCellNumber: 0}}\n      physicalCells: []\n    virtualClusters: {v: }\n",
			"f:4:58: hivedscheduler.config.physicalCluster.cellTypes.N.childCellNumber: \"0\" is out of range: it must be 1 to 1000000\nf:5:22: hivedscheduler.config.physicalCluster.physicalCells: physicalCells is empty; the cluster needs at least one cell"},
		"type keys": {cluster("N: {childCellType: G.x, childCellNum: 2, isNodeLevel: yes}", "- {cellType: N, cellAddress: n}", "v: "),
			"f:4:8: physicalCluster.cellTypes.N: the cell type \"N\" needs the key \"childCellNumber\"\nf:4:24: physicalCluster.cellTypes.N.childCellType: the cell type \"G.x\" must not contain a dot: dots separate the types of a quota path\nf:4:29: physicalCluster.cellTypes.N.childCellNum: unknown key in the cell type \"N\"; did you mean childCellNumber?\nf:4:59: physicalCluster.cellTypes.N.isNodeLevel: expected true or false, found the text \"yes\""},
		"no consequences": {cluster("N: {childCellType: G, childCellNumber: -3, isNodeLevel: true}", "- cellType: N\n  pinnedCellId: P\n  cellChildren: [{cellAddress: 0}, {cellAddress: 1}]", "v:\n  pinnedCells: [{pinnedCellId: P}]") + "nodes: {n: {cpu: 1}}\n",
			"f:4:44: physicalCluster.cellTypes.N.childCellNumber: \"-3\" is out of range: it must be 1 to 1000000"},
		"cycle": {cluster("A: {childCellType: B, childCellNumber: 2, isNodeLevel: true}\nB: {childCellType: C, childCellNumber: 2}\nC: {childCellType: A, childCellNumber: 2}\n"+someTypes, someCells, someVCs),
			"f:6:5: physicalCluster.cellTypes.C: the cell types contain each other: A > B > C > A; a type's childCellType must lead down to a device"},
		"two nodes": {cluster("N: {childCellType: M, childCellNumber: 2, isNodeLevel: true}\nM: {childCellType: G, childCellNumber: 2, isNodeLevel: true}", "- {cellType: N, cellAddress: n}", "v: "),
			"f:7:16: physicalCluster.physicalCells[0].cellType: the types N.M.G need exactly one node level, found 2; a machine cannot contain another, so keep it at one of them"},
		"top below node": {cluster("S: {childCellType: G, childCellNumber: 2}\nN: {childCellType: S, childCellNumber: 2, isNodeLevel: true}", "- {cellType: S, cellAddress: n}", "v: "),
			"f:7:16: physicalCluster.physicalCells[0].cellType: the types S.G need exactly one node level, found 0; set isNodeLevel: true at the type that is a whole machine"},
		"unknown top": {cluster(someTypes, "- {cellType: RR, cellAddress: n}\n- {cellType: G}\n- cellAddress: x", "v: "),
			"f:7:16: physicalCluster.physicalCells[0].cellType: the cell type \"RR\" is not defined in cellTypes; known are N, R\nf:8:16: physicalCluster.physicalCells[1].cellType: the cell type \"G\" is not defined in cellTypes; known are N, R\nf:9:5: physicalCluster.physicalCells[2]: the cell needs the key \"cellType\""},
		"too big": {cluster("N: {childCellType: G, childCellNumber: 1000, isNodeLevel: true}\nR: {childCellType: N, childCellNumber: 1001}", "- {cellType: R}", "v: "),
			"f:7:16: physicalCluster.physicalCells[0].cellType: one cell of type \"R\" would hold more than 1000000 devices or 2000000 cells; check childCellNumber"},
		"children": {cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a}, {cellAddress: b}, {cellAddress: c}]\n- cellType: R\n  cellChildren: [{cellAddress: d, cellChildren: [{cellAddress: 0, cellChildren: [{cellAddress: 0}]}, {cellAddress: 1}]}, {cellAddress: e, cellType: R}]", someVCs),
			"f:8:19: physicalCluster.physicalCells[0].cellChildren: 3 children are written here, but the type R has childCellNumber 2; write all of them or none, or define another type with 3\n" +
				"f:10:83: physicalCluster.physicalCells[1].cellChildren[0].cellChildren[0].cellChildren: 1 children are written here, but the type G has childCellNumber 0; it is a single device\n" +
				"f:10:151: physicalCluster.physicalCells[1].cellChildren[1].cellType: this cell has the type N, not \"R\"; remove the key, or correct it"},
		"addresses": {cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a, cellChildren: [{cellAddress: x}, {cellAddress: -1}]}, {cellAddress: a, cellChildren: [{cellAddress: 1}, {cellAddress: 1}]}]\n- cellType: R\n  cellAddress: a b\n  cellChildren: [{cellAddress: c, cellChildren: [{cellAddress: 01}, {cellAddress: 4}]}, {cellAddress: d}]", someVCs),
			"f:8:52: physicalCluster.physicalCells[0].cellChildren[0].cellChildren[0]: the address \"x\" of a G must be its device index: 0 to 999999\n" +
				"f:8:70: physicalCluster.physicalCells[0].cellChildren[0].cellChildren[1]: the address \"-1\" of a G must be its device index: 0 to 999999\n" +
				"f:8:84: physicalCluster.physicalCells[0].cellChildren[0].cellChildren[1].cellAddress: \"-1\" is no good name for a cell: use at most 253 letters, digits, \"-\", \"_\" and \".\"\n" +
				"f:8:91: physicalCluster.physicalCells[0].cellChildren[1]: the node \"a\" is already in the chain R, at line 8; a machine can be in a chain only once\n" +
				"f:8:141: physicalCluster.physicalCells[0].cellChildren[1].cellChildren[1]: this machine has a G with the index 1 already, at line 8; indices of one type must differ\n" +
				"f:10:18: physicalCluster.physicalCells[1].cellAddress: \"a b\" is no good name for a cell: use at most 253 letters, digits, \"-\", \"_\" and \".\"\n" +
				"f:11:52: physicalCluster.physicalCells[1].cellChildren[0].cellChildren[0]: the address \"01\" of a G must be its device index: 0 to 999999"},
		"siblings": {cluster("S: {childCellType: G, childCellNumber: 1}\nN: {childCellType: S, childCellNumber: 2, isNodeLevel: true}\nR: {childCellType: N, childCellNumber: 1}",
			"- {cellType: R, cellAddress: r, cellChildren: [{cellAddress: a, cellChildren: [{cellAddress: s}, {cellAddress: s}]}]}\n- {cellType: R, cellAddress: r, cellChildren: [{cellAddress: b}]}", "v: {virtualCells: [{cellType: R, cellNumber: 2}]}"),
			"f:8:100: physicalCluster.physicalCells[0].cellChildren[0].cellChildren[1]: another cell beside this one has the address \"s\"; addresses of siblings must differ\n" +
				"f:9:5: physicalCluster.physicalCells[1]: another cell beside this one has the address \"r\"; addresses of siblings must differ"},
		"same device in two chains": {cluster("N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}\nM: {childCellType: G, childCellNumber: 1, isNodeLevel: true}", "- {cellType: N, cellAddress: a}\n- {cellType: M, cellAddress: a}", "v: {virtualCells: [{cellType: N, cellNumber: 1}]}"),
			"f:8:5: physicalCluster.physicalCells[1]: this machine has a G with the index 0 already, at line 7; indices of one type must differ"},
		"pins": {cluster(someTypes, "- cellType: R\n  pinnedCellId: P\n  cellChildren: [{cellAddress: a, pinnedCellId: Q}, {cellAddress: b}]\n- cellType: R\n  pinnedCellId: P\n  cellChildren: [{cellAddress: c}, {cellAddress: d}]", "v: {pinnedCells: [{pinnedCellId: P}, {pinnedCellId: X}, {}]}\nw: {pinnedCells: [{pinnedCellId: P}]}"),
			"f:9:51: physicalCluster.physicalCells[0].cellChildren[0].pinnedCellId: this cell is inside the pinned cell \"P\", which belongs to one virtual cluster as a whole; remove one of the two\n" +
				"f:11:19: physicalCluster.physicalCells[1].pinnedCellId: the pinned cell \"P\" is already at line 8; each needs its own id\n" +
				"f:14:55: virtualClusters.v.pinnedCells[1].pinnedCellId: no physical cell has the pinnedCellId \"X\"; known are P, Q\n" +
				"f:14:59: virtualClusters.v.pinnedCells[2]: a pinned cell needs the key \"pinnedCellId\"\n" +
				"f:15:36: virtualClusters.w.pinnedCells[0].pinnedCellId: the pinned cell \"P\" belongs to the virtual cluster v already"},
		"paths": {cluster(someTypes, someCells, "v:\n  virtualCells:\n  - {cellType: R.G, cellNumber: 1}\n  - {cellType: N.G, cellNumber: 1}\n  - {cellType: X, cellNumber: 1}\n  - {cellType: R.N.H, cellNumber: 1}\n  - {cellType: R.X.G, cellNumber: 1}\n  - {cellType: R, cellNumber: 3000000000}"),
			"f:12:18: virtualClusters.v.virtualCells[0].cellType: \"R.G\" is no path of cell types; write R.N.G\n" +
				"f:13:18: virtualClusters.v.virtualCells[1].cellType: a path begins with a type that is at the top of physicalCells; write R.N.G\n" +
				"f:14:18: virtualClusters.v.virtualCells[2].cellType: the type \"X\" is not defined; known are R\n" +
				"f:15:18: virtualClusters.v.virtualCells[3].cellType: the chain R has no type \"H\"; its types are R.N.G\n" +
				"f:16:18: virtualClusters.v.virtualCells[4].cellType: \"R.X.G\" is no path of cell types; write R.N.G\n" +
				"f:17:33: virtualClusters.v.virtualCells[5].cellNumber: \"3000000000\" is out of range: it must be 0 to 2000000"},
		"over-committed": {cluster(someTypes, someCells+"\n- {cellType: R, cellChildren: [{cellAddress: c}, {cellAddress: d}]}", "v: {virtualCells: [{cellType: R, cellNumber: 1}, {cellType: R.N, cellNumber: 1}]}\nw: {virtualCells: [{cellType: R.N, cellNumber: 2}]}"),
			"f:12:50: virtualClusters.w.virtualCells[0].cellNumber: chain R, level 2 (N): 3 cells are promised (v 1, w 2), but only 2 are left after the levels above; lower a cellNumber or add cells"},
		"pins split nodes": {cluster(someTypes, "- cellType: R\n  cellChildren: [{cellAddress: a, cellChildren: [{pinnedCellId: P}, {}]}, {cellAddress: b, cellChildren: [{pinnedCellId: Q}, {}]}]", "v: {virtualCells: [{cellType: R.N, cellNumber: 1}], pinnedCells: [{pinnedCellId: P}, {pinnedCellId: Q}]}"),
			"f:10:50: virtualClusters.v.virtualCells[0].cellNumber: chain R, level 2 (N): 1 cell is promised (v 1), but only 0 are left after the levels above and 2 pinned; lower a cellNumber or add cells"},
		"skus": {"physicalCluster:\n  skuTypes:\n    G: {gpu: 2, device: cpu, cpu: x, memory: 12}\n    H: {gpu: 0, device: amd, memory: 1Ki, envVar: a-b, deviceFiles: [/etc/passwd, /dev/x%d%d, /dev/y%d]}\n    N: {gpu: 1, kind: nvidia}\n    I: {device: nvidai, memory: 5Xi, cpu: -1, gpu: 1.5}\n  cellTypes: {N: {childCellType: G, childCellNumber: 1, isNodeLevel: true}}\n  physicalCells: [{cellType: N, cellAddress: n}]\nvirtualClusters: {v: {virtualCells: [{cellType: N, cellNumber: 1}]}}\n",
			"f:3:14: physicalCluster.skuTypes.G.gpu: a SKU of device cpu has no GPUs; remove gpu, or name another device\n" +
				"f:3:35: physicalCluster.skuTypes.G.cpu: expected a number of cores such as 4, 0.5 or 500m, at most 1000000; found \"x\"\n" +
				"f:3:46: physicalCluster.skuTypes.G.memory: expected an amount of memory with its unit, such as 54Gi or 10240Mi; 1Mi is the smallest that counts; found \"12\"\n" +
				"f:4:14: physicalCluster.skuTypes.H.gpu: a SKU of device amd needs gpu: 1 or more\n" +
				"f:4:38: physicalCluster.skuTypes.H.memory: expected an amount of memory with its unit, such as 54Gi or 10240Mi; 1Mi is the smallest that counts; found \"1Ki\"\n" +
				"f:4:51: physicalCluster.skuTypes.H.envVar: \"a-b\" is no name of an environment variable\n" +
				"f:4:70: physicalCluster.skuTypes.H.deviceFiles[0]: \"/etc/passwd\" is no device file: write a path below /dev/, with %d for the device's index, or {128} for one that counts from 128\n" +
				"f:4:83: physicalCluster.skuTypes.H.deviceFiles[1]: \"/dev/x%d%d\" is no device file: write a path below /dev/, with %d for the device's index, or {128} for one that counts from 128\n" +
				"f:5:5: physicalCluster.skuTypes.N: \"N\" is a cell type with children; skuTypes describes leaf types, one device each\n" +
				"f:5:17: physicalCluster.skuTypes.N.kind: unknown key in the SKU \"N\"; known are cpu, device, deviceFiles, dra, envVar, gpu, gpuMemory, groups, infiniband, limits, memory, part, pretended, resource\n" +
				"f:6:17: physicalCluster.skuTypes.I.device: \"nvidai\" is not one of nvidia, amd, tpu, cpu, other; did you mean nvidia?\n" +
				"f:6:33: physicalCluster.skuTypes.I.memory: expected an amount of memory with its unit, such as 54Gi or 10240Mi; 1Mi is the smallest that counts; found \"5Xi\"\n" +
				"f:6:43: physicalCluster.skuTypes.I.cpu: expected a number of cores such as 4, 0.5 or 500m, at most 1000000; found \"-1\"\n" +
				"f:6:52: physicalCluster.skuTypes.I.gpu: expected an integer, found \"1.5\""},
		"policies": {cluster(someTypes, someCells, "v: {policy: dfr, virtualCells: [{cellType: R, cellNumber: 1}]}\nw: {policy: {params: {a: [1], b: 2}, x: 1}}\nx y: {policy: [a]}"),
			"f:10:15: virtualClusters.v.policy: there is no policy \"dfr\"; did you mean drf?\n" +
				"f:11:15: virtualClusters.w.policy: the policy needs the key \"name\"\n" +
				"f:11:25: virtualClusters.w.policy.params.a: a parameter needs a single value\n" +
				"f:11:40: virtualClusters.w.policy.x: unknown key in the policy; known are name, params\n" +
				"f:12:3: virtualClusters.\"x y\": \"x y\" is no good name for a virtual cluster: use at most 253 letters, digits, \"-\", \"_\" and \".\"\n" +
				"f:12:17: virtualClusters.\"x y\".policy: expected a string, found a list"},
		"parameters": {cluster(someTypes, someCells, "v: {policy: {name: drf, params: {by: team, bye: x}}}\nw: {policy: {name: fifo, params: {a: 1}}, backfill: x}"),
			"f:10:46: virtualClusters.v.policy.params.bye: drf takes no bye\n" +
				"f:11:22: virtualClusters.w.policy.name: absent must not be absent\n" +
				"f:11:37: virtualClusters.w.policy.params.a: fifo takes no a\n" +
				"f:11:55: virtualClusters.w.backfill: \"x\" is not one of none, easy, conservative"},
		"nodes": {"physicalCluster:\n  skuTypes:\n    G: {gpu: 1, cpu: 2.5, memory: 8Gi}\n    C: {cpu: 4, memory: 1Gi}\n  cellTypes:\n    N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}\n    M: {childCellType: C, childCellNumber: 3, isNodeLevel: true}\n  physicalCells: [{cellType: N, cellAddress: n}, {cellType: M, cellAddress: n}]\nvirtualClusters: {v: {virtualCells: [{cellType: N, cellNumber: 1}]}}\nnodes:\n  n: {cpu: 16, memory: 16Gi, gpu: 1}\n  nn: {cpu: 1, disk: 5}\n",
			"f:11:3: nodes.n: the cells of the node n together have 17 CPU cores, but the machine has 16; lower the SKUs in skuTypes or the number of cells\n" +
				"f:11:3: nodes.n: the cells of the node n together have 19456 MiB of memory, but the machine has 16384 MiB; lower the SKUs in skuTypes or the number of cells\n" +
				"f:11:3: nodes.n: the cells of the node n together have 2 GPUs, but the machine has 1; lower the SKUs in skuTypes or the number of cells\n" +
				"f:12:3: nodes.nn: no cell is on the node \"nn\"; known are n\n" +
				"f:12:16: nodes.nn.disk: unknown key in the node \"nn\"; known are cpu, gpu, memory"},
		"yaml": {"physicalCluster: &a {}\nvirtualClusters: *a\n", "f:1:18: anchors (&name) are not supported; write the value out, or put text that begins with & in quotes\nf:2:18: aliases (*name) are not supported; write the value out, or put text that begins with * in quotes"},
	} {
		c, _, problems := Parse("f", []byte(tt.src), known)
		if got := problems.Error(); got != tt.want {
			t.Errorf("%s:\n%s\n%s", name, got, cmp.Diff(strings.Split(tt.want, "\n"), strings.Split(got, "\n")))
		}
		lines := strings.Split(tt.src, "\n")
		for _, p := range problems {
			line := lines[p.Line-1] + " "
			if p.Column > 1 && !strings.Contains(" {[", line[p.Column-2:p.Column-1]) || line != " " && line[p.Column-1] == ' ' {
				t.Errorf("%s: %s: no value begins there", name, p)
			}
		}
		if c != nil {
			t.Errorf("%s: a cluster in spite of problems", name)
		}
	}
}
