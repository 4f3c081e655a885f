package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/test/testkit"
)

// userWorld has a storage in which each user has a folder, and a data directory that others may
// reach.
func userWorld(t *testing.T, change func(*Options)) (w *world, homes string) {
	homes = t.TempDir()
	w = newWorld(t, change, func(o *Options) {
		o.Storage = func(_ cell.VCName, name string) (model.Storage, bool) {
			return model.Storage{Name: name, Folder: homes, PerUser: true}, true
		}
		for dir := filepath.Dir(o.Dir); dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	})
	for dir := homes; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return w, homes
}

// numbers are a uid and a gid.
type numbers struct{ uid, gid uint32 }

// of makes an action a user's, with its numbers and the storage of homes.
func of(a model.Action, user model.Subject, n numbers) model.Action {
	job := a.Start.Job
	job.User, job.Storages, job.UID, job.GID = user, []string{"homes"}, n.uid, n.gid
	return a
}

// owner is to whom a file belongs, and its mode.
func owner(t *testing.T, path string) string {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	by, _ := st.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d %o", by.Uid, by.Gid, st.Mode().Perm())
}

// leaves is a task that says as whom it runs, and leaves files of that user's.
var leaves = []string{
	`echo is $(id -u) $(id -g) in $(id -G) $USER`,
	`umask 077; echo mine > $COMB_STORAGE_HOMES/mine; echo mine > $COMB_CHECKPOINT_DIR/mine; echo mine > $HOME/mine`,
	`echo '{"fraction": 0.5}' > $COMB_PROGRESS_FILE`,
	`echo ready`,
}

// tasksOfUsers has jobs of users with numbers leave files and read them again, in either runtime.
func tasksOfUsers(t *testing.T, image string, change func(*Options)) {
	ada, bob := numbers{4001, 4000}, numbers{4002, 4000}
	w, homes := userWorld(t, change)
	do := doer{w, image}
	first := of(w.action(1, leaves...), "ada", ada)
	do.Do(first)
	if x := w.exit(); x.Code != 0 || x.Cause != "" {
		t.Fatalf("it ended with %+v: %s", x, w.output(first.Attempt, 0, Stderr))
	}
	if got := w.line(first.Attempt, "is "); got != "4001 4000 in 4000 ada" {
		t.Errorf("it runs as %q", got)
	}
	if n := w.said.Of(first.Attempt); len(n) == 0 {
		t.Error("its progress was not told")
	}
	job := w.e.place.job(first.Start.ID)
	for path, want := range map[string]string{
		homes + "/ada": "4001:4000 700", homes + "/ada/mine": "4001:4000 600",
		job + "/checkpoint": "4001:4000 700", job + "/checkpoint/mine": "4001:4000 600",
		w.e.place.task(first.Attempt, 0) + "/work": "4001:4000 700",
	} {
		if got := owner(t, path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	// The next job of the same user reads it; another one's does not, though of the same group, nor
	// what the server keeps.
	dir := w.e.place.task(first.Attempt, 0)
	look := fmt.Sprintf("for f in %s/ada/mine %s/checkpoint/mine %s/spec.json %s/stdout.* ", homes, job, dir, dir) +
		`$COMB_STORAGE_HOMES/mine; do cat $f >/dev/null 2>&1 && ` +
		`echo reads $(basename $(dirname $f))/$(basename $f); done; echo ready`
	next, other := of(w.action(1, look), "ada", ada), of(w.action(1, look), "bob", bob)
	reads := map[string]string{"ada": "ada/mine checkpoint/mine ada/mine", "bob": ""}
	if image != "" {
		reads["ada"] = "homes/mine" // it sees nothing else of the machine
	}
	for _, a := range []model.Action{next, other} {
		do.Do(a)
		if x := w.exit(); x.Cause != "" {
			t.Fatalf("it ended with %+v", x)
		}
		var got []string
		for l := range strings.Lines(w.output(a.Attempt, 0, Stdout)) {
			if file, ok := strings.CutPrefix(strings.TrimSpace(l), "reads "); ok {
				got = append(got, file)
			}
		}
		if user := string(a.Start.Job.User); strings.Join(got, " ") != reads[user] {
			t.Errorf("a job of %s reads %q", user, got)
		}
	}
	// A gid alone, and a user without numbers: as before, so any user of an image may write to its
	// folder.
	do.Do(of(w.action(1, "touch $COMB_STORAGE_HOMES/x"), "root", numbers{0, 7}))
	if x := w.exit(); x.Code != 0 {
		t.Errorf("it ended with %+v", x)
	}
	if got := owner(t, homes+"/root"); got != "0:0 777" {
		t.Errorf("its folder is %s", got)
	}
	// What is root's or the platform's never runs, wherever the number comes from: the job ends.
	for _, bad := range []numbers{{4001, 0}, {initUser, 4000}, {4001, initUser}} {
		do.Do(of(w.action(1, "id"), "eve", bad))
		const why = "root's or Comb's own: an administrator gives the user another number"
		if r := wantRefused(w); !strings.Contains(r.Reason, why) || !r.Job {
			t.Errorf("%v: %+v", bad, r)
		}
	}
}

// jobOf is an action whose job is as a journal has it: with numbers and whether they were asked
// for, or, from before jobs kept them, without.
func jobOf(t *testing.T, a model.Action, fields string) model.Action {
	t.Helper()
	a.Start.Job.User = "ada"
	data, err := json.Marshal(a.Start.Job)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), `"uid"`) || strings.Contains(string(data), `"numbered"`) {
		t.Fatalf("the job has numbers: %s", data)
	}
	job := new(model.Job)
	if err := json.Unmarshal([]byte(`{`+fields+string(data[1:])), job); err != nil {
		t.Fatal(err)
	}
	a.Start.Job = job
	return a
}

