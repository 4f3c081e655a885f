package jobspec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/model"
)

func TestPAIEnvListsEveryVariableInOrder(t *testing.T) {
	job := &model.Job{
		Name: "mnist", User: "ada", VC: "vision",
		Roles: []model.Role{
			{
				Name: "ps", Tasks: 1, MinFailed: 1, MinSucceeded: -1,
				Launch: model.Launch{MilliCPU: 1500, MemoryMB: 512, Ports: []model.Port{{Label: "grpc", Count: 1}}},
			},
			{
				Name: "worker", Tasks: 2, MinFailed: 1, MinSucceeded: 2,
				Launch: model.Launch{
					GPU: 4, MilliCPU: 8000, MemoryMB: 16384, ShmMB: 64,
					Ports: []model.Port{{Label: "grpc", Count: 1}, {Label: "web", Count: 2}},
				},
			},
		},
	}
	hosts := []string{"10.0.0.1", "10.0.0.2", ""} // the last task does not run yet
	got := PAIEnv(EnvInput{
		Job: job, Role: 1, Index: 0,
		Hosts: func(task int32) string { return hosts[task] },
		Ports: func(task int32, label string) []int32 {
			switch {
			case hosts[task] == "":
				return nil
			case label == "web":
				return []int32{9000, 9001}
			case label == "ssh":
				return []int32{2200 + task}
			case label == "http":
				return []int32{3100 + task}
			}
			return []int32{8000 + task}
		},
	})
	want := []string{
		"PAI_FRAMEWORK_NAME=ada~mnist",
		"PAI_USERNAME=ada",
		"PAI_VIRTUAL_CLUSTER=vision",
		"PAI_DEFAULT_FS_URI=",
		"PAI_TASKS_NUM=3",
		"PAI_JOB_TASK_COUNT=3",
		"PAI_TASK_ROLES_NUM=2",
		"PAI_JOB_TASK_ROLE_COUNT=2",
		"PAI_JOB_TASK_ROLE_LIST=ps,worker",
		"PAI_TASK_INDEX=0",
		"PAI_CURRENT_TASK_ROLE_TASK_COUNT=2",
		"PAI_CURRENT_TASK_ROLE_GPU_COUNT=4",
		"PAI_CURRENT_TASK_ROLE_CPU_COUNT=8",
		"PAI_CURRENT_TASK_ROLE_MEM_MB=16384",
		"PAI_CURRENT_TASK_ROLE_SHM_MB=64",
		"PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT=1",
		"PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT=2",
		"PAI_CONTAINER_HOST_IP=10.0.0.2",
		"PAI_CURRENT_CONTAINER_IP=10.0.0.2",
		"PAI_CONTAINER_HOST_PORT=3101",
		"PAI_CURRENT_CONTAINER_PORT=3101",
		"PAI_CONTAINER_SSH_PORT=2201",
		"PAI_CONTAINER_HOST_grpc_PORT_LIST=8001",
		"PAI_CONTAINER_HOST_web_PORT_LIST=9000,9001",
		"PAI_CONTAINER_HOST_ssh_PORT_LIST=2201",
		"PAI_CONTAINER_HOST_http_PORT_LIST=3101",
		"PAI_CONTAINER_HOST_PORT_LIST=grpc:8001;web:9000,9001;ssh:2201;http:3101;",
		"PAI_ps_0_grpc_PORT=8000",
		"PAI_ps_0_ssh_PORT=2200",
		"PAI_ps_0_http_PORT=3100",
		"PAI_TASK_ROLE_ps_HOST_LIST=10.0.0.1:3100",
		"PAI_worker_0_grpc_PORT=8001",
		"PAI_worker_0_web_PORT=9000,9001",
		"PAI_worker_0_ssh_PORT=2201",
		"PAI_worker_0_http_PORT=3101",
		"PAI_TASK_ROLE_worker_HOST_LIST=10.0.0.2:3101",
		"PAI_TASK_ROLE_INSTANCES=ps:0,worker:0,worker:1",
		"PAI_JOB_NAME=mnist",
		"PAI_USER_NAME=ada",
		"PAI_TASK_ROLE_COUNT=2",
		"PAI_TASK_ROLE_LIST=ps,worker",
		"PAI_TASK_ROLE_TASK_COUNT_ps=1",
		"PAI_RESOURCE_ps=0,1.5,512,0",
		"PAI_MIN_FAILED_TASK_COUNT_ps=1",
		"PAI_MIN_SUCCEEDED_TASK_COUNT_ps=-1",
		"PAI_TASK_ROLE_TASK_COUNT_worker=2",
		"PAI_RESOURCE_worker=4,8,16384,64",
		"PAI_MIN_FAILED_TASK_COUNT_worker=1",
		"PAI_MIN_SUCCEEDED_TASK_COUNT_worker=2",
		"PAI_HOST_IP_ps_0=10.0.0.1",
		"PAI_PORT_LIST_ps_0_grpc=8000",
		"PAI_PORT_LIST_ps_0_ssh=2200",
		"PAI_PORT_LIST_ps_0_http=3100",
		"PAI_HOST_IP_worker_0=10.0.0.2",
		"PAI_PORT_LIST_worker_0_grpc=8001",
		"PAI_PORT_LIST_worker_0_web=9000,9001",
		"PAI_PORT_LIST_worker_0_ssh=2201",
		"PAI_PORT_LIST_worker_0_http=3101",
		"PAI_CURRENT_TASK_ROLE_NAME=worker",
		"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=0",
	}
	var lines []string
	for _, v := range got {
		lines = append(lines, v.Name+"="+v.Value)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("PAIEnv (-want +got):\n%s", diff)
	}
}

