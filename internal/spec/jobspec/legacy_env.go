package jobspec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// longestVariable bounds one variable in the kernel, in bytes.
const longestVariable = 128<<10 - 1

// givenLabels are the labels of the ports that OpenPAI gives each task beside those that its
// role asks for: one port of each, in OpenPAI's order.
func givenLabels() []string { return []string{"ssh", "http"} }

// GivenPorts are the labels of the ports that each task of a role has although the role does
// not ask for them, one port of each.
func GivenPorts(job *model.Job, r *model.Role) []string {
	if !hasLegacyEnv(job) {
		return nil
	}
	return slices.DeleteFunc(givenLabels(), func(label string) bool {
		return slices.ContainsFunc(r.Launch.Ports, func(p model.Port) bool { return p.Label == label && p.Count > 0 })
	})
}

// portLabels are the labels of all ports of a role's tasks.
func portLabels(job *model.Job, r *model.Role) []string {
	labels := make([]string, 0, len(r.Launch.Ports)+2)
	for _, p := range r.Launch.Ports {
		labels = append(labels, p.Label)
	}
	return append(labels, GivenPorts(job, r)...)
}

// hasLegacyEnv reports whether a job's tasks get the older names too. They need several times
// as much room as today's names. Each task has all of them, and with pods they are kept in
// the database of Kubernetes. So a job of many tasks gets only today's names.
func hasLegacyEnv(job *model.Job) bool {
	return environmentSize(job.Roles)+legacySize(job.Roles) <= maxLegacyEnv
}

// legacySize bounds the bytes of the older names in one task's variables.
func legacySize(roles []model.Role) int64 {
	total := int64(0)
	for i := range roles {
		r := &roles[i]
		each := sizeAddress + 1 + sizePort             // an entry of the list of hosts
		each += len(r.Name) + len(":12345,")           // an entry of the list of instances
		named := sizeFixed + len(r.Name) + sizePointer // a list of ports, under one of its names
		given := givenLabels()
		for _, p := range r.Launch.Ports {
			each += named + len(p.Label) + int(p.Count)*sizePort
			given = slices.DeleteFunc(given, func(label string) bool { return label == p.Label && p.Count > 0 })
		}
		for _, label := range given {
			each += 2 * (named + len(label) + sizePort)
		}
		total += int64(r.Tasks) * int64(each)
	}
	return total
}

// The sizes from which the bytes of a task's variables are counted.
const (
	sizeFixed   = len("PAI_PORT_LIST___=") + len("12345") // names, index
	sizeAddress = 45                                      // the longest IPv6 text
	sizePort    = len("65535,")
	sizePointer = 9 // with the final zero byte
)

// environmentSize bounds the bytes of one task's variables without the older names: every
// name, the longest values, and what the system keeps for each.
func environmentSize(roles []model.Role) int64 {
	total, own := int64(0), int64(0)
	for i := range roles {
		r := &roles[i]
		each := int64(sizeFixed + len(r.Name) + sizeAddress + sizePointer)
		for _, l := range r.Launch.Ports {
			each += int64(sizeFixed+len(r.Name)+len(l.Label)+sizePointer) + int64(l.Count)*int64(sizePort)
		}
		total += int64(r.Tasks) * each
		size := int64(0)
		for _, v := range r.Launch.Env {
			size += int64(len(v.Name) + len(v.Value) + sizePointer + 1)
		}
		own = max(own, size)
	}
	return total + own
}

