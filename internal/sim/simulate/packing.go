package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// packing is what lets a policy pack jobs of a trace by what is seen of them: they tell
// their progress while they share GPUs, and each fits into the memory of a GPU beside
// others. The zero value is that nobody is packed.
type packing struct {
	report model.Duration
	needs  int64 // MiB of each GPU
}

// The memory of a GPU of which the cluster does not tell it, and how many jobs fit into
// it: a trace does not say either, and a table of pairs tells how fast these are, not how
// large. More than a GPU's gangs in their turns are not packed anyway.
const (
	gpuMemoryMB = 16_384
	jobsInGPU   = 16
)

// packs lets jobs be packed where a policy does that and the table of speeds says what
// comes of it. Without such a table they would be as fast as alone.
func (p *plan) packs() {
	if p.model == nil || p.model.Off&perf.OnPairs != 0 || !p.model.KnowsPairs() {
		return
	}
	for i := range p.config.VCs {
		if w := window(&p.config.VCs[i]); w > 0 && (p.packing.report == 0 || w/windowReports < p.packing.report) {
			p.packing.report = w / windowReports
		}
	}
	if p.packing.report == 0 {
		return
	}
	least := int64(gpuMemoryMB)
	for i := range p.config.Cluster.SKUs {
		k := &p.config.Cluster.SKUs[i]
		if k.GPU > 0 && k.GPUMemoryMB == 0 {
			k.GPUMemoryMB = gpuMemoryMB
		}
		if k.GPU > 0 {
			least = min(least, k.GPUMemoryMB)
		}
	}
	p.packing.needs = max(least/jobsInGPU, 1)
}

// windowReports are the reports of a job within the window in which gandiva watches it,
// which wants one in each fifth.
const windowReports = 6

// window is for how long the policy of a VC watches jobs that share GPUs; 0 where it packs
// nobody.
func window(v *model.VCConfig) model.Duration {
	of := func(key string) string {
		i := slices.IndexFunc(v.Params, func(p model.Param) bool { return p.Key == key })
		if i < 0 {
			return ""
		}
		return v.Params[i].Value
	}
	if v.Policy != "gandiva" || slices.Contains([]string{"false", "no", "off"}, of("pack")) {
		return 0
	}
	text := of("window")
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	if d, err := time.ParseDuration(text); err == nil {
		return model.Duration(d.Microseconds())
	}
	return 300 * model.Second
}
