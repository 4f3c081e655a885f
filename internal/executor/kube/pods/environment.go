package pods

import (
	"fmt"
	"maps"
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
	// partBytes is how long a part of a text for the shell may be, partsInConfig how many one
	// ConfigMap holds.
	partBytes     = 90_000
	partsInConfig = 8
)

// forShell reports whether a shell can set a variable of a name. Each variable of each pod is asked
// for: a regular expression took a twentieth of the server's processor time for a pod.
func forShell(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// variables are a task's environment, in order; each name is there once.
type variables struct {
	list []model.EnvVar
	at   map[string]int
	own  map[string]bool // what the shell that starts the task sets
}

func (v *variables) set(name, value string, own bool) {
	if v.at == nil {
		v.at, v.own = make(map[string]int, 96), make(map[string]bool, 96) // a few more than there are
	}
	i, has := v.at[name]
	if !has {
		i = len(v.list)
		v.at[name], v.list = i, append(v.list, model.EnvVar{Name: name})
	}
	v.list[i].Value = value
	if delete(v.own, name); own && forShell(name) {
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

// spec are the variables of the pod's spec. shared are those that the gang's ConfigMaps set.
func (m *Maker) spec(v *variables, t Task) (env []corev1.EnvVar) {
	var own []string // for the shell
	for _, one := range v.list {
		if !v.own[one.Name] {
			env = append(env, corev1.EnvVar{Name: one.Name, Value: escape(one.Value)})
			continue
		}
		if same, has := t.Shared.of(one.Name); has && same == one.Value {
			continue
		}
		value := quoted(one.Value)
		if begins, has := t.Shared.of(beginningOf + one.Name); has && strings.HasPrefix(one.Value, begins) {
			value = `"$` + beginningOf + one.Name + `"` + quoted(one.Value[len(begins):])
		}
		own = append(own, "export "+one.Name+"="+value)
	}
	if len(v.own) == 0 {
		return env
	}
	if t.Shared != nil {
		for _, name := range slices.Sorted(maps.Keys(t.Shared.values)) {
			if _, has := v.at[name]; !has && !strings.HasPrefix(name, beginningOf) {
				own = append(own, "unset "+name)
			}
		}
	}
	parts := m.gangParts(t)
	if texts := joined(own); len(texts) > 1 {
		own = nil
		for _, text := range texts {
			parts = append(parts, corev1.EnvVar{Name: partName(len(parts)), Value: escape(text)})
		}
	}
	first := make([]string, 0, 2*len(parts)+len(own))
	for _, part := range parts {
		first = append(first, `eval "$`+part.Name+`"; unset `+part.Name)
	}
	text := strings.Join(append(first, own...), "; ")
	return append(append(env, parts...), corev1.EnvVar{Name: ownVariables, Value: escape(text)})
}

// partName names a part of what is too long for one variable, or is the same in all tasks of a
// gang.
func partName(i int) string { return fmt.Sprintf("%s_%d", ownVariables, i+1) }

// joined joins statements of a shell to as few texts as Linux allows: one variable has at most 128
// KiB.
func joined(statements []string) (texts []string) {
	first, size := 0, 0
	for i, one := range statements {
		if size += len(one) + 2; size > partBytes && i > first {
			texts = append(texts, strings.Join(statements[first:i], "; "))
			first, size = i, len(one)+2
		}
	}
	if first < len(statements) {
		texts = append(texts, strings.Join(statements[first:], "; "))
	}
	return texts
}

// quoted is a text as one word for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Shared are the variables that all tasks of a gang have with the same value, and the long
// beginnings of those that differ.
type Shared struct {
	values map[string]string
	texts  []string // that set them, for the shell
}

// of is the shared value of a variable.
func (s *Shared) of(name string) (value string, has bool) {
	if s == nil {
		return "", false
	}
	value, has = s.values[name]
	return value, has
}

// parts are how many texts set them.
func (s *Shared) parts() int {
	if s == nil {
		return 0
	}
	return len(s.texts)
}

// GangVariables are the variables that all tasks of a gang have with the same value, and the long
// beginnings of those that differ; nil where the gang has one task, or one whose role has no
// commands. Tasks of a role differ by their numbers alone, so its first and its last tell what is
// the same in all of them. Make compares each task with them all the same.
func (m *Maker) GangVariables(at model.AttemptID, start *model.Start) *Shared {
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
			case n == 0 && forShell(one.Name):
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
	return &Shared{shared, gangTexts(shared)}
}

// beginning is what two texts begin with, in whole characters.
func beginning(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.ToValidUTF8(a[:n], "")
}

// gangTexts set the shared variables of a gang, for the shell. Only those are exported that are a
// task's own: what begins them is a variable of the shell alone.
func gangTexts(shared map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		set := name + "=" + quoted(shared[name])
		if !strings.HasPrefix(name, beginningOf) {
			set = "export " + set
		}
		all = append(all, set)
	}
	return joined(all)
}

// GangConfigs are the ConfigMaps that hold the shared variables of a gang, in order.
func (m *Maker) GangConfigs(at model.AttemptID, shared *Shared) (list []*corev1.ConfigMap) {
	for i := range shared.parts() {
		if i%partsInConfig == 0 {
			yes := true
			list = append(list, &corev1.ConfigMap{Immutable: &yes, Data: map[string]string{},
				ObjectMeta: metav1.ObjectMeta{Name: m.config(at, i), Labels: map[string]string{ClusterLabel: m.Short()}}})
		}
		list[len(list)-1].Data[partName(i)] = shared.texts[i]
	}
	return list
}

// config is the name of the ConfigMap that has a part of a gang's shared variables.
func (m *Maker) config(at model.AttemptID, part int) string {
	return fmt.Sprintf("%s-%d", m.attempt(at), part/partsInConfig)
}

// gangParts let a pod have the shared variables of its gang. It names each: so a user that can
// write ConfigMaps sets no variable that a container runtime reads.
func (m *Maker) gangParts(t Task) (env []corev1.EnvVar) {
	for i := range t.Shared.parts() {
		from := corev1.ConfigMapKeySelector{Key: partName(i)}
		from.Name = m.config(t.Attempt, i)
		env = append(env, corev1.EnvVar{Name: partName(i), ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &from}})
	}
	return env
}
