// Package cell is the topology layer: a forest of cells (rack > node > switch
// > leaf), the cells that every virtual cluster (VC) owns, and the search that
// places a gang on leaves without ever breaking another VC's guarantee.
//
// The vocabulary is HiveD's (OSDI'20): a cell type is the shape of a subtree, a
// chain is the path of types from a top-level type down to its leaf, level 1 is
// the leaf. The package is pure: no clock, no randomness, no map order, no
// goroutine, no I/O. It must not know jobs, users or policies.
package cell

import (
	"cmp"
	"strconv"
	"strings"
)

// TypeName names a cell type, for example "DGX2-V100-NODE". A leaf's type is
// also the name of its SKU.
type TypeName string

// ChainName names a chain by its top-level cell type.
type ChainName string

// NodeName names a machine. One machine may carry cells of several chains.
type NodeName string

// VCName names a virtual cluster.
type VCName string

// PinnedID names a pinned cell: one physical cell that belongs to one VC.
type PinnedID string

// Level counts from 1, the leaf, up to the top of a chain.
type Level int8

// CellID indexes the cells of one Forest, in depth-first order; -1 is none.
type CellID int32

// LeafID indexes the leaves of the physical forest, in depth-first order, so
// that the leaves of a cell are contiguous; -1 is none.
type LeafID int32

// AllocID indexes allocations; -1 is none. An id is reused after its release.
type AllocID int32

// RootID indexes the preassigned cells of one VC (its quota units and its
// pinned cells), in the order of the configuration; -1 is none.
type RootID int32

// Priority orders jobs: 0 to 1000 is guaranteed, -1 opportunistic.
type Priority int16

// The priority classes of OpenPAI and the range of HiveD.
const (
	Free          Priority = -2 // of a leaf that is not in use
	Opportunistic Priority = -1
	MinGuaranteed Priority = 0
	MaxGuaranteed Priority = 1000
)

// None marks an absent cell, leaf, allocation or root.
const None = -1

// DeviceKind says which device a leaf stands for; it names the environment
// variable and the device files that a task gets.
type DeviceKind string

// The known device kinds.
const (
	NVIDIA DeviceKind = "nvidia"
	AMD    DeviceKind = "amd"
	TPU    DeviceKind = "tpu"
	CPU    DeviceKind = "cpu"
	Other  DeviceKind = "other"
)

// PartKind says what part of a device a leaf is; its address is then
// "device:part".
type PartKind string

// The kinds of parts.
const (
	MIG   PartKind = "mig"   // a slice that the hardware isolates
	Share PartKind = "share" // a share of one device that several tasks use
)

// SKU is a leaf type with what one leaf of it carries.
type SKU struct {
	Name        TypeName   `json:"name"`
	GPU         int64      `json:"gpu"`                     // devices per leaf, 0 for a CPU slot
	MilliCPU    int64      `json:"milli_cpu"`               // thousandths of a core
	MemoryMB    int64      `json:"memory_mb"`               // MiB
	GPUMemoryMB int64      `json:"gpu_memory_mb,omitempty"` // of each device, MiB; 0 is not known
	Device      DeviceKind `json:"device"`
	EnvVar      string     `json:"env_var,omitempty"` // set to the task's device indices
	Part        PartKind   `json:"part,omitempty"`    // kind of part that a leaf is; "" is a device
	Files       []string   `json:"files,omitempty"`   // device files; "%d" stands for the index
	DRA         DRA        `json:"dra,omitzero"`
	// Resource is what a device plugin of Kubernetes calls a device; "" is the name of its kind.
	Resource string `json:"resource,omitempty"`
	// InfiniBand is likewise the name of a network device with RDMA, of which a task may get one.
	InfiniBand string     `json:"infiniband,omitempty"`
	Limits     TaskLimits `json:"limits,omitzero"`
	Groups     []string   `json:"groups,omitempty"` // groups of the machine that its tasks are in
	// Pretended says that its devices do not exist: tasks get their indices, and nothing else.
	Pretended bool `json:"pretended,omitempty"`
}

// Bounds of the number of open files of a process that a task may ask for. With fewer, programs
// do not start. How many a node allows is decided by its kernel (fs.nr_open, mostly 1,048,576).
const (
	LeastFiles = 64
	MostFiles  = 1 << 30
)

// TaskLimits are limits of each process of a task; 0 is what the runtime gives, -1 no limit.
type TaskLimits struct {
	NoFile    int64 `json:"nofile,omitempty"`     // open files
	StackMB   int64 `json:"stack_mb,omitempty"`   // MiB
	MemLockMB int64 `json:"memlock_mb,omitempty"` // MiB of memory that cannot be swapped out
}

// Or returns the limits where they are set, else those of o.
func (l TaskLimits) Or(o TaskLimits) TaskLimits {
	return TaskLimits{NoFile: cmp.Or(l.NoFile, o.NoFile), StackMB: cmp.Or(l.StackMB, o.StackMB),
		MemLockMB: cmp.Or(l.MemLockMB, o.MemLockMB)}
}

