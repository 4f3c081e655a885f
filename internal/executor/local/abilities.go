package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
)

// Abilities implements engine.AbilityReporter. Tasks can be suspended where there is a freezer
// or where a process that is stopped stands still.
func (e *Executor) Abilities(engine.Leaves) ([]model.Ability, string) {
	can := []model.Ability{model.CanPack}
	if e.suspends() {
		can = append(can, model.CanSuspend)
	}
	return can, ""
}

// suspends tests once, when first asked, whether tasks can be suspended here.
func (e *Executor) suspends() bool {
	e.suspendOnce.Do(func() {
		e.canSuspend = !e.o.NoSuspend && (slices.ContainsFunc(e.parents, freezes) || e.stopsProcess())
	})
	return e.canSuspend
}

// freezes tries a group below a parent: the parent itself comes and goes with the tasks.
func freezes(p cgroup.Parent) bool {
	if !p.V2 {
		return false
	}
	dir := filepath.Join(p.Dir, "probe-"+itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false
	}
	defer cgroup.Remove([]string{dir})
	return os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0) == nil &&
		os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0) == nil
}

// stopsProcess tries SIGSTOP on a child process: some sandboxes do not support it.
func (e *Executor) stopsProcess() bool {
	cmd := exec.Command(e.shell, "-c", "exec sleep 60")
	if cmd.Start() != nil {
		return false
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	p := process.Of(cmd.Process.Pid)
	p.Signal(unix.SIGSTOP)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		st, ok := process.ReadStat(p.PID)
		if !ok || st.Start != p.Start || st.Dead() {
			return false
		}
		if st.State == 'T' {
			return true
		}
	}
	return false
}