// legacyEnv returns the variables that OpenPAI keeps for jobs written for earlier versions,
// those of its REST server and of its runtime.
func legacyEnv(v EnvInput) []model.EnvVar {
	tasks := int32(0)
	for i := range v.Job.Roles {
		tasks += v.Job.Roles[i].Tasks
	}
	roles, r := roleNames(v.Job), &v.Job.Roles[v.Role]
	number, names, all := strconv.Itoa(len(roles)), strings.Join(roles, ","), decimal(tasks)
	env := []model.EnvVar{
		{Name: "PAI_FRAMEWORK_NAME", Value: string(v.Job.User) + "~" + string(v.Job.Name)},
		{Name: "PAI_USERNAME", Value: string(v.Job.User)},
		{Name: "PAI_VIRTUAL_CLUSTER", Value: string(v.Job.VC)},
		{Name: "PAI_DEFAULT_FS_URI"}, // of a file system that OpenPAI dropped; it is set, and empty
		{Name: "PAI_TASKS_NUM", Value: all},
		{Name: "PAI_JOB_TASK_COUNT", Value: all},
		{Name: "PAI_TASK_ROLES_NUM", Value: number},
		{Name: "PAI_JOB_TASK_ROLE_COUNT", Value: number},
		{Name: "PAI_JOB_TASK_ROLE_LIST", Value: names},
		{Name: "PAI_TASK_INDEX", Value: decimal(v.Index)},
		{Name: "PAI_CURRENT_TASK_ROLE_TASK_COUNT", Value: decimal(r.Tasks)},
		{Name: "PAI_CURRENT_TASK_ROLE_GPU_COUNT", Value: strconv.FormatInt(r.Launch.GPU, 10)},
		{Name: "PAI_CURRENT_TASK_ROLE_CPU_COUNT", Value: FormatMilli(r.Launch.MilliCPU)},
		{Name: "PAI_CURRENT_TASK_ROLE_MEM_MB", Value: strconv.FormatInt(r.Launch.MemoryMB, 10)},
		{Name: "PAI_CURRENT_TASK_ROLE_SHM_MB", Value: strconv.FormatInt(r.Launch.ShmMB, 10)},
		{Name: "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT", Value: decimal(r.MinFailed)},
		{Name: "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT", Value: decimal(r.MinSucceeded)},
	}
	env = append(env, ownEnv(v)...)
	if hasLegacyEnv(v.Job) {
		env = append(env, allTasksEnv(v)...)
	}
	return env
}

// ownEnv tells a task its own address and ports, under OpenPAI's names for the container's.
func ownEnv(v EnvInput) (env []model.EnvVar) {
	own := v.Index
	for i := range v.Role {
		own += v.Job.Roles[i].Tasks
	}
	tell := func(value string, names ...string) {
		for _, name := range names {
			if value != "" {
				env = append(env, model.EnvVar{Name: name, Value: value})
			}
		}
	}
	tell(v.Hosts(own), "PAI_CONTAINER_HOST_IP", "PAI_CURRENT_CONTAINER_IP")
	tell(firstPort(v, own, "http"), "PAI_CONTAINER_HOST_PORT", "PAI_CURRENT_CONTAINER_PORT")
	tell(firstPort(v, own, "ssh"), "PAI_CONTAINER_SSH_PORT")
	var all strings.Builder
	for _, label := range portLabels(v.Job, &v.Job.Roles[v.Role]) {
		if list := portList(v.Ports(own, label)); list != "" {
			tell(list, "PAI_CONTAINER_HOST_"+label+"_PORT_LIST")
			all.WriteString(label + ":" + list + ";")
		}
	}
	tell(all.String(), "PAI_CONTAINER_HOST_PORT_LIST")
	return env
}

func firstPort(v EnvInput, task int32, label string) string {
	if ports := v.Ports(task, label); len(ports) > 0 {
		return decimal(ports[0])
	}
	return ""
}

// allTasksEnv tells where all tasks are: a list of each role's addresses, each task's ports
// task by task, and which tasks exist.
func allTasksEnv(v EnvInput) (env []model.EnvVar) {
	task := int32(0)
	var instances []string
	for i := range v.Job.Roles {
		r := &v.Job.Roles[i]
		labels, hosts := portLabels(v.Job, r), []string(nil)
		for index := range r.Tasks {
			instances = append(instances, r.Name+":"+decimal(index))
			for _, label := range labels {
				if list := portList(v.Ports(task, label)); list != "" {
					name := "PAI_" + r.Name + "_" + decimal(index) + "_" + label + "_PORT"
					env = append(env, model.EnvVar{Name: name, Value: list})
				}
			}
			host, port := v.Hosts(task), firstPort(v, task, "http")
			if host != "" && port != "" {
				hosts = append(hosts, host+":"+port)
			}
			task++
		}
		env = append(env, model.EnvVar{Name: "PAI_TASK_ROLE_" + r.Name + "_HOST_LIST", Value: strings.Join(hosts, ",")})
	}
	env = append(env, model.EnvVar{Name: "PAI_TASK_ROLE_INSTANCES", Value: strings.Join(instances, ",")})
	return slices.DeleteFunc(env, func(e model.EnvVar) bool {
		return len(e.Name)+len("=")+len(e.Value) > longestVariable
	})
}
