package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxTasks bounds a gang: the first task keeps one connection to each other.
const maxTasks = 1024

// world is the gang as one task sees it. Tasks are numbered through all roles,
// in the order of PAI_TASK_ROLE_LIST; task 0 averages for all.
type world struct {
	job           string
	rank          int
	tasks         []task
	addr          string // of task 0; "" when there is only one task
	checkpointDir string
	progressFile  string
}

// task is one member of the gang.
type task struct {
	role  string
	index int
}

func (t task) String() string { return fmt.Sprintf("%s %d", t.role, t.index) }

func readWorld(environ []string, o options) (*world, error) {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	w := &world{job: env["PAI_JOB_NAME"], checkpointDir: env["COMB_CHECKPOINT_DIR"], progressFile: env["COMB_PROGRESS_FILE"]}
	if env["PAI_TASK_ROLE_LIST"] == "" {
		w.tasks = []task{{"worker", 0}}
		return w, nil
	}
	if err := w.readTasks(env); err != nil {
		return nil, err
	}
	if o.alone {
		w.tasks = w.tasks[w.rank : w.rank+1]
		w.rank = 0
	}
	if len(w.tasks) == 1 {
		return w, nil
	}
	return w, w.readAddress(env, o.port)
}

func (w *world) readTasks(env map[string]string) error {
	w.rank = -1
	own, err := strconv.Atoi(env["PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"])
	if err != nil {
		return fmt.Errorf("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX: %q is no number", env["PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"])
	}
	for role := range strings.SplitSeq(env["PAI_TASK_ROLE_LIST"], ",") {
		key := "PAI_TASK_ROLE_TASK_COUNT_" + role
		n, err := strconv.Atoi(env[key])
		if err != nil || n < 1 || len(w.tasks)+n > maxTasks {
			return fmt.Errorf("%s: %q is no number of tasks between 1 and %d", key, env[key], maxTasks)
		}
		for i := range n {
			if role == env["PAI_CURRENT_TASK_ROLE_NAME"] && i == own {
				w.rank = len(w.tasks)
			}
			w.tasks = append(w.tasks, task{role, i})
		}
	}
	if w.rank < 0 {
		return fmt.Errorf("this task, %s %d, is not among the tasks of PAI_TASK_ROLE_LIST", env["PAI_CURRENT_TASK_ROLE_NAME"], own)
	}
	return nil
}

// readAddress finds the address of task 0: the first port of the label's block.
func (w *world) readAddress(env map[string]string, label string) error {
	first := fmt.Sprintf("%s_%d", w.tasks[0].role, w.tasks[0].index)
	host := env["PAI_HOST_IP_"+first]
	key := "PAI_PORT_LIST_" + first + "_" + label
	port, _, _ := strings.Cut(env[key], ",")
	if host == "" {
		return fmt.Errorf("PAI_HOST_IP_%s is not set: the gang cannot meet", first)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%s: %q is no port; ask for one with resourcePerInstance.ports.%s", key, env[key], label)
	}
	w.addr = net.JoinHostPort(host, port)
	return nil
}