// Tasks of a job that was submitted before jobs kept numbers run with those that its user has when
// the attempt starts, asked once, and do not run where the account is gone. Others have those of
// their submission.
func TestJobFromBeforeNumbers(t *testing.T) {
	var asked []model.Subject
	var gone error
	w, _ := userWorld(t, func(o *Options) {
		o.Identity = func(user model.Subject) (executor.Identity, error) {
			asked = append(asked, user)
			return executor.Identity{UID: 4001, GID: 4000}, gone
		}
	})
	const says = "echo is $(id -u) $(id -g)"
	own := fmt.Sprint(os.Geteuid(), " ", os.Getegid())
	runs := func(as string, a model.Action, questions int) {
		t.Helper()
		w.e.Do(a)
		for range a.Start.Tasks {
			if x := want[model.TaskExited](w); x.Exit.Code != 0 || x.Exit.Cause != "" {
				t.Fatalf("it ended with %+v", x.Exit)
			}
		}
		if os.Geteuid() != 0 {
			as = own // numbers count for no process
		}
		if got := w.line(a.Attempt, "is "); got != as {
			t.Errorf("it runs as %q, want %q", got, as)
		}
		if len(asked) != questions {
			t.Errorf("asked for %v, want %d questions", asked, questions)
		}
	}
	runs("4001 4000", jobOf(t, w.action(2, says), ``), 1)
	runs(own, jobOf(t, w.action(1, says), `"numbered":true,`), 1)
	runs("4003 4003", jobOf(t, w.action(1, says), `"uid":4003,"gid":4003,"numbered":true,`), 1)
	gone = errors.New("user ada does not exist")
	if os.Geteuid() != 0 {
		runs(own, jobOf(t, w.action(1, says), ``), 2)
		return
	}
	w.e.Do(jobOf(t, w.action(1, says), ``))
	const why = "the job was submitted before jobs kept the uid and gid of their users, and those of user ada are not " +
		"known now: user ada does not exist; submit the job again"
	if r := wantRefused(w); r.Reason != why || !r.Job {
		t.Errorf("%+v", r)
	}
}

// wantRefused returns the next refusal.
func wantRefused(w *world) (r model.TaskRefused) {
	w.Helper()
	w.eventually("it is refused", func() bool {
		select {
		case f := <-w.facts:
			got, ok := f.(model.TaskRefused)
			r = got
			return ok
		default:
			return false
		}
	})
	return r
}

