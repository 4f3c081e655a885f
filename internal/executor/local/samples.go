package local

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

const (
	sampleTime   = 20 * time.Second // for one answer: a cold driver needs several seconds
	sampleRows   = 4096             // of one answer
	maxDeviceMB  = 1 << 30
	tellEvery    = time.Minute      // also when nothing changed
	utilStep     = 100              // thousandths: a change that is told
	memoryShare  = 20               // one part of so many of a device's memory is one, too
	settledAfter = 2 * sched.Second // of a turn: what is seen before may be another's
	longestPause = 5 * time.Minute  // between tries of a program that fails
)

// sampler looks now and then at the GPUs of the tasks that run here. It is one
// goroutine, and none while there is no such task.
type sampler struct {
	e       *Executor
	program string // absolute; "" looks at nothing

	mu    sync.Mutex
	tasks map[*task]*lastUse
	runs  bool
}

// lastUse is what was told of a task last, and when.
type lastUse struct {
	use *sched.DeviceUse
	at  time.Time
}

func newSampler(e *Executor, program string) *sampler {
	path, err := exec.LookPath(program)
	if err != nil {
		path = "" // no driver, no samples
	}
	return &sampler{e: e, program: path, tasks: map[*task]*lastUse{}}
}

// watch looks at a task's devices until the function that it returns is called.
func (s *sampler) watch(t *task) (forget func()) {
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

// device is one GPU at one moment.
type device struct {
	uuid        string
	util        int32 // thousandths
	used, total int64 // MiB; total 0 is not known
	tasks       map[string]int64
}

// sample asks the driver: for the devices and, where it tells, for the processes.
func (s *sampler) sample() (map[int32]*device, error) {
	text, err := s.ask("--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total")
	if err != nil {
		return nil, err
	}
	devices, err := parseDevices(text)
	if err != nil {
		return nil, err
	}
	if text, err = s.ask("--query-compute-apps=gpu_uuid,pid,used_memory"); err != nil {
		return devices, nil // what cannot be told apart is not told
	}
	byUUID := map[string]*device{}
	for _, d := range devices {
		d.tasks = map[string]int64{}
		byUUID[d.uuid] = d
	}
	apps, err := parseApps(text)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		if d := byUUID[a.uuid]; d != nil {
			d.tasks[markerIn(a.pid)] += a.used
		}
	}
	return devices, nil
}

// ask runs the program; its output and its time are bounded.
func (s *sampler) ask(query string) (string, error) {
	ctx, cancel := context.WithTimeout(s.e.ctx, sampleTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, query, "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", s.program, query, err, firstText(strings.TrimSpace(errs.String()+" "+out.String())))
	}
	if out.Len() >= maxOutput {
		return "", fmt.Errorf("%s %s: more than %d bytes of output", s.program, query, maxOutput)
	}
	return out.String(), nil
}

// rows reads lines of so many fields.
func rows(text string, fields int) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.LazyQuotes, r.FieldsPerRecord = true, true, fields
	var list [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the samples cannot be read: %w", err)
		}
		if len(list) == sampleRows {
			return nil, fmt.Errorf("the samples have more than %d lines", sampleRows)
		}
		list = append(list, row)
	}
}

// parseDevices reads "index, uuid, percent, MiB used, MiB in all". A device of which
// something is not said ("[N/A]") is left out; what cannot be is an error.
func parseDevices(text string) (map[int32]*device, error) {
	list, err := rows(text, 5)
	if err != nil {
		return nil, err
	}
	devices := map[int32]*device{}
	for _, row := range list {
		index, err := strconv.ParseInt(strings.TrimSpace(row[0]), 10, 32)
		if err != nil || index < 0 || devices[int32(index)] != nil {
			return nil, fmt.Errorf("the samples have a wrong index %q", firstText(row[0]))
		}
		util, said := amount(row[2], 100)
		used, said2 := amount(row[3], maxDeviceMB)
		total, _ := amount(row[4], maxDeviceMB)
		if said && said2 {
			devices[int32(index)] = &device{uuid: strings.TrimSpace(row[1]), util: int32(10 * util), used: used, total: total}
		}
	}
	return devices, nil
}

// amount reads a number within bounds.
func amount(text string, most int64) (int64, bool) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return v, err == nil && v >= 0 && v <= most
}

// app is a process on a device.
type app struct {
	uuid string
	pid  int
	used int64
}

// parseApps reads "uuid, pid, MiB"; lines that do not say how much are left out.
func parseApps(text string) ([]app, error) {
	list, err := rows(text, 3)
	if err != nil {
		return nil, err
	}
	var apps []app
	for _, row := range list {
		pid, ok := amount(row[1], 1<<22)
		used, ok2 := amount(row[2], maxDeviceMB)
		if ok && ok2 && pid > 0 {
			apps = append(apps, app{strings.TrimSpace(row[0]), int(pid), used})
		}
	}
	return apps, nil
}

// tell tells of each task that runs what changed noticeably.
func (s *sampler) tell(seen map[int32]*device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[int32]int{}
	for t := range s.tasks {
		for _, d := range devicesOf(t.start.SKU, t.start.Place) {
			owners[d]++
		}
	}
	for t, last := range s.tasks {
		use, total := useOf(t, seen, owners)
		if use == nil || !t.settled(sched.Time(time.Now().UnixMicro())) {
			continue
		}
		if time.Since(last.at) < tellEvery && !noticeable(last.use, use, total) {
			continue
		}
		last.use, last.at = use, time.Now()
		s.e.tell(sched.Progress{Attempt: t.at.id, Task: t.n, Use: use})
	}
}

// useOf is what a task's devices do, and how much memory the fullest of them has;
// nil where that is not known. What a task has of a device with several is told
// by its processes.
func useOf(t *task, seen map[int32]*device, owners map[int32]int) (use *sched.DeviceUse, total int64) {
	mine := devicesOf(t.start.SKU, t.start.Place)
	util := int64(0)
	use = &sched.DeviceUse{}
	for _, i := range mine {
		d := seen[i]
		if d == nil || owners[i] > 1 && d.tasks == nil {
			return nil, 0
		}
		used := d.used
		if owners[i] > 1 {
			used = d.tasks[markerOf(t.e.o.Cluster, t.at.id, t.n)]
		}
		util += int64(d.util)
		use.MemoryMB, total = max(use.MemoryMB, used), max(total, d.total)
	}
	if len(mine) == 0 {
		return nil, 0
	}
	use.Util = int32(util / int64(len(mine)))
	return use, total
}

// noticeable reports whether a change is worth an event.
func noticeable(before, now *sched.DeviceUse, total int64) bool {
	if before == nil {
		return true
	}
	util, memory := int64(now.Util-before.Util), now.MemoryMB-before.MemoryMB
	if total == 0 {
		total = max(before.MemoryMB, now.MemoryMB)
	}
	return max(util, -util) >= utilStep || memory != 0 && max(memory, -memory)*memoryShare >= total
}

// settled reports whether a task has run for a while: what is seen of a device
// belongs to whoever has the turn.
func (t *task) settled(now sched.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn.rotation == nil {
		return true
	}
	turns := turnsOf(*t.turn.rotation, t.at.id)
	before := now.Add(-min(settledAfter, turns.r.Quantum/2))
	return !slices.ContainsFunc([]sched.Time{now, before}, func(at sched.Time) bool {
		runs, _ := turns.at(at)
		return !runs
	})
}
