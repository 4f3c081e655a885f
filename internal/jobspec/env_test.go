package jobspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/sched"
)

func TestPAIEnvListsEveryVariableInOrder(t *testing.T) {
	job := &sched.Job{
		Name: "mnist", User: "ada",
		Roles: []sched.Role{
			{
				Name: "ps", Tasks: 1, MinFailed: 1, MinSucceeded: -1,
				Launch: sched.Launch{MilliCPU: 1500, MemoryMB: 512, Ports: []sched.Port{{Label: "grpc", Count: 1}}},
			},
			{
				Name: "worker", Tasks: 2, MinFailed: 1, MinSucceeded: 2,
				Launch: sched.Launch{
					GPU: 4, MilliCPU: 8000, MemoryMB: 16384, ShmMB: 64,
					Ports: []sched.Port{{Label: "grpc", Count: 1}, {Label: "web", Count: 2}},
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
			}
			return []int32{8000 + task}
		},
	})
	want := []string{
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
		"PAI_HOST_IP_worker_0=10.0.0.2",
		"PAI_PORT_LIST_worker_0_grpc=8001",
		"PAI_PORT_LIST_worker_0_web=9000,9001",
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

func TestFormatMilli(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 1: "0.001", 10: "0.01", 500: "0.5", 1000: "1", 1500: "1.5", 20250: "20.25", -500: "-0.5", -2000: "-2",
	} {
		if got := FormatMilli(milli); got != want {
			t.Errorf("FormatMilli(%d) = %q, want %q", milli, got, want)
		}
	}
}
