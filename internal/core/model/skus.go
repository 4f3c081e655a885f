package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// skus compares the leaf types.
func (d *ConfigPair) skus() []SKUChange {
	out := []SKUChange{}
	find := func(c *Config, n cell.TypeName) *cell.SKU {
		if i := slices.IndexFunc(c.Cluster.SKUs, func(s cell.SKU) bool { return s.Name == n }); i >= 0 {
			return &c.Cluster.SKUs[i]
		}
		return nil
	}
	for i := range d.After.Cluster.SKUs {
		now := &d.After.Cluster.SKUs[i]
		if was := find(d.Before, now.Name); was == nil {
			out = append(out, SKUChange{Name: now.Name, Kind: Added})
		} else if fields := skuFields(was, now); len(fields) > 0 {
			out = append(out, SKUChange{Name: now.Name, Kind: Changed, Fields: fields})
		}
	}
	for i := range d.Before.Cluster.SKUs {
		if was := &d.Before.Cluster.SKUs[i]; find(d.After, was.Name) == nil {
			out = append(out, SKUChange{Name: was.Name, Kind: Removed})
		}
	}
	slices.SortFunc(out, func(a, b SKUChange) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// skuFields compares the fields of a SKU in the cluster file.
func skuFields(was, is *cell.SKU) (out []RuleChange) {
	add := func(key, before, after string) {
		if before != after {
			out = append(out, RuleChange{Key: key, Before: cmp.Or(before, "none"), After: cmp.Or(after, "none")})
		}
	}
	add("gpu", fmt.Sprint(was.GPU), fmt.Sprint(is.GPU))
	add("cpu", coresText(was.MilliCPU), coresText(is.MilliCPU))
	add("memory", sizeText(was.MemoryMB), sizeText(is.MemoryMB))
	add("gpuMemory", sizeText(was.GPUMemoryMB), sizeText(is.GPUMemoryMB))
	add("device", string(was.Device), string(is.Device))
	add("part", string(was.Part), string(is.Part))
	add("envVar", was.EnvVar, is.EnvVar)
	add("pretended", fmt.Sprint(was.Pretended), fmt.Sprint(is.Pretended))
	add("deviceFiles", strings.Join(was.Files, ", "), strings.Join(is.Files, ", "))
	add("limits.nofile", limitText(was.Limits.NoFile, plainText), limitText(is.Limits.NoFile, plainText))
	add("limits.stack", limitText(was.Limits.StackMB, sizeText), limitText(is.Limits.StackMB, sizeText))
	add("limits.memlock", limitText(was.Limits.MemLockMB, sizeText), limitText(is.Limits.MemLockMB, sizeText))
	add("groups", strings.Join(was.Groups, ", "), strings.Join(is.Groups, ", "))
	add("dra.deviceClass", was.DRA.Class, is.DRA.Class)
	add("dra.driver", was.DRA.Driver, is.DRA.Driver)
	add("dra.device", was.DRA.Device, is.DRA.Device)
	add("dra.attribute", was.DRA.Attribute, is.DRA.Attribute)
	add("resource", was.Resource, is.Resource)
	add("infiniband", was.InfiniBand, is.InfiniBand)
	return out
}

// coresText writes cores as a cluster file does; "" is none.
func coresText(milli int64) string {
	switch {
	case milli == 0:
		return ""
	case milli%1000 == 0:
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}

// sizeText writes MiB as a cluster file does; "" is none.
func sizeText(mib int64) string {
	switch {
	case mib == 0:
		return ""
	case mib%1024 == 0:
		return fmt.Sprintf("%dGi", mib/1024)
	}
	return fmt.Sprintf("%dMi", mib)
}

func plainText(n int64) string { return fmt.Sprint(n) }

// limitText writes a limit of each process; "" means the runtime's.
func limitText(n int64, text func(int64) string) string {
	switch n {
	case 0:
		return ""
	case -1:
		return "unlimited"
	}
	return text(n)
}

// skuSentences are the changes of SKUs in words. SKUs with the same change of a field share a line,
// as when limits of the whole cluster change.
func skuSentences(skus []SKUChange) (out []string) {
	said := map[RuleChange]bool{}
	for _, k := range skus {
		if k.Kind != Changed {
			out = append(out, fmt.Sprintf("SKU %s is %s", k.Name, k.Kind))
		}
		for _, f := range k.Fields {
			if said[f] {
				continue
			}
			said[f] = true
			var names []string
			for _, o := range skus {
				if slices.Contains(o.Fields, f) {
					names = append(names, string(o.Name))
				}
			}
			word := "SKU"
			if len(names) > 1 {
				word = "SKUs"
			}
			out = append(out, fmt.Sprintf("%s %s: %s %s -> %s", word, fewNames(names), f.Key, f.Before, f.After))
		}
	}
	return out
}
