package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/cgroup"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/test/testkit"
)

// Two ways to suspend: by the freezer of a cgroup, where there is one, and by signals.
func bothWays(t *testing.T, test func(t *testing.T, change func(*Options))) {
	t.Run("cgroups", func(t *testing.T) { test(t, func(*Options) {}) })
	t.Run("signals", func(t *testing.T) { test(t, func(o *Options) { o.NoCgroups = true }) })
}

// quantum is long enough for several lines in one turn on a busy machine.
const quantum = 400 * model.Millisecond

// ticking writes a line with the time, from the shell and from a descendant in a
// session of its own.
func ticking() []string {
	return []string{
		`setsid sh -c 'while :; do sleep 0.01; echo x >> $COMB_CHECKPOINT_DIR/ticks.child; done' &`,
		`while :; do echo ${EPOCHREALTIME/./} >> $COMB_CHECKPOINT_DIR/ticks; sleep 0.01; done`}
}

func (w *world) ticks(job model.JobID) []int {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.e.place.job(job), "checkpoint", "ticks"))
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	var all []int
	for line := range strings.Lines(string(data)) {
		if strings.HasSuffix(line, "\n") {
			all = append(all, number(w, strings.TrimSpace(line)))
		}
	}
	return all
}

// still requires that a file of a job does not grow.
func (w *world) still(job model.JobID, names ...string) {
	w.Helper()
	size := func(name string) int64 {
		st, err := os.Stat(filepath.Join(w.e.place.job(job), "checkpoint", name))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	before := map[string]int64{}
	for _, name := range names {
		before[name] = size(name)
	}
	time.Sleep(300 * time.Millisecond) // nothing tells that it would have grown; on a busy machine it only grows less
	for _, name := range names {
		if now := size(name); now != before[name] {
			w.Errorf("job %d: %s grows from %d to %d bytes while it is suspended", job, name, before[name], now)
		}
	}
}

// eventually waits until f holds.
func (w *world) eventually(what string, f func() bool) {
	w.Helper()
	testkit.Wait(w, what, f)
}

// grows waits until a job works.
func (w *world) grows(job model.JobID) {
	w.Helper()
	before := len(w.ticks(job))
	w.eventually(fmt.Sprintf("job %d works", job), func() bool { return len(w.ticks(job)) > before+2 })
}

// suspended waits until a job stands still: at two looks, since a process that has just begun may
// be missed at one.
func (w *world) suspended(job model.JobID) {
	w.Helper()
	looks := 0
	w.eventually(fmt.Sprintf("job %d stands still", job), func() bool {
		if looks++; !w.held(job) {
			looks = 0
		}
		return looks == 2
	})
}

// held reports whether all processes of a job are stopped, frozen, or wait for one that is.
func (w *world) held(job model.JobID) bool {
	w.Helper()
	all, err := process.All()
	if err != nil {
		w.Fatal(err)
	}
	members := map[int]process.Stat{}
	for pid, st := range all {
		if !st.Dead() && strings.HasPrefix(process.MarkerIn(pid), fmt.Sprintf("%s/%d.", w.o.Cluster, job)) {
			members[pid] = st
		}
	}
	for pid, st := range members {
		if !st.Stopped() && !w.frozen(pid) && !(st.State == 'D' && process.WaitsForStart(pid, members)) {
			return false
		}
	}
	return len(members) > 0
}

// frozen reports whether a process is in a group of a task that is.
func (w *world) frozen(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for _, p := range w.e.parents {
		if _, below, ok := strings.Cut(cgroup.ParseOwn(string(text))[""]+"/", "/"+filepath.Base(p.Dir)+"/"); ok && p.V2 {
			group, _, _ := strings.Cut(below, "/")
			return isFrozen(filepath.Join(p.Dir, group))
		}
	}
	return false
}

func now() model.Time { return model.Time(time.Now().UnixMicro()) }

// never is a rotation in which the attempt has no turn for an hour.
func never(a model.AttemptID) *model.Rotation {
	other := model.AttemptID{Job: 1_000_000, N: 1}
	return &model.Rotation{Turns: [][]model.AttemptID{{other}, {a}}, Quantum: model.Hour, Epoch: now() - 1}
}

// always is what is left when the others are gone.
func always(a model.AttemptID) *model.Rotation {
	return &model.Rotation{Turns: [][]model.AttemptID{{a}}, Epoch: now()}
}

func (w *world) end(ids ...model.AttemptID) {
	w.Helper()
	for _, id := range ids {
		w.e.Do(model.Action{Attempt: id, Grace: model.Second})
	}
	for range ids {
		w.exit()
	}
}

// apart requires that two jobs worked in turn: their times, in one line, change hands a few times
// and not with each other tick. Where the machine is busy the end of a turn comes late, and both
// have a tick or two more.
func apart(t testing.TB, a, b []int, rounds int) {
	t.Helper()
	if changes := hands(a, b); changes < 3 || changes > 3*rounds+2 {
		t.Errorf("%d and %d ticks change hands %d times in %d rounds", len(a), len(b), changes, rounds)
	}
}

// hands counts how often one job's ticks follow the other's.
func hands(a, b []int) int {
	type tick struct{ at, who int }
	var all []tick
	for _, x := range a {
		all = append(all, tick{x, 0})
	}
	for _, x := range b {
		all = append(all, tick{x, 1})
	}
	slices.SortFunc(all, func(x, y tick) int { return cmp.Compare(x.at, y.at) })
	changes := 0
	for i := 1; i < len(all); i++ {
		if all[i].who != all[i-1].who {
			changes++
		}
	}
	return changes
}

// TestTakingTurns lets a job that runs share its device with another, kills the
// server in the middle, and looks that both work only in turn all the time.
func TestTakingTurns(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		one, two := w.action(1, ticking()...), w.action(1, ticking()...)
		w.e.Do(one)
		w.grows(1)
		r := &model.Rotation{Turns: [][]model.AttemptID{{one.Attempt}, {two.Attempt}}, Quantum: quantum, Epoch: now()}
		begun := int(r.Epoch)
		two.Start.Rotation = r
		w.e.Do(two)
		w.e.Do(model.Action{Attempt: one.Attempt, Rotation: r})
		w.e.Do(model.Action{Attempt: two.Attempt, Rotation: r})
		w.grows(2)
		w.grows(1)
		w.e.Close() // the server dies: the rotation goes on
		w.grows(2)
		w.grows(1)
		w.grows(2)
		w.open()
		for _, a := range []model.Action{one, two} {
			a.Known, a.Start.Rotation = true, r
			w.e.Do(a)
		}
		w.grows(1)
		w.grows(2)
		until := int(now()) // when they are told to stop, both work at a time: each has its grace
		w.end(one.Attempt, two.Attempt)
		// The joiner's first turn tells from when on both share.
		b := slices.DeleteFunc(w.ticks(2), func(x int) bool { return x >= until })
		a := slices.DeleteFunc(w.ticks(1), func(x int) bool { return x < b[0] || x >= until })
		apart(t, a, b, int(model.Time(until-begun)/model.Time(quantum))+1)
	})
}

