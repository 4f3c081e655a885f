package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// fakeDriver is a program that answers as nvidia-smi does, from two files.
type fakeDriver struct {
	t   testing.TB
	dir string
}

func newFakeDriver(t testing.TB) *fakeDriver {
	f := &fakeDriver{t, t.TempDir()}
	f.write("smi", "#!/bin/sh\ncd "+f.dir+"\ncase $1 in --query-gpu=index,uuid,*) echo >> looks; cat gpus;; --query-compute-apps=gpu_uuid,*) cat apps;; *) exit 9;; esac\n")
	if err := os.Chmod(filepath.Join(f.dir, "smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("apps", "")
	return f
}

func (f *fakeDriver) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
}

// looks waits until so many looks that begin from now on were made, and what they saw was told.
func (f *fakeDriver) looks(more int) {
	f.t.Helper()
	begun := func() int {
		text, _ := os.ReadFile(filepath.Join(f.dir, "looks")) // there is none before the first
		return len(text)
	}
	before := begun()
	testkit.Wait(f.t, "the GPUs are looked at", func() bool { return begun() >= before+more+1 }) // a look is over when the next one begins
}

func (f *fakeDriver) options(o *Options) {
	o.Sampler, o.SampleEvery = filepath.Join(f.dir, "smi"), 20*time.Millisecond
}

// use returns the next sample of a task.
func (w *world) use(id model.AttemptID, task int32) model.DeviceUse {
	w.Helper()
	for {
		p := want[model.Progress](w)
		if p.Attempt == id && p.Task == task && p.Use != nil {
			return *p.Use
		}
	}
}

func TestSamplesAreToldWhenTheyChange(t *testing.T) {
	f := newFakeDriver(t)
	f.write("gpus", "0, GPU-a, 40, 1000, 10000\n1, GPU-b, 80, 3000, 10000\n2, GPU-c, 99, 9999, 10000\n")
	w := newWorld(t, f.options)
	a := w.action(1, "sleep 600")
	a.Start.Tasks[0].Place.Devices = []int32{0, 1}
	w.e.Do(a)
	if got := w.use(a.Attempt, 0); got != (model.DeviceUse{Util: 600, MemoryMB: 3000}) {
		t.Errorf("the first sample: %+v", got)
	}
	// Too little to tell, then by utilization, then by memory.
	f.write("gpus", "0, GPU-a, 45, 1000, 10000\n1, GPU-b, 80, 3400, 10000\n")
	f.looks(2)
	f.write("gpus", "0, GPU-a, 20, 1000, 10000\n1, GPU-b, 80, 3400, 10000\n")
	if got := w.use(a.Attempt, 0); got != (model.DeviceUse{Util: 500, MemoryMB: 3400}) {
		t.Errorf("less busy: %+v", got)
	}
	f.write("gpus", "0, GPU-a, 20, 4000, 10000\n1, GPU-b, 80, 3400, 10000\n")
	if got := w.use(a.Attempt, 0); got != (model.DeviceUse{Util: 500, MemoryMB: 4000}) {
		t.Errorf("more memory: %+v", got)
	}
	w.end(a.Attempt)
}

// Two packed tasks are told apart by their processes; without those, nothing is told.
func TestSamplesOfASharedDevice(t *testing.T) {
	f := newFakeDriver(t)
	f.write("gpus", "0, GPU-a, 90, 9000, 10000\n")
	w := newWorld(t, f.options)
	one, two := w.action(1, "echo main $$", "sleep 600"), w.action(1, "echo main $$", "sleep 600")
	r := &model.Rotation{Turns: [][]model.AttemptID{{one.Attempt, two.Attempt}}, Epoch: now()}
	one.Start.Rotation, two.Start.Rotation = r, r
	w.e.Do(one)
	w.e.Do(two)
	first, second := number(t, w.line(one.Attempt, "main ")), number(t, w.line(two.Attempt, "main "))
	f.write("apps", fmt.Sprintf("GPU-a, %d, 2000\nGPU-a, %d, 6000\nGPU-z, %d, 1\nGPU-a, %d, [N/A]\nGPU-a, %d, 500\n",
		first, second, first, second, os.Getpid()))
	seen := map[model.AttemptID]int64{}
	for seen[one.Attempt] != 2000 || seen[two.Attempt] != 6000 {
		p := want[model.Progress](w)
		if p.Use.Util != 900 {
			t.Fatalf("%+v", p.Use)
		}
		seen[p.Attempt] = p.Use.MemoryMB
	}
	w.end(one.Attempt, two.Attempt)
}

// Who has no turn gets no sample: what the device does is another's work.
func TestSuspendedTaskIsNotSampled(t *testing.T) {
	f := newFakeDriver(t)
	f.write("gpus", "0, GPU-a, 90, 9000, 10000\n")
	w := newWorld(t, f.options)
	a := w.action(1, "sleep 600")
	a.Start.Rotation = never(a.Attempt)
	w.e.Do(a)
	want[model.TaskStarted](w)
	f.looks(20)
	select {
	case x := <-w.facts:
		t.Fatalf("got %+v", x)
	default:
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	if got := w.use(a.Attempt, 0); got.Util != 900 {
		t.Errorf("%+v", got)
	}
	w.end(a.Attempt)
}

// Whatever the program does, tasks run on, and good answers count again.
func TestHostileSamples(t *testing.T) {
	f := newFakeDriver(t)
	w := newWorld(t, f.options)
	f.write("gpus", "0, GPU-a, 50, 100, 1000\n")
	a := w.action(1, "sleep 600")
	w.e.Do(a)
	w.use(a.Attempt, 0)
	f.write("gpus", strings.Repeat("x", 3<<20))
	f.looks(2)
	f.write("gpus", "0, GPU-a, 90, 100, 1000\n")
	if got := w.use(a.Attempt, 0); got.Util != 900 {
		t.Errorf("%+v", got)
	}
	w.end(a.Attempt)
}

func TestNoticeableChange(t *testing.T) {
	for _, tt := range []struct {
		before, now *model.DeviceUse
		total       int64
		want        bool
	}{
		{nil, &model.DeviceUse{}, 0, true},
		{&model.DeviceUse{Util: 500}, &model.DeviceUse{Util: 599}, 0, false},
		{&model.DeviceUse{Util: 500}, &model.DeviceUse{Util: 400}, 0, true},
		{&model.DeviceUse{MemoryMB: 1000}, &model.DeviceUse{MemoryMB: 1499}, 10000, false},
		{&model.DeviceUse{MemoryMB: 1000}, &model.DeviceUse{MemoryMB: 500}, 10000, true},
		{&model.DeviceUse{MemoryMB: 1000}, &model.DeviceUse{MemoryMB: 1052}, 0, false},
		{&model.DeviceUse{MemoryMB: 1000}, &model.DeviceUse{MemoryMB: 1053}, 0, true},
		{&model.DeviceUse{}, &model.DeviceUse{}, 0, false},
	} {
		if got := noticeable(tt.before, tt.now, tt.total); got != tt.want {
			t.Errorf("%+v to %+v of %d: %v", tt.before, tt.now, tt.total, got)
		}
	}
}
