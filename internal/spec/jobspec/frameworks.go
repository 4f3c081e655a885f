package jobspec

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// TaskAddress is the address and the port at which the tasks of a gang reach a task.
type TaskAddress struct {
	Host string
	Port int32
}

// FrameworkEnv returns the variables that training frameworks read: torch.distributed's, with
// the gang as the world, and TensorFlow's TF_CONFIG. A task sees only its own devices, so it
// is the only rank of its machine. A member above the minimum comes and goes, so it is told
// of no world. Python writes each line at once: output is in the log early, and not lost at a
// stop. The job may set all of these otherwise.
//
// tasks are the gang's, in order, and meets where each of them is reached. With fewer meets
// than tasks there is no world.
// world is told.
func FrameworkEnv(job *model.Job, task int32, tasks []int32, meets []TaskAddress) []model.EnvVar {
	env := []model.EnvVar{{Name: "PYTHONUNBUFFERED", Value: "1"}}
	above := slices.ContainsFunc(job.Gangs, func(g model.Gang) bool {
		return g.Extra &&
			slices.Contains(g.Tasks, task)
	})
	if above || len(meets) != len(tasks) {
		return env
	}
	rank := slices.Index(tasks, task)
	return append(env,
		model.EnvVar{Name: "RANK", Value: fmt.Sprint(rank)},
		model.EnvVar{Name: "WORLD_SIZE", Value: fmt.Sprint(len(tasks))},
		model.EnvVar{Name: "LOCAL_RANK", Value: "0"},
		model.EnvVar{Name: "LOCAL_WORLD_SIZE", Value: "1"},
		model.EnvVar{Name: "MASTER_ADDR", Value: meets[0].Host},
		model.EnvVar{Name: "MASTER_PORT", Value: fmt.Sprint(meets[0].Port)},
		model.EnvVar{Name: "TF_CONFIG", Value: tfConfig(job, tasks, rank, meets)},
	)
}

// tfConfig lists the gang's tasks by role, in order, each with its address.
func tfConfig(job *model.Job, tasks []int32, rank int, meets []TaskAddress) string {
	cluster := map[string][]string{}
	var at struct {
		Cluster map[string][]string `json:"cluster"`
		Task    struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
		} `json:"task"`
	}
	for i, task := range tasks {
		role := RoleOf(job, task)
		if i == rank {
			at.Task.Type, at.Task.Index = role, len(cluster[role])
		}
		cluster[role] = append(cluster[role], fmt.Sprintf("%s:%d", meets[i].Host, meets[i].Port))
	}
	at.Cluster = cluster
	text, err := json.Marshal(at)
	if err != nil {
		panic(fmt.Sprintf("encode %+v: %v", at, err))
	}
	return string(text)
}

// RoleOf is the role of a task by its ordinal in the job.
func RoleOf(job *model.Job, task int32) string {
	for _, r := range job.Roles {
		if task < r.Tasks {
			return r.Name
		}
		task -= r.Tasks
	}
	return ""
}
