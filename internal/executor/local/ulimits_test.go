package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/test/testkit"
)

// A limit that the engine cannot give is refused with its number: it is the job's fault where its
// role asks for it, and the node's where the cluster file does. Locked memory is what it can give.
func TestLimitsOfContainers(t *testing.T) {
	most := func(name string) int64 {
		return map[string]int64{"nofile": 20000, "memlock": 1 << 16, "stack": docker.Unlimited}[name]
	}
	all := func(string) int64 { return docker.Unlimited }
	const files = " is more than the 20000 that the container engine of this node can give"
	const asked, given = ": ask for less (--ulimit, or limits of the role)", ": an administrator raises the engine's own limit"
	for name, c := range map[string]struct {
		own, sku cell.TaskLimits
		most     func(string) int64
		list     string
		why      string // "" is that nothing is refused
	}{
		"both": {cell.TaskLimits{NoFile: 4096}, cell.TaskLimits{NoFile: 512, StackMB: 64}, most,
			"[{nofile 4096} {stack 67108864} {memlock 65536}]", ""},
		"nothing": {cell.TaskLimits{}, cell.TaskLimits{}, all, "[{memlock -1}]", ""},
		"files":   {cell.TaskLimits{NoFile: 20001}, cell.TaskLimits{}, most, "", "nofile: 20001" + files + asked},
		"memory": {cell.TaskLimits{MemLockMB: 1}, cell.TaskLimits{MemLockMB: -1}, most, "",
			"memlock: 1 MiB is more than the 65536 bytes that the container engine of this node can give" + asked},
		"no end": {cell.TaskLimits{MemLockMB: -1}, cell.TaskLimits{}, most, "", "memlock: unlimited is more than the 65536 bytes"},
		"the file's": {cell.TaskLimits{StackMB: 1}, cell.TaskLimits{NoFile: 65536}, most, "",
			"nofile: 65536" + files + given + " and the kernel's (fs.nr_open), or lowers"},
	} {
		role := &model.Role{Launch: model.Launch{Limits: c.own}}
		list, refused, job := ulimits(role, &cell.SKU{Limits: c.sku}, c.most)
		if c.why == "" && (refused != "" || fmt.Sprint(list) != c.list) {
			t.Errorf("%s: %v, %q, want %s", name, list, refused, c.list)
		}
		if c.why != "" && (!strings.Contains(refused, c.why) || job != (name != "the file's")) {
			t.Errorf("%s: %q of the job: %v, want %q", name, refused, job, c.why)
		}
	}
}

// What an engine refuses although it was thought to give it is the job's fault, too, where its role
// asks for it. Other words are none of a limit.
func TestLimitsThatAnEngineRefuses(t *testing.T) {
	const words = "start the container: OCI runtime create failed: error setting rlimit type 7: " +
		"operation not permitted"
	const full = "start the container: no space left on device"
	const why = "nofile: 4096 is more than the container engine of this node can give (" + words + "): "
	for _, c := range []struct {
		own         cell.TaskLimits
		words, want string
		job         bool
	}{
		{cell.TaskLimits{NoFile: 4096}, words, why + "ask for less", true},
		{cell.TaskLimits{StackMB: 1}, words, why + "an administrator raises", false},
		{cell.TaskLimits{NoFile: 4096}, full, full, false},
	} {
		s := &spec{Each: cell.TaskLimits{NoFile: 4096, StackMB: 1}, Container: &containerSpec{Own: c.own}}
		got := (&caretaker{supervisor: &supervisor{spec: s}}).unstarted(c.words)
		if !strings.HasPrefix(got.Refused, c.want) || got.Job != c.job {
			t.Errorf("%+v, %s: %+v, want %q of the job: %v", c.own, c.words, got, c.want, c.job)
		}
	}
}

// More open files than the kernel allows are the job's fault, in a real engine as well.
func TestContainerOfTooManyFiles(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	w := newWorld(t, func(o *Options) { o.Engine = engine })
	a := w.action(1, "true")
	role(a).Limits = cell.TaskLimits{NoFile: cell.MostFiles}
	doer{w, boxImage}.Do(a)
	if r := wantRefused(w); !r.Job || !strings.Contains(r.Reason, "nofile: 1073741824 is more than") {
		t.Errorf("%+v", r)
	}
	box := &docker.Box{Name: "too-many", Image: boxImage, Command: []string{"/bin/true"}, Top: insideTop,
		Ulimits: []docker.Ulimit{{Name: "nofile", Value: cell.MostFiles}}}
	err := engine.Create(t.Context(), box)
	if err == nil {
		err = engine.Start(t.Context(), box.Name, nil)
	}
	if err == nil || docker.LimitOf(err.Error()) != "nofile" {
		t.Errorf("the engine says of them: %v", err)
	}
	if err := engine.Remove(t.Context(), box.Name); err != nil {
		t.Error(err)
	}
}
