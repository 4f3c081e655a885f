// Package config reads the cluster file: HiveD's YAML unchanged, alone or as the
// "hivedscheduler: config: |" block of an OpenPAI services-configuration file, with Comb's
// own keys. It fills in all defaults, checks everything that can be checked without a
// machine, and reports every problem with its place. It also makes a cluster file of the
// folder that configures an OpenPAI cluster.
//
// It must not place or decide anything, and must not read files or the machine.
package config

import (
	"regexp"
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// Unlimited is a capacity that is not checked.
const Unlimited = -1

// Capacity is what a machine has for its cells. Unlimited is a value that is not declared.
type Capacity struct {
	Node     cell.NodeName
	MilliCPU int64 // thousandths of a core
	MemoryMB int64 // MiB
	GPU      int64 // devices
	// Pretended says that GPUs that do not exist count, too.
	Pretended bool
}

// Cluster is a valid cluster file.
type Cluster struct {
	Config *model.Config
	// Nodes are the capacities declared under "nodes", sorted by name.
	Nodes []Capacity
	// Renamed and RenamedNodes are the former names in the file of virtual clusters and
	// nodes, sorted by the new names.
	Renamed      []model.Rename
	RenamedNodes []model.NodeRename
}

// Command is the command that makes the cluster the present configuration.
func (c *Cluster) Command(m model.Meta) model.Reconfigure {
	return model.Reconfigure{Meta: m, Config: c.Config, Renamed: c.Renamed, RenamedNodes: c.RenamedNodes}
}

// The bounds of a cluster. They are checked before anything is built.
const (
	MaxLeaves     = 1_000_000 // devices of the whole cluster
	MaxCells      = 2_000_000 // cells of all levels
	MaxNodeLeaves = 4096      // devices, or parts of devices, of one machine in one chain
	MaxChains     = 256
	MaxVCs        = 1024
	maxVCDepth    = 8 // of nested virtual clusters
	maxNameLength = 253
	maxLevels     = 32
	maxIndex      = MaxLeaves - 1 // of a device on its node
)

// Limits are the bounds of a cluster file as a document.
func Limits() document.Limits {
	return document.Limits{Bytes: 8 << 20, Depth: 2 * (maxLevels + 8), Nodes: 400_000, Scalar: 8 << 20}
}

// Policies are the policies that a cluster file may name. Without Names every name is
// accepted, and without New all parameters are.
type Policies struct {
	Names []string
	New   model.Policies
	Named bool // the nodes are machines: each must have a name
	// Pretend says whether GPUs are pretended where a file does not say, and why in words for
	// a warning; "" is none. With a nil Pretend they are real.
	Pretend func() (yes bool, from string)
}

// Parse reads a cluster file. Warnings (accepted, but probably not meant) come with or
// without problems. With problems the cluster is nil.
func Parse(file string, src []byte, policies Policies) (c *Cluster, warnings, problems document.Problems) {
	root, problems := document.Parse(file, src, Limits())
	if root == nil {
		return nil, nil, problems
	}
	b := &builder{Reader: document.NewReader(), policies: policies, workloads: workloadSpaces{}}
	b.Add(problems)
	if root = b.unwrap(root); root != nil {
		b.read(root)
	}
	if problems := b.Problems(); len(problems) > 0 {
		return nil, b.Warnings(), problems
	}
	return &Cluster{Config: b.config(), Nodes: b.capacities, Renamed: b.renamed, RenamedNodes: b.renamedNodes}, b.Warnings(), nil
}

// builder is one reading of one file.
type builder struct {
	*document.Reader
	policies Policies

	types    map[cell.TypeName]*cellType
	skus     map[cell.TypeName]*skuEntry
	chains   map[cell.ChainName]*chain
	tops     []*document.Node // the physicalCells
	cells    []cell.CellSpec
	machines map[cell.NodeName]*machine
	pins     map[cell.PinnedID]*pin
	vcs      []vc
	halfLife model.Duration
	speeds   []model.Throughput
	storages []model.Storage
	exits    []exit.Rule
	limits   cell.TaskLimits
	access   []access.Grant
	divides  bool // some type is a device with parts

	workloads workloadSpaces

	tooManyVCs bool // there are more than MaxVCs virtual clusters
	topUnread  bool // a top-level cell could not be read: chains may lack cells

	renamed      []model.Rename
	renamedNodes []model.NodeRename
	nodeRenames  []nodeRename
	capacities   []Capacity
}

// unwrap finds the cluster file inside an OpenPAI services-configuration file. It returns nil
// when nothing can be read.
func (b *builder) unwrap(root *document.Node) *document.Node {
	outer := root.Get("hivedscheduler")
	if outer == nil || root.Get("physicalCluster") != nil || root.Get("virtualClusters") != nil {
		return root
	}
	inner := outer.Get("config")
	switch {
	case inner == nil || inner.Kind == document.Null:
		b.Problem(outer, "hivedscheduler needs the key \"config\" with the cluster file as a block (config: |)")
		return nil
	case inner.Kind == document.Map:
		return inner
	}
	root, problems := inner.Inside(Limits())
	b.Add(problems)
	return root
}

// ignored are HiveD's keys that Comb does not need.
func ignored() []string {
	return []string{"kubeApiServerAddress", "kubeConfigFilePath", "webServerAddress", "forcePodBindThreshold", "waitingPodSchedulingBlockMilliSec", "quotaExcludeVCs"}
}

// read reads the parts of the file in the order in which they need each other. Each goes on
// with what could be read of the earlier ones.
func (b *builder) read(root *document.Node) {
	m := b.Map(root, "the cluster file")
	b.require(m, "physicalCluster", "what the cluster has: cellTypes and physicalCells")
	b.require(m, "virtualClusters", "the teams, each with its virtualCells")
	physical := b.Map(m.Node("physicalCluster"), "physicalCluster")
	b.require(physical, "cellTypes", aType)
	b.require(physical, "physicalCells", "a list of the cells that exist, such as {cellType: NODE, cellAddress: node-1}")
	b.readTypes(physical.Node("cellTypes"))
	b.readSKUs(b.skuTypes(physical))
	b.readCells(physical.Node("physicalCells"))
	physical.Rest()
	b.checkNodeRenames()
	b.readVCs(m.Node("virtualClusters"))
	b.workloads.check(b)
	b.renames()
	b.readNodes(m.Node("nodes"))
	b.halfLife = b.duration(m.Node("opportunisticHalfLife"), maxHalf)
	b.readThroughputs(m.Node("throughputs"))
	b.storages = readStorages(b.Reader, m.Node("storages"), func(name string) bool {
		return b.tooManyVCs || slices.ContainsFunc(b.vcs, func(v vc) bool { return string(v.spec.Name) == name })
	})
	b.limits = readLimits(b.Reader, m.Node("limits"))
	b.exits = readExitRules(b.Reader, m.Node("exitRules"))
	for _, key := range ignored() {
		if n := m.Node(key); n != nil {
			b.Warn(n, "this key of HiveD has no effect here")
		}
	}
	m.Rest()
	b.checkGuarantees()
}

// require reports a key that is missing or has no value. belongs says what its value is.
func (b *builder) require(m *document.MapReader, key, belongs string) {
	n := m.Node(key)
	if n == nil {
		m.Require(key)
	} else if n.Kind == document.Null {
		b.Problem(n, "%s has no value; write %s", key, belongs)
	}
}

// text reads a required text. As in HiveD an empty one counts as missing.
func (b *builder) text(m *document.MapReader, key, belongs string) string {
	n := m.Node(key)
	if n != nil && n.Kind == document.Scalar && n.Text == "" {
		b.Problem(n, "%s has no value; write %s", key, belongs)
		return ""
	}
	b.require(m, key, belongs)
	return b.String(n, document.Text{})
}

// namePattern matches names of types, VCs, nodes and pinned cells.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$`)

// name checks the name of what at n.
func (b *builder) name(n *document.Node, name, what string) bool {
	if len(name) <= maxNameLength && namePattern.MatchString(name) {
		return true
	}
	b.Problem(n, "%s is no good name for %s: use at most %d letters, digits, \"-\", \"_\" and \".\"", document.Quote(name), what, maxNameLength)
	return false
}
