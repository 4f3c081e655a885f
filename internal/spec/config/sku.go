package config

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// skuEntry is one entry of physicalCluster.skuTypes.
type skuEntry struct {
	at       *document.Node
	sku      cell.SKU
	used     bool
	explicit bool // the file says whether its GPUs are pretended
}

// bareSKU is the SKU of a leaf type without an entry: one NVIDIA GPU, nothing else limited.
func bareSKU(t cell.TypeName) cell.SKU {
	return cell.SKU{Name: t, GPU: 1, Device: cell.NVIDIA, EnvVar: envVar(cell.NVIDIA)}
}

// partVar is the variable that shows a task its parts of devices. Slices are named by the
// container toolkit's variable, shares by that of the devices.
func partVar(s cell.SKU) string {
	if s.Part == cell.MIG && s.Device == cell.NVIDIA {
		return "NVIDIA_VISIBLE_DEVICES"
	}
	return envVar(s.Device)
}

// envVar is the variable that shows a task its devices of a kind.
func envVar(k cell.DeviceKind) string {
	switch k {
	case cell.NVIDIA:
		return "CUDA_VISIBLE_DEVICES"
	case cell.AMD:
		return "HIP_VISIBLE_DEVICES"
	case cell.TPU:
		return "TPU_VISIBLE_CHIPS"
	case cell.CPU:
		return "COMB_CPU_SLOTS"
	}
	return "COMB_DEVICES"
}

// skuTypes returns the node with the SKUs of a file, which older files call gpuTypes.
func (b *builder) skuTypes(physical *document.MapReader) *document.Node {
	skus, older := physical.Node("skuTypes"), physical.Node("gpuTypes")
	switch {
	case older == nil:
	case skus != nil:
		b.Problem(older, "gpuTypes is the older name of skuTypes, which is here too; keep one of the two")
	default:
		b.Warn(older, "gpuTypes is read as skuTypes, its name today; write that")
		return older
	}
	return skus
}

func (b *builder) readSKUs(n *document.Node) {
	b.skus = map[cell.TypeName]*skuEntry{}
	for _, f := range b.Map(n, "skuTypes").Fields() {
		e := &skuEntry{at: f.At()}
		b.typeName(e.at, f.Key)
		e.sku = b.readSKU(f)
		e.explicit = f.Value.Get("pretended") != nil
		b.skus[e.sku.Name] = e
		if b.types[e.sku.Name] != nil {
			b.Problem(e.at, "%s is a cell type with children; skuTypes describes leaf types, one device each", document.Quote(f.Key))
		}
	}
}

// variable matches the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (b *builder) readSKU(f document.Field) cell.SKU {
	m := b.Map(f.Value, "the SKU "+document.Quote(f.Key))
	s := cell.SKU{Name: cell.TypeName(f.Key)}
	device := m.String("device", document.Text{OneOf: []string{"nvidia", "amd", "tpu", "cpu", "other"}})
	devices := int64(0)
	if device != "cpu" && (device != "" || m.Has("gpu")) {
		devices = 1 // also where the value cannot be read
	}
	s.GPU = m.Int("gpu", document.Range{Max: 1024, Default: devices})
	s.MilliCPU = b.cpu(m.Node("cpu"))
	s.MemoryMB = b.memory(m.Node("memory"))
	s.GPUMemoryMB = b.memory(m.Node("gpuMemory"))
	s.Device = cell.DeviceKind(device)
	switch {
	case device == "" && s.GPU > 0:
		s.Device = cell.NVIDIA
	case device == "":
		s.Device = cell.CPU
	case device == "cpu" && s.GPU > 0:
		b.Problem(m.Node("gpu"), "a SKU of device cpu has no GPUs; remove gpu, or name another device")
	case device != "cpu" && device != "other" && s.GPU == 0:
		b.Problem(m.Node("gpu"), "a SKU of device %s needs gpu: 1 or more", device)
	}
	s.Part = cell.PartKind(m.String("part", document.Text{OneOf: []string{string(cell.MIG), string(cell.Share)}}))
	b.checkPart(m, &s)
	s.EnvVar = m.String("envVar", document.Text{Default: partVar(s)})
	if !fits(s.EnvVar, variable, 128) {
		b.Problem(m.Node("envVar"), "%s is no name of an environment variable", document.Quote(s.EnvVar))
	}
	s.Pretended = m.Bool("pretended", false)
	if s.Pretended && s.GPU == 0 {
		b.Problem(m.Node("pretended"), "a SKU without GPUs has none that could be pretended; "+
			"remove pretended, or write gpu: 1")
	}
	for _, item := range m.List("deviceFiles") {
		if file := b.deviceFile(item); file != "" {
			s.Files = append(s.Files, file)
		}
	}
	s.Limits = readLimits(b.Reader, m.Node("limits"))
	s.Groups = readTaskGroups(b.Reader, m)
	if n := m.Node("dra"); n != nil {
		s.DRA = b.readDRA(n, &s)
	}
	if n := m.Node("resource"); n != nil {
		s.Resource = b.resource(n)
		b.checkResource(n, &s)
	}
	if n := m.Node("infiniband"); n != nil {
		if s.InfiniBand = b.resource(n); strings.HasSuffix(s.InfiniBand, "/gpu") {
			b.Problem(n, "%s is a GPU: write what an RDMA device plugin offers, such as rdma/hca_shared_devices_a", document.Quote(s.InfiniBand))
		}
	}
	m.Rest()
	return s
}

