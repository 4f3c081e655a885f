package config

import (
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// whole is the part of a device that is not divided.
const whole = -1

// divided names a device on its node, whatever the SKUs of its leaves.
type divided struct {
	kind  cell.DeviceKind
	index int64
}

// dividedUse is how leaves use one device: parts of it, or all of it.
type dividedUse struct {
	whole *document.Node
	parts map[int64]*document.Node
}

// isPart reports whether the cells of a level are parts of a device.
func (e *expander) isPart(level int) bool {
	return e.chain.device >= 0 && level == len(e.chain.levels)-1
}

// index64 reads an address that must be a device index; -1 when it is not one.
func (e *expander) index64(address string, at spot, what string) int64 {
	if index, ok := number(address); ok {
		return index
	}
	e.Problem(at.near, "the address %s of %s must be its device index: 0 to %d", document.Quote(address), what, maxIndex)
	return -1
}

func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= maxIndex && strconv.FormatInt(n, 10) == text
}

// deviceIndex reads the address of a device that is divided.
func (e *expander) deviceIndex(address string, at spot) int64 {
	return e.index64(address, at, "a "+string(e.chain.levels[at.level].name))
}

// partIndex reads the address "device:part" of a part, -1 when it is wrong.
func (e *expander) partIndex(address string, at spot) int64 {
	if at.device < 0 {
		return -1 // its device is reported
	}
	d, p, _ := strings.Cut(address, ":")
	part, ok := number(p)
	if d != strconv.FormatInt(at.device, 10) || !ok {
		e.Problem(at.near, "the address %s of a %s must name its device and its part: %d:0 to %d:%d", document.Quote(address), e.sku.Name, at.device, at.device, maxIndex)
		return -1
	}
	return part
}

// noteUse notes which leaf uses a device. It reports a device that is used as a whole and in
// parts, and a part for which leaves of two types stand. A divided device counts as one GPU
// of its machine.
func (e *expander) noteUse(m *machine, d device, at spot) {
	if !e.divides {
		return
	}
	if e.sku.Device != cell.NVIDIA && e.sku.Device != cell.AMD && e.sku.Device != cell.TPU {
		return
	}
	key := divided{e.sku.Device, d.index}
	u := m.divided[key]
	if u == nil {
		u = &dividedUse{}
		m.divided[key] = u
	}
	if d.part == whole {
		if len(u.parts) > 0 {
			e.Problem(at.near, "the device %d of this machine is divided at another place of the file, so it cannot be a whole %s here; remove one of the two", d.index, e.sku.Name)
		}
		u.whole = at.near
		return
	}
	switch first := u.parts[d.part]; {
	case u.whole != nil:
		e.Problem(at.near, "the device %d of this machine is a whole device at line %d, so it cannot be divided here; remove one of the two", d.index, u.whole.Line)
	case first != nil:
		e.Problem(at.near, "the part %d:%d of this machine has another type at line %d; remove one of the two", d.index, d.part, first.Line)
	}
	if u.parts == nil {
		u.parts = map[int64]*document.Node{}
		if e.sku.GPU > 0 {
			m.gpu++
		}
	}
	u.parts[d.part] = at.near
}

// checkParts checks the SKU against the device level of its chain.
func (b *builder) checkParts(c *chain, at *document.Node) {
	s := b.sku(c.sku())
	entry := b.skus[c.sku()]
	switch {
	case c.device >= 0 && s.Part == "":
		where := at
		if entry != nil {
			where = entry.at
		}
		b.Problem(where, "the leaves %s of the chain %s are parts of a device; say which in skuTypes: {%s: {part: mig}} for slices that the hardware isolates, or part: share", c.sku(), c.name, c.sku())
	case c.device < 0 && s.Part != "":
		b.Problem(entry.at, "the leaves %s are parts of a device, but no type of the chain %s is the device; set isDeviceLevel: true at it", c.sku(), c.name)
	}
}
