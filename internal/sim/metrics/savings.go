package metrics

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/combsched/comb/internal/core/model"
)

// GPU-time that policies save jobs, and that they spend to measure them.

// reported notes how many steps a job has made, as its first gang reports.
func (f *Fold) reported(e *model.Progress) {
	if j := f.jobs[e.Attempt.Job]; j != nil && e.Attempt.Gang == 0 && e.Step > 0 {
		j.step, j.total = e.Step, max(e.Total, j.spec.Hints.Iterations)
	}
	if e.Checkpoint {
		f.checkpoint(e.Attempt)
	}
}

// completing stops the waits of a job that is over. If it is stopped for its loss, the time
// that its remaining steps would have taken counts as saved, at its pace so far.
func (f *Fold) completing(e *model.JobCompleting) {
	f.stopWaiting(e.Job)
	j := f.jobs[e.Job]
	if j == nil || e.Cause != model.EndEarly || j.total <= j.step || j.step <= 0 {
		return
	}
	for g := range j.gangs {
		if j.gangs[g].slot != none {
			f.cut(&j.gangs[g])
		}
	}
	hi, lo := bits.Mul64(j.gpu, uint64(j.total-j.step))
	if hi < uint64(j.step) {
		j.saved, _ = bits.Div64(hi, lo, uint64(j.step))
	}
	j.vc.ended.early += j.saved
}

// counted sums a counter that a policy keeps in its note about a VC. The counter restarts
// where another policy had the VC meanwhile.
type counted struct{ all, last int64 }

func (c *counted) see(n int64) {
	if n < c.last {
		c.last = 0
	}
	c.all, c.last = c.all+n-c.last, n
}

// noted reads what philly notes of its probe pool, and chronus of its profiler.
func (f *Fold) noted(e *model.Noted) {
	if e.Job != 0 || e.Policy != "philly" && e.Policy != "chronus" {
		return
	}
	for part := range bytes.SplitSeq(e.Data, []byte("; ")) {
		var n, m, spent, saved int64
		switch what, _, _ := bytes.Cut(part, []byte(" ")); string(what) {
		case "probe":
			if k, _ := fmt.Sscanf(string(part), "probe %d ended, %d GPU-seconds, %d saved", &n, &spent, &saved); k == 3 {
				f.account(e.VC).ended.probed.see(saved)
			}
		case "profiler":
			if k, _ := fmt.Sscanf(string(part), "profiler %d started, %d measured, %d GPU-seconds", &n, &m, &spent); k == 3 {
				f.account(e.VC).ended.profiled.see(spent)
			}
		}
	}
}
