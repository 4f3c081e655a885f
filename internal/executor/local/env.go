package local

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// environment returns a task's environment, and the names of the job's own variables that were
// left out because the platform sets them. The marker comes first: the task's processes are found
// by it.
func (t *liveTask) environment(job *model.Job, blocks []portBlock, seen paths) (env, ignored []string) {
	ts := t.start
	vars := variables{at: map[string]int{}}
	vars.set(process.MarkerName, markerOf(t.e.o.Cluster, t.at.id, t.n))
	role := &job.Roles[ts.Role]
	fixed := append(platformEnv(t, seen), deviceEnv(ts.SKU, seen.place)...)
	for _, v := range t.frameworkEnv(job, blocks, seen.host) {
		vars.set(v.Name, v.Value)
	}
	for _, v := range role.Launch.Env {
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0):
			ignored = append(ignored, strconv.Quote(v.Name))
		case reserved(v.Name):
			ignored = append(ignored, v.Name)
		default:
			vars.set(v.Name, v.Value)
		}
	}
	for _, v := range jobspec.PAIEnv(jobspec.EnvInput{
		Job: job, Role: ts.Role, Index: ts.Index,
		Hosts: seen.host,
		Ports: portTable(blocks),
	}) {
		vars.set(v.Name, v.Value)
	}
	for _, v := range fixed {
		vars.set(v.Name, v.Value)
	}
	return vars.list, ignored
}

// variables are an environment under construction, each name once.
type variables struct {
	list []string
	at   map[string]int // index of a name
}

// set replaces a variable or appends it.
func (v *variables) set(name, value string) {
	i, ok := v.at[name]
	if !ok {
		i = len(v.list)
		v.at[name], v.list = i, append(v.list, "")
	}
	v.list[i] = name + "=" + value
}

// surroundings are variables that a task gets besides those of environment: the caller's, or a
// few of the server's.
func (t *liveTask) surroundings(caller []string, who *task.Account) []string {
	if caller != nil {
		return slices.DeleteFunc(slices.Clone(caller), func(v string) bool {
			name, _, ok := strings.Cut(v, "=")
			return !ok || name == "" || reserved(name)
		})
	}
	if who != nil {
		return []string{"PATH=" + t.e.o.Path, "HOME=" + who.Home, "LANG=C.UTF-8",
			"USER=" + who.Name, "LOGNAME=" + who.Name}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = t.dir + "/" + workDir
	}
	return []string{"PATH=" + t.e.o.Path, "HOME=" + home, "LANG=C.UTF-8"}
}

// loopback is the address of tasks that share this machine's network.
func loopback(int32) string { return localHost }

// paths are where a task sees files of the platform.
type paths struct {
	checkpoints string
	files       string // the folder of its progress, and of its acknowledgement of a suspension
	members     string
	host        func(task int32) string // the address of a task; "": not known
	storages    []machine.SeenStorage
	code        string    // where its job's upload is unpacked
	place       cell.Task // its devices, as they are numbered for the task
}

func platformEnv(t *liveTask, seen paths) []model.EnvVar {
	ts := t.start
	env := []model.EnvVar{
		{Name: "COMB_JOB_ID", Value: fmt.Sprint(int64(t.at.start.ID))},
		{Name: "COMB_JOB_NAME", Value: string(t.at.start.Job.Name)},
		{Name: "COMB_ATTEMPT", Value: t.at.id.String()},
		{Name: "COMB_RETRY", Value: fmt.Sprint(t.at.start.Retry)},
		{Name: "COMB_VC", Value: string(t.at.start.Job.VC)},
		{Name: "COMB_NODE", Value: string(ts.Place.Node)},
		{Name: "COMB_SKU", Value: string(ts.Place.SKU)},
		{Name: "COMB_LEAVES", Value: leavesText(ts.Place)},
		{Name: "COMB_DEVICE_FILES", Value: strings.Join(machine.DeviceFiles(ts.SKU, ts.Place), ",")},
		{Name: "COMB_CHECKPOINT_DIR", Value: seen.checkpoints},
		{Name: "COMB_PROGRESS_FILE", Value: seen.files + "/" + progressFile},
	}
	if t.at.start.Job.Upload != "" {
		env = append(env, model.EnvVar{Name: task.CodeVariable, Value: seen.code})
	}
	for _, s := range seen.storages {
		env = append(env, model.EnvVar{Name: model.StorageVariable(s.Name), Value: s.At})
	}
	if t.at.start.Job.Hints.Suspend != nil {
		env = append(env, model.EnvVar{Name: "COMB_SUSPEND_FILE", Value: seen.files + "/" + ackFile})
	}
	if t.at.start.Job.Varies() {
		env = append(env, model.EnvVar{Name: "COMB_MEMBERS_FILE", Value: seen.members})
	}
	return env
}

// deviceEnv makes exactly the task's devices visible to it. A leaf with several devices stands
// for as many consecutive ones. MIG slices are named "device:slice", as NVIDIA's container
// toolkit does. Of shares the devices are named, each once.
func deviceEnv(sku cell.SKU, place cell.Task) []model.EnvVar {
	list := join(machine.PlacedDevices(sku, place))
	mig := sku.Part == cell.MIG
	if mig {
		list = leavesText(place)
	}
	var env []model.EnvVar
	for _, k := range deviceKinds() {
		for i, name := range k.vars {
			switch {
			case k.kind != sku.Device || list == "":
				env = append(env, model.EnvVar{Name: name, Value: k.none[i]})
			case mig && name == "CUDA_VISIBLE_DEVICES":
				// CUDA names slices differently: it gets the device.
				env = append(env, model.EnvVar{Name: name, Value: join(machine.PlacedDevices(sku, place))})
			case k.kind == cell.AMD && i > 0:
				// ROCR filters before HIP counts: both together would filter twice.
			default:
				env = append(env, model.EnvVar{Name: name, Value: list})
			}
		}
	}
	if sku.Device == cell.NVIDIA && list != "" {
		// Device indices are the driver's, by bus; CUDA's own order is by speed.
		env = append(env, model.EnvVar{Name: "CUDA_DEVICE_ORDER", Value: "PCI_BUS_ID"})
	}
	if sku.EnvVar != "" {
		env = append(env, model.EnvVar{Name: sku.EnvVar, Value: list})
	}
	return env
}

// leavesText names a task's leaves: "0,1", or "3:0,3:1" for parts of devices.
func leavesText(place cell.Task) string {
	if len(place.Parts) != len(place.Devices) {
		return join(place.Devices)
	}
	text := make([]string, len(place.Devices))
	for i, d := range place.Devices {
		text[i] = fmt.Sprintf("%d:%d", d, place.Parts[i])
	}
	return strings.Join(text, ",")
}

// ownGPUs are a task's NVIDIA GPUs, as requested from the engine. It is empty where device files
// are given instead, or where GPUs are pretended.
func ownGPUs(ts *model.TaskStart) []string {
	if !machine.HasRealDevices(&ts.SKU) || len(ts.SKU.Files) > 0 {
		return nil
	}
	list := join(machine.PlacedDevices(ts.SKU, ts.Place))
	if ts.SKU.Part == cell.MIG {
		list = leavesText(ts.Place)
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// renumbered is a place as its container sees it: the driver there counts the given devices from
// 0.
func renumbered(place cell.Task) cell.Task {
	var seen []int32
	out := place
	out.Devices = make([]int32, len(place.Devices))
	for i, d := range place.Devices {
		if !slices.Contains(seen, d) {
			seen = append(seen, d)
		}
		out.Devices[i] = int32(slices.Index(seen, d))
	}
	return out
}
