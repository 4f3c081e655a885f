package model

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Carry is what one leaf of a SKU carries. Texts give amounts of leaves by it, as GPUs, CPUs and
// GiB; amounts of different SKUs are never added up.
type Carry struct {
	SKU      cell.TypeName   `json:"sku"`
	Device   cell.DeviceKind `json:"device"`
	GPU      int64           `json:"gpu"`                 // devices; 0 for a CPU slot
	MilliCPU int64           `json:"milli_cpu,omitempty"` // thousandths of a CPU; 0 is not limited
	MemoryMB int64           `json:"memory_mb,omitempty"` // MiB; 0 is not limited
	Part     cell.PartKind   `json:"part,omitempty"`      // of a device; "" is a whole one
}

// CarryOf is what one leaf of a SKU carries. A SKU without a device has no entry in the cluster
// file; its leaf is one GPU.
func CarryOf(s cell.SKU) Carry {
	if s.Device == "" {
		s.Device, s.GPU = cell.NVIDIA, 1
	}
	return Carry{SKU: s.Name, Device: s.Device, GPU: s.GPU, MilliCPU: s.MilliCPU, MemoryMB: s.MemoryMB, Part: s.Part}
}

// Amount says what n leaves are, such as "4 GPUs", "16 CPUs" or "2 GPU shares".
func (c Carry) Amount(n int32) string {
	if c.GPU == 0 && c.MilliCPU > 0 {
		return CPUText(c.MilliCPU * int64(n))
	}
	total := max(c.GPU, 1) * int64(n)
	if total == 1 {
		return "1 " + c.Unit()
	}
	return fmt.Sprintf("%d %ss", total, c.Unit())
}

// Number is Amount without the unit, such as "4".
func (c Carry) Number(n int32) string {
	number, _, _ := strings.Cut(c.Amount(n), " ")
	return number
}

// Unit is the noun for one device of a leaf, or for a leaf without devices.
func (c Carry) Unit() string {
	if c.GPU == 0 {
		return "CPU slot"
	}
	name := "GPU"
	switch c.Device {
	case cell.TPU:
		name = "TPU"
	case cell.Other:
		name = "device"
	}
	switch c.Part {
	case cell.MIG:
		name += " slice"
	case cell.Share:
		name += " share"
	}
	return name
}

// Full says all that n leaves carry, such as "2 GPUs, 8 CPUs, 32 GiB".
func (c Carry) Full(n int32) string {
	parts := []string{c.Amount(n)}
	if c.GPU > 0 && c.MilliCPU > 0 {
		parts = append(parts, CPUText(c.MilliCPU*int64(n)))
	}
	if c.MemoryMB > 0 {
		parts = append(parts, MemoryText(c.MemoryMB*int64(n)))
	}
	return strings.Join(parts, ", ")
}

// SizedByCPUOrMemory reports whether a task that asks for l needs n leaves because of CPUs or
// memory, and not because of GPUs.
func (c Carry) SizedByCPUOrMemory(l Ask, n int32) bool {
	fewer := int64(n - 1)
	return l.GPU <= fewer*c.GPU && (c.MilliCPU > 0 && l.MilliCPU > fewer*c.MilliCPU || c.MemoryMB > 0 &&
		l.MemoryMB > fewer*c.MemoryMB)
}

// PerUnitText says what comes with one GPU, such as "each GPU (type A100) comes with 4 CPUs, 16
// GiB".
func (c Carry) PerUnitText() string {
	_, rest, _ := strings.Cut(c.Full(1), ", ")
	return "each " + c.Unit() + " (type " + string(c.SKU) + ") comes with " + rest
}

// Limits are what a task may use of its machine; 0 is not limited.
type Limits struct {
	MilliCPU int64 `json:"milli_cpu,omitempty"` // thousandths of a CPU
	MemoryMB int64 `json:"memory_mb,omitempty"` // MiB
}

// String says limits, such as "4 CPUs, 16 GiB".
func (l Limits) String() string {
	cpu, memory := "CPUs not limited", "memory not limited"
	if l.MilliCPU > 0 {
		cpu = CPUText(l.MilliCPU)
	}
	if l.MemoryMB > 0 {
		memory = MemoryText(l.MemoryMB)
	}
	return cpu + ", " + memory
}

// WithDefaults returns the limits of a task on n leaves of a SKU: what it asks for, and what its
// leaves carry where it asks for nothing.
func (l Limits) WithDefaults(sku cell.SKU, n int) Limits {
	return Limits{cmp.Or(l.MilliCPU, sku.MilliCPU*int64(n)), cmp.Or(l.MemoryMB, sku.MemoryMB*int64(n))}
}

// Ask is what a task asks for; 0 is not asked.
type Ask struct {
	GPU int64 // devices
	Limits
}

// String says what is asked, such as "1 GPU, 4 CPUs, 16 GiB".
func (a Ask) String() string {
	var asks []string
	if a.GPU > 0 {
		asks = append(asks, Carry{GPU: 1}.Amount(int32(a.GPU)))
	}
	if a.MilliCPU > 0 {
		asks = append(asks, CPUText(a.MilliCPU))
	}
	if a.MemoryMB > 0 {
		asks = append(asks, MemoryText(a.MemoryMB))
	}
	return strings.Join(asks, ", ")
}

// CPUText is a text of thousandths of a CPU, such as "0.5 CPUs".
func CPUText(milli int64) string {
	if milli == 1000 {
		return "1 CPU"
	}
	text := fmt.Sprint(milli / 1000)
	if part := milli % 1000; part > 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", part), "0")
	}
	return text + " CPUs"
}

// MemoryText is a text of MiB, in GiB where that is a whole number or more than 10.
func MemoryText(mib int64) string {
	switch {
	case mib%1024 == 0:
		return fmt.Sprintf("%d GiB", mib/1024)
	case mib > 10*1024:
		return fmt.Sprintf("%.1f GiB", float64(mib)/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}
