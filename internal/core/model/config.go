package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
)

// Duration is microseconds.
type Duration int64

// Units of Duration.
const (
	Millisecond Duration = 1000
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
)

// Config is a whole configuration of the core: the cluster and, for each VC, its
// policy. VCs are in the order of Cluster.VCs.
type Config struct {
	Cluster cell.Spec  `json:"cluster"`
	VCs     []VCConfig `json:"vcs"`
	// HalfLife is that of the record of what VCs borrowed; 0 keeps no record.
	HalfLife Duration `json:"half_life,omitempty"`
	// Throughputs are speeds of models that were measured offline, in order, no entry twice.
	Throughputs []Throughput `json:"throughputs,omitempty"`
	// Storages are those that jobs may name, by name, and Access what groups may do, by VC. The
	// core only carries them.
	Storages []Storage      `json:"storages,omitempty"`
	Access   []access.Grant `json:"access,omitempty"`
	// ExitRules say what exits of tasks mean. They come before the built-in table.
	ExitRules []exit.Rule `json:"exit_rules,omitempty"`
}

// VCConfig names the policy of one VC. Params are sorted by key.
type VCConfig struct {
	Name   cell.VCName `json:"name"`
	Policy string      `json:"policy"` // "" is fifo
	Params []Param     `json:"params,omitempty"`
	// Backfill says whether gangs may start before one that waits: "" and
	// "none", "easy" or "conservative".
	Backfill string `json:"backfill,omitempty"`
	// MinRun is how long an attempt runs before a job of the same priority may
	// preempt it, Budget how often that may happen to a job (nil is 3). Higher
	// priorities and other VCs' guarantees are not held up by either.
	MinRun Duration `json:"min_run,omitempty"`
	Budget *int32   `json:"budget,omitempty"`
	// Placement is how the VC chooses among equal places: "" and "pack" take the
	// fullest nodes, "spread" the emptiest.
	Placement string `json:"placement,omitempty"`
	// Moves is how many gangs may be relocated in an hour so that a waiting gang gets cells
	// (defragmentation); 0 is none. It excludes Backfill.
	Moves int32 `json:"moves,omitempty"`
	// Users bounds what each user may have in the VC; nil bounds nothing.
	Users *UserLimits `json:"users,omitempty"`
	// Weight is the VC's share of opportunistic capacity, relative to other VCs' weights; 0 is 1.
	Weight int64 `json:"weight,omitempty"`
	// Lending says whether opportunistic jobs of other VCs may use this one's idle cells: yes with
	// "" and "idle", no with "none".
	Lending string `json:"lending,omitempty"`
	// Namespace is the Kubernetes namespace of the pods of the VC, and of VCs inside it; "" is that
	// of the VC around it, or the server's own. The core only carries it.
	Namespace string `json:"namespace,omitempty"`
	// Workloads are the Kubernetes namespaces whose pods of others are jobs of the VC, sorted. The
	// core only carries them.
	Workloads []string `json:"workloads,omitempty"`
	// InfiniBand says that tasks of the VC, and of VCs inside it, may use RDMA devices. The core
	// only carries it.
	InfiniBand bool `json:"infiniband,omitempty"`
}

// UserLimits bound what one user may have in a VC, not in those inside of it; 0 is no bound.
type UserLimits struct {
	GPUs    int64 `json:"gpus,omitempty"`    // leaves (GPUs, their parts, CPU slots) held or promised
	Running int64 `json:"running,omitempty"` // jobs
	Waiting int64 `json:"waiting,omitempty"` // jobs
	// Priority is the highest that a job may have; nil is any.
	Priority *cell.Priority `json:"priority,omitempty"`
}

