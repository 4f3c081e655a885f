package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

const layoutFile = `machine-sku:
  gpu-machine:
    mem: 200GiB
    computing-device: {type: nvidia.com/gpu, model: K80, count: 4}
    cpu: {vcore: 24}
  old: {mem: 64GiB, gpu: {type: V100, count: 2}, cpu: {vcore: 8}}
  cpu-machine: {mem: 32GiB, cpu: {vcore: 16}}
machine-list:
- {hostname: master, hostip: 10.0.0.1, machine-type: cpu-machine, pai-master: "true"}
- {hostname: w2, hostip: 10.0.0.3, machine-type: gpu-machine, pai-worker: "true"}
- {hostname: w1, hostip: 10.0.0.2, machine-type: gpu-machine, pai-worker: 'true'}
- {hostname: o1, hostip: 10.0.0.4, machine-type: old, pai-worker: true}
- {hostname: c1, hostip: 10.0.0.5, machine-type: cpu-machine, pai-worker: "true"}
`

const hived = `physicalCluster:
  skuTypes:
    K80: {gpu: 1, cpu: 6, memory: 51200Mi}
  cellTypes:
    K80-NODE: {childCellType: K80, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: K80-NODE, cellAddress: w1}
virtualClusters:
  default:
    virtualCells:
    - {cellType: K80-NODE, cellNumber: 1}
`

