package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/cell"
)

// A task gets as many leaves as cover what it asks for on the SKUs that it may use. A
// later configuration may let a SKU carry less under the same name: who runs there runs
// on, and nobody else may start there with less than he asks for.

// carriers returns the SKUs on which the leaves of a role's tasks cover what these ask
// for: the role's own list while all of it does, noSKU where nothing does.
func (s *State) carriers(r *Role) []cell.TypeName {
	if s.cl == nil || r.Launch.GPU == 0 && r.Launch.MilliCPU == 0 && r.Launch.MemoryMB == 0 {
		return r.SKUs
	}
	short := func(n cell.TypeName) bool { return !s.covers(n, r) }
	names := r.SKUs
	if len(names) == 0 {
		names = s.skuNames()
	}
	if !slices.ContainsFunc(names, short) {
		return r.SKUs
	}
	if names = slices.DeleteFunc(slices.Clone(names), short); len(names) == 0 {
		return []cell.TypeName{noSKU}
	}
	return names
}

// noSKU is a name that no SKU has: whoever asks for it fits nowhere.
const noSKU cell.TypeName = ""

// covers reports whether the leaves of one task carry what it asks for; of a SKU that is
// not known nothing can be said.
func (s *State) covers(name cell.TypeName, r *Role) bool {
	sku, n, l := s.cl.SKU(name), int64(r.Leaves), &r.Launch
	return sku.Device == "" || sku.GPU*n >= l.GPU && (sku.MilliCPU == 0 || sku.MilliCPU*n >= l.MilliCPU) &&
		(sku.MemoryMB == 0 || sku.MemoryMB*n >= l.MemoryMB)
}

// skuNames returns the SKUs that the cluster's cells have, sorted.
func (s *State) skuNames() []cell.TypeName {
	var out []cell.TypeName
	for i := range s.cl.Forest().Chains {
		out = append(out, s.cl.Forest().Chains[i].SKU)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// uncovered says of a gang that no SKU carries it, by the first role of which that is true.
func (s *State) uncovered(j *job, g int) *Reason {
	why := &Reason{Code: NeverFits, Need: j.gangs[g].leaves}
	for _, o := range j.spec.Gangs[g].Tasks {
		r := &j.spec.Roles[j.tasks[o].role]
		if !slices.Equal(s.carriers(r), []cell.TypeName{noSKU}) {
			continue
		}
		var asks []string
		if r.Launch.GPU > 0 {
			asks = append(asks, plural(int32(r.Launch.GPU), "GPU", "GPUs"))
		}
		if r.Launch.MilliCPU > 0 {
			asks = append(asks, coresText(r.Launch.MilliCPU))
		}
		if r.Launch.MemoryMB > 0 {
			asks = append(asks, fmt.Sprintf("%d MiB of memory", r.Launch.MemoryMB))
		}
		names := r.SKUs
		if len(names) == 0 {
			names = s.skuNames()
		}
		why.Message = fmt.Sprintf("it can never start: a task of role %s asks for %s, which %s of SKU %s cannot carry; submit it again for as many leaves as it needs now",
			r.Name, strings.Join(asks, ", "), plural(r.Leaves, "leaf", "leaves"), skuText(names))
		break
	}
	return why
}

func coresText(milli int64) string {
	if milli == 1000 {
		return "1 CPU core"
	}
	text := fmt.Sprint(milli / 1000)
	if part := milli % 1000; part > 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", part), "0")
	}
	return text + " CPU cores"
}

// reshape judges anew what the gangs of a job may use: SKUs may carry something else.
func (s *State) reshape(j *job) {
	for g := range j.gangs {
		j.gangs[g].shape = s.newGang(j, g).shape
	}
}
