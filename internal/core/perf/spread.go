package perf

import (
	"cmp"
	"slices"
	"strings"
)

// Speed is relative to full speed, in millionths.
type Speed int64

// FullSpeed is the Speed of a job that nothing slows down.
const FullSpeed Speed = 1_000_000

// Spread is the speed of a model on a number of GPUs that are on a number of nodes.
type Spread struct {
	Model string
	GPUs  int32
	Nodes int32
	Speed Speed
}

func (s Spread) compare(o Spread) int {
	return cmp.Or(strings.Compare(s.Model, o.Model), cmp.Compare(s.GPUs, o.GPUs), cmp.Compare(s.Nodes, o.Nodes))
}

// Spreads is a table of how models suffer when their GPUs are on several nodes, as
// the Chronus artifact publishes one (model_info.json). It is sorted and holds no
// two entries for the same thing; NewSpreads makes it so.
type Spreads struct{ List []Spread }

// NewSpreads sorts the list. Of several entries for the same thing the first one
// given stays.
func NewSpreads(list []Spread) *Spreads {
	slices.SortStableFunc(list, Spread.compare)
	return &Spreads{slices.CompactFunc(list, func(a, b Spread) bool { return a.compare(b) == 0 })}
}

// Speed is the entry for exactly these numbers; it is false where there is none.
func (s *Spreads) Speed(model string, gpus, nodes int32) (Speed, bool) {
	i, found := slices.BinarySearchFunc(s.List, Spread{Model: model, GPUs: gpus, Nodes: nodes}, Spread.compare)
	if !found {
		return 0, false
	}
	return s.List[i].Speed, true
}

// Models lists the models of the table, sorted.
func (s *Spreads) Models() []string {
	var out []string
	for _, x := range s.List {
		if len(out) == 0 || out[len(out)-1] != x.Model {
			out = append(out, x.Model)
		}
	}
	return out
}

// On is the speed of a model on a number of GPUs spread over a number of nodes, by the nearest
// entry: tables are made for 2, 4 and 8 GPUs on 2 and 4 nodes. A number of GPUs without an entry
// counts as the next larger that has one, or as the largest; a number of nodes as the largest
// below it. One node, and a model without an entry, is full speed.
func (s *Spreads) On(model string, gpus, nodes int32) Speed {
	best := Spread{Speed: FullSpeed}
	if nodes <= 1 {
		return FullSpeed
	}
	from, _ := slices.BinarySearchFunc(s.List, Spread{Model: model}, Spread.compare)
	for _, e := range s.List[from:] {
		if e.Model != model || best.GPUs >= gpus && e.GPUs > best.GPUs {
			break
		}
		if e.GPUs > best.GPUs {
			best = Spread{GPUs: e.GPUs, Speed: FullSpeed}
		}
		if e.Nodes <= nodes {
			best.Speed = e.Speed
		}
	}
	return best.Speed
}
