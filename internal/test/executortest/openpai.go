package executortest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// variable is a variable that OpenPAI gives a task. In its value ADDRESS and PORT stand for any,
// and $NAME for another one of the same task: which addresses and ports there are is up to the
// executor, but all that is told of them agrees.
type variable struct{ name, want string }

// openpai are all variables that OpenPAI gives the first task of OpenPAIJob: by its REST server,
// and by its runtime. PAI_JOB_NAME is the one that differs: here a job's name stands alone.
func openpai() []variable {
	return []variable{
		// Its REST server, of the job.
		{"PAI_FRAMEWORK_NAME", "tester~job-1"},
		{"PAI_JOB_NAME", "job-1"},
		{"PAI_USER_NAME", "tester"},
		{"PAI_USERNAME", "tester"},
		{"PAI_DEFAULT_FS_URI", ""},
		{"PAI_VIRTUAL_CLUSTER", "default"},
		{"PAI_TASK_ROLE_COUNT", "2"},
		{"PAI_TASK_ROLES_NUM", "2"},
		{"PAI_JOB_TASK_ROLE_COUNT", "2"},
		{"PAI_TASK_ROLE_LIST", "ps,worker"},
		{"PAI_JOB_TASK_ROLE_LIST", "ps,worker"},
		{"PAI_TASKS_NUM", "2"},
		{"PAI_JOB_TASK_COUNT", "2"},
		{"PAI_TASK_ROLE_TASK_COUNT_ps", "1"},
		{"PAI_TASK_ROLE_TASK_COUNT_worker", "1"},
		{"PAI_RESOURCE_ps", "1,0.4,128,0"},
		{"PAI_RESOURCE_worker", "1,0.4,128,0"},
		{"PAI_MIN_FAILED_TASK_COUNT_ps", "1"},
		{"PAI_MIN_FAILED_TASK_COUNT_worker", "1"},
		{"PAI_MIN_SUCCEEDED_TASK_COUNT_ps", "1"},
		{"PAI_MIN_SUCCEEDED_TASK_COUNT_worker", "-1"},
		// Its REST server, of the task.
		{"PAI_CURRENT_TASK_ROLE_NAME", "ps"},
		{"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "0"},
		{"PAI_TASK_INDEX", "0"},
		{"PAI_CURRENT_TASK_ROLE_TASK_COUNT", "1"},
		{"PAI_CURRENT_TASK_ROLE_GPU_COUNT", "1"},
		{"PAI_CURRENT_TASK_ROLE_CPU_COUNT", "0.4"},
		{"PAI_CURRENT_TASK_ROLE_MEM_MB", "128"},
		{"PAI_CURRENT_TASK_ROLE_SHM_MB", "0"},
		{"PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT", "1"},
		{"PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT", "1"},
		// Its runtime, of where everything is.
		{"PAI_HOST_IP_ps_0", "ADDRESS"},
		{"PAI_HOST_IP_worker_0", "ADDRESS"},
		{"PAI_PORT_LIST_ps_0_rpc", "PORT"},
		{"PAI_PORT_LIST_ps_0_ssh", "PORT"},
		{"PAI_PORT_LIST_ps_0_http", "PORT"},
		{"PAI_PORT_LIST_worker_0_data", "PORT,PORT"},
		{"PAI_PORT_LIST_worker_0_http", "PORT"}, // the role asks for it itself
		{"PAI_PORT_LIST_worker_0_ssh", "PORT"},
		{"PAI_ps_0_rpc_PORT", "$PAI_PORT_LIST_ps_0_rpc"},
		{"PAI_ps_0_ssh_PORT", "$PAI_PORT_LIST_ps_0_ssh"},
		{"PAI_ps_0_http_PORT", "$PAI_PORT_LIST_ps_0_http"},
		{"PAI_worker_0_data_PORT", "$PAI_PORT_LIST_worker_0_data"},
		{"PAI_worker_0_http_PORT", "$PAI_PORT_LIST_worker_0_http"},
		{"PAI_worker_0_ssh_PORT", "$PAI_PORT_LIST_worker_0_ssh"},
		{"PAI_TASK_ROLE_ps_HOST_LIST", "$PAI_HOST_IP_ps_0:$PAI_PORT_LIST_ps_0_http"},
		{"PAI_TASK_ROLE_worker_HOST_LIST", "$PAI_HOST_IP_worker_0:$PAI_PORT_LIST_worker_0_http"},
		{"PAI_TASK_ROLE_INSTANCES", "ps:0,worker:0"},
		// Its runtime, of the task's own container.
		{"PAI_CONTAINER_HOST_IP", "$PAI_HOST_IP_ps_0"},
		{"PAI_CURRENT_CONTAINER_IP", "$PAI_HOST_IP_ps_0"},
		{"PAI_CONTAINER_HOST_PORT", "$PAI_PORT_LIST_ps_0_http"},
		{"PAI_CURRENT_CONTAINER_PORT", "$PAI_PORT_LIST_ps_0_http"},
		{"PAI_CONTAINER_SSH_PORT", "$PAI_PORT_LIST_ps_0_ssh"},
		{"PAI_CONTAINER_HOST_rpc_PORT_LIST", "$PAI_PORT_LIST_ps_0_rpc"},
		{"PAI_CONTAINER_HOST_ssh_PORT_LIST", "$PAI_PORT_LIST_ps_0_ssh"},
		{"PAI_CONTAINER_HOST_http_PORT_LIST", "$PAI_PORT_LIST_ps_0_http"},
		{"PAI_CONTAINER_HOST_PORT_LIST",
			"rpc:$PAI_PORT_LIST_ps_0_rpc;ssh:$PAI_PORT_LIST_ps_0_ssh;http:$PAI_PORT_LIST_ps_0_http;"},
	}
}

// anAddress is any address or name, as a pattern.
const anAddress = `[a-z0-9][a-z0-9.:-]+`

// ports are so many of them, as a pattern.
func ports(n int) string { return `[0-9]{4,5}` + strings.Repeat(`,[0-9]{4,5}`, n-1) }

// OpenPAIJob is the job of which OpenPAI says; the executor's tests give it their places.
func OpenPAIJob() *model.Job {
	ask := func(l model.Launch) model.Launch {
		l.Command, l.GPU, l.MilliCPU, l.MemoryMB = []string{"env"}, 1, 400, 128
		return l
	}
	return &model.Job{Name: "job-1", User: "tester", VC: "default", Grace: 2 * model.Second,
		Gangs: []model.Gang{{Name: "all", Tasks: []int32{0, 1}}},
		Roles: []model.Role{
			{Name: "ps", Tasks: 1, Leaves: 1, MinFailed: 1, MinSucceeded: 1,
				Launch: ask(model.Launch{Ports: []model.Port{{Label: "rpc", Count: 1}}})},
			{Name: "worker", Tasks: 1, Leaves: 1, MinFailed: 1, MinSucceeded: -1,
				Launch: ask(model.Launch{Ports: []model.Port{{Label: "data", Count: 2}, {Label: "http", Count: 1}}})},
		}}
}

// NotAsOpenPAI compares the environment of the first task of OpenPAIJob with what OpenPAI gives
// it, row by row, and says what differs: values, what is missing, and what no row knows.
func NotAsOpenPAI(env map[string]string) (faults []string) {
	known := map[string]bool{}
	for _, v := range openpai() {
		known[v.name] = true
		got, there := env[v.name]
		if !there || !regexp.MustCompile("^(?:"+pattern(v.want, env)+")$").MatchString(got) {
			faults = append(faults, fmt.Sprintf("%s is %q, there: %v, want %s", v.name, got, there, v.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, "PAI_") && !known[name] {
			faults = append(faults, fmt.Sprintf("%s=%s is in no row of the table", name, env[name]))
		}
	}
	own := map[string]string{}
	const list = "PAI_PORT_LIST_ps_0_"
	for _, name := range []string{list + "rpc", list + "ssh", list + "http", "MASTER_PORT"} {
		if of, twice := own[env[name]]; twice {
			faults = append(faults, fmt.Sprintf("%s is the port of %s, too", name, of))
		}
		own[env[name]] = name
	}
	return faults
}

// openPAI: a task finds all variables that OpenPAI gives it.
func (s *suite) openPAI() {
	id := attempt(1, 1)
	start := &model.Start{ID: id.Job, Job: OpenPAIJob()}
	for i, n := range s.h.Nodes {
		start.Tasks = append(start.Tasks, model.TaskStart{Task: int32(i), Role: int32(i), SKU: s.h.SKU,
			Place: cell.Task{Node: n, SKU: s.h.SKU.Name,
				Leaves: []cell.LeafID{cell.LeafID(i)}, Devices: []int32{int32(i)}}})
	}
	s.h.Executor.Do(model.Action{Attempt: id, Start: start})
	for ended := 0; ended < len(s.h.Nodes); {
		switch f := s.h.Next(s.h.Patience).(type) {
		case model.TaskExited:
			s.wantCode(f.Exit, 0)
			ended++
		case model.TaskStarted:
		default:
			s.Fatalf("got %#v, want starts and ends", f)
		}
	}
	env := map[string]string{}
	for line := range strings.Lines(s.h.Log(id, 0, executor.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	for _, fault := range NotAsOpenPAI(env) {
		s.Error(fault)
	}
}
