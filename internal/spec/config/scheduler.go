package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// scheduler takes the scheduler's configuration over as it is written. It adds what that
// leaves open: which groups may use virtual clusters, and the makers of the devices.
func (c *converter) scheduler(n *document.Node) []byte {
	outer, problems := n.Inside(document.DefaultLimits())
	if c.problems = append(c.problems, problems...); outer == nil || len(problems) > 0 {
		return []byte(n.Text)
	}
	inner, _ := document.Parse("", []byte(n.Text), document.DefaultLimits()) // parsed again, for places in the text itself
	c.row(TakenOver, place(Services, n, "hivedscheduler.config"), "cells and virtual clusters, as they are written")
	c.absent(outer)
	var keys []added
	var vcs []string
	for i, f := range fields(inner.Get("virtualClusters")) {
		vcs = append(vcs, f.Key)
		members := c.accessOf(f.Key)
		if f.Value.Kind != document.Map || f.Value.Get("access") != nil {
			continue
		}
		at := outer.Get("virtualClusters").Fields[i].At()
		if len(members) == 0 {
			c.row(TakenOver, place(Services, at, "VC "+f.Key),
				"it is for the group %s, as in OpenPAI; that is empty until users are given the VC", f.Key)
			continue
		}
		keys = append(keys, added{f.Value, []string{accessKey(members)}})
		c.row(Changed, place(Services, at, "VC "+f.Key), "%s", opened(f.Key, members))
	}
	keys = append(keys, c.makersOf(inner, outer)...)
	c.tellGroups(vcs)
	return insert(n.Text, keys)
}

func fields(n *document.Node) []document.Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// absent reports workers of the layout that the scheduler's configuration does not contain.
func (c *converter) absent(n *document.Node) {
	if len(c.machines) == 0 {
		return
	}
	c.row(LeftOut, place(Layout, c.file.Get("machine-sku"), "machine-sku"),
		"what devices bring is said by the scheduler's configuration (skuTypes); the makers of devices alone are "+
			"looked at")
	named := map[string]bool{}
	for _, cells := range items(n.Get("physicalCluster").Get("physicalCells")) {
		paiAddresses(cells, named)
	}
	var missing []string
	for _, m := range c.machines {
		if !named[m.name] {
			missing = append(missing, m.name)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		c.row(LeftOut, place(Layout, nil, "machine-list"),
			"workers that the scheduler's configuration does not name, so that no job runs there: %s", some(missing))
	}
}

func items(n *document.Node) []*document.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// paiAddresses collects the addresses of a cell and of those inside it.
func paiAddresses(cell *document.Node, into map[string]bool) {
	if a := paiText(cell.Get("cellAddress")); a != "" {
		into[a[strings.LastIndexByte(a, '/')+1:]] = true
	}
	for _, child := range items(cell.Get("cellChildren")) {
		paiAddresses(child, into)
	}
}

// makersOf returns the keys for SKUs of machines whose devices are not NVIDIA's by the
// layout. A SKU with gpu alone is NVIDIA's.
func (c *converter) makersOf(inner, outer *document.Node) (keys []added) {
	makes := map[string]paiMachine{} // machines with devices of other makers, by name
	for _, m := range c.machines {
		if d, _ := c.deviceOf(c.skuAt(m.sku).Value); d.kind != "nvidia" || d.resource != "" {
			makes[m.name] = m
		}
	}
	key, older := "skuTypes", inner.Get("physicalCluster").Get("gpuTypes")
	if older != nil {
		key = "gpuTypes"
	}
	physical := inner.Get("physicalCluster")
	seen := map[string]string{} // keys that leaf types have, by type
	for i, top := range items(physical.Get("physicalCells")) {
		named := map[string]bool{}
		paiAddresses(top, named)
		for _, name := range sorted(named) {
			m, other := makes[name]
			if !other {
				continue
			}
			d, _ := c.deviceOf(c.skuAt(m.sku).Value)
			leaf, said := leafOf(physical, paiText(top.Get("cellType"))), strings.Join(d.keys(), ", ")
			sku := physical.Get(key).Get(leaf)
			at := outer.Get("physicalCluster").Get("physicalCells").Items[i]
			switch {
			case sku == nil || sku.Kind != document.Map:
				c.problem(at, fmt.Sprintf("machine %s has %s (%s, line %d), and %s has no %s: add %s: {gpu: 1, "+
					"%s} there",
					name, paiText(devicesType(c.skuAt(m.sku).Value)), Layout, m.at.Line, key, document.Quote(leaf),
					leaf, said))
			case sku.Get("device") != nil || seen[leaf] == said:
			case seen[leaf] != "":
				c.problem(at, fmt.Sprintf("machine %s has other devices (%s, line %d) than others of SKU %s: %s, "+
					"and %s; give them SKUs of their own", name, Layout, m.at.Line, leaf, said, seen[leaf]))
			default:
				seen[leaf] = said
				keys = append(keys, added{sku, d.keys()})
				c.row(Changed, place(Services, outer.Get("physicalCluster").Get(key).Get(leaf), "SKU "+leaf),
					"%s is added, by machine %s at %s:%d; without it the devices would be NVIDIA's",
					said, name, Layout, m.at.Line)
			}
		}
	}
	return keys
}

// devicesType is the type of the devices of a machine type.
func devicesType(sku *document.Node) *document.Node {
	return cmp.Or(sku.Get("computing-device"), sku.Get("gpu")).Get("type")
}

// leafOf is the type of the leaves inside a cell type.
func leafOf(physical *document.Node, kind string) string {
	types := physical.Get("cellTypes")
	for range len(fields(types)) + 1 { // types that contain each other have no leaf
		inside := types.Get(kind)
		if inside == nil {
			return kind
		}
		kind = paiText(inside.Get("childCellType"))
	}
	return ""
}

// added is text that is written into a map, before what is there.
type added struct {
	to   *document.Node
	keys []string
}

// insert writes keys into a text of YAML: a line each where the map has lines, else after its
// brace. Nothing else of the text changes.
func insert(src string, keys []added) []byte {
	lines := strings.Split(src, "\n")
	slices.SortFunc(keys, func(a, b added) int { // the last first, so that earlier places stay valid
		return cmp.Or(cmp.Compare(b.to.Line, a.to.Line), cmp.Compare(b.to.Column, a.to.Column))
	})
	for _, k := range keys {
		at := k.to
		line := []rune(lines[at.Line-1])
		if at.Column <= len(line) && line[at.Column-1] == '{' {
			what := strings.Join(k.keys, ", ")
			if len(at.Fields) > 0 {
				what += ", "
			}
			lines[at.Line-1] = string(line[:at.Column]) + what + string(line[at.Column:])
			continue
		}
		first := at.Fields[0] // a map without braces has at least one field
		for i, key := range k.keys {
			lines = slices.Insert(lines, first.Line-1+i, strings.Repeat(" ", first.Column-1)+key)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}