// The names that Kubernetes accepts for objects, for resources, and for attributes of
// devices.
var (
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	resourceName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	attributeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// readDRA reads how devices are given to pods by dynamic resource allocation.
func (b *builder) readDRA(n *document.Node, s *cell.SKU) cell.DRA {
	m := b.Map(n, "dra")
	d := cell.DRA{Class: m.String("deviceClass", document.Text{Max: 253})}
	switch {
	case !m.Has("deviceClass"):
		b.Problem(n, "dra needs deviceClass: the name of a DeviceClass of the cluster, such as gpu.nvidia.com; kubectl get deviceclasses lists them")
	case !objectName.MatchString(d.Class):
		b.Problem(m.Node("deviceClass"), "%s is no name of a DeviceClass: write one such as gpu.nvidia.com", document.Quote(d.Class))
	}
	d.Driver = m.String("driver", document.Text{Default: d.Class})
	if m.Has("driver") && (!objectName.MatchString(d.Driver) || len(d.Driver) > 63) {
		b.Problem(m.Node("driver"), "%s is no name of a driver: write one such as gpu.nvidia.com, of at most 63 letters", document.Quote(d.Driver))
	}
	d.Device = m.String("device", document.Text{Default: "gpu-%d"})
	if strings.Count(d.Device, "%") != 1 || !fits(strings.Replace(d.Device, "%d", "4096", 1), deviceName, 63) {
		b.Problem(m.Node("device"), "%s does not say what a driver calls its devices: write a name of small letters, digits and dashes with one %%d for the index, such as gpu-%%d", document.Quote(d.Device))
	}
	d.Attribute = m.String("attribute", document.Text{Default: "uuid"})
	attribute := d.Attribute
	domain, rest, of := strings.Cut(d.Attribute, "/")
	if of {
		attribute = rest
	}
	if of && !fits(domain, domainName, 63) || !fits(attribute, attributeName, 32) {
		b.Problem(m.Node("attribute"), "%s is no attribute of a device: write one such as uuid, that no two devices of a node share", document.Quote(d.Attribute))
	}
	switch {
	case s.Device == cell.CPU:
		b.Problem(n, "a SKU of device cpu has no devices that a driver could give; remove dra, or name the device and gpu: 1")
	case s.Part != "":
		b.Problem(n, "a part of a device is not given by dra; where the driver publishes each part as a device of its own, remove part and write its name as device")
	}
	m.Rest()
	return d
}

// resource reads the name of a device plugin's resource.
func (b *builder) resource(n *document.Node) string {
	name := b.String(n, document.Text{Max: 253 + 1 + 63})
	domain, plugin, _ := strings.Cut(name, "/")
	switch {
	case n.Kind != document.Scalar: // it was reported
	case !fits(domain, domainName, 253) || !fits(plugin, resourceName, 63):
		b.Problem(n, "%s is no name of what a device plugin offers: write one such as nvidia.com/mig-1g.5gb; kubectl describe node shows those of a node", document.Quote(name))
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"):
		b.Problem(n, "%s is Kubernetes' own: name what a device plugin offers, such as nvidia.com/mig-1g.5gb", document.Quote(name))
	}
	return name
}

// checkResource checks what is possible for devices of a device plugin.
func (b *builder) checkResource(n *document.Node, s *cell.SKU) {
	switch {
	case s.Device == cell.CPU:
		b.Problem(n, "a SKU of device cpu has no devices that a plugin could give; remove resource, or name the device and gpu: 1")
	case s.DRA.Class != "":
		b.Problem(n, "devices are given by a device plugin or by dra, not by both; remove one of the two")
	case s.Part != "":
		b.Problem(n, "a part of a device that a plugin gives is a device of its own; remove part")
	}
}

// checkPart checks that the kind of device can be divided into such parts.
func (b *builder) checkPart(m *document.MapReader, s *cell.SKU) {
	switch {
	case s.Part == "":
	case s.Device == cell.CPU:
		b.Problem(m.Node("part"), "a SKU of device cpu is no part of a device; remove part, or name the device and gpu: 1")
	case s.Part == cell.MIG && s.Device != cell.NVIDIA:
		b.Problem(m.Node("part"), "only NVIDIA devices have MIG slices; write part: share")
	case s.GPU > 1:
		b.Problem(m.Node("gpu"), "a leaf that is a part of a device is one part; write gpu: 1")
	}
}

// deviceFile checks the path of a device file: below /dev, with at most one number.
func (b *builder) deviceFile(n *document.Node) string {
	file := b.String(n, document.Text{Max: 256})
	plain := file
	if head, tail, _, each := cell.FilePattern(file); each {
		plain = head + "0" + tail
	}
	if !strings.HasPrefix(file, "/dev/") || strings.ContainsAny(plain, "%{}\x00\n:,") || strings.Contains(file, "..") {
		b.Problem(n, "%s is no device file: write a path below /dev/, with %%d for the device's index, or {128} for one that counts from 128", document.Quote(file))
		return ""
	}
	return file
}

// cpu reads cores: 2, 0.5 or 500m. The result is in thousandths.
func (b *builder) cpu(n *document.Node) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	text := n.Text
	scale := 1000.0
	if rest, ok := strings.CutSuffix(text, "m"); ok {
		text, scale = rest, 1
	}
	v, err := strconv.ParseFloat(text, 64)
	milli := math.Round(v * scale)
	switch {
	case n.Kind != document.Scalar || err != nil || math.IsNaN(v) || v < 0 || milli > 1e9:
		b.Problem(n, "expected a number of cores such as 4, 0.5 or 500m, at most 1000000%s", found(n))
		return 0
	case v > 0 && milli == 0: // rounded to 0 it would mean no limit
		b.Problem(n, "%s cores are too few: 1m is the smallest that counts, and 0 is not limited", document.Quote(n.Text))
		return 0
	}
	return int64(milli)
}

