package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/test/testkit"
)

// realDriver is a driver with two GPUs: its program, and a folder that stands for /dev. A file
// "once" has the program fail one time.
func realDriver(t testing.TB) *fakeDriver {
	f := &fakeDriver{t, t.TempDir()}
	f.write("smi", "#!/bin/sh\ncd "+f.dir+"\necho >> looks\n"+
		"if [ -e once ]; then rm once; echo 'it is busy' >&2; exit 9; fi\ncat cards\n")
	if err := os.Chmod(filepath.Join(f.dir, "smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("cards", "0, GPU-a, 00000000:3B:00.0\n1, GPU-b, 00000000:5E:00.0\n")
	for _, name := range []string{"nvidiactl", "nvidia0", "nvidia1"} {
		f.write(name, "")
	}
	return f
}

func realGPU() cell.SKU { return cell.SKU{Name: "V100", GPU: 1, Device: cell.NVIDIA} }

func (f *fakeDriver) guarded(o *Options) {
	f.options(o)
	o.Dev = f.dir
	o.Leaves = func() []machine.Leaf {
		leaf := func(d int32) machine.Leaf {
			return machine.Leaf{LeafHealth: model.LeafHealth{Node: "n1", SKU: "V100", Device: d}, SKU: realGPU()}
		}
		slot := machine.Leaf{LeafHealth: model.LeafHealth{Node: "n1", SKU: "CPU"}, SKU: cell.SKU{Device: cell.CPU}}
		return []machine.Leaf{leaf(0), leaf(1), slot}
	}
}

func (f *fakeDriver) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// leaves are the next words about the two GPUs, by their index; "" is good.
func (w *world) leaves(number int) map[int32]string {
	w.Helper()
	said := map[int32]string{}
	for range number {
		h := want[model.LeafHealth](w)
		if h.Good != (h.Reason == "") || h.SKU != "V100" {
			w.Errorf("told: %+v", h)
		}
		said[h.Device] = h.Reason
	}
	return said
}

// tries starts a task on a real GPU, and returns why that was refused.
func (w *world) tries(gpu int32) model.TaskRefused {
	w.Helper()
	a := w.action(1, "true")
	a.Start.Tasks[0].SKU, a.Start.Tasks[0].Place.Devices = realGPU(), []int32{gpu}
	w.e.Do(a)
	return want[model.TaskRefused](w)
}

// A GPU that was promised is there, or its task does not start; its leaf is bad, and good again
// with the driver.
func TestGPUThatIsNotThere(t *testing.T) {
	f := realDriver(t)
	w := newWorld(t, f.guarded)
	if got := w.leaves(2); got[0]+got[1] != "" || len(got) != 2 {
		t.Fatalf("at first: %q", got)
	}
	a := w.action(1, "echo here")
	a.Start.Tasks[0].SKU = realGPU()
	w.e.Do(a)
	if x := want[model.TaskExited](w); x.Exit.Code != 0 {
		t.Fatalf("with its GPU: %+v", x)
	}

	f.remove("nvidiactl")
	const gone = "the driver is not there: /dev/nvidiactl is missing"
	if got := w.leaves(2); got[0] != gone || got[1] != gone {
		t.Errorf("without the driver: %q", got)
	}
	if r := w.tries(0); r.Reason != gone || r.Job {
		t.Errorf("a start without the driver: %+v", r)
	}
	f.write("nvidiactl", "")
	if got := w.leaves(2); got[0]+got[1] != "" {
		t.Errorf("with the driver again: %q", got)
	}

	f.remove("nvidia1")
	if got := w.leaves(1); got[1] != "GPU 1 is not there: /dev/nvidia1 is missing" {
		t.Errorf("without a GPU's file: %q", got)
	}
	f.write("nvidia1", "")
	// The first was lost, and the second is counted as the first.
	f.write("cards", "0, GPU-b, 00000000:5E:00.0\n")
	said := map[int32]string{}
	for said[0] == "" || !strings.Contains(said[1], "lists 1 GPU") {
		for i, why := range w.leaves(1) {
			said[i] = why
		}
	}
	if want := "GPU 0 is another one now, GPU-b in place of GPU-a: "; !strings.HasPrefix(said[0], want) {
		t.Errorf("another GPU: %q", said)
	}
	w.restart() // the next server knows it, too
	if got := w.leaves(2); got[0] != said[0] {
		t.Errorf("another GPU, behind a restart: %q", got)
	}
}

// A start that is stopped while the driver is asked says nothing to the others: they ask anew.
func TestStopWhileTheDriverIsAsked(t *testing.T) {
	f := realDriver(t)
	f.write("smi", "#!/bin/sh\ncd "+f.dir+"\nif [ ! -e go ]; then echo >> asked; exec sleep 600; fi\ncat cards\n")
	if err := os.Chmod(filepath.Join(f.dir, "smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	g := machine.NewGuard(machine.GuardOptions{Dir: t.TempDir(), Boot: "b", Dev: f.dir, Program: filepath.Join(f.dir, "smi"), Every: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	said := make(chan string)
	place := cell.Task{Node: "n1", Devices: []int32{0}}
	go func() { said <- g.Missing(ctx, realGPU(), place) }()
	testkit.Wait(t, "the driver is asked", func() bool {
		_, err := os.Stat(filepath.Join(f.dir, "asked"))
		return err == nil
	})
	stop()
	if why := <-said; why != context.Canceled.Error() {
		t.Errorf("the one that was stopped: %q", why)
	}
	f.write("go", "")
	if why := g.Missing(t.Context(), realGPU(), place); why != "" {
		t.Errorf("the next one: %q", why)
	}
}

// A driver that fails once throws nothing out; one that goes on failing does, with its words.
func TestDriverThatFailsOnce(t *testing.T) {
	f := realDriver(t)
	w := newWorld(t, f.guarded)
	w.leaves(2)
	f.write("once", "")
	f.looks(4)
	f.write("smi", "#!/bin/sh\necho >> "+f.dir+"/looks\necho 'No devices could be handled'; exit 9\n")
	if err := os.Chmod(filepath.Join(f.dir, "smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := w.leaves(2)
	if !strings.Contains(got[0], "the driver does not answer") || !strings.Contains(got[1], "No devices could be") {
		t.Errorf("told: %q", got)
	}
}

// What a job says of devices in its variables changes nothing: leaves stay good, and pretended GPUs
// need no driver.
func TestJobPutsNoGPUOutOfUse(t *testing.T) {
	f := realDriver(t)
	w := newWorld(t, f.guarded)
	w.leaves(2)
	a := w.action(1, "exit 3")
	a.Start.Tasks[0].SKU = realGPU()
	a.Start.Job.Roles[0].Launch.Env = []model.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "7"},
		{Name: "LD_LIBRARY_PATH", Value: "/nowhere"}, {Name: "PATH", Value: "/nowhere"}}
	w.e.Do(a)
	if x := want[model.TaskExited](w); x.Exit.Code != 3 {
		t.Errorf("its own end: %+v", x)
	}
	f.looks(3)
	f.remove("nvidiactl")
	if got := w.leaves(2); got[0] == "" || got[1] == "" { // and nothing was told before
		t.Errorf("told: %q", got)
	}
	a = w.action(1, "true")
	w.e.Do(a)
	if x := want[model.TaskExited](w); x.Exit.Code != 0 {
		t.Errorf("on pretended GPUs: %+v", x)
	}
}

// Device files of other makers are looked at in the same way.
func TestDeviceFileThatIsNotThere(t *testing.T) {
	f := realDriver(t)
	f.write("kfd", "")
	sku := cell.SKU{Name: "V100", GPU: 1, Device: cell.AMD, Files: []string{"/dev/kfd"}}
	w := newWorld(t, f.guarded, func(o *Options) {
		o.Leaves = func() []machine.Leaf {
			return []machine.Leaf{{LeafHealth: model.LeafHealth{Node: "n1", SKU: "V100"}, SKU: sku}}
		}
	})
	if got := w.leaves(1); got[0] != "" {
		t.Errorf("at first: %q", got)
	}
	f.remove("kfd")
	if got := w.leaves(1); got[0] != "device file /dev/kfd of SKU V100: no such file or directory" {
		t.Errorf("without the file: %q", got)
	}
	f.write("kfd", "")
	if got := w.leaves(1); got[0] != "" {
		t.Errorf("with the file again: %q", got)
	}
}

// Files that count from another number, as those of AMD do.
func TestDeviceFilesFromANumber(t *testing.T) {
	sku := cell.SKU{Device: cell.AMD, GPU: 1, Files: []string{"/dev/kfd", "/dev/dri/renderD{128}", "/dev/dri/card%d"}}
	got := strings.Join(machine.DeviceFiles(sku, cell.Task{Devices: []int32{0, 3}}), " ")
	if got != "/dev/kfd /dev/dri/renderD128 /dev/dri/renderD131 /dev/dri/card0 /dev/dri/card3" {
		t.Error(got)
	}
}

// A process has the limits of its SKU.
func TestLimitsOfProcesses(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "test $(ulimit -n) = 777 && test $(ulimit -s) = 4096 && test $(ulimit -l) = $(ulimit -Hl)")
	a.Start.Tasks[0].SKU.Limits = cell.TaskLimits{NoFile: 777, StackMB: 4}
	w.e.Do(a)
	if x := want[model.TaskExited](w); x.Exit.Code != 0 {
		t.Errorf("%+v", x)
	}
}
