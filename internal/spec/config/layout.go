package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// layout reads the worker machines.
func (c *converter) layout(n *document.Node) (out []paiMachine) {
	for _, f := range fields(n) {
		if f.Key != "machine-list" && f.Key != "machine-sku" {
			c.row(LeftOut, place(Layout, f.At(), f.Key), "nothing here is called so")
		}
	}
	list := n.Get("machine-list")
	if list == nil || list.Kind == document.Null {
		return nil
	}
	if list.Kind != document.List {
		c.problem(list, "a list of machines is expected here, not "+list.Kind.String())
		return nil
	}
	seen := map[string]bool{}
	for _, m := range list.Items {
		name, kind := paiText(m.Get("hostname")), paiText(m.Get("machine-type"))
		switch {
		case paiText(m.Get("pai-worker")) != "true":
			c.row(LeftOut, place(Layout, m, cmp.Or(name, "a machine")),
				"it is no worker (pai-worker), so no job runs there")
		case !plain(name):
			c.problem(cmp.Or(m.Get("hostname"), m),
				"hostname: a machine needs a name of letters, digits, '-', '_' and '.'")
		case seen[name]:
			c.problem(m.Get("hostname"), "hostname: there are two machines "+document.Quote(name))
		case kind == "" || n.Get("machine-sku").Get(kind) == nil:
			c.problem(cmp.Or(m.Get("machine-type"), m), "machine-type: machine-sku has no "+document.Quote(kind))
		default:
			seen[name] = true
			out = append(out, paiMachine{name, kind, m})
		}
	}
	return out
}

