package local

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// frameworkEnv are the variables by which training frameworks know their gang.
func (t *liveTask) frameworkEnv(job *model.Job, blocks []portBlock, host func(int32) string) []model.EnvVar {
	var tasks []int32
	var meets []jobspec.TaskAddress
	for _, one := range t.at.start.Tasks {
		tasks = append(tasks, one.Task)
		for _, port := range portNumbers(blocks, one.Task, gangLabel) {
			meets = append(meets, jobspec.TaskAddress{Host: host(one.Task), Port: port})
		}
	}
	return jobspec.FrameworkEnv(job, t.n, tasks, meets)
}