func folder(layout, services string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range map[string]string{Layout: layout, Services: services} {
		if text != "" {
			out[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return out
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// sound reads a file as a server does.
func sound(t *testing.T, file []byte) string {
	t.Helper()
	c, _, problems := Parse("made", file, Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		t.Fatalf("the file cannot be used: %v\n%s", problems, file)
	}
	return Brief(c.Config)
}

func TestLayout(t *testing.T) {
	out, err := Convert(folder(layoutFile, "webportal: {server-port: 9286}\nnew-thing: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sound(t, out.File), "4 nodes, 10 GPUs, 16 CPUs without a GPU, virtual cluster default"; got != want {
		t.Errorf("it has %s; want %s\n%s", got, want, out.File)
	}
	for _, want := range []string{"GPU-MACHINE: {gpu: 1, cpu: 6000m, memory: 51200Mi}", `cellAddress: "w1"`} {
		if !strings.Contains(string(out.File), want) {
			t.Errorf("%q is not in\n%s", want, out.File)
		}
	}
	says(t, out, "left out|services-configuration.yaml:1 webportal|the portal is part of comb serve",
		"left out|services-configuration.yaml:2 new-thing|nothing here is called so", "OpenPAI keeps some for its own services",
		"left out|layout.yaml:9 master|it is no worker",
		"taken over|layout.yaml:2 machine-sku.gpu-machine|SKU GPU-MACHINE: 4 devices of nvidia.com/gpu; nodes w2, w1",
		"changed|layout.yaml virtual cluster default|no group may use VC default without it: access: {members: [everyone]} is added")
	if out.From != Layout {
		t.Error(out.From)
	}
}

func TestScheduler(t *testing.T) {
	out, err := Convert(folder(layoutFile, "hivedscheduler:\n  config: |\n"+indented(hived)))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(hived, "  default:\n", "  default:\n    access: {members: [everyone]}\n", 1); string(out.File) != want {
		t.Errorf("it is not byte for byte but for the access of VC default:\n%s", out.File)
	}
	sound(t, out.File)
	says(t, out, "left out|layout.yaml machine-list|workers that the scheduler's configuration does not name, so that no job runs there: c1, o1, w2")
}

// says wants rows of the table, each a part of FATE|WHERE|SAYS.
func says(t *testing.T, out Converted, want ...string) {
	t.Helper()
	all := ""
	for _, r := range out.Rows {
		all += string(r.Fate) + "|" + r.Where + "|" + r.Says + "\n"
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%q is not in\n%s", w, all)
		}
	}
}

// parsed reads a file that was made as a server does.
func parsed(t *testing.T, out Converted, err error) *model.Config {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	sound(t, out.File)
	c, _, _ := Parse("made", out.File, Policies{Names: policy.Names(), New: policy.New, Named: true})
	return c.Config
}

// Each maker of devices: what a device plugin calls them becomes device and resource, and is
// NVIDIA's only where it says so.
func TestMakers(t *testing.T) {
	for _, c := range []struct {
		devices, sku string
		kind         cell.DeviceKind
		resource     string
		variable     string
	}{
		{"computing-device: {type: nvidia.com/gpu, model: K80, count: 2}", "{gpu: 1, cpu: 4000m", cell.NVIDIA, "", "CUDA_VISIBLE_DEVICES"},
		{"computing-device: {type: nvidia.com/mig-1g.5gb, count: 2}", "{gpu: 1, resource: nvidia.com/mig-1g.5gb, ", cell.NVIDIA, "nvidia.com/mig-1g.5gb", "CUDA_VISIBLE_DEVICES"},
		{"gpu: {type: V100, count: 2}", "{gpu: 1, cpu", cell.NVIDIA, "", "CUDA_VISIBLE_DEVICES"},
		{"gpu: {type: amd.com/gpu, count: 2}", "{gpu: 1, device: amd, cpu", cell.AMD, "", "HIP_VISIBLE_DEVICES"},
		{"computing-device: {type: amd.com/gpu, model: MI50, count: 2}", "{gpu: 1, device: amd, cpu", cell.AMD, "", "HIP_VISIBLE_DEVICES"},
		{"computing-device: {type: google.com/tpu, count: 2}", "{gpu: 1, device: tpu, cpu", cell.TPU, "", "TPU_VISIBLE_CHIPS"},
		{"computing-device: {type: huawei.com/Ascend910, count: 2}", "device: other, resource: huawei.com/Ascend910, ", cell.Other, "huawei.com/Ascend910", "ASCEND_RT_VISIBLE_DEVICES"},
		{"computing-device: {type: cambricon.com/mlu, count: 2}", "device: other, resource: cambricon.com/mlu, ", cell.Other, "cambricon.com/mlu", "MLU_VISIBLE_DEVICES"},
		{"computing-device: {type: habana.ai/gaudi, count: 2}", "device: other, resource: habana.ai/gaudi, ", cell.Other, "habana.ai/gaudi", "HABANA_VISIBLE_DEVICES"},
		{"computing-device: {type: enflame.com/dtu, count: 2}", "device: other, resource: enflame.com/dtu, ", cell.Other, "enflame.com/dtu", "COMB_DEVICES"},
	} {
		layout := "machine-sku:\n  box: {mem: 64Gi, cpu: {vcore: 8}, " + c.devices + "}\nmachine-list: [{hostname: w1, machine-type: box, pai-worker: 'true'}]\n"
		out, err := Convert(folder(layout, ""))
		sku := parsed(t, out, err).Cluster.SKUs[0]
		if sku.Device != c.kind || sku.Resource != c.resource || sku.EnvVar != c.variable || sku.GPU != 1 || !strings.Contains(string(out.File), c.sku) {
			t.Errorf("%s: %+v\n%s", c.devices, sku, out.File)
		}
		// The same machine under the scheduler's own configuration, in which a SKU with gpu alone
		// is NVIDIA's; in lines and in braces.
		for _, file := range []string{hived, strings.Replace(hived, "K80: {gpu: 1, cpu: 6, memory: 51200Mi}", "K80:\n      gpu: 1\n      cpu: 6", 1), strings.Replace(hived, "skuTypes", "gpuTypes", 1)} {
			out, err := Convert(folder(layout, "hivedscheduler:\n  config: |\n"+indented(file)))
			sku := parsed(t, out, err).Cluster.SKUs[0]
			if sku.Device != c.kind || sku.Resource != c.resource || sku.EnvVar != c.variable {
				t.Errorf("%s: %+v\n%s", c.devices, sku, out.File)
			}
		}
	}
	out, err := Convert(folder("machine-sku:\n  box: {computing-device: {type: enflame.com/dtu, count: 2}}\nmachine-list: [{hostname: w1, machine-type: box, pai-worker: 'true'}]\n", ""))
	parsed(t, out, err)
	says(t, out, "to do|layout.yaml:2 machine-sku.box|programs find their devices in COMB_DEVICES")
}

// Names of machine types that a cluster file would make one: each SKU and each node type has its
// own.
func TestNames(t *testing.T) {
	for _, names := range [][]string{{"gpu-machine", "GPU-MACHINE"}, {"a_b", "a-b", "a.b", "A-B"}, {"a", "a-node"}, {"a-node", "a", "A", "A-NODE-NODE"}, {"x", "x-2", "X", "X-2"}} {
		layout, list := "machine-sku:\n", "machine-list:\n"
		for i, n := range names {
			layout += fmt.Sprintf("  %s: {mem: %dGi, cpu: {vcore: 8}, computing-device: {type: nvidia.com/gpu, count: %d}}\n", n, i+1, i+1)
			list += fmt.Sprintf("  - {hostname: w%d, machine-type: %s, pai-worker: 'true'}\n", i, n)
		}
		out, err := Convert(folder(layout+list, ""))
		c := parsed(t, out, err)
		if len(c.Cluster.SKUs) != len(names) || len(c.Cluster.Chains) != len(names) {
			t.Fatalf("%q: %+v\n%s", names, c.Cluster.SKUs, out.File)
		}
		for i, n := range names { // one that is written as a cell type is keeps its name
			if at := slices.IndexFunc(c.Cluster.SKUs, func(s cell.SKU) bool { return string(s.Name) == n }); upper(n) == n && n != "A-NODE-NODE" &&
				(at < 0 || c.Cluster.SKUs[at].MemoryMB != int64(1024)) {
				t.Errorf("%q: %s, type %d, is not %s\n%s", names, n, i, n, out.File)
			}
		}
	}
	out, _ := Convert(folder("machine-sku:\n  gpu-machine: {}\n  GPU-MACHINE: {}\nmachine-list: [{hostname: a, machine-type: gpu-machine, pai-worker: true}, {hostname: b, machine-type: GPU-MACHINE, pai-worker: true}]", ""))
	says(t, out, "changed|layout.yaml:2 machine-sku.gpu-machine|SKU GPU-MACHINE-2: machine-sku.GPU-MACHINE at line 3 has the name GPU-MACHINE")
}

const groupsFile = `authentication:
  OIDC: %v
  group-manager:
    group-data-source: ms-graph
    admin-group: {groupname: admingroup, externalName: team_a}
    default-group: {groupname: default, externalName: team_b}
    grouplist:
    - {groupname: research, externalName: team_c, extension: {acls: {admin: false, virtualClusters: [vc1, vc2], storageConfigs: [nfs]}}}
    - {groupname: vc3, externalName: team_d}
    - {groupname: lost, extension: {acls: {virtualClusters: [gone]}}}
    - {groupname: two words, extension: {acls: {virtualClusters: [vc2]}}}
    - {groupname: roots, extension: {acls: {admin: true}}}
hivedscheduler:
  config: |
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 1, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: w1}
    virtualClusters:
      default: {}
      vc1:
        # a comment that stays
        virtualCells: [{cellType: NODE, cellNumber: 1}]
      vc2: {virtualCells: []}
      vc3:
        virtualCells: []
      vc4: {access: {viewers: [guests]}}
`

// Groups: what extension.acls.virtualClusters gave becomes access, VC default is open to all where
// all sign in with passwords, and what is left to do is told with its command.
func TestGroups(t *testing.T) {
	for oidc, want := range map[bool]string{
		false: "default members everyone|vc1 members research, vc1|vc2 members research, vc2|vc4 viewers guests",
		true:  "vc1 members research, vc1|vc2 members research, vc2|vc4 viewers guests",
	} {
		out, err := Convert(folder("", fmt.Sprintf(groupsFile, oidc)))
		var got []string
		for _, g := range parsed(t, out, err).Access {
			got = append(got, string(g.VC)+" "+g.String())
		}
		if strings.Join(got, "|") != want {
			t.Errorf("OIDC %v: %q, want %s\n%s", oidc, got, want, out.File)
		}
		if !strings.Contains(string(out.File), "# a comment that stays") {
			t.Errorf("%s", out.File)
		}
		says(t, out, "changed|services-configuration.yaml:22 VC vc1|access: {members: [research, vc1]} is added: these groups are given it by extension.acls.virtualClusters",
			"taken over|services-configuration.yaml:26 VC vc3|it is for the group vc3, as in OpenPAI",
			"to do|services-configuration.yaml:8 group research|comb group create research --external \"team_c\" makes it",
			"to do|services-configuration.yaml:5 group admingroup|its users are administrators of the cluster: comb user create NAME --admin",
			"to do|services-configuration.yaml:12 group roots|its users are administrators of the cluster",
			"left out|services-configuration.yaml:10 group lost|it is given a virtual cluster \"gone\", which is not there",
			"left out|services-configuration.yaml:11 group two words|no group here is called so",
			"left out|services-configuration.yaml:8 storageConfigs of group research|storages are folders")
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ layout, services, want string }{
		{"", "", "the folder has no scheduler's configuration"},
		{"- 1", "", "layout.yaml:1:1: a map is expected here, not a list"},
		{"machine-list: 3", "", "layout.yaml:1:15: machine-list: a list of machines is expected here, not a scalar"},
		{"machine-list: [{hostname: a b, machine-type: x, pai-worker: true}]", "", "a machine needs a name of letters"},
		{"machine-list: [{hostname: a, machine-type: x, pai-worker: true}]", "", `machine-sku has no "x"`},
		{"machine-sku: {x: {mem: lots}}\nmachine-list: [{hostname: a, machine-type: x, pai-worker: true}]", "", "want an amount of memory such as 200GiB"},
		{"machine-sku: {x: {gpu: {count: -1}}}\nmachine-list: [{hostname: a, machine-type: x, pai-worker: true}]", "", "want the number of devices, 0 to 1024"},
		{"machine-sku: {x: {}}\nmachine-list: [{hostname: a, machine-type: x, pai-worker: true}, {hostname: a, machine-type: x, pai-worker: true}]", "", `there are two machines "a"`},
		{"", "hivedscheduler: {config: {physicalCluster: {}}}", "services-configuration.yaml:1:26: hivedscheduler.config: the scheduler's configuration is a text here"},
		{"", "hivedscheduler:\n  config: |\n    a: b: c\n", "services-configuration.yaml:3:"},
		{"a: [", "", "layout.yaml:1:"},
		{"machine-sku: {x: {computing-device: {model: MI50, count: 2}}}\nmachine-list: [{hostname: a, machine-type: x, pai-worker: true}]", "", "type: want what the device plugin calls the devices"},
		{"machine-sku: {x: {computing-device: {type: MI50, count: 2}}}\nmachine-list: [{hostname: a, machine-type: x, pai-worker: true}]", "", "such as nvidia.com/gpu, amd.com/gpu"},
		{"machine-sku: {x: {computing-device: {type: amd.com/gpu, count: 4}}}\nmachine-list: [{hostname: w1, machine-type: x, pai-worker: true}]",
			"hivedscheduler:\n  config: |\n" + indented(strings.Replace(hived, "skuTypes:\n    K80: {gpu: 1, cpu: 6, memory: 51200Mi}", "skuTypes: {}", 1)),
			"services-configuration.yaml:8:9: hivedscheduler.config.physicalCluster.physicalCells[0]: machine w1 has amd.com/gpu (layout.yaml, line 2), and skuTypes has no \"K80\": add K80: {gpu: 1, device: amd} there"},
	} {
		out, err := Convert(folder(c.layout, c.services))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v; want %q\n%s", c.layout, c.services, err, c.want, out.File)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add(layoutFile, "hivedscheduler:\n  config: |\n"+indented(hived))
	f.Add("machine-list: [{pai-worker: true}]", "a: 1")
	f.Add("", fmt.Sprintf(groupsFile, false))
	f.Add("machine-sku: {x: {computing-device: {type: amd.com/gpu, count: 4}}}\nmachine-list: [{hostname: w1, machine-type: x, pai-worker: true}]", "hivedscheduler:\n  config: |\n"+indented(hived))
	f.Fuzz(func(t *testing.T, layout, services string) {
		out, err := Convert(folder(layout, services))
		if err != nil {
			return
		}
		policies := Policies{Names: policy.Names(), New: policy.New}
		if _, _, problems := Parse(out.Name, out.Source, policies); len(problems) == 0 { // what was sound stays it
			sound(t, out.File)
		} else if out.From == Layout {
			t.Fatalf("the file cannot be used: %v\n%s", problems, out.File)
		}
	})
}