// A gang's tasks, and whatever they start, are still together; what is new in the
// tree is held as well.
func TestSuspendedTreeIsStill(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		// Each line starts a new process; two levels of children that fork all the time.
		a := w.action(2, `for i in 1 2 3; do (while :; do /bin/true; echo x >> $COMB_CHECKPOINT_DIR/forks; done) & done`,
			ticking()[0], ticking()[1])
		w.e.Do(a)
		for range 2 { // one that is not there yet at the looks begins to work behind them
			want[model.TaskStarted](w)
		}
		w.grows(1)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
		w.suspended(1)
		w.still(1, "ticks", "ticks.child", "forks")
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
		w.grows(1)
		w.end2(a.Attempt)
	})
}

// end2 ends a gang of two.
func (w *world) end2(id model.AttemptID) {
	w.Helper()
	w.e.Do(model.Action{Attempt: id, Grace: model.Second})
	w.exit()
	w.exit()
}

// A stop wakes a suspended task: it has its grace for a checkpoint.
func TestStopOfASuspendedTask(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		a := w.action(1, append([]string{`trap 'echo saved > $COMB_CHECKPOINT_DIR/model; exit 7' TERM`}, ticking()...)...)
		w.e.Do(a)
		w.grows(1)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
		w.suspended(1)
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Duration(patience.Microseconds())})
		if x := w.exit(); x.Code != 7 || x.Cause != "" {
			t.Errorf("exit %+v", x)
		}
		if data, err := os.ReadFile(filepath.Join(w.e.place.job(1), "checkpoint", "model")); err != nil || string(data) != "saved\n" {
			t.Errorf("the checkpoint: %q, %v", data, err)
		}
	})
}