// String is limits in words: "8 GPUs, 4 running".
func (l *UserLimits) String() string {
	if l == nil {
		return "none"
	}
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{l.GPUs, "GPUs"}, {l.Running, "running"}, {l.Waiting, "waiting"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if l.Priority != nil {
		parts = append(parts, fmt.Sprintf("priority at most %d", *l.Priority))
	}
	return strings.Join(parts, ", ")
}

// defaultBudget is VCConfig.Budget of a VC that does not set it.
const defaultBudget = 3

// PreemptionBudget is how often jobs of the same priority may preempt a job.
func (c *VCConfig) PreemptionBudget() int32 {
	if c.Budget == nil {
		return defaultBudget
	}
	return *c.Budget
}

// Param is one policy parameter as written in the cluster file.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// NodeRename is a node that has a new name.
type NodeRename struct {
	From cell.NodeName `json:"from"`
	To   cell.NodeName `json:"to"`
}

// Rename is a VC that has a new name.
type Rename struct {
	From cell.VCName `json:"from"`
	To   cell.VCName `json:"to"`
}

// Throughput is how fast a model runs on a number of GPUs of a type, relative to the
// model's other entries, as measured offline. Policies choose sizes and types by it.
type Throughput struct {
	Model string        `json:"model"`         // AnyModel is all without entries of their own
	SKU   cell.TypeName `json:"sku,omitempty"` // "" is all types without entries of their own
	GPUs  int32         `json:"gpus"`          // at least 1
	Rate  int64         `json:"rate"`          // at least 1
}

// AnyModel stands for models that a table of throughputs does not name.
const AnyModel = "*"

// Compare orders by model, type and number of GPUs.
func (t Throughput) Compare(o Throughput) int {
	return cmp.Or(strings.Compare(t.Model, o.Model), strings.Compare(string(t.SKU), string(o.SKU)),
		cmp.Compare(t.GPUs, o.GPUs))
}

// NewVCName returns a VC's name after renames.
func NewVCName(renamed []Rename, v cell.VCName) cell.VCName {
	for _, r := range renamed {
		if r.From == v {
			return r.To
		}
	}
	return v
}

// NewNodeName returns a node's name after renames.
func NewNodeName(renamed []NodeRename, n cell.NodeName) cell.NodeName {
	for _, r := range renamed {
		if r.From == n {
			return r.To
		}
	}
	return n
}

// ConfigOfVC returns the configuration of a VC; an empty one, so fifo, if there is none.
func ConfigOfVC(c *Config, name cell.VCName) *VCConfig {
	for i := range c.VCs {
		if c.VCs[i].Name == name {
			return &c.VCs[i]
		}
	}
	return &VCConfig{Name: name}
}

// NamespaceOf is the namespace of a VC's pods, "" the server's own.
func NamespaceOf(c *Config, name cell.VCName) string {
	for _, vc := range VCAndParents(c.Cluster.VCs, name) {
		if space := ConfigOfVC(c, vc).Namespace; space != "" {
			return space
		}
	}
	return ""
}

// WorkloadVCs returns the VCs of a configuration that take pods of others as jobs, by namespace.
func WorkloadVCs(c *Config) map[string]cell.VCName {
	out := map[string]cell.VCName{}
	for i := range c.VCs {
		for _, space := range c.VCs[i].Workloads {
			out[space] = c.VCs[i].Name
		}
	}
	return out
}

// HasInfiniBand reports whether tasks of a VC may have devices of networks with RDMA.
func HasInfiniBand(c *Config, name cell.VCName) bool {
	return slices.ContainsFunc(VCAndParents(c.Cluster.VCs, name),
		func(vc cell.VCName) bool { return ConfigOfVC(c, vc).InfiniBand })
}

// Namespaces returns the namespaces that a configuration names, each with the first VC that does.
func Namespaces(c *Config) map[string]cell.VCName {
	out := map[string]cell.VCName{}
	for i := range c.VCs {
		if space := c.VCs[i].Namespace; space != "" && out[space] == "" {
			out[space] = c.VCs[i].Name
		}
	}
	return out
}

// The two ways in which a VC chooses among equal places (VCConfig.Placement). By
// default it packs: the tightest fit, so that large holes stay whole.
const (
	PlacePack   = "pack"
	PlaceSpread = "spread"
)

// Whether a VC lends its idle cells to opportunistic jobs of others (VCConfig.Lending). By default
// it does.
const (
	LendIdle    = "idle"
	LendNothing = "none"
)

// ownSpace is the text for a VC that names no namespace: which it has depends on the server and on
// the VC around it.
const ownSpace = "none of its own"
