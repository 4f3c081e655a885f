package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// cooperative makes an action's job one that is asked before it is suspended.
func cooperative(a model.Action, timeout model.Duration) model.Action {
	a.Start.Job.Hints.Suspend = &model.SuspendContract{Signal: "USR1", Timeout: timeout}
	a.Start.Job.Grace = model.Minute
	return a
}

// obliging is the script of docs/suspension.md around a job that ticks, and goes on
// for 30 ticks before it is small.
func obliging() []string {
	return []string{
		`small() { echo small >> $COMB_CHECKPOINT_DIR/log; : > "$COMB_SUSPEND_FILE"`,
		`  while [ -e "$COMB_SUSPEND_FILE" ]; do sleep 0.02; done; echo large >> $COMB_CHECKPOINT_DIR/log; }`,
		`left=-1; trap 'left=30' USR1`,
		`while :; do echo ${EPOCHREALTIME/./} >> $COMB_CHECKPOINT_DIR/ticks; sleep 0.01; case $left in`,
		`  -1) ;; 0) left=-1; small;; *) left=$((left-1));; esac; done`}
}

func (w *world) log(job model.JobID) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.e.place.job(job), "checkpoint", "log"))
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

func TestTaskIsAskedAndAcknowledges(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*Options)) {
		w := newWorld(t, change)
		a := cooperative(w.action(1, obliging()...), 60*model.Second)
		w.e.Do(a)
		w.grows(1)
		for range 2 {
			w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
			w.eventually("it acknowledges", func() bool { return strings.HasSuffix(w.log(1), "small") })
			w.suspended(1)
			w.still(1, "ticks", "log")
			w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
			w.grows(1)
		}
		if got := w.log(1); got != "small large small large" {
			t.Errorf("it saw %q", got)
		}
		w.end(a.Attempt)
	})
}

// Two obliging jobs in short turns: neither runs before the other has left.
func TestObligingJobsTakeTurns(t *testing.T) {
	w := newWorld(t)
	one, two := cooperative(w.action(1, obliging()...), 60*model.Second), cooperative(w.action(1, obliging()...), 60*model.Second)
	r := &model.Rotation{Turns: [][]model.AttemptID{{one.Attempt}, {two.Attempt}}, Quantum: quantum, Epoch: now()}
	one.Start.Rotation, two.Start.Rotation = r, r
	w.e.Do(one)
	w.e.Do(two)
	for job := range model.JobID(2) {
		w.eventually("it left its memory and took it again", func() bool { return strings.HasPrefix(w.log(job+1), "small large") })
		w.grows(job + 1)
	}
	// One that takes its memory again may lose that turn before it works in it.
	w.eventually("they took turns", func() bool { return hands(w.ticks(1), w.ticks(2)) >= 3 })
	rounds := int((now()-r.Epoch)/model.Time(quantum)) + 1
	w.end(one.Attempt, two.Attempt)
	apart(t, w.ticks(1), w.ticks(2), rounds)
}