// A frozen tree whose supervisor is killed is ended and proven dead.
func TestSupervisorKilledWhileSuspended(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		a := w.action(1, append([]string{"echo main $$"}, ticking()...)...)
		w.e.Do(a)
		pid := number(t, w.line(a.Attempt, "main "))
		w.grows(1)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
		w.suspended(1)
		w.e.Close() // nobody looks
		s := w.supervisor(a.Attempt)
		s.Signal(unix.SIGKILL)
		w.eventually("the supervisor is gone", func() bool { return !s.Alive() })
		w.open()
		a.Known, a.Start.Rotation = true, never(a.Attempt)
		w.e.Do(a)
		if x := w.exit(); x.Cause != model.SupervisorLost {
			t.Errorf("exit %+v", x)
		}
		dead(t, pid)
		if left, err := filepath.Glob(filepath.Join(w.e.o.Dir, locksFolder, "*."+a.Attempt.String())); err != nil || len(left) > 0 {
			t.Errorf("locks of its turns stay: %v, %v", left, err)
		}
	})
}

// What starts out of its turn waits for it, and a rotation that a dead server left
// out is made up for by the next.
func TestStartOutOfTurn(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		a := w.action(1, "sleep 0.5", "echo done")
		r := never(a.Attempt)
		w.e.Do(model.Action{Attempt: a.Attempt, Rotation: r}) // it overtakes the start
		w.e.Do(a)
		want[model.TaskStarted](w)
		if f := w.nextTaskFact(2 * time.Second); f != nil {
			t.Fatalf("a task without a turn tells %+v", f)
		}
		w.restart()
		a.Known, a.Start.Rotation = true, nil // by now it is alone
		w.e.Do(a)
		if x := w.exit(); x.Code != 0 {
			t.Errorf("exit %+v", x)
		}
	})
}

