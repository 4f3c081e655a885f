package jobspec

import (
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// EnvInput is what the environment of one task depends on.
type EnvInput struct {
	Job   *model.Job
	Role  int32 // index into Job.Roles
	Index int32 // of the task in its role
	// Hosts returns the address of the task with that ordinal; "" when it is unknown (a task
	// of an incremental job that does not run yet).
	Hosts func(task int32) string
	// Ports returns the port numbers of that task's label; empty when unknown.
	Ports func(task int32, label string) []int32
}

// PAIEnv returns OpenPAI's PAI_* variables for one task, always in the same order: first the
// older names, then job, roles, hosts and ports task by task, and the task itself. An unknown
// host or port has no variable. An odd role or label can make two variables of one name; the
// later one counts, which is never the older name.
func PAIEnv(v EnvInput) []model.EnvVar {
	roles := roleNames(v.Job)
	env := append(legacyEnv(v),
		model.EnvVar{Name: "PAI_JOB_NAME", Value: string(v.Job.Name)},
		model.EnvVar{Name: "PAI_USER_NAME", Value: string(v.Job.User)},
		model.EnvVar{Name: "PAI_TASK_ROLE_COUNT", Value: strconv.Itoa(len(roles))},
		model.EnvVar{Name: "PAI_TASK_ROLE_LIST", Value: strings.Join(roles, ",")},
	)
	for i := range v.Job.Roles {
		env = append(env, roleEnv(&v.Job.Roles[i])...)
	}
	first := int32(0)
	for i := range v.Job.Roles {
		env = append(env, addressEnv(v, &v.Job.Roles[i], first)...)
		first += v.Job.Roles[i].Tasks
	}
	return append(env,
		model.EnvVar{Name: "PAI_CURRENT_TASK_ROLE_NAME", Value: v.Job.Roles[v.Role].Name},
		model.EnvVar{Name: "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", Value: decimal(v.Index)},
	)
}

func roleNames(job *model.Job) []string {
	names := make([]string, 0, len(job.Roles))
	for _, r := range job.Roles {
		names = append(names, r.Name)
	}
	return names
}

// roleEnv describes a role as the file asks for it.
func roleEnv(r *model.Role) []model.EnvVar {
	l := &r.Launch
	resources := []string{
		strconv.FormatInt(l.GPU, 10), FormatMilli(l.MilliCPU),
		strconv.FormatInt(l.MemoryMB, 10), strconv.FormatInt(l.ShmMB, 10),
	}
	return []model.EnvVar{
		{Name: "PAI_TASK_ROLE_TASK_COUNT_" + r.Name, Value: decimal(r.Tasks)},
		{Name: "PAI_RESOURCE_" + r.Name, Value: strings.Join(resources, ",")},
		{Name: "PAI_MIN_FAILED_TASK_COUNT_" + r.Name, Value: decimal(r.MinFailed)},
		{Name: "PAI_MIN_SUCCEEDED_TASK_COUNT_" + r.Name, Value: decimal(r.MinSucceeded)},
	}
}

// addressEnv tells the addresses and ports of the tasks of a role. first is the ordinal of
// its first task.
func addressEnv(v EnvInput, r *model.Role, first int32) []model.EnvVar {
	var env []model.EnvVar
	labels := portLabels(v.Job, r)
	for i := range r.Tasks {
		suffix := r.Name + "_" + decimal(i)
		if host := v.Hosts(first + i); host != "" {
			env = append(env, model.EnvVar{Name: "PAI_HOST_IP_" + suffix, Value: host})
		}
		for _, label := range labels {
			if list := portList(v.Ports(first+i, label)); list != "" {
				env = append(env, model.EnvVar{Name: "PAI_PORT_LIST_" + suffix + "_" + label, Value: list})
			}
		}
	}
	return env
}

func portList(ports []int32) string {
	list := make([]string, len(ports))
	for i, port := range ports {
		list[i] = decimal(port)
	}
	return strings.Join(list, ",")
}

func decimal(n int32) string { return strconv.FormatInt(int64(n), 10) }

// FormatMilli writes thousandths as a decimal number without trailing zeros: 1500 is "1.5".
// Negative numbers keep their sign.
func FormatMilli(m int64) string {
	whole, part := m/1000, m%1000
	if part == 0 {
		return strconv.FormatInt(whole, 10)
	}
	sign := ""
	if m < 0 {
		sign, whole, part = "-", -whole, -part
	}
	digits := strings.TrimRight(strconv.FormatInt(1000+part, 10)[1:], "0")
	return sign + strconv.FormatInt(whole, 10) + "." + digits
}
