package config

import (
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// The bounds of a table of throughputs.
const (
	maxModels = 10_000
	anyType   = "*"
)

// readThroughputs reads offline measurements of how fast models run:
//
//	throughputs:
//	  resnet50: {V100: {1: 100, 2: 190, 4: 340}, "*": {1: 60}}
//
// by model, type of leaf and number of GPUs. A star stands for the others.
func (b *builder) readThroughputs(n *document.Node) {
	models := b.Map(n, "throughputs").Fields()
	if len(models) > maxModels {
		b.Problem(n, "%d models are too many: at most %d are allowed", len(models), maxModels)
		return
	}
	for _, entry := range models {
		if entry.Key == "" {
			b.Problem(entry.At(), "a model needs a name; a star stands for all others")
		}
		for _, sku := range b.Map(entry.Value, "the throughputs of a model").Fields() {
			name := sku.Key
			if name == anyType {
				name = ""
			} else if !b.isLeaf(cell.TypeName(name)) {
				if !b.topUnread {
					b.Problem(sku.At(), "no leaf is of the type %s; a star stands for all others", document.Quote(name))
				}
				continue
			}
			for _, f := range b.Map(sku.Value, "the throughputs on a type").Fields() {
				gpus, err := strconv.ParseInt(f.Key, 10, 32)
				if err != nil || gpus < 1 || gpus > MaxLeaves {
					b.Problem(f.At(), "%s is not a number of GPUs from 1 to %d", document.Quote(f.Key), MaxLeaves)
					continue
				}
				rate := b.Int(f.Value, document.Range{Min: 1, Max: model.MaxRate})
				b.speeds = append(b.speeds, model.Throughput{Model: entry.Key, SKU: cell.TypeName(name), GPUs: int32(gpus), Rate: rate})
			}
		}
	}
	slices.SortStableFunc(b.speeds, model.Throughput.Compare)
	twice := func(x, y model.Throughput) bool { return x.Compare(y) == 0 } // written as 2 and as 02
	if len(b.speeds) > model.MaxThroughputs || len(slices.CompactFunc(slices.Clone(b.speeds), twice)) < len(b.speeds) {
		b.Problem(n, "at most %d throughputs are allowed, each once", model.MaxThroughputs)
	}
}

// isLeaf reports whether a chain has leaves of a type.
func (b *builder) isLeaf(t cell.TypeName) bool {
	for _, c := range b.chains {
		if c != nil && c.sku() == t {
			return true
		}
	}
	return false
}