// Files of a user belong to that user, whatever job wrote them. A server that is not root says that
// it cannot do that.
func TestProcessOfAUser(t *testing.T) {
	if os.Geteuid() == 0 {
		tasksOfUsers(t, "", func(*Options) {})
		return
	}
	w := newWorld(t)
	a := of(w.action(1, "id -u"), "ada", numbers{4001, 4001})
	a.Start.Job.Storages = nil
	w.e.Do(a)
	if n := want[model.Notice](w); !strings.Contains(n.Message, "uid 4001 of user ada is not applied") {
		t.Errorf("%+v", n)
	}
	w.exit()
}

// Likewise in a container, in the place of the image's USER.
func TestContainerOfAUser(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	tasksOfUsers(t, boxImage, func(o *Options) { o.Engine = engine })
}

// A folder of a storage that a user may not enter, since an administrator gave the user another
// number, is no fault of the node's: else that user's jobs would put nodes aside. A storage that
// the node does not have is.
func TestFolderOfAnotherUser(t *testing.T) {
	ada := numbers{4002, 4000}
	w, homes := userWorld(t, func(*Options) {})
	if os.Geteuid() == 0 { // else tasks have the server's number
		err := errors.Join(os.Mkdir(homes+"/ada", 0o700), os.Chown(homes+"/ada", 4001, 4000))
		if err != nil {
			t.Fatal(err)
		}
		w.e.Do(of(w.action(1, "id"), "ada", ada))
		if r := wantRefused(w); r.Job || !r.Fetch ||
			!strings.Contains(r.Reason, "uid 4002 may not enter it: an administrator gives it to that user") {
			t.Errorf("%+v", r)
		}
	}
	if err := os.RemoveAll(homes); err != nil {
		t.Fatal(err)
	}
	w.e.Do(of(w.action(1, "id"), "ada", ada))
	if r := wantRefused(w); r.Job || !strings.Contains(r.Reason, "its folder cannot be opened") {
		t.Errorf("%+v", r)
	}
}

// A folder above the server's that is closed to a user is not the job's fault, nor one for which
// the node is put aside: the words say which folder it is, and what opens it.
func TestClosedWay(t *testing.T) {
	if os.Geteuid() != 0 {
		return // tasks have the server's number
	}
	w, _ := userWorld(t, func(*Options) {})
	above := filepath.Dir(filepath.Dir(w.e.o.Dir))
	if err := os.Chmod(above, 0o700); err != nil {
		t.Fatal(err)
	}
	w.e.Do(of(w.action(1, "true"), "ada", numbers{4001, 4000}))
	r := wantRefused(w)
	why := fmt.Sprintf("the folder %[1]s above this server's files is closed to uid 4001 of user ada: "+
		"an administrator lets others pass it (chmod o+x %[1]s)", above)
	if r.Job || !r.Fetch || !strings.HasPrefix(r.Reason, why) {
		t.Errorf("%+v", r)
	}
	if got := Closed(w.e.o.Dir, 4001, 4000); got != above {
		t.Errorf("the closed folder is %q, want %s", got, above)
	}
	if err := os.Chmod(above, 0o711); err != nil {
		t.Fatal(err)
	}
	w.e.Do(of(w.action(1, "echo is $(id -u)"), "ada", numbers{4001, 4000}))
	if x := w.exit(); x.Code != 0 || x.Cause != "" {
		t.Errorf("of an open way it ended with %+v", x)
	}
	if got := Closed(w.e.o.Dir, 4001, 4000); got != "" {
		t.Errorf("of an open way %q is closed", got)
	}
}

// A job's own limits of processes count, up to those of its SKU: more are refused with both
// numbers.
func limitsOfJobs(t *testing.T, image string, change func(*Options)) {
	w := newWorld(t, change)
	do := doer{w, image}
	a := w.action(1, "echo has $(ulimit -n) $(ulimit -s)")
	a.Start.Tasks[0].SKU.Limits = cell.TaskLimits{NoFile: 512, StackMB: 4}
	role(a).Limits = cell.TaskLimits{NoFile: 256}
	do.Do(a)
	w.exit()
	if got := w.line(a.Attempt, "has "); got != "256 4096" {
		t.Errorf("its limits are %q", got)
	}
	a = w.action(1, "true")
	a.Start.Tasks[0].SKU.Limits = cell.TaskLimits{NoFile: 512}
	role(a).Limits = cell.TaskLimits{NoFile: 513}
	do.Do(a)
	const why = "nofile: 513 is more than 512, which SKU V100 allows: ask for less (extras.comb.taskRoles.worker.limits)"
	if r := wantRefused(w); r.Reason != why || !r.Job {
		t.Errorf("%+v", r)
	}
}