// Who starts in a turn of its own waits until the one that was alone has made itself
// small: it was told of the rotation only now. For a moment the guest's shell may run
// before it is held: so it works only when the test has seen that it is.
func TestStartWaitsForTheOther(t *testing.T) {
	w := newWorld(t)
	slow := strings.NewReplacer("left=30", "left=1000000", "case $left in",
		"if [ -e $COMB_CHECKPOINT_DIR/go ] && [ $left -gt 0 ]; then left=1; fi; case $left in").
		Replace(strings.Join(obliging(), "\n"))
	host := cooperative(w.action(1, strings.Split(slow, "\n")...), model.Hour)
	guest := w.action(1, append([]string{"until [ -e $COMB_CHECKPOINT_DIR/go ]; do sleep 0.02; done"}, ticking()...)...)
	w.e.Do(host)
	w.grows(1)
	r := &model.Rotation{Turns: [][]model.AttemptID{{host.Attempt}, {guest.Attempt}}, Quantum: model.Hour}
	r.Epoch = now() - model.Time(r.Quantum) - model.Time(model.Second)
	guest.Start.Rotation = r
	w.e.Do(model.Action{Attempt: host.Attempt, Rotation: r})
	w.e.Do(guest)
	w.suspended(2)
	for _, job := range []model.JobID{2, 1} { // the guest may work from now on, but for the host, which may leave
		if err := os.WriteFile(filepath.Join(w.e.place.job(job), "checkpoint", "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.grows(2)
	if before, after := w.ticks(1), w.ticks(2); before[len(before)-1] >= after[0] {
		t.Errorf("the guest runs since %d, the host until %d", after[0], before[len(before)-1])
	}
	w.end(host.Attempt, guest.Attempt)
}

// A stop of a task that has made itself small does not tell it to take its memory again.
func TestStopLeavesTheAcknowledgement(t *testing.T) {
	w := newWorld(t)
	a := cooperative(w.action(1, append([]string{`trap 'echo term >> $COMB_CHECKPOINT_DIR/log; exit 1' TERM`}, obliging()...)...), 60*model.Second)
	w.e.Do(a)
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it is asked", func() bool { return w.log(1) == "small" })
	w.suspended(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
	w.exit()
	if got := w.log(1); got != "small term" {
		t.Errorf("it saw %q", got)
	}
}

// A task that writes a huge rotation into its folder keeps nobody busy.
func TestHugeRotation(t *testing.T) {
	r := model.Rotation{Turns: make([][]model.AttemptID, 2), Quantum: model.Second}
	for i := range 300_000 {
		r.Turns[i%2] = append(r.Turns[i%2], model.AttemptID{Job: model.JobID(i), N: 1})
	}
	if turns := turnsOf(r, r.Turns[0][0]); !turns.always() {
		t.Error("it is followed")
	}
}

// A task that does not acknowledge, or with something that is no plain file, is
// given its grace for a checkpoint, and says why it ended.
func TestNoAcknowledgement(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":      `:`,
		"a link":       `echo x > real; ln -s $PWD/real "$COMB_SUSPEND_FILE"`,
		"a dead link":  `ln -s /no/such/thing "$COMB_SUSPEND_FILE"`,
		"a folder":     `mkdir "$COMB_SUSPEND_FILE"`,
		"a full one":   `mkdir -p "$COMB_SUSPEND_FILE/a/b"`,
		"a pipe":       `mkfifo "$COMB_SUSPEND_FILE"`,
		"the own link": `ln -s "$COMB_SUSPEND_FILE" "$COMB_SUSPEND_FILE"`,
		"no rights":    `chmod 0 "$(dirname "$COMB_SUSPEND_FILE")"; sleep 0.1; chmod 700 "$(dirname "$COMB_SUSPEND_FILE")"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := cooperative(w.action(1, append([]string{
				`trap 'echo saved > $COMB_CHECKPOINT_DIR/model; exit 0' TERM`, `trap '` + answer + `' USR1`}, ticking()[1])...), model.Second)
			w.e.Do(a)
			w.grows(1)
			w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
			x := w.exit()
			if x.Cause != model.SuspendTimeout || !strings.Contains(x.Message, "within 1s") || x.Own {
				t.Errorf("exit %+v", x)
			}
			if x.Cause.Accountable() {
				t.Error("that counts as the job's failure")
			}
			if _, err := os.Stat(filepath.Join(w.e.place.job(1), "checkpoint", "model")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A huge acknowledgement is one, and is not read; one that was there before is not.
func TestHugeAndStaleAcknowledgement(t *testing.T) {
	w := newWorld(t)
	a := cooperative(w.action(1, append([]string{
		`: > "$COMB_SUSPEND_FILE"`,
		`trap 'echo asked >> $COMB_CHECKPOINT_DIR/log; sleep 0.5; echo answers >> $COMB_CHECKPOINT_DIR/log; truncate -s 1T "$COMB_SUSPEND_FILE"' USR1`}, ticking()[1])...), 60*model.Second)
	w.e.Do(a)
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it answers", func() bool { return w.log(1) == "asked answers" })
	w.suspended(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	w.grows(1)
	if _, err := os.Lstat(filepath.Join(w.e.place.task(a.Attempt, 0), ackFile)); !os.IsNotExist(err) {
		t.Errorf("the acknowledgement is still there: %v", err)
	}
	w.end(a.Attempt)
}

// The signal goes to the topmost process that catches it and to no other: the shell
// and the children of who catches it would die.
func TestWhoIsAsked(t *testing.T) {
	w := newWorld(t)
	inner := `trap 'echo inner >> $COMB_CHECKPOINT_DIR/log; : > "$COMB_SUSPEND_FILE"' USR1; ` +
		`(trap 'echo below >> $COMB_CHECKPOINT_DIR/log' USR1; while :; do sleep 0.02; done) & ` + ticking()[1]
	a := cooperative(w.action(1, "cat > inner.sh <<'X'", inner, "X", "echo main $$", "bash inner.sh", "echo never"), 60*model.Second)
	w.e.Do(a)
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it is asked", func() bool { return w.log(1) != "" })
	w.suspended(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	w.grows(1)
	if got := w.log(1); got != "inner" {
		t.Errorf("asked: %q", got)
	}
	w.end(a.Attempt)
}

// The end of the other and a stop in the middle of being asked change nothing for the worse.
func TestRotationEndsWhileATaskIsAsked(t *testing.T) {
	w := newWorld(t)
	a := cooperative(w.action(1, append([]string{`trap 'echo asked >> $COMB_CHECKPOINT_DIR/log' USR1`}, ticking()[1])...), model.Hour)
	w.e.Do(a)
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it is asked", func() bool { return w.log(1) != "" })
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	w.grows(1)
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.eventually("it is asked again", func() bool { return w.log(1) == "asked asked" })
	w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
	if x := w.exit(); x.Cause != "" || x.Signal != 15 {
		t.Errorf("exit %+v", x)
	}
}

// A damaged rotation is passed over: the task goes on as before.
func TestDamagedRotation(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, ticking()...)
	w.e.Do(a)
	w.grows(1)
	file := filepath.Join(w.e.place.task(a.Attempt, 0), rotationFile)
	for _, text := range []string{"", "{", `{"turns":[[1]]}`, `{"turns":[[],[]],"quantum":1000000}`, `{"turns":[[{"job":1,"gang":0,"n":1}],[]],"quantum":-5}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.supervisor(a.Attempt).Signal(sigOrder)
		w.grows(1)
	}
	// The server's word replaces a folder that the task made of the file.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	w.suspended(1)
	w.end(a.Attempt)
}
