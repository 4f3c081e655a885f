package pods

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// A pod has few variables of its own: each costs the API server more than all else that is in a
// pod, since it keeps track of what set it. So what the platform tells a task is in one variable,
// as text for the shell that starts the task, and what all tasks of a gang have is in a ConfigMap
// of the gang.
const (
	ownVariables = "COMB_ENV"
	setVariables = `eval "$` + ownVariables + `"; unset ` + ownVariables + "; "
	// beginningOf names the variable with the beginning that the values of a variable have in all
	// tasks of a gang.
	beginningOf = "COMB_BEGINNING_OF_"
	// longBeginning is how long a beginning must be to be shared, in bytes.
	longBeginning = 256
	// gangBytes is the most that one ConfigMap of a gang holds.
	gangBytes = 900_000
)

// forShell matches the names that a shell can set.
var forShell = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variables are a task's environment, in order; each name is there once.
type variables struct {
	list []model.EnvVar
	at   map[string]int
	own  map[string]bool // what the shell that starts the task sets
}

func (v *variables) set(name, value string, own bool) {
	if v.at == nil {
		v.at, v.own = map[string]int{}, map[string]bool{}
	}
	i, has := v.at[name]
	if !has {
		i = len(v.list)
		v.at[name], v.list = i, append(v.list, model.EnvVar{Name: name})
	}
	v.list[i].Value = value
	if delete(v.own, name); own && forShell.MatchString(name) {
		v.own[name] = true
	}
}

// environment is a task's environment: what the job sets, and over it what the platform sets. What
// container runtimes read, and what the job itself sets, is in the pod's spec.
func (m *Maker) environment(t Task, role *model.Role) *variables {
	v, own := &variables{}, len(role.Launch.Command) > 0 // else no shell starts it
	framework, pai := m.ofGang(t)
	v.set("HOME", workDir, false)
	for _, one := range framework {
		v.set(one.Name, one.Value, own)
	}
	for _, one := range role.Launch.Env {
		if one.Name != "" && !strings.ContainsAny(one.Name, "=\x00") && !strings.HasPrefix(one.Name, "PAI_") &&
			!strings.HasPrefix(one.Name, "COMB_") && !deviceVariables[one.Name] {
			v.set(one.Name, one.Value, false)
		}
	}
	for _, one := range pai {
		v.set(one.Name, one.Value, own)
	}
	for _, one := range m.platformVariables(t) {
		v.set(one.Name, one.Value, own && !deviceVariables[one.Name] && one.Name != t.Task.SKU.EnvVar)
	}
	return v
}

// ofGang are the variables that follow from a task's place in its gang.
func (m *Maker) ofGang(t Task) (framework, pai []model.EnvVar) {
	job := t.Start.Job
	tasks := make([]int32, len(t.Start.Tasks))
	meets := make([]jobspec.TaskAddress, len(t.Start.Tasks))
	for i, one := range t.Start.Tasks {
		tasks[i], meets[i] = one.Task, jobspec.TaskAddress{Host: m.host(t, one.Task), Port: firstPort - 1}
	}
	framework = jobspec.FrameworkEnv(job, t.Task.Task, tasks, meets)
	return framework, jobspec.PAIEnv(jobspec.EnvInput{Job: job, Role: t.Task.Role, Index: t.Task.Index,
		Hosts: func(task int32) string { return m.host(t, task) },
		Ports: func(task int32, label string) []int32 { return portsOf(job, task, label) },
	})
}

// spec are the variables of the pod's spec. shared are those that the gang's ConfigMap sets.
func (v *variables) spec(shared map[string]string) (env []corev1.EnvVar) {
	var text strings.Builder
	for _, one := range v.list {
		if !v.own[one.Name] {
			env = append(env, corev1.EnvVar{Name: one.Name, Value: escape(one.Value)})
			continue
		}
		if same, has := shared[one.Name]; has && same == one.Value {
			continue
		}
		value := quoted(one.Value)
		if begins := shared[beginningOf+one.Name]; begins != "" && strings.HasPrefix(one.Value, begins) {
			value = `"$` + beginningOf + one.Name + `"` + quoted(one.Value[len(begins):])
		}
		fmt.Fprintf(&text, " %s=%s", one.Name, value)
	}
	if text.Len() == 0 {
		return env
	}
	line := "export" + text.String()
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		if _, has := v.at[name]; !has && !strings.HasPrefix(name, beginningOf) {
			line += "; unset " + name
		}
	}
	return append(env, corev1.EnvVar{Name: ownVariables, Value: escape(line)})
}

// quoted is a text as one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// GangVariables are the variables that all tasks of a gang have with the same value, and the long
// beginnings of those that differ; nil where the gang has one task, or one whose role has no
// commands. Tasks of a role differ by their numbers alone, so its first and its last tell what is
// the same in all of them. Make compares each task with them all the same.
func (m *Maker) GangVariables(at model.AttemptID, start *model.Start) map[string]string {
	bare := func(r model.Role) bool { return len(r.Launch.Command) == 0 }
	if len(start.Tasks) < 2 || slices.ContainsFunc(start.Job.Roles, bare) {
		return nil
	}
	last := map[int32]int{} // of each role
	for i, one := range start.Tasks {
		last[one.Role] = i
	}
	var telling []int
	for i, one := range start.Tasks {
		first := i == 0 || !slices.ContainsFunc(telling, func(j int) bool { return start.Tasks[j].Role == one.Role })
		if first || last[one.Role] == i {
			telling = append(telling, i)
		}
	}
	common := map[string]string{} // the value, or the beginning, that all tasks have so far
	differ := map[string]bool{}
	for n, i := range telling {
		framework, pai := m.ofGang(Task{Attempt: at, Start: start, Task: &start.Tasks[i]})
		has := map[string]bool{}
		for _, one := range append(framework, pai...) {
			has[one.Name] = true
			was, known := common[one.Name]
			switch {
			case n == 0 && forShell.MatchString(one.Name):
				common[one.Name] = one.Value
			case known && was != one.Value:
				common[one.Name], differ[one.Name] = beginning(was, one.Value), true
			}
		}
		maps.DeleteFunc(common, func(name, _ string) bool { return !has[name] })
	}
	shared := map[string]string{}
	for name, value := range common {
		switch {
		case !differ[name]:
			shared[name] = value
		case len(value) >= longBeginning:
			shared[beginningOf+name] = value
		}
	}
	return shared
}

// beginning is what two texts begin with, in whole characters.
func beginning(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.ToValidUTF8(a[:n], "")
}

// GangConfigs are the ConfigMaps that hold the shared variables of a gang, in order.
func (m *Maker) GangConfigs(at model.AttemptID, shared map[string]string) (list []*corev1.ConfigMap) {
	room := 0
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		size := len(name) + len(shared[name])
		if room -= size; room < 0 || len(list) == 0 {
			yes := true
			list = append(list, &corev1.ConfigMap{Immutable: &yes, Data: map[string]string{},
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", m.attempt(at), len(list)),
					Labels: map[string]string{ClusterLabel: m.Short()}}})
			room = gangBytes - size
		}
		list[len(list)-1].Data[name] = shared[name]
	}
	return list
}

// fromGang lets a pod have the shared variables of its gang.
func (m *Maker) fromGang(t Task) (from []corev1.EnvFromSource) {
	for _, c := range m.GangConfigs(t.Attempt, t.Shared) {
		ref := corev1.LocalObjectReference{Name: c.Name}
		from = append(from, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}})
	}
	return from
}