// TestPackedAttempts: two attempts of several tasks run at once on the same devices
// and have nothing else in common; a third that was told of no rotation is refused.
func TestPackedAttempts(t *testing.T) {
	w := newWorld(t)
	one, two := w.action(2, ticking()...), w.action(2, ticking()...)
	role(one).Ports = []model.Port{{Label: "a", Count: 2}}
	role(two).Ports = role(one).Ports
	w.e.Do(one)
	w.grows(1)
	r := &model.Rotation{Turns: [][]model.AttemptID{{one.Attempt, two.Attempt}}, Epoch: now()}
	two.Start.Rotation = r
	w.e.Do(two)
	w.e.Do(model.Action{Attempt: one.Attempt, Rotation: r})
	seen := map[int32]bool{}
	for range 4 {
		s := want[model.TaskStarted](w)
		for _, p := range s.Ports {
			if seen[p] {
				t.Errorf("port %d is given twice", p)
			}
			seen[p] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("ports %v", seen)
	}
	w.grows(1)
	w.grows(2)
	three := w.action(1, "true")
	w.e.Do(three)
	if x := w.refused(); !strings.Contains(x.Reason, "still has an owner") {
		t.Errorf("%+v", x)
	}
	// The first ends: the second goes on, and takes in another.
	w.end2(one.Attempt)
	w.grows(2)
	four := w.action(2, ticking()...)
	r = &model.Rotation{Turns: [][]model.AttemptID{{two.Attempt, four.Attempt}}, Epoch: now()}
	four.Start.Rotation = r
	w.e.Do(four)
	w.e.Do(model.Action{Attempt: two.Attempt, Rotation: r})
	w.grows(four.Attempt.Job)
	w.e.Do(model.Action{Attempt: two.Attempt, Grace: model.Second})
	w.end2(four.Attempt)
	w.exit()
	w.exit()
	if left, _ := filepath.Glob(filepath.Join(w.o.Dir, locksFolder, "*.*")); len(left) > 0 {
		t.Errorf("locks of turns are left: %v", left)
	}
}

// A tree that nothing can hold still would keep the others of its rotation out for
// ever: here the kernel never says that the group is frozen.
func TestWhatCannotBeHeldStillIsStopped(t *testing.T) {
	parent := t.TempDir()
	s := &supervisor{dir: t.TempDir(), main: os.Getpid(), spec: &spec{Attempt: model.AttemptID{Job: 1, N: 1},
		Parents: []cgroup.Parent{{Dir: parent, V2: true}}, Grace: model.Minute}}
	group := s.spec.groupDirs()[0]
	if err := errors.Join(os.MkdirAll(group, 0o700), os.WriteFile(filepath.Join(group, "cgroup.freeze"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.part.turns = turnsOf(*never(s.spec.Attempt), s.spec.Attempt)
	s.part.had = true
	s.takeTurn()
	if s.part.phase != freezing || s.stopped || s.part.next.IsZero() {
		t.Fatalf("after one look: phase %d, stopped %v, next look %v", s.part.phase, s.stopped, s.part.next)
	}
	if left := time.Until(s.part.until); left < stillWithin-30*time.Second || left > stillWithin {
		t.Errorf("it has %v to be still, want nearly %v", left, stillWithin)
	}
	s.part.until = time.Now()
	s.takeTurn()
	if grace := time.Until(s.deadln); !s.stopped || s.part.phase != running || grace < 30*time.Second || grace > time.Minute {
		t.Errorf("too late: stopped %v with %v, phase %d; want a stop with the job's grace", s.stopped, grace, s.part.phase)
	}
	s.takeTurn()
	s.ended = new(unix.WaitStatus)
	if e := s.exit(); e.Cause != model.SuspendTimeout || !strings.Contains(e.Message, "held still") {
		t.Errorf("its exit is %+v", e)
	}
}

// A shell that starts one program after the other is stopped again and again, often
// between vfork and exec: then it takes no signal before its child goes on.
func TestStoppedBetweenForkAndExec(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", "while :; do /bin/true; done")
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		_ = c.Wait()
	}()
	s := &supervisor{dir: t.TempDir(), spec: &spec{}}
	waited := 0
	for round := range 300 {
		for end := time.Now().Add(patience); s.part.phase != frozen; {
			if s.freeze(); time.Now().After(end) {
				t.Fatalf("round %d: the shell is not still after %v", round, patience)
			}
		}
		if st, ok := process.ReadStat(c.Process.Pid); ok && st.State == 'D' {
			waited++
		}
		s.wake()
		time.Sleep(time.Duration(round%7) * 300 * time.Microsecond) // the moment of the next stop
	}
	t.Logf("it waited for its child in %d of 300 rounds", waited)
}

// An acknowledgement that comes when its suspension was called off keeps no task waiting.
func TestLateAcknowledgement(t *testing.T) {
	w := newWorld(t)
	a := cooperative(w.action(1,
		`small() { echo asked >> $COMB_CHECKPOINT_DIR/log; until [ -e $COMB_CHECKPOINT_DIR/go ]; do sleep 0.02; done; : > "$COMB_SUSPEND_FILE"; `+
			`while [ -e "$COMB_SUSPEND_FILE" ]; do sleep 0.02; done; echo goes on >> $COMB_CHECKPOINT_DIR/log; }`,
		`trap small USR1`, `while :; do echo ${EPOCHREALTIME/./} >> $COMB_CHECKPOINT_DIR/ticks; sleep 0.01; done`), 60*model.Second)
	w.e.Do(a)
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it is asked", func() bool { return w.log(1) == "asked" })
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	time.Sleep(200 * time.Millisecond) // its supervisor hears of that
	if err := os.WriteFile(filepath.Join(w.e.place.job(1), "checkpoint", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("it goes on", func() bool { return w.log(1) == "asked goes on" })
	w.end(a.Attempt)
}
