package local

import (
	"github.com/combsched/comb/internal/executor/local/ports"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// frameworkEnv is what training frameworks read of the gang.
func (t *task) frameworkEnv(job *sched.Job, blocks []ports.Block, host func(int32) string) []sched.EnvVar {
	var tasks []int32
	var meets []jobspec.Meeting
	for _, one := range t.at.start.Tasks {
		tasks = append(tasks, one.Task)
		for _, port := range ports.Numbers(blocks, one.Task, ports.Gang) {
			meets = append(meets, jobspec.Meeting{Host: host(one.Task), Port: port})
		}
	}
	return jobspec.FrameworkEnv(job, t.n, tasks, meets)
}