func TestLimitsOfAProcess(t *testing.T) { limitsOfJobs(t, "", func(*Options) {}) }

func TestLimitsOfAContainer(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	limitsOfJobs(t, boxImage, func(o *Options) { o.Engine = engine })
}

// The groups of a SKU are those of its tasks, beside the user's own: by the machine's names and
// numbers, and never root's.
func groupsOfTasks(t *testing.T, image string, change func(*Options)) {
	ids := map[model.Subject]numbers{"ada": {4001, 4000}}
	w, _ := userWorld(t, change)
	do := doer{w, image}
	for user, want := range map[model.Subject]string{"ada": "4000 7001 7002", "bob": "0 7001 7002"} {
		if user == "bob" && image == "" {
			continue // root's process needs no group
		}
		a := of(w.action(1, "echo in $(id -G)"), user, ids[user])
		a.Start.Tasks[0].SKU.Groups = []string{"7001", "7002"}
		do.Do(a)
		w.exit()
		if got := w.line(a.Attempt, "in "); got != want {
			t.Errorf("a task of %s is in %q, want %q", user, got, want)
		}
		a = of(w.action(1, "echo in $(id -G)"), user, ids[user])
		do.Do(a)
		w.exit()
		if got := w.line(a.Attempt, "in "); got+" 7001 7002" != want {
			t.Errorf("without the SKU's groups a task of %s is in %q", user, got)
		}
	}
	a := of(w.action(1, "true"), "ada", ids["ada"])
	a.Start.Tasks[0].SKU.Groups = []string{"root"}
	do.Do(a)
	if r := wantRefused(w); !strings.Contains(r.Reason, "the group root of its SKU, 0 on this machine, has rights over all of it") || r.Job {
		t.Errorf("%+v", r)
	}
}

// The usual socket of an engine counts where tasks are processes, too: a group that may write to it
// has rights over the machine under any name.
func TestSocketsOfEngines(t *testing.T) {
	if got := sockets(nil); !slices.Equal(got, []string{docker.DefaultHost}) {
		t.Errorf("without an engine: %q", got)
	}
	engine, err := docker.Reach("unix:///run/own.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	if got := sockets(engine); !slices.Equal(got, []string{docker.DefaultHost, "unix:///run/own.sock"}) {
		t.Errorf("with an engine: %q", got)
	}
	socket := filepath.Join(t.TempDir(), "own.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	group := os.Getegid()
	if os.Geteuid() == 0 {
		group = 4711
	}
	if err := os.Chown(socket, -1, group); err != nil {
		t.Fatal(err)
	}
	own, err := docker.Reach("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	w := newWorld(t, func(o *Options) { o.Engine = own })
	a := w.action(1, "true")
	a.Start.Tasks[0].SKU.Groups = []string{fmt.Sprint(group)}
	w.e.Do(a)
	if r := wantRefused(w); !strings.Contains(r.Reason, "has rights over all of it") || r.Job {
		t.Errorf("%+v", r)
	}
}

// A server that is not root says which group its processes are not in.
func TestGroupsOfAProcess(t *testing.T) {
	if os.Geteuid() == 0 {
		groupsOfTasks(t, "", func(*Options) {})
		return
	}
	w := newWorld(t)
	a := w.action(1, "true")
	a.Start.Tasks[0].SKU.Groups = []string{"7001"}
	w.e.Do(a)
	if n := want[model.Notice](w); !strings.Contains(n.Message, "group 7001 of SKU V100 is not applied") {
		t.Errorf("%+v", n)
	}
	w.exit()
}

func TestGroupsOfAContainer(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	groupsOfTasks(t, boxImage, func(o *Options) { o.Engine = engine })
}
