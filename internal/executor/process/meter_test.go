package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

// TestBusy: a process below the carer that computes takes about a CPU, also what it computed in
// children that ended; one that sleeps takes none; what is not watched any more is not there.
func TestBusy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := NewMeter(ctx, 200*time.Millisecond)
	carer := func(script string) ID {
		c := exec.Command("sh", "-c", script)
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // all that it starts ends with it
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Kill(-c.Process.Pid, unix.SIGKILL), c.Wait() })
		return Of(c.Process.Pid)
	}
	busy, idle := model.AttemptID{Job: 1, N: 1}, model.AttemptID{Job: 2, N: 1}
	// Each child computes for a moment and ends: what it took stays with the loop that waited for
	// it.
	forget := m.Watch(busy, 0, carer(`sh -c 'while :; do sh -c "i=0; while [ \$i -lt 3000 ]; do i=\$((i+1)); done"; done'; :`), filepath.Join(t.TempDir(), "box"))
	defer m.Watch(idle, 0, carer(`sleep 60; :`), filepath.Join(t.TempDir(), "box"))()
	most := func(id model.AttemptID) (cpu, memory int64, n int) {
		list := m.Usage(executor.TaskRef{Attempt: id})
		for _, u := range list {
			cpu, memory = max(cpu, u.CPU), max(memory, u.MemoryMB)
		}
		return cpu, memory, len(list)
	}
	var cpu, memory int64
	n := 0
	testkit.WaitFor(t, func() string {
		return fmt.Sprintf("what computes is measured: it takes %d thousandths of a CPU, %d MiB, in %d samples", cpu, memory, n)
	}, func() bool {
		cpu, memory, n = most(busy)
		return cpu > 200 && cpu < 4000 && memory < 100 && n >= 3
	})
	if rest, _, _ := most(idle); rest > 50 {
		t.Errorf("what sleeps takes %d thousandths of a CPU", rest)
	}
	forget()
	if list := m.Usage(executor.TaskRef{Attempt: busy}); list != nil {
		t.Errorf("it is not watched and has %d samples", len(list))
	}
}

// TestKept: of a long run the last samples are kept.
func TestKept(t *testing.T) {
	m := NewMeter(t.Context(), time.Hour)
	k := &task{supervisor: Of(os.Getpid()), containerFile: filepath.Join(t.TempDir(), "box")}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for range KeptSamples + 10 {
		m.measure(k, all, children(all))
	}
	if len(k.samples) != KeptSamples || k.samples[0].At >= k.samples[KeptSamples-1].At {
		t.Errorf("%d samples", len(k.samples))
	}
}

func TestParse(t *testing.T) {
	line := "7 (a ) 1 b) S 1 2 3 0 -1 0 0 0 0 0 10 20 3 4 20 0 1 0 500 1000 " + fmt.Sprint(3<<20/os.Getpagesize()) + " 0"
	if cpu, memory, ok := parse(line); !ok || cpu != 37 || memory != 3 {
		t.Errorf("%d ticks, %d MiB, %v", cpu, memory, ok)
	}
	for _, bad := range []string{"", "7 (x) S", "7 (x) S 1 2 3 0 -1 0 0 0 0 0 10 x 3 4 20 0 1 0 500 1000 5 0"} {
		if _, _, ok := parse(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
	if n := field("rchar: 1\nread_bytes: 42\nwrite_bytes: 7\n", "read_bytes: "); n != 42 {
		t.Errorf("%d bytes", n)
	}
}
