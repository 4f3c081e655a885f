package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// BenchmarkStart measures from Do to the task's first instruction, and from the
// task's last one to the fact of its end.
func BenchmarkStart(b *testing.B) {
	for _, groups := range []bool{true, false} {
		b.Run(fmt.Sprintf("cgroups=%v", groups), func(b *testing.B) { benchStart(b, groups) })
	}
}

func benchStart(b *testing.B, groups bool) {
	w := newWorld(b, func(o *Options) { o.NoCgroups = !groups })
	var starts, ends []time.Duration
	for b.Loop() {
		a := w.action(1, "echo $EPOCHREALTIME")
		begin := time.Now()
		w.e.Do(a)
		for f := range w.facts {
			if _, ok := f.(model.TaskExited); ok {
				break
			}
		}
		end := time.Now()
		l, err := w.e.openLog(ref(a.Attempt, 0, Stdout), 0)
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 64)
		n, _ := l.Read(buf)
		l.Close()
		micros, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(string(buf[:n])), ".", ""), 10, 64)
		if err != nil {
			b.Fatalf("the shell must be bash, which has EPOCHREALTIME: %v", err)
		}
		at := time.UnixMicro(micros)
		starts, ends = append(starts, at.Sub(begin)), append(ends, end.Sub(at))
	}
	for _, m := range []struct {
		name string
		d    []time.Duration
	}{{"start", starts}, {"end", ends}} {
		slices.Sort(m.d)
		b.ReportMetric(float64(m.d[len(m.d)/2].Microseconds())/1000, m.name+"-p50-ms")
		b.ReportMetric(float64(m.d[len(m.d)*99/100].Microseconds())/1000, m.name+"-p99-ms")
	}
}

// BenchmarkGang measures from Do to the start of the last of 64 tasks.
func BenchmarkGang(b *testing.B) {
	const tasks = 64
	w := newWorld(b)
	var all []time.Duration
	for b.Loop() {
		a := w.action(tasks, "exec sleep 600")
		begin := time.Now()
		w.e.Do(a)
		for range tasks {
			want[model.TaskStarted](w)
		}
		all = append(all, time.Since(begin))
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
		for range tasks {
			w.exit()
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "started-p50-ms")
}

// BenchmarkEndOfMany measures from the stop of a task with 4,000 processes, none of which ends by
// SIGTERM, to the fact of its end, and counts its looks at all processes. The kernel alone says
// what no supervisor can save: one signal to the same processes, until all are reaped.
func BenchmarkEndOfMany(b *testing.B) {
	const n = 4000
	b.Run("kernel", func(b *testing.B) { benchKernelEnds(b, n) })
	for _, groups := range []bool{true, false} {
		b.Run(fmt.Sprintf("cgroups=%v", groups), func(b *testing.B) {
			w := newWorld(b, func(o *Options) { o.NoCgroups, o.Pids = !groups, n+96 })
			var all []time.Duration
			looks := int64(0)
			for b.Loop() {
				a := w.action(1, append(many(n), "wait")...)
				w.e.Do(a)
				want[model.TaskStarted](w)
				if !testkit.Within(10*time.Minute, func() bool { return w.output(a.Attempt, 0, Stdout) != "" }) {
					b.Fatal("shells have not started them all")
				}
				begin := time.Now()
				w.e.Do(model.Action{Attempt: a.Attempt})
				w.exit()
				all = append(all, time.Since(begin))
				looks = max(looks, w.looks(a.Attempt))
			}
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds(), "ended-p50-s")
			b.ReportMetric(float64(looks), "looks")
		})
	}
}

func benchKernelEnds(b *testing.B, n int) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	var all []time.Duration
	for b.Loop() {
		dir := b.TempDir()
		cmd := exec.Command("bash", "-c", strings.Join(append(many(n), ": > all", "wait"), "\n"))
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if !testkit.Within(10*time.Minute, func() bool { _, err := os.Stat(filepath.Join(dir, "all")); return err == nil }) {
			b.Fatal("shells have not started them all")
		}
		begin := time.Now()
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); err != nil {
			b.Fatal(err)
		}
		for err := error(nil); err != unix.ECHILD; {
			_, err = unix.Wait4(-1, nil, 0, nil)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2].Seconds(), "ended-p50-s")
}
