package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/combsched/comb/internal/base/document"
)

// The files that are read, and bounds on their size.
const (
	Services = "services-configuration.yaml"
	Layout   = "layout.yaml"
	mostFile = 4 << 20
)

// Fate says what became of a part of the folder.
type Fate string

// The fates, in the order of the report.
const (
	TakenOver Fate = "taken over"
	Changed   Fate = "changed"
	LeftOut   Fate = "left out"
	ToDo      Fate = "to do" // Comb cannot do it
)

// Row is a part of the folder, and what became of it.
type Row struct {
	Fate  Fate
	Where string // FILE:LINE KEY
	Says  string
}

// Converted is what was made of a folder.
type Converted struct {
	File []byte // a cluster file
	From string // what File was made of
	Rows []Row  // in order of fate, then of place
	// Source is the text that contains the cluster file as its user wrote it, and Name the
	// file of that text: so problems have places. Where File was made of machines it is File
	// itself.
	Name   string
	Source []byte
}

// Convert makes a cluster file. It takes the scheduler's configuration where
// services-configuration.yaml has one, unchanged but for what the rows say. Else it does as
// OpenPAI does: it makes one virtual cluster "default" of the machines in layout.yaml. The
// error lists all mistakes, each with its file, line and key.
func Convert(folder fs.FS) (Converted, error) {
	c := converter{folder: folder}
	c.file, _ = c.read(Layout)
	c.machines = c.layout(c.file)
	services, source := c.read(Services)
	c.groups = c.readGroups(services.Get("authentication"))
	switch hived := services.Get("hivedscheduler").Get("config"); {
	case hived != nil && hived.Kind == document.Scalar && strings.TrimSpace(hived.Text) != "":
		c.out.From, c.out.Name, c.out.Source = Services+", hivedscheduler.config", Services, source
		c.out.File = c.scheduler(hived)
	case hived != nil && hived.Kind != document.Null:
		c.problem(hived, "the scheduler's configuration is a text here (config: |), not "+hived.Kind.String())
	case len(c.machines) > 0:
		c.out.From, c.out.Name = Layout, "the cluster file that was made of "+Layout
		c.out.File = c.build()
		c.out.Source = c.out.File
	case len(c.problems) == 0:
		c.problems = append(c.problems, document.Problem{Message: "the folder has no scheduler's configuration (" + Services +
			", hivedscheduler.config) and no machines (" + Layout + ", machine-list)"})
	}
	c.leftOut(services)
	if len(c.problems) > 0 {
		return Converted{}, c.problems
	}
	order := []Fate{TakenOver, Changed, LeftOut, ToDo}
	slices.SortStableFunc(c.out.Rows, func(a, b Row) int {
		return cmp.Compare(slices.Index(order, a.Fate), slices.Index(order, b.Fate))
	})
	return c.out, nil
}

type converter struct {
	folder   fs.FS
	file     *document.Node // of the layout
	machines []paiMachine
	groups   []group
	out      Converted
	problems document.Problems
}

// paiMachine is a worker of layout.yaml.
type paiMachine struct {
	name, sku string
	at        *document.Node
}

func (c *converter) problem(n *document.Node, text string) {
	c.problems = append(c.problems, n.Problem(text))
}

// row reports what became of a part.
func (c *converter) row(fate Fate, where, format string, args ...any) {
	c.out.Rows = append(c.out.Rows, Row{fate, printable(where), printable(fmt.Sprintf(format, args...))})
}

// place is FILE:LINE KEY, with what is known of it.
func place(file string, n *document.Node, key string) string {
	if n != nil {
		file = fmt.Sprintf("%s:%d", file, n.Line)
	}
	return strings.TrimSpace(file + " " + key)
}

// printable is a text as one line of a table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// read reads a file of the folder; nil where it is missing or wrong.
func (c *converter) read(name string) (*document.Node, []byte) {
	src, err := fs.ReadFile(c.folder, name)
	if err != nil {
		c.row(LeftOut, place(name, nil, ""), "it is not read: %v", err)
		return nil, nil
	}
	if len(src) > mostFile {
		c.problems = append(c.problems, document.Problem{File: name, Message: fmt.Sprintf("it has %d bytes, more than %d", len(src), mostFile)})
		return nil, nil
	}
	n, problems := document.Parse(name, src, document.DefaultLimits())
	if c.problems = append(c.problems, problems...); n != nil && n.Kind != document.Map && n.Kind != document.Null {
		c.problem(n, "a map is expected here, not "+n.Kind.String())
		return nil, nil
	}
	return n, src
}

func paiText(n *document.Node) string {
	if n == nil || n.Kind != document.Scalar {
		return ""
	}
	return n.Text
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// instead says what replaces the section of a service.
var instead = map[string]string{
	"cluster":                "comb serve has an identity of its own (comb config get-id)",
	"rest-server":            "comb serve answers /rest-server itself",
	"webportal":              "the portal is part of comb serve",
	"authentication":         "its groups alone are used; comb serve --oidc FILE is the other way to sign in: see docs/people.md",
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

// leftOut reports every section that has no effect.
func (c *converter) leftOut(services *document.Node) {
	if services == nil {
		return
	}
	for _, f := range services.Fields {
		why, known := instead[f.Key]
		switch {
		case !known:
			why = "nothing here is called so"
		case f.Key == "hivedscheduler" && len(f.Value.Fields) <= 1:
			continue
		}
		c.row(LeftOut, place(Services, f.At(), f.Key), "%s", why)
	}
}
