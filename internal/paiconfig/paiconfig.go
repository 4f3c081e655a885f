// Package paiconfig makes a cluster file of the folder in which an OpenPAI cluster keeps its configuration: layout.yaml and
// services-configuration.yaml. It must not know what becomes of the file.
package paiconfig

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/document"
)

// The files that are read, and how large they may be together with what is in them.
const (
	Services = "services-configuration.yaml"
	Layout   = "layout.yaml"
	mostFile = 4 << 20
)

// Converted is what was made of a folder.
type Converted struct {
	File  []byte   // a cluster file
	From  string   // what it was made of
	Notes []string // what was left out, and why; and what is to be looked at
}

// Convert makes a cluster file: of the scheduler's configuration where services-configuration.yaml has one, byte for byte; else of
// the machines in layout.yaml, as OpenPAI does: one virtual cluster "default" with all of them. The error tells all mistakes, each with
// its file, line and key.
func Convert(folder fs.FS) (Converted, error) {
	c := converter{folder: folder}
	c.file = c.read(Layout)
	c.machines = c.layout(c.file)
	services := c.read(Services)
	out := c.out
	switch hived := services.Get("hivedscheduler").Get("config"); {
	case hived != nil && hived.Kind == document.Scalar && strings.TrimSpace(hived.Text) != "":
		c.scheduler(hived)
		out.File, out.From = []byte(hived.Text), Services+", hivedscheduler.config"
	case hived != nil && hived.Kind != document.Null:
		c.problem(hived, "the scheduler's configuration is a text here (config: |), not "+hived.Kind.String())
	case len(c.machines) > 0:
		out.File, out.From = c.build(), Layout
	case len(c.problems) == 0:
		c.problems = append(c.problems, document.Problem{Message: "the folder has no scheduler's configuration (" + Services +
			", hivedscheduler.config) and no machines (" + Layout + ", machine-list)"})
	}
	c.leftOut(services)
	out.Notes = c.out.Notes
	if len(c.problems) > 0 {
		return Converted{}, c.problems
	}
	return out, nil
}

type converter struct {
	folder   fs.FS
	file     *document.Node // of the layout
	machines []machine
	out      Converted
	problems document.Problems
}

// machine is a worker of layout.yaml.
type machine struct{ name, sku string }

func (c *converter) problem(n *document.Node, text string) {
	c.problems = append(c.problems, n.Problem(text))
}

func (c *converter) note(format string, args ...any) {
	c.out.Notes = append(c.out.Notes, fmt.Sprintf(format, args...))
}

// read reads a file of the folder; nil where it is not there or wrong.
func (c *converter) read(name string) *document.Node {
	src, err := fs.ReadFile(c.folder, name)
	if err != nil {
		c.note("%s: not read: %v", name, err)
		return nil
	}
	if len(src) > mostFile {
		c.problems = append(c.problems, document.Problem{File: name, Message: fmt.Sprintf("it has %d bytes, more than %d", len(src), mostFile)})
		return nil
	}
	n, problems := document.Parse(name, src, document.DefaultLimits())
	if c.problems = append(c.problems, problems...); n != nil && n.Kind != document.Map && n.Kind != document.Null {
		c.problem(n, "a map is expected here, not "+n.Kind.String())
		return nil
	}
	return n
}

// sku is what one device of a machine type brings.
type sku struct {
	gpus      int64
	cpu       float64
	memoryMiB int64
}

// layout reads the workers.
func (c *converter) layout(n *document.Node) (out []machine) {
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
		name, kind := text(m.Get("hostname")), text(m.Get("machine-type"))
		switch {
		case text(m.Get("pai-worker")) != "true":
			continue
		case !plain(name):
			c.problem(cmp.Or(m.Get("hostname"), m), "hostname: a machine needs a name of letters, digits, '-', '_' and '.'")
		case seen[name]:
			c.problem(m.Get("hostname"), "hostname: there are two machines "+document.Quote(name))
		case kind == "" || n.Get("machine-sku").Get(kind) == nil:
			c.problem(cmp.Or(m.Get("machine-type"), m), "machine-type: machine-sku has no "+document.Quote(kind))
		default:
			seen[name] = true
			out = append(out, machine{name, kind})
		}
	}
	return out
}

func text(n *document.Node) string {
	if n == nil || n.Kind != document.Scalar {
		return ""
	}
	return n.Text
}