// A job of so many tasks that the older names would fill the environment, and each pod, has
// today's alone, and is told so when it is submitted. Whatever it has, no variable is longer than
// the kernel takes.
func TestOlderNamesHaveABound(t *testing.T) {
	source := func(tasks int, name string) string {
		return fmt.Sprintf("protocolVersion: 2\nname: many\ntype: job\ntaskRoles:\n"+
			"  %s: {instances: %d, resourcePerInstance: {gpu: 1}, commands: [x]}\n", name, tasks)
	}
	seen := map[bool]int{}
	for _, name := range []string{"w", strings.Repeat("w", 200)} {
		for _, tasks := range []int{1, 100, 500, 1000, 2000} {
			r, problems := Parse("", []byte(source(tasks, name)), testEnv())
			if problems != nil {
				t.Fatal(problems)
			}
			size, lists := 0, 0
			vars := map[string]string{}
			longest := EnvInput{Job: r.Job, Hosts: func(int32) string { return strings.Repeat("1", sizeAddress) },
				Ports: func(int32, string) []int32 { return []int32{65535} }}
			for _, v := range PAIEnv(longest) {
				vars[v.Name] = v.Value
			}
			for name, value := range vars {
				size += len(name) + len("=") + len(value) + 1
				if len(name)+len("=")+len(value) > longestVariable {
					t.Errorf("%d tasks: %s has %d bytes", tasks, name, len(value))
				}
				if strings.HasSuffix(name, "_HOST_LIST") || name == "PAI_TASK_ROLE_INSTANCES" {
					lists++
				}
			}
			const why = "none of OpenPAI's older variables"
			told := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, why) })
			_, older := vars["PAI_"+name+"_0_http_PORT"]
			if older == told || (lists == 2) == told || older != (len(GivenPorts(r.Job, &r.Job.Roles[0])) == 2) {
				t.Errorf("%d tasks of a name of %d letters: the older names are there: %v, lists: %d, warned: %v",
					tasks, len(name), older, lists, told)
			}
			if !told && size > maxLegacyEnv {
				t.Errorf("%d tasks: the variables take %d bytes, with the older names among them", tasks, size)
			}
			if vars["PAI_TASK_INDEX"] != "0" || vars["PAI_CONTAINER_HOST_IP"] == "" {
				t.Errorf("%d tasks: what is of the task alone is not told: %q", tasks, vars["PAI_TASK_INDEX"])
			}
			seen[told]++
		}
	}
	if seen[true] < 3 || seen[false] < 4 {
		t.Errorf("warned and not: %v", seen)
	}
}

// Roles and labels may be called so that an older name of one thing is a name of today of
// another: today's counts.
func TestTodaysNameWins(t *testing.T) {
	job := &model.Job{Name: "j", User: "u", Roles: []model.Role{
		{Name: "PORT_LIST_w", Tasks: 1, Launch: model.Launch{Ports: []model.Port{{Label: "x", Count: 1}}}},
		{Name: "w", Tasks: 1, Launch: model.Launch{Ports: []model.Port{{Label: "x_PORT", Count: 1}}}},
	}}
	last := map[string]string{}
	in := EnvInput{Job: job, Hosts: func(int32) string { return "h" },
		Ports: func(task int32, _ string) []int32 { return []int32{100 + task} }}
	for _, v := range PAIEnv(in) {
		last[v.Name] = v.Value
	}
	if got := last["PAI_PORT_LIST_w_0_x_PORT"]; got != "101" {
		t.Errorf("it is %q", got)
	}
}

func TestFormatMilli(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 1: "0.001", 10: "0.01", 500: "0.5", 1000: "1", 1500: "1.5", 20250: "20.25", -500: "-0.5", -2000: "-2",
	} {
		if got := FormatMilli(milli); got != want {
			t.Errorf("FormatMilli(%d) = %q, want %q", milli, got, want)
		}
	}
}