func plain(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// paiDevice is the maker of a machine's devices, in the keys of a SKU.
type paiDevice struct {
	kind     string // nvidia, amd, tpu or other
	resource string // name of the device plugin's resource, where kind does not imply it
	envVar   string // variable by which programs find devices, where kind does not imply it
}

// makers are the devices whose variable is known, by the part of the device plugin's name
// before the slash.
var makers = map[string]paiDevice{
	"nvidia.com":    {kind: "nvidia"},
	"amd.com":       {kind: "amd"},
	"google.com":    {kind: "tpu"},
	"huawei.com":    {kind: "other", envVar: "ASCEND_RT_VISIBLE_DEVICES"},
	"cambricon.com": {kind: "other", envVar: "MLU_VISIBLE_DEVICES"},
	"habana.ai":     {kind: "other", envVar: "HABANA_VISIBLE_DEVICES"},
}

// usual are the resources that kinds of devices have by default.
var usual = map[string]string{"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "tpu": "google.com/tpu"}

// keys are the keys of a SKU that describe the device.
func (d paiDevice) keys() (keys []string) {
	if d.kind != "nvidia" {
		keys = append(keys, "device: "+d.kind)
	}
	if d.resource != "" {
		keys = append(keys, "resource: "+d.resource)
	}
	if d.envVar != "" {
		keys = append(keys, "envVar: "+d.envVar)
	}
	return keys
}

// deviceOf reads the devices of a machine type. computing-device.type is the name of the
// device plugin's resource. The older key gpu is from when there were only NVIDIA GPUs, and
// its type is a model.
func (c *converter) deviceOf(n *document.Node) (d paiDevice, devices *document.Node) {
	devices = n.Get("computing-device")
	older := devices == nil
	if older {
		devices = n.Get("gpu")
	}
	name := paiText(devices.Get("type"))
	switch {
	case devices == nil || older && !strings.Contains(name, "/"):
		return makers["nvidia.com"], devices
	case !pluginName(name):
		c.problem(cmp.Or(devices.Get("type"), devices),
			"type: want what the device plugin calls the devices, such as nvidia.com/gpu, amd.com/gpu or "+
				"huawei.com/Ascend910")
		return paiDevice{kind: "other"}, devices
	}
	maker, _, _ := strings.Cut(name, "/")
	if d = makers[maker]; d.kind == "" {
		d.kind = "other"
	}
	if usual[d.kind] != name {
		d.resource = name
	}
	return d, devices
}

// pluginName reports whether a name can be that of a device plugin's resource.
func pluginName(name string) bool {
	maker, kind, found := strings.Cut(name, "/")
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return found && len(name) <= 253 && maker != "" && kind != "" && strings.Trim(maker, letters+"-.") == "" &&
		strings.Trim(strings.ToLower(kind), letters+"-_.") == ""
}

// sku is what one device of a machine type has.
type sku struct {
	paiDevice
	gpus      int64
	cpu       float64
	memoryMiB int64
}

// skuOf reads a machine type: computing-device or gpu, cpu.vcore and mem.
func (c *converter) skuOf(n *document.Node) (out sku) {
	var devices *document.Node
	out.paiDevice, devices = c.deviceOf(n)
	if count := devices.Get("count"); count != nil {
		if _, err := fmt.Sscan(count.Text, &out.gpus); err != nil || out.gpus < 0 || out.gpus > 1024 {
			c.problem(count, "want the number of devices, 0 to 1024")
		}
	}
	if v := n.Get("cpu").Get("vcore"); v != nil {
		if _, err := fmt.Sscan(v.Text, &out.cpu); err != nil || !(out.cpu >= 0 && out.cpu <= 100_000) { // NaN is neither
			c.problem(v, "want the number of processors")
		}
	}
	if m := n.Get("mem"); m != nil {
		value := strings.TrimSpace(m.Text)
		for from, to := range map[string]string{"GiB": "Gi", "MiB": "Mi", "TiB": "Ti", "GB": "G", "MB": "M"} {
			value = strings.Replace(value, from, to, 1)
		}
		mib, ok := document.ParseMemory(strings.ReplaceAll(value, " ", ""))
		if out.memoryMiB = mib; !ok || mib < 0 {
			c.problem(m, "want an amount of memory such as 200GiB")
		}
	}
	return out
}

// build writes a cluster file from the machines.
func (c *converter) build() []byte {
	kinds := map[string][]string{}
	for _, m := range c.machines {
		kinds[m.sku] = append(kinds[m.sku], m.name)
	}
	names := c.typeNames(kinds)
	var types, cells, nodes, vc strings.Builder
	for _, kind := range sorted(kinds) {
		at := c.skuAt(kind)
		s, name := c.skuOf(at.Value), names[kind]
		leaves, of := max(s.gpus, 1), "CPUs alone"
		var keys []string
		if s.gpus > 0 {
			keys = append([]string{"gpu: 1"}, s.keys()...)
			of = fmt.Sprintf("%d devices of %s", s.gpus, cmp.Or(s.resource, usual[s.kind]))
		}
		if s.cpu > 0 {
			keys = append(keys, fmt.Sprintf("cpu: %dm", max(int64(s.cpu*1000)/leaves, 1)))
		}
		if s.memoryMiB > 0 {
			keys = append(keys, fmt.Sprintf("memory: %dMi", max(s.memoryMiB/leaves, 1)))
		}
		fmt.Fprintf(&types, "    %s: {%s}\n", name, strings.Join(keys, ", "))
		fmt.Fprintf(&cells,
			"    %s-NODE: {childCellType: %s, childCellNumber: %d, isNodeLevel: true}\n", name, name, leaves)
		for _, host := range kinds[kind] {
			fmt.Fprintf(&nodes, "  - {cellType: %s-NODE, cellAddress: %q}\n", name, host)
		}
		fmt.Fprintf(&vc, "    - {cellType: %s-NODE, cellNumber: %d}\n", name, len(kinds[kind]))
		where := place(Layout, at.At(), "machine-sku."+kind)
		c.row(TakenOver, where, "SKU %s: %s; nodes %s", name, of, some(kinds[kind]))
		if s.gpus > 0 && s.kind == "other" && s.envVar == "" {
			c.row(ToDo, place(Layout, at.At(), "machine-sku."+kind),
				"programs find their devices in COMB_DEVICES: give SKU %s the envVar that those of %s look at",
				name, s.resource)
		}
		c.row(Changed, place(Layout, at.At(), "machine-sku."+kind),
			"all of its processors and memory are given to jobs; OpenPAI keeps some for its own services")
	}
	access := ""
	if open := c.accessOf("default"); len(open) > 0 {
		access = "    " + accessKey(open) + "\n"
		c.row(Changed, place(Layout, nil, "virtual cluster default"), "%s", opened("default", open))
	}
	c.tellGroups([]string{"default"})
	return []byte("# Made of " + Layout + " of an OpenPAI cluster.\nphysicalCluster:\n  skuTypes:\n" + types.String() +
		"  cellTypes:\n" + cells.String() + "  physicalCells:\n" + nodes.String() +
		"virtualClusters:\n  default:\n" + access + "    virtualCells:\n" + vc.String())
}

// skuAt is the entry of a machine type in the layout.
func (c *converter) skuAt(kind string) document.Field {
	fields := c.file.Get("machine-sku").Fields
	return fields[slices.IndexFunc(fields, func(f document.Field) bool { return f.Key == kind })]
}

// typeNames gives each machine type the name of its SKU; that of its node has -NODE after it.
// Names that differ only in case, or in characters that a cell type cannot have, would become
// the same: the later ones get a number.
func (c *converter) typeNames(kinds map[string][]string) map[string]string {
	all := sorted(kinds)
	slices.SortStableFunc(all, func(a, b string) int { // a name that is valid as it is stays
		own := func(kind string) int {
			if upper(kind) == kind {
				return 0
			}
			return 1
		}
		return cmp.Compare(own(a), own(b))
	})
	names, taken := map[string]string{}, map[string]string{}
	for _, kind := range all {
		name := upper(kind)
		for n := 2; taken[name] != "" || taken[name+"-NODE"] != ""; n++ {
			name = fmt.Sprintf("%s-%d", upper(kind), n)
		}
		if first := cmp.Or(taken[upper(kind)], taken[upper(kind)+"-NODE"]); first != "" {
			c.row(Changed, place(Layout, c.skuAt(kind).At(), "machine-sku."+kind),
				"SKU %s: machine-sku.%s at line %d has the name %s", name, first, c.skuAt(first).Line, upper(kind))
		}
		names[kind], taken[name], taken[name+"-NODE"] = name, kind, kind
	}
	return names
}

// upper turns the name of a machine type into one of a cell type.
func upper(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

// some lists the first of the names.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