func plain(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// skuOf reads a machine type: computing-device or gpu, cpu.vcore and mem.
func (c *converter) skuOf(n *document.Node) (out sku) {
	device := n.Get("computing-device")
	if device == nil {
		device = n.Get("gpu")
	}

	if count := device.Get("count"); count != nil {
		if _, err := fmt.Sscan(count.Text, &out.gpus); err != nil || out.gpus < 0 || out.gpus > 1024 {
			c.problem(count, "want the number of devices, 0 to 1024")
		}
	}
	if v := n.Get("cpu").Get("vcore"); v != nil {
		if _, err := fmt.Sscan(v.Text, &out.cpu); err != nil || out.cpu < 0 || out.cpu > 100_000 {
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

// build writes a cluster file for the machines.
func (c *converter) build() []byte {
	kinds := map[string][]string{}
	for _, m := range c.machines {
		kinds[m.sku] = append(kinds[m.sku], m.name)
	}
	var types, cells, nodes, vc strings.Builder
	for _, kind := range sorted(kinds) {
		s := c.skuOf(c.file.Get("machine-sku").Get(kind))
		name := upper(kind)
		leaves, gpu := max(s.gpus, 1), "gpu: 1, "
		if s.gpus == 0 {
			gpu = ""
		}
		var limits []string
		if s.cpu > 0 {
			limits = append(limits, fmt.Sprintf("cpu: %dm", int64(s.cpu*1000)/leaves))
		}
		if s.memoryMiB > 0 {
			limits = append(limits, fmt.Sprintf("memory: %dMi", s.memoryMiB/leaves))
		}
		fmt.Fprintf(&types, "    %s: {%s%s}\n", name, gpu, strings.Join(limits, ", "))
		fmt.Fprintf(&cells, "    %s-NODE: {childCellType: %s, childCellNumber: %d, isNodeLevel: true}\n", name, name, leaves)
		for _, host := range kinds[kind] {
			fmt.Fprintf(&nodes, "  - {cellType: %s-NODE, cellAddress: %q}\n", name, host)
		}
		fmt.Fprintf(&vc, "    - {cellType: %s-NODE, cellNumber: %d}\n", name, len(kinds[kind]))
		c.note("%s, machine-sku.%s: all of its processors and memory are given to jobs; OpenPAI keeps some for its own services", Layout, kind)
	}
	return []byte("# Made of " + Layout + " of an OpenPAI cluster.\nphysicalCluster:\n  skuTypes:\n" + types.String() + "  cellTypes:\n" + cells.String() +
		"  physicalCells:\n" + nodes.String() + "virtualClusters:\n  default:\n    virtualCells:\n" + vc.String())
}

// upper makes the name of a machine type one of a cell type.
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

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// scheduler looks whether the machines of the scheduler's configuration are those of the layout.
func (c *converter) scheduler(n *document.Node) {
	inner, problems := n.Inside(document.DefaultLimits())
	if c.problems = append(c.problems, problems...); inner == nil || len(c.machines) == 0 {
		return
	}
	named := map[string]bool{}
	addresses(inner.Get("physicalCluster").Get("physicalCells"), named)
	var missing []string
	for _, m := range c.machines {
		if !named[m.name] {
			missing = append(missing, m.name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		c.note("%s has workers that the scheduler's configuration does not: %s: jobs do not run there", Layout, strings.Join(missing[:min(len(missing), 20)], ", "))
	}
}

// addresses collects the addresses of cells.
func addresses(n *document.Node, into map[string]bool) {
	if n == nil {
		return
	}
	for _, item := range n.Items {
		if a := text(item.Get("cellAddress")); a != "" {
			into[a[strings.LastIndexByte(a, '/')+1:]] = true
		}
		addresses(item.Get("cellChildren"), into)
	}
}

// instead says what takes the place of a service's section.
var instead = map[string]string{
	"cluster":                "comb serve has an identity of its own (comb config get-id)",
	"rest-server":            "comb serve answers /rest-server itself",
	"webportal":              "the portal is part of comb serve",
	"authentication":         "comb serve --oidc FILE signs users in by an OpenID provider; see docs/people.md",
	"prometheus":             "comb serve tells its metrics at /metrics; see docs/monitoring.md",
	"alert-manager":          "deploy/prometheus has alert rules; see docs/monitoring.md",
	"grafana":                "comb serve tells its metrics at /metrics; see docs/monitoring.md",
	"job-exporter":           "GPUs of tasks are told at /metrics",
	"node-exporter":          "run Prometheus' own beside comb serve",
	"pylon":                  "comb serve takes requests itself; --tls-cert and --tls-key give it a certificate",
	"postgresql":             "comb serve keeps its journal itself; see docs/backup.md",
	"database-controller":    "comb serve keeps its journal itself; see docs/backup.md",
	"frameworkcontroller":    "comb serve runs gangs itself",
	"log-manager":            "logs stay as long as comb serve --keep-logs says",
	"fluentd":                "logs are read by comb job logs",
	"storage-manager":        "storages are folders that the cluster file names; see docs/storages.md",
	"internal-storage":       "there is none",
	"cleaner":                "comb serve --keep-logs, --image-budget and --upload-quota bound what stays",
	"watchdog":               "comb node list and /metrics tell the state of nodes",
	"dshuttle":               "there is none",
	"marketplace-db":         "there is no marketplace",
	"marketplace-restserver": "there is no marketplace",
	"marketplace-webportal":  "there is no marketplace",
	"openpaidbsdk":           "there is no marketplace",
	"docker-cache":           "the engine's own mirrors do that",
	"blobfuse-csi-driver":    "storages are folders that the cluster file names; see docs/storages.md",
	"cluster-local-storage":  "storages are folders that the cluster file names; see docs/storages.md",
	"elasticsearch":          "there is none",
	"hivedscheduler":         "of it the config alone is used",
}

// leftOut names every section that has no effect.
func (c *converter) leftOut(services *document.Node) {
	if services == nil {
		return
	}
	for _, f := range services.Fields {
		why, known := instead[f.Key]
		if !known {
			why = "nothing here is called so"
		}
		if f.Key == "hivedscheduler" && len(f.Value.Fields) <= 1 {
			continue
		}
		c.note("%s:%d: %s is left out: %s", Services, f.Line, f.Key, why)
	}
}
