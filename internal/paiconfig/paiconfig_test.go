package paiconfig

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/combsched/comb/internal/config"
	"github.com/combsched/comb/internal/policy"
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
	c, _, problems := config.Parse("made", file, config.Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		t.Fatalf("the file cannot be used: %v\n%s", problems, file)
	}
	return config.Brief(c.Config)
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
	notes := strings.Join(out.Notes, "\n")
	for _, want := range []string{"services-configuration.yaml:1: webportal is left out: the portal is part of comb serve",
		"services-configuration.yaml:2: new-thing is left out: nothing here is called so", "OpenPAI keeps some for its own services"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	if out.From != Layout {
		t.Error(out.From)
	}
}

func TestScheduler(t *testing.T) {
	out, err := Convert(folder(layoutFile, "hivedscheduler:\n  config: |\n"+indented(hived)))
	if err != nil {
		t.Fatal(err)
	}
	if string(out.File) != hived {
		t.Errorf("it is not byte for byte:\n%s", out.File)
	}
	sound(t, out.File)
	if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, "layout.yaml has workers that the scheduler's configuration does not: c1, o1, w2") {
		t.Error(notes)
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
	f.Fuzz(func(t *testing.T, layout, services string) {
		out, err := Convert(folder(layout, services))
		if err == nil && out.From == Layout {
			sound(t, out.File)
		}
	})
}