// Above says which limit is more than most allows; "" is none. What most does not set is not
// bounded.
func (l TaskLimits) Above(most TaskLimits) string {
	for _, one := range []struct {
		name, unit string
		asks, most int64
	}{
		{"nofile", "", l.NoFile, most.NoFile}, {"stack", " MiB", l.StackMB, most.StackMB},
		{"memlock", " MiB", l.MemLockMB, most.MemLockMB},
	} {
		if one.asks != 0 && one.most > 0 && (one.asks < 0 || one.asks > one.most) {
			asks := strconv.FormatInt(one.asks, 10) + one.unit
			if one.asks < 0 {
				asks = "unlimited"
			}
			return one.name + ": " + asks + " is more than " + strconv.FormatInt(one.most, 10) + one.unit
		}
	}
	return ""
}

// PrivilegedGroup reports whether a group of a machine is known to have rights over all of it: no
// task gets such a group.
func PrivilegedGroup(group string) bool {
	switch group {
	case "root", "wheel", "sudo", "adm", "shadow", "disk", "kmem", "docker", "lxd", "libvirt", "systemd-journal":
		return true
	}
	return false
}

// FilePattern splits the pattern of a device file at the number in it: "%d" is a device's index,
// and "{128}" that index counted from 128. each is false for a file that all devices have.
func FilePattern(pattern string) (head, tail string, first int64, each bool) {
	if head, tail, each = strings.Cut(pattern, "%d"); each {
		return head, tail, 0, true
	}
	head, rest, ok := strings.Cut(pattern, "{")
	number, tail, closed := strings.Cut(rest, "}")
	first, err := strconv.ParseInt(number, 10, 32)
	if !ok || !closed || err != nil || first < 0 {
		return pattern, "", 0, false
	}
	return head, tail, first, true
}

// DRA is how tasks in pods are given the devices of a SKU by dynamic resource allocation, device
// by device; the zero DRA is without it.
type DRA struct {
	Class     string `json:"class"`     // class of devices that claims ask for
	Driver    string `json:"driver"`    // driver that publishes them
	Device    string `json:"device"`    // what the driver calls one; "%d" stands for its index
	Attribute string `json:"attribute"` // unique among devices of a node; claims name one by it
}

// IndexSpace names the devices that share one numbering on a node: all of one kind, whole or
// divided, or those of one SKU if the kind is Other.
func (s *SKU) IndexSpace() string {
	if s.Device == Other {
		return string(s.Device) + " " + string(s.Name)
	}
	return string(s.Device)
}

// LevelSpec is one level of a chain.
type LevelSpec struct {
	Type   TypeName `json:"type"`
	Fanout int32    `json:"fanout"` // children per cell; 0 at the leaf
	IsNode bool     `json:"is_node,omitempty"`
}

// ChainSpec is the path of types of one top-level cell type, leaf first: Levels[0] is level 1.
// Exactly one level is the node level.
type ChainSpec struct {
	Name   ChainName   `json:"name"`
	Levels []LevelSpec `json:"levels"`
}

// CellSpec is one physical cell as configured, children and addresses filled in (config does
// that). Every cell of one type has the same number of children. Above node level some may be
// missing: then the cell is not whole, and guarantees rest on the cells in it. At node level
// Address is the node's name; at the leaf it is the device index.
type CellSpec struct {
	Type     TypeName   `json:"type"`
	Address  string     `json:"address"`
	Pinned   PinnedID   `json:"pinned,omitempty"`
	Children []CellSpec `json:"children,omitempty"`
}

// QuotaSpec is a part of a VC's guarantee: Number cells of a chain's level.
type QuotaSpec struct {
	Chain  ChainName `json:"chain"`
	Level  Level     `json:"level"`
	Number int32     `json:"number"`
}

// VCSpec is one virtual cluster's guarantee. With a Parent its cells are part of
// the parent's: the parent's own jobs use the cells that no child has.
type VCSpec struct {
	Name   VCName      `json:"name"`
	Parent VCName      `json:"parent,omitempty"` // "" divides the whole cluster
	Quota  []QuotaSpec `json:"quota,omitempty"`
	Pinned []PinnedID  `json:"pinned,omitempty"`
}

// Spec is a whole cluster: what config reads from a cluster file, already
// validated and with all defaults written out. Every slice is in file order
// except SKUs, Chains and VCs, which are sorted by name so that nothing depends
// on the order of a YAML map.
type Spec struct {
	SKUs   []SKU       `json:"skus"`
	Chains []ChainSpec `json:"chains"`
	Cells  []CellSpec  `json:"cells"` // top-level physical cells
	VCs    []VCSpec    `json:"vcs"`
}

// Task is the placement of one gang member: leaves of one node, one SKU.
type Task struct {
	Node    NodeName `json:"node"`
	SKU     TypeName `json:"sku"`
	Leaves  []LeafID `json:"leaves"`  // ascending
	Devices []int32  `json:"devices"` // device index of each leaf, same order
	// Parts says which part of its device each leaf is, same order; none when
	// leaves are whole devices.
	Parts []int32 `json:"parts,omitempty"`
}

// Bind ties a VC's preassigned cell to the physical cell that stands for it now. If the VC is
// part of others, its bindings include the cells of these around it.
type Bind struct {
	Space int32  `json:"space,omitempty"` // 0 is the VC, else a container that it is part of
	Root  RootID `json:"root"`
	Cell  CellID `json:"cell"`
}

// Placement is where a gang runs: one Task per member, in the members' order,
// and the preassigned cells it uses (none for an opportunistic gang). It names
// physical leaves, so it can be taken again at replay without any search.
type Placement struct {
	Tasks []Task `json:"tasks"`
	Binds []Bind `json:"binds,omitempty"` // containers' first, outermost first; then sorted by Root
}
