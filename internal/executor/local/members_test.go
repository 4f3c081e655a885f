package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/test/testkit"
)

// watching tells each time that the list of members changes, from inside a task: it
// is what an elastic job does. Each member writes what it sees to a file of its own.
// The handler only says that there is something to do: one that runs commands may be
// interrupted by the next signal, and what they return may end bash's loop.
func watching() []string {
	return []string{
		`me=$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX`,
		`see() { grep -o '"index":[0-9]*' "$COMB_MEMBERS_FILE" | cut -d: -f2 | paste -sd, > $COMB_CHECKPOINT_DIR/sees.new.$me; mv $COMB_CHECKPOINT_DIR/sees.new.$me $COMB_CHECKPOINT_DIR/sees.$me; }`,
		`trap 'told=1' USR2`, `told=1`, `while :; do if [ "$told" ]; then told=; see; fi; sleep 0.02; done`}
}

// elastic is the start of one gang of an elastic job of three tasks.
func (w *world) elastic(job model.JobID, gang int32) model.Action {
	roles := []model.Role{{Name: "worker", Tasks: 3, Leaves: 1, MinFailed: 1, MinSucceeded: -1,
		Launch: model.Launch{Command: watching(), Ports: []model.Port{{Label: "train", Count: 1}}}}}
	j := &model.Job{Name: "elastic", User: "tester", VC: "default", Roles: roles,
		Gangs: []model.Gang{{Tasks: []int32{0}}, {Tasks: []int32{1}, Extra: true}, {Tasks: []int32{2}, Extra: true}},
		Hints: model.Hints{MembersSignal: "USR2"}}
	a := w.action(1)
	a.Attempt = model.AttemptID{Job: job, Gang: gang, N: 1}
	a.Start.ID, a.Start.Job = job, j
	task := &a.Start.Tasks[0]
	task.Task, task.Index, task.Place.Devices = gang, gang, []int32{gang}
	return a
}

// sees waits until a member has seen exactly these.
func (w *world) sees(job model.JobID, who int, want string) {
	w.Helper()
	path := filepath.Join(w.e.place.job(job), "checkpoint", fmt.Sprintf("sees.%d", who))
	got := []byte{}
	if testkit.Within(patience, func() bool {
		got, _ = os.ReadFile(path)
		return strings.TrimSpace(string(got)) == want
	}) {
		return
	}
	for len(w.facts) > 0 {
		w.Logf("meanwhile %+v", <-w.facts)
	}
	file, _ := os.ReadFile(filepath.Join(w.e.place.job(job), membersFile))
	w.Fatalf("member %d sees %q, want %q; the file holds %s", who, got, want, file)
}

func (w *world) present(job model.JobID) (m executor.Membership, indices []int32, leaving []int32) {
	w.Helper()
	if err := safefile.Read(w.e.place.job(job), membersFile, &m); err != nil {
		w.Fatal(err)
	}
	for _, x := range m.Members {
		indices = append(indices, x.Index)
		if x.Leaving {
			leaving = append(leaving, x.Index)
		}
	}
	return m, indices, leaving
}

// TestMembersComeAndGo grows a job by two members and shrinks it again, with a
// server that is restarted in between: nobody is missed or thought lost.
func TestMembersComeAndGo(t *testing.T) {
	w := newWorld(t)
	gangs := []model.Action{w.elastic(1, 0), w.elastic(1, 1), w.elastic(1, 2)}
	w.e.Do(gangs[0])
	w.sees(1, 0, "0")
	w.e.Do(gangs[1])
	w.sees(1, 0, "0,1")
	w.sees(1, 1, "0,1")
	w.e.Do(gangs[2])
	for who := range 3 {
		w.sees(1, who, "0,1,2")
	}
	m, _, _ := w.present(1)
	for i, x := range m.Members {
		if x.Role != "worker" || x.Host != localHost || len(x.Ports["train"]) != 1 || slices.ContainsFunc(m.Members[:i], func(o executor.Member) bool { return o.Ports["train"][0] == x.Ports["train"][0] }) {
			t.Errorf("member %+v", x)
		}
	}

	w.restart()
	for _, a := range gangs {
		a.Known = true
		w.e.Do(a)
	}
	w.e.Adopted(t.Context())
	for range gangs {
		want[model.TaskStarted](w)
	}
	w.eventually("the next server writes the file", func() bool { n, _, _ := w.present(1); return n.Version > m.Version })
	if _, who, _ := w.present(1); !slices.Equal(who, []int32{0, 1, 2}) {
		t.Errorf("after the restart: %v", who)
	}

	w.e.Do(model.Action{Attempt: gangs[1].Attempt, Grace: model.Second})
	w.exit()
	w.sees(1, 0, "0,2")
	w.sees(1, 2, "0,2")
	again := w.elastic(1, 1)
	again.Attempt.N = 2
	w.e.Do(again)
	w.sees(1, 1, "0,1,2")
	w.sees(1, 2, "0,1,2")
	for _, a := range []model.Action{gangs[2], again} {
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
		w.exit()
	}
	w.sees(1, 0, "0")
	w.end(gangs[0].Attempt)
	w.eventually("nobody is left", func() bool { _, who, _ := w.present(1); return len(who) == 0 })
}

// A member that was asked to stop is still there, and says so.
func TestLeavingMember(t *testing.T) {
	w := newWorld(t)
	stubborn := w.elastic(1, 1)
	role(stubborn).Command = []string{"trap '' TERM", "until [ -e $COMB_CHECKPOINT_DIR/go ]; do sleep 0.05; done"}
	first := w.elastic(1, 0)
	w.e.Do(first)
	w.e.Do(stubborn)
	w.sees(1, 0, "0,1")
	w.e.Do(model.Action{Attempt: stubborn.Attempt, Grace: ample})
	w.eventually("it is leaving", func() bool {
		_, who, leaving := w.present(1)
		return slices.Equal(who, []int32{0, 1}) && slices.Equal(leaving, []int32{1})
	})
	if err := os.WriteFile(filepath.Join(w.e.place.job(1), "checkpoint", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.exit()
	w.sees(1, 0, "0")
	w.end(first.Attempt)
}

// A job of one gang never changes: it is told of nothing.
func TestJobsOfOneGangHaveNoMembersFile(t *testing.T) {
	w := newWorld(t)
	a := w.action(2, `echo "file ${COMB_MEMBERS_FILE-none} ${COMB_SUSPEND_FILE-none}"`)
	w.e.Do(a)
	w.exit()
	w.exit()
	if out := w.output(a.Attempt, 0, Stdout); out != "file none none\n" {
		t.Errorf("%q", out)
	}
	if _, err := os.Stat(filepath.Join(w.e.place.job(1), membersFile)); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// What a task makes of the file is replaced, whatever it is.
func TestHostileMembersFile(t *testing.T) {
	w := newWorld(t)
	first := w.elastic(1, 0)
	w.e.Do(first)
	w.sees(1, 0, "0")
	path := filepath.Join(w.e.place.job(1), membersFile)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func() error{
		func() error { return os.Symlink(victim, path) },
		func() error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		func() error { return os.WriteFile(path, []byte("{"), 0o600) },
		func() error { return os.Symlink(victim, path+".new") },
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		a := w.elastic(1, 1)
		a.Attempt.N = int32(i + 1)
		w.e.Do(a)
		w.sees(1, 1, "0,1")
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
		w.exit()
		w.eventually("the file is right", func() bool {
			var m executor.Membership
			return safefile.Read(filepath.Dir(path), membersFile, &m) == nil && len(m.Members) == 1
		})
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
	w.end(first.Attempt)
}
