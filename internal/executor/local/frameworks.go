package local

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/executor/local/ports"
	"github.com/combsched/comb/internal/sched"
)

// frameworkEnv is what training frameworks read: torch.distributed's variables, with
// the gang as the world, and TensorFlow's TF_CONFIG. A task sees its own devices alone,
// so it is the only rank of its kind on its machine. A member above a minimum comes and
// goes, so no world is told to it. Python writes each line at once: what is printed is
// in the log at once, and not lost at a stop. The job may set all of these otherwise.
func (t *task) frameworkEnv(job *sched.Job, blocks []ports.Block, host func(int32) string) []sched.EnvVar {
	env := []sched.EnvVar{{Name: "PYTHONUNBUFFERED", Value: "1"}}
	var tasks, meets []int32
	for _, one := range t.at.start.Tasks {
		tasks = append(tasks, one.Task)
		meets = append(meets, ports.Numbers(blocks, one.Task, ports.Gang)...)
	}
	above := slices.ContainsFunc(job.Gangs, func(g sched.Gang) bool { return g.Extra && slices.Contains(g.Tasks, t.n) })
	if above || len(meets) != len(tasks) {
		return env
	}
	rank := slices.Index(tasks, t.n)
	return append(env,
		sched.EnvVar{Name: "RANK", Value: fmt.Sprint(rank)},
		sched.EnvVar{Name: "WORLD_SIZE", Value: fmt.Sprint(len(tasks))},
		sched.EnvVar{Name: "LOCAL_RANK", Value: "0"},
		sched.EnvVar{Name: "LOCAL_WORLD_SIZE", Value: "1"},
		sched.EnvVar{Name: "MASTER_ADDR", Value: host(tasks[0])},
		sched.EnvVar{Name: "MASTER_PORT", Value: fmt.Sprint(meets[0])},
		sched.EnvVar{Name: "TF_CONFIG", Value: tfConfig(job, tasks, rank, func(i int) string { return fmt.Sprintf("%s:%d", host(tasks[i]), meets[i]) })},
	)
}

// tfConfig names the gang's tasks by role, in their order, each at its address.
func tfConfig(job *sched.Job, tasks []int32, rank int, address func(int) string) string {
	cluster := map[string][]string{}
	var at struct {
		Cluster map[string][]string `json:"cluster"`
		Task    struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
		} `json:"task"`
	}
	for i, task := range tasks {
		role := roleOf(job, task)
		if i == rank {
			at.Task.Type, at.Task.Index = role, len(cluster[role])
		}
		cluster[role] = append(cluster[role], address(i))
	}
	at.Cluster = cluster
	text, err := json.Marshal(at)
	if err != nil {
		panic(fmt.Sprintf("encode %+v: %v", at, err))
	}
	return string(text)
}

// roleOf is the role of a task by its ordinal in the job.
func roleOf(job *sched.Job, task int32) string {
	for _, r := range job.Roles {
		if task < r.Tasks {
			return r.Name
		}
		task -= r.Tasks
	}
	return ""
}
