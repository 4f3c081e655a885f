package pods

import (
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
)

// environmentOf is what a task's program sees, as Kubernetes and a shell make it.
func environmentOf(t *testing.T, c *corev1.Container, configs []*corev1.ConfigMap) map[string]string {
	t.Helper()
	has, twice := map[string]string{}, map[string]bool{}
	for _, v := range c.Env {
		if twice[v.Name] {
			t.Errorf("%s is there twice", v.Name)
		}
		twice[v.Name], has[v.Name] = true, strings.ReplaceAll(v.Value, "$$", "$")
		for _, m := range configs {
			if from := v.ValueFrom; from != nil && from.ConfigMapKeyRef.Name == m.Name {
				has[v.Name] = m.Data[from.ConfigMapKeyRef.Key]
			}
		}
	}
	sh := exec.Command("/bin/sh", "-c", setVariables+"exec env -0")
	sh.Env = []string{}
	for name, value := range has {
		sh.Env = append(sh.Env, name+"="+value)
	}
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := map[string]string{}
	for v := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		if name != "PWD" {
			env[name] = value
		}
	}
	return env
}

// wide is a gang of many tasks of two roles.
func wide(tasks int32) Task {
	task := sample()
	job := task.Start.Job
	job.Name, job.Roles[1].Tasks = `it's "$HOME"`, tasks
	start := &model.Start{ID: 7, Job: job}
	for i := range tasks + 1 {
		one := task.Start.Tasks[min(i, 1)]
		one.Task, one.Index = i, max(i-1, 0)
		start.Tasks = append(start.Tasks, one)
	}
	task.Start = start
	return task
}

// Each task of a gang sees the same with the gang's ConfigMaps as without, and its pod is no larger
// than that of a smaller gang.
func TestSharedVariables(t *testing.T) {
	size := func(tasks int32, check bool) int {
		gang := wide(tasks)
		shared := maker.GangVariables(gang.Attempt, gang.Start)
		most := 0
		for i := range gang.Start.Tasks {
			alone := gang
			alone.Task = &gang.Start.Tasks[i]
			with := alone
			with.Shared = shared
			pod, _, err := maker.Make(with)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, pod.Size())
			if !check {
				continue
			}
			plain, _, err := maker.Make(alone)
			if err != nil {
				t.Fatal(err)
			}
			want := environmentOf(t, &plain.Spec.Containers[0], nil)
			got := environmentOf(t, &pod.Spec.Containers[0], maker.GangConfigs(gang.Attempt, shared))
			if !maps.Equal(got, want) {
				t.Fatalf("task %d has %v, want %v", i, got, want)
			}
		}
		return most
	}
	small, large := size(8, true), size(600, false)
	if large > small+64 {
		t.Errorf("a pod of a gang of 600 has %d bytes, of 8 %d", large, small)
	}
}

// What does not fit into one variable goes into more, and into more ConfigMaps; a task by itself
// has more variables.
func TestManyVariables(t *testing.T) {
	shared := map[string]string{}
	for i := range 30 {
		shared[fmt.Sprint("V", i)] = strings.Repeat("x", 80_000)
	}
	large := &Shared{shared, gangTexts(shared)}
	configs := maker.GangConfigs(sample().Attempt, large)
	for _, c := range configs {
		if size := c.Size(); size > 1<<20 {
			t.Errorf("%s has %d bytes", c.Name, size)
		}
	}
	with := sample()
	with.Shared = large
	parts := maker.gangParts(with)
	if last := parts[len(parts)-1].ValueFrom.ConfigMapKeyRef; len(parts) != 30 || len(configs) != 4 || last.Name != configs[3].Name || configs[3].Data[last.Key] == "" {
		t.Errorf("%d parts in %d ConfigMaps, the last %v", len(parts), len(configs), last)
	}
	alone := wide(1400)
	alone.Task = &alone.Start.Tasks[7]
	pod, _, err := maker.Make(alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range pod.Spec.Containers[0].Env {
		if len(v.Value) > 120_000 {
			t.Errorf("%s has %d bytes", v.Name, len(v.Value))
		}
	}
}

// A gang of one task shares nothing, nor does one with a task that its image starts by itself.
func TestNothingShared(t *testing.T) {
	one := sample()
	one.Start = &model.Start{ID: 7, Job: one.Start.Job, Tasks: one.Start.Tasks[2:]}
	bare := sample()
	bare.Start.Job.Roles[0].Launch.Command = nil
	for _, task := range []Task{one, bare} {
		if got := maker.GangVariables(task.Attempt, task.Start); got != nil {
			t.Errorf("%v", got)
		}
	}
}

func TestForShell(t *testing.T) {
	for name, want := range map[string]bool{"A": true, "_": true, "a_9Z": true, "PATH2": true,
		"": false, "9A": false, "A-B": false, "A.B": false, "A B": false, "A=": false, "Ä": false, "A\n": false, "A$": false,
		"@": false, "[": false, "`": false, "{": false} {
		if forShell(name) != want {
			t.Errorf("%q: a shell can set it: %v, want %v", name, !want, want)
		}
	}
}
