package local

import (
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/machine"
	"github.com/combsched/comb/internal/executor/process"
)

const (
	tellEvery    = time.Minute      // also when nothing changed
	utilStep     = 100              // thousandths: a change that is told
	memoryShare  = 20               // a change of memory by one part in so many is told
	settledAfter = 2 * model.Second // of a turn: what is seen earlier may be another task's
	longestPause = 5 * time.Minute  // between tries of a program that fails
)

// sampler looks now and then at the GPUs of the tasks that run here. It is one goroutine, and
// none while there is no such task.
type sampler struct {
	e       *Executor
	program string // absolute; "": nothing is sampled

	mu    sync.Mutex
	tasks map[*liveTask]*lastUse
	runs  bool
}

// lastUse is what was last told of a task, and when.
type lastUse struct {
	use *model.DeviceUse
	at  time.Time
}

func newSampler(e *Executor, program string) *sampler {
	path, err := exec.LookPath(program)
	if err != nil {
		path = "" // no driver, no samples
	}
	return &sampler{e: e, program: path, tasks: map[*liveTask]*lastUse{}}
}

// watch samples a task's devices until the function that it returns is called.
func (s *sampler) watch(t *liveTask) (forget func()) {
	if s.program == "" || t.start == nil || t.start.SKU.Device != cell.NVIDIA || t.start.SKU.GPU == 0 {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t] = &lastUse{}
	if !s.runs {
		s.runs = true
		s.e.wg.Go(s.run)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tasks, t)
	}
}

// run samples until no task is left.
func (s *sampler) run() {
	pause, said := s.e.o.SampleEvery, ""
	for {
		select {
		case <-s.e.ctx.Done():
			return
		case <-time.After(pause):
		}
		s.mu.Lock()
		if len(s.tasks) == 0 {
			s.runs = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		seen, err := s.sample()
		if err == nil {
			pause, said = s.e.o.SampleEvery, ""
			s.tell(seen)
			continue
		}
		pause = min(2*pause, max(longestPause, s.e.o.SampleEvery))
		if said != err.Error() && s.e.ctx.Err() == nil {
			said = err.Error()
			s.e.o.Log.Warn("look at the GPUs", "error", err)
		}
	}
}

// device is the state of one GPU at one moment.
type device struct {
	machine.Device
	tasks map[string]int64 // MiB of each task, by its marker; nil where that is not known
}

// sample asks the driver: for the devices and, where it tells, for the processes.
func (s *sampler) sample() (map[int32]*device, error) {
	list, err := machine.NVIDIADevices(s.e.ctx, s.program)
	if err != nil {
		return nil, err
	}
	devices, byUUID := map[int32]*device{}, map[string]*device{}
	for i, d := range list {
		devices[i] = &device{Device: *d}
		byUUID[d.UUID] = devices[i]
	}
	apps, told, err := machine.Apps(s.e.ctx, s.program)
	if err != nil || !told {
		return devices, err
	}
	for _, d := range devices {
		d.tasks = map[string]int64{}
	}
	for _, a := range apps {
		if d := byUUID[a.UUID]; d != nil {
			d.tasks[process.MarkerIn(a.PID)] += a.Used
		}
	}
	return devices, nil
}

// tell reports each running task whose use changed noticeably.
func (s *sampler) tell(seen map[int32]*device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[int32]int{}
	for t := range s.tasks {
		for _, d := range machine.PlacedDevices(t.start.SKU, t.start.Place) {
			owners[d]++
		}
	}
	for t, last := range s.tasks {
		use, total := useOf(t, seen, owners)
		if use == nil || !t.pastSwitch(model.Time(time.Now().UnixMicro())) {
			continue
		}
		if time.Since(last.at) < tellEvery && !noticeable(last.use, use, total) {
			continue
		}
		last.use, last.at = use, time.Now()
		s.e.tell(model.Progress{Attempt: t.at.id, Task: t.n, Use: use})
	}
}

// useOf is the use of a task's devices, and the memory of the largest of them; nil where that is
// not known. On a device that several tasks have, the task's memory is that of its processes.
func useOf(t *liveTask, seen map[int32]*device, owners map[int32]int) (use *model.DeviceUse, total int64) {
	mine := machine.PlacedDevices(t.start.SKU, t.start.Place)
	util := int64(0)
	use = &model.DeviceUse{}
	for _, i := range mine {
		d := seen[i]
		if d == nil || owners[i] > 1 && d.tasks == nil {
			return nil, 0
		}
		used := d.Used
		if owners[i] > 1 {
			used = d.tasks[markerOf(t.e.o.Cluster, t.at.id, t.n)]
		}
		util += int64(d.Util)
		use.MemoryMB, total = max(use.MemoryMB, used), max(total, d.Total)
	}
	if len(mine) == 0 {
		return nil, 0
	}
	use.Util = int32(util / int64(len(mine)))
	return use, total
}

// noticeable reports whether a change is worth an event.
func noticeable(before, now *model.DeviceUse, total int64) bool {
	if before == nil {
		return true
	}
	util, memory := int64(now.Util-before.Util), now.MemoryMB-before.MemoryMB
	if total == 0 {
		total = max(before.MemoryMB, now.MemoryMB)
	}
	return max(util, -util) >= utilStep || memory != 0 && max(memory, -memory)*memoryShare >= total
}

// pastSwitch reports whether a task has run for a while: what is seen of a device belongs to the
// task that has the turn.
func (t *liveTask) pastSwitch(now model.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn.rotation == nil {
		return true
	}
	turns := turnsOf(*t.turn.rotation, t.at.id)
	before := now.Add(-min(settledAfter, turns.r.Quantum/2))
	return !slices.ContainsFunc([]model.Time{now, before}, func(at model.Time) bool {
		runs, _ := turns.at(at)
		return !runs
	})
}
