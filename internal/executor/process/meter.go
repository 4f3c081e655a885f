package process

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

const (
	// KeptSamples is how many samples of a task are kept: ten minutes, at one in ten seconds.
	KeptSamples = 60
	// young is the age up to which a task may have no processes yet.
	young = 5 * time.Second
	// ticks is how many clock ticks a second has; Linux reports CPU times in them on all its
	// architectures.
	ticks = 100
)

// Meter measures what tasks use. It is one goroutine, and none while there is no task.
type Meter struct {
	ctx   context.Context
	every time.Duration
	came  chan struct{} // a task came: it is measured soon

	mu    sync.Mutex
	tasks map[executor.TaskRef]*task
	runs  bool
}

// task is a task that is measured.
type task struct {
	supervisor    ID     // its supervisor, which is not part of it
	containerFile string // the file that names process 1 of its container, which takes the place of carer
	since         time.Time
	took          counts
	at            time.Time // of the last look; zero before the first
	samples       []executor.Usage
}

// counts are what processes used since their start. Those that ended are counted with the parent
// that waited for them, so that the sum over a tree does not fall when one ends.
type counts struct{ cpu, read, written uint64 } // ticks, bytes, bytes

// NewMeter makes a meter that works until ctx is done.
func NewMeter(ctx context.Context, every time.Duration) *Meter {
	return &Meter{ctx: ctx, every: every, came: make(chan struct{}, 1), tasks: map[executor.TaskRef]*task{}}
}

// Watch measures a task until the function that it returns is called. The task is what is below
// carer, or, where there is a file box, below the process recorded in it.
func (m *Meter) Watch(attempt model.AttemptID, n int32, carer ID, box string) (forget func()) {
	ref := executor.TaskRef{Attempt: attempt, Task: n}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tasks[ref] = &task{supervisor: carer, containerFile: box, since: time.Now()}
	select {
	case m.came <- struct{}{}:
	default:
	}
	if !m.runs {
		m.runs = true
		go m.run()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.tasks, ref)
	}
}

// Usage returns the samples of a task, the oldest first; none where it is not watched, or was not
// measured yet.
func (m *Meter) Usage(ref executor.TaskRef) []executor.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[ref]; t != nil {
		return append([]executor.Usage{}, t.samples...)
	}
	return nil
}

// run measures until no task is left. A task that has just begun is measured early.
func (m *Meter) run() {
	shortly := min(m.every, time.Second)
	next := time.Now().Add(shortly)
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.came:
			if at := time.Now().Add(shortly); at.Before(next) {
				next = at
			}
			continue
		case <-time.After(time.Until(next)):
		}
		next = time.Now().Add(m.every)
		all, err := All()
		m.mu.Lock()
		if len(m.tasks) == 0 {
			m.runs = false
			m.mu.Unlock()
			return
		}
		tasks := make([]*task, 0, len(m.tasks))
		for _, t := range m.tasks {
			tasks = append(tasks, t)
			if len(t.samples) == 0 && time.Since(t.since) < young {
				next = time.Now().Add(shortly)
			}
		}
		m.mu.Unlock()
		if err != nil {
			continue // without a list of processes nothing can be measured
		}
		below := children(all)
		for _, t := range tasks {
			m.measure(t, all, below)
		}
	}
}

func children(all map[int]Stat) map[int][]int {
	below := map[int][]int{}
	for pid, s := range all {
		below[s.Parent] = append(below[s.Parent], pid)
	}
	return below
}

// measure samples one task's processes. Only this goroutine changes its counts.
func (m *Meter) measure(t *task, all map[int]Stat, below map[int][]int) {
	carer := t.supervisor
	_ = safefile.Read(filepath.Dir(t.containerFile), filepath.Base(t.containerFile),
		&carer) // a task without a container has none
	if s, ok := all[carer.PID]; !ok || s.Start != carer.Start {
		return
	}
	now := time.Now()
	var use executor.Usage
	var took counts
	left := append([]int{}, below[carer.PID]...)
	for seen := 0; len(left) > 0 && seen < len(all); seen++ {
		pid := left[len(left)-1]
		left = append(left[:len(left)-1], below[pid]...)
		if c, memory, ok := look(pid); ok {
			use.MemoryMB += memory
			took = counts{took.cpu + c.cpu, took.read + c.read, took.written + c.written}
		}
	}
	before, span := t.took, now.Sub(t.at)
	first := t.at.IsZero()
	if t.took, t.at = took, now; first || span <= 0 {
		return
	}
	use.At = model.Time(now.UnixMicro())
	use.CPU = int64(float64(since(took.cpu, before.cpu)) * 1000 / ticks / span.Seconds())
	use.Read = int64(float64(since(took.read, before.read)) / span.Seconds())
	use.Written = int64(float64(since(took.written, before.written)) / span.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.samples = append(t.samples, use); len(t.samples) > KeptSamples {
		t.samples = append(t.samples[:0], t.samples[1:]...)
	}
}

func since(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}

// look reads what a process used, and the MiB that it has in memory. Without root, reads and
// writes of another user's process cannot be seen and count as 0.
func look(pid int) (c counts, memory int64, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	text, err := os.ReadFile(dir + "stat")
	if err != nil {
		return c, 0, false
	}
	if c.cpu, memory, ok = parse(string(text)); !ok {
		return c, 0, false
	}
	if text, err := os.ReadFile(dir + "io"); err == nil {
		c.read, c.written = field(string(text), "read_bytes: "), field(string(text), "write_bytes: ")
	}
	return c, memory, true
}

// parse reads /proc/PID/stat: a process's ticks of CPU, with those of children that it waited
// for, and its MiB. The command's name may hold anything but ends with the last ")".
func parse(text string) (cpu uint64, memory int64, ok bool) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 22 {
		return 0, 0, false
	}
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return 0, 0, false
		}
		cpu += n
	}
	pages, err := strconv.ParseInt(f[21], 10, 64)
	return cpu, pages * int64(os.Getpagesize()) >> 20, err == nil
}

func field(text, name string) uint64 {
	_, text, _ = strings.Cut(text, "\n"+name)
	text, _, _ = strings.Cut(text, "\n")
	n, _ := strconv.ParseUint(text, 10, 64) // what cannot be read is 0
	return n
}
