package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// within returns an environment with those surroundings that it does not set itself.
func within(env, surroundings []string) []string {
	set := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		set[name] = true
	}
	out := slices.Clone(env)
	for _, v := range surroundings {
		if name, _, _ := strings.Cut(v, "="); !set[name] {
			set[name] = true
			out = append(out, v)
		}
	}
	return out
}

// setEnv replaces a variable or appends it.
func setEnv(env []string, name, value string) []string {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i >= 0 {
		env[i] = name + "=" + value
		return env
	}
	return append(env, name+"="+value)
}

// reserved reports whether a name belongs to the platform: a job that could set it could take
// devices that are not its own, or hide from its supervisor.
func reserved(name string) bool {
	if strings.HasPrefix(name, "PAI_") || strings.HasPrefix(name, "COMB_") {
		return true
	}
	return name == "CUDA_DEVICE_ORDER" || slices.ContainsFunc(deviceKinds(), func(k deviceKind) bool { return slices.Contains(k.vars, name) })
}

func join(list []int32) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ",")
}

// deviceKind says which variables choose devices of a kind, and which values hide them all.
type deviceKind struct {
	kind cell.DeviceKind
	vars []string
	none []string
}

// deviceKinds are the kinds whose devices a task could otherwise find by itself. Every task gets
// every variable: its own devices', and values that hide the others.
func deviceKinds() []deviceKind {
	return []deviceKind{
		{cell.NVIDIA, []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}, []string{"", "void"}},
		{cell.AMD, []string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}, []string{"", ""}},
		{cell.TPU, []string{"TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"}, []string{"", ""}},
	}
}
