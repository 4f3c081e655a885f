package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// packing is what a policy needs to pack jobs of a trace onto shared GPUs. Jobs report their
// progress while they share GPUs, and each fits into the memory of a GPU beside others. The
// zero value packs no jobs.
type packing struct {
	reportEvery model.Duration
	jobMemoryMB int64 // MiB of each GPU that a job takes
}

// The memory of a GPU where the cluster does not name it, and how many jobs fit into it. A
// trace does not tell how large jobs are, and a table of pairs tells only how fast they are.
// A policy packs fewer jobs than that anyway.
const (
	gpuMemoryMB = 16_384
	jobsInGPU   = 16
)

// enablePacking lets jobs be packed where a policy packs and the table of speeds has pairs. Without
// pairs, packed jobs would be as fast as alone.
func (p *plan) enablePacking() {
	if p.model == nil || p.model.Off&perf.OnPairs != 0 || !p.model.KnowsPairs() {
		return
	}
	for i := range p.config.VCs {
		if w := watchWindow(&p.config.VCs[i]); w > 0 && (p.packing.reportEvery == 0 || w/windowReports < p.packing.reportEvery) {
			p.packing.reportEvery = w / windowReports
		}
	}
	if p.packing.reportEvery == 0 {
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
	p.packing.jobMemoryMB = max(least/jobsInGPU, 1)
}

// windowReports is how many reports a job makes in the window in which gandiva watches it.
// Gandiva wants one in each fifth of the window.
const windowReports = 6

// watchWindow is for how long the policy of a VC watches jobs that share GPUs; 0 where it does not
// pack jobs.
func watchWindow(v *model.VCConfig) model.Duration {
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