// found quotes a value that is neither a map nor a list.
func found(n *document.Node) string {
	if n.Kind != document.Scalar {
		return ""
	}
	return "; found " + document.Quote(n.Text)
}

// memory reads an amount of memory such as 54Gi or 10240Mi, in MiB.
func (b *builder) memory(n *document.Node) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	mib, ok := document.ParseMemory(n.Text)
	if n.Kind != document.Scalar || !ok {
		b.Problem(n, "expected an amount of memory with its unit, such as 54Gi or 10240Mi; "+
			"1Mi is the smallest that counts%s", found(n))
	}
	return mib
}

// sku returns the SKU of a leaf type and notes that it is used.
func (b *builder) sku(t cell.TypeName) cell.SKU {
	if e := b.skus[t]; e != nil {
		e.used = true
		return e.sku
	}
	return bareSKU(t)
}

// usedSKUs returns the SKUs of all chains, sorted, and warns of the others.
func (b *builder) usedSKUs() []cell.SKU {
	set := map[cell.TypeName]cell.SKU{}
	above := map[cell.TypeName]*document.Node{} // the types above these leaves
	var leaves []string
	for _, name := range slices.Sorted(maps.Keys(b.chains)) {
		if c := b.chains[name]; c != nil {
			set[c.sku()] = b.sku(c.sku())
			above[c.sku()] = c.levels[max(0, len(c.levels)-2)].at
			leaves = append(leaves, string(c.sku()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.skus)) {
		if e := b.skus[name]; !e.used && b.types[name] == nil {
			b.Warn(e.at, "no cell has this leaf type%s", document.DidYouMean(string(name), leaves))
		}
	}
	pretend := sync.OnceValues(b.policies.Pretend) // it may ask a driver
	out := make([]cell.SKU, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s, e := set[name], b.skus[name]
		if s.GPU > 0 && (e == nil || !e.explicit) && b.policies.Pretend != nil {
			var from string
			if s.Pretended, from = pretend(); s.Pretended && from != "" {
				at := above[name]
				if e != nil {
					at = e.at
				}
				b.inherits(at, name, from)
			}
		}
		s.Limits = s.Limits.Or(b.limits)
		out = append(out, s)
	}
	return out
}

// inherits warns of GPUs that are pretended although the file does not say so.
func (b *builder) inherits(at *document.Node, name cell.TypeName, from string) {
	if at != nil {
		b.Warn(at, "the GPUs of %s are pretended: %s; write pretended: true or false at it in skuTypes, "+
			"so that the file says which", name, from)
	}
}
