package pai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/testkit"
)

// The lab of two machines, from the first step to the last, by OpenPAI's command where it has one,
// else by comb's: the first administrator, a table of the machine, users, a first job, the
// configuration changed to two virtual clusters, the five experiments, and the configuration
// changed back. Its two machines are two nodes of one GPU each on this one.
func TestLab(t *testing.T) {
	if !testkit.Live(t, "pai") {
		return
	}
	dir := t.TempDir()
	// Each virtual cluster is for a team.
	own := strings.NewReplacer("  default:\n", "  default:\n    access: {members: [bob-team]}\n", "  vc1:\n", "  vc1:\n    access: {members: [alice-team]}\n")
	for name, from := range map[string]string{"one": "cluster-one-vc.yaml", "two": "cluster-two-vcs.yaml"} {
		text, err := os.ReadFile(labFile(t, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(own.Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l := &labWalk{cluster: serve(t, dir, "--virtual-gpus", "2", "--overcommit", "--cluster", filepath.Join(dir, "one.yaml")), dir: dir}
	l.people()
	l.firstJob()
	l.twoVCs()
	l.safety()
	l.preemption()
	l.opportunistic()
	l.back()
	l.gang()
	l.incremental()
}

type labWalk struct {
	*cluster
	dir        string
	admin      *user
	alice, bob *user
}

func labFile(t *testing.T, name string) string {
	t.Helper()
	at, err := filepath.Abs("../../../testdata/lab/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// comb runs our command as a user.
func (u *user) comb(in string, args ...string) (string, error) {
	c := exec.Command(filepath.Join(u.bin, "comb"), args...)
	c.Env = append(os.Environ(), "HOME="+u.home, "XDG_STATE_HOME="+filepath.Join(u.home, "state"), "XDG_CONFIG_HOME="+filepath.Join(u.home, "config"))
	c.Stdin = strings.NewReader(in)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	return string(out) + errs.String(), err
}

// says runs our command, which must succeed and print what matches.
func (u *user) says(pattern, in string, args ...string) string {
	u.Helper()
	out, err := u.comb(in, args...)
	if err != nil || !regexp.MustCompile(pattern).MatchString(out) {
		u.Fatalf("%s: comb %s: %v: %s; want %s", u.name, strings.Join(args, " "), err, out, pattern)
	}
	return out
}

// refused runs our command, which must fail and say what matches.
func (u *user) refused(pattern string, args ...string) {
	u.Helper()
	if out, err := u.comb("", args...); err == nil || !regexp.MustCompile(pattern).MatchString(out) {
		u.Errorf("%s: comb %s: %v: %s; want a refusal: %s", u.name, strings.Join(args, " "), err, out, pattern)
	}
}

func (l *labWalk) people() {
	l.admin = &user{cluster: l.cluster, name: "carol", home: l.TempDir()}
	l.admin.says("signed in as carol", <-l.codes+"\n"+password+"\n", "login", "--setup", "--user", "carol", "--password-stdin", "--server", l.uri)
	table := l.admin.says("(?m)^cpu ", "", "report", "lab")
	for _, row := range []string{"host", "ip", "os", "cpu", "memory", "gpu", "driver", "cuda", "engine", "comb"} {
		if !regexp.MustCompile(`(?m)^` + row + ` +\S`).MatchString(table) {
			l.Errorf("the table of the machine lacks %s: %s", row, table)
		}
	}
	l.admin.says(`\S`, "", "config", "get-id")
	for _, name := range []string{"alice", "bob"} {
		l.admin.says("created", "", "group", "create", name+"-team")
		l.admin.says("created", password+"\n", "user", "create", name, "--group", name+"-team", "--password-stdin")
	}
	l.alice, l.bob = l.user("alice", "vc1"), l.user("bob", "default")
	for _, u := range []*user{l.alice, l.bob} {
		u.says("signed in as "+u.name, password+"\n", "login", "--user", u.name, "--password-stdin", "--server", l.uri)
	}
}

// firstJob: what a user tries first.
func (l *labWalk) firstJob() {
	l.bob.submit("default-test.yaml", "first")
	d := l.bob.ended("first")
	if d.JobStatus.State != "SUCCEEDED" || d.JobStatus.VirtualCluster != "default" {
		l.Errorf("the first job: %+v", d)
	}
	l.bob.says(`done: step \d+ `, "", "job", "logs", "first")
	if out := l.bob.pai("listj", "comb"); !strings.Contains(out, "first") {
		l.Errorf("the list lacks the first job: %s", out)
	}
}

// twoVCs changes the scheduler's configuration: planned, applied on what was planned, with a
// reason.
func (l *labWalk) twoVCs() {
	file := filepath.Join(l.dir, "two.yaml")
	version := regexp.MustCompile(`on version (\d+):`).FindStringSubmatch(l.admin.says(`vc1`, "", "config", "plan", file))
	l.admin.says("applied", "", "config", "apply", file, "--on", version[1], "--reason", "a team of its own")
	l.admin.says("in force .*carol .*a team of its own", "", "config", "history")
	l.admin.refused("version", "config", "apply", file, "--on", version[1])
	l.bob.refused("", "config", "apply", file)
	if out := l.bob.pai("subj", "comb", l.bob.lab("vc1-test.yaml", "stranger")); !strings.Contains(out, "ForbiddenUserError") {
		l.Errorf("bob submits to the virtual cluster of alice: %s", out)
	}
}

// safety: three jobs of a VC with one node run one after another on it, though the other node is
// idle.
func (l *labWalk) safety() {
	for i := range 3 {
		l.alice.submit("vc1-test.yaml", fmt.Sprint("safety-", i))
	}
	l.alice.waits("safety-2")
	var all []labJob
	for i := range 3 {
		d := l.alice.ended(fmt.Sprint("safety-", i))
		if all = append(all, d); d.JobStatus.State != "SUCCEEDED" || d.node() != all[0].node() || d.node() == "" {
			l.Errorf("safety: %+v; want the node %s", d, all[0].node())
		}
	}
	slices.SortFunc(all, func(a, b labJob) int { return int(a.JobStatus.AppLaunchedTime - b.JobStatus.AppLaunchedTime) })
	for i := range all[1:] {
		if all[i].JobStatus.AppCompletedTime > all[i+1].JobStatus.AppLaunchedTime {
			l.Errorf("two jobs of vc1 run at a time: %+v, %+v", all[i].JobStatus, all[i+1].JobStatus)
		}
	}
}

// preemption: a prod job stops a test job, which goes on afterwards where it was.
func (l *labWalk) preemption() {
	l.alice.submit("vc1-test.yaml", "stopped")
	l.alice.until("stopped", `"state": "RUNNING"`)
	l.alice.submit("vc1-prod.yaml", "urgent")
	first, second := l.alice.ended("stopped"), l.alice.ended("urgent")
	if a, b := first.JobStatus, second.JobStatus; a.State != "SUCCEEDED" || b.State != "SUCCEEDED" || a.CompletedTime < b.CompletedTime || a.RetryDetails.User != 0 {
		l.Errorf("%+v, %+v; want the preempted one to end last, and no retry of its own", a, b)
	}
	l.alice.says(`preempted .*\(urgent\) has a higher priority \(100, and this one 10\)`, "", "job", "history", "stopped")
	l.alice.says(`resumed at step \d+`, "", "job", "logs", "stopped")
}

// opportunistic: a job runs on the idle node of another VC, and leaves when that VC's own job
// comes.
func (l *labWalk) opportunistic() {
	l.alice.submit("vc1-prod.yaml", "owner")
	l.alice.until("owner", `"state": "RUNNING"`)
	l.alice.submit("vc1-oppo.yaml", "borrower")
	l.alice.until("borrower", `"state": "RUNNING"`)
	l.bob.submit("default-test.yaml", "lender")
	lender := l.bob.ended("lender")
	owner, borrower := l.alice.ended("owner"), l.alice.ended("borrower")
	for _, d := range []labJob{lender, owner, borrower} {
		if d.JobStatus.State != "SUCCEEDED" {
			l.Errorf("%+v", d)
		}
	}
	if lender.node() == owner.node() {
		l.Errorf("the lender ran on %s, where the owner was", lender.node())
	}
	out := l.alice.says(`preempted`, "", "job", "history", "borrower")
	if strings.Contains(out, "lender") || !strings.Contains(out, lender.node()) {
		l.Errorf("what alice reads of the job of bob: %s", out)
	}
}

// back applies the first configuration again: both nodes are of VC default, and vc1 is gone.
func (l *labWalk) back() {
	l.admin.says("version 1 applied again", "", "config", "rollback", "1", "--yes", "--reason", "the lab's last part")
	out := l.alice.pai("subj", "comb", l.alice.lab("vc1-test.yaml", "late"))
	if !strings.Contains(out, "NoVirtualClusterError") && !strings.Contains(out, "ForbiddenUserError") {
		l.Errorf("a job of a virtual cluster that is gone: %s", out)
	}
}

// gang: two tasks start when both can.
func (l *labWalk) gang() {
	l.bob.submit("default-test.yaml", "busy")
	l.bob.until("busy", `"state": "RUNNING"`)
	l.bob.submit("gang-two.yaml", "gang")
	l.bob.waits("gang")
	busy, gang := l.bob.ended("busy"), l.bob.ended("gang")
	tasks := gang.tasks()
	if gang.JobStatus.State != "SUCCEEDED" || len(tasks) != 2 || tasks[0].Node == tasks[1].Node {
		l.Fatalf("%+v", gang)
	}
	for _, k := range tasks {
		if k.Launched < busy.JobStatus.AppCompletedTime {
			l.Errorf("a task of the gang starts before both can: %+v, busy %+v", k, busy.JobStatus)
		}
	}
	if out := l.bob.pai("subj", "comb", l.bob.lab("gang-four.yaml", "too-large")); !regexp.MustCompile(`asks for 4 GPUs.*more than the 2 GPUs`).MatchString(out) {
		l.Errorf("a gang of four on two GPUs is taken: %s", out)
	}
}

// incremental: each task starts as soon as it can.
func (l *labWalk) incremental() {
	l.bob.submit("default-test.yaml", "again")
	l.bob.until("again", `"state": "RUNNING"`)
	l.bob.submit("incremental-two.yaml", "single")
	again, single := l.bob.ended("again"), l.bob.ended("single")
	tasks := single.tasks()
	if single.JobStatus.State != "SUCCEEDED" || len(tasks) != 2 {
		l.Fatalf("%+v", single)
	}
	slices.SortFunc(tasks, func(a, b labTask) int { return int(a.Launched - b.Launched) })
	// The second has the node of whichever ends first: the other job, or the first task.
	free := min(again.JobStatus.AppCompletedTime, tasks[0].Completed)
	if tasks[0].Launched >= again.JobStatus.AppCompletedTime || tasks[1].Launched < free {
		l.Errorf("%+v; want one to start before %d, and one after %d", tasks, again.JobStatus.AppCompletedTime, free)
	}
}

// labJob is what pai getj prints; times are in milliseconds.
type labJob struct {
	JobStatus struct {
		State, VirtualCluster                            string
		AppLaunchedTime, AppCompletedTime, CompletedTime int64
		RetryDetails                                     struct{ User int }
	}
	TaskRoles map[string]struct {
		TaskStatuses []labTask
	}
}

type labTask struct {
	Node      string `json:"containerNodeName"`
	Launched  int64  `json:"currentAttemptLaunchedTime"`
	Completed int64  `json:"currentAttemptCompletedTime"`
}

func (d *labJob) tasks() []labTask { return d.TaskRoles["worker"].TaskStatuses }

func (d *labJob) node() string {
	if t := d.tasks(); len(t) == 1 {
		return t[0].Node
	}
	return ""
}

// lab is a file of the lab under another name. Its jobs take 2 to 8 s; on a busy machine they take
// as much longer as the client does, so that it sees them run and wait.
func (u *user) lab(file, name string) string {
	u.Helper()
	text, err := os.ReadFile(labFile(u.T, file))
	if err != nil {
		u.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^name: .*$`).ReplaceAll(text, []byte("name: "+name))
	longer := 1 + int(8*time.Duration(u.call.Load())/(3*time.Second))
	text = regexp.MustCompile(`-steps \d+`).ReplaceAllFunc(text, func(flag []byte) []byte {
		n, _ := strconv.Atoi(string(flag[len("-steps "):]))
		return fmt.Appendf(nil, "-steps %d", n*longer)
	})
	at := filepath.Join(u.home, name+".yaml")
	if err := os.WriteFile(at, text, 0o600); err != nil {
		u.Fatal(err)
	}
	return at
}

func (u *user) submit(file, name string) {
	u.Helper()
	if out := u.pai("subj", "comb", u.lab(file, name)); !strings.Contains(out, "Update job "+name+" for user "+u.name+" successfully") {
		u.Fatalf("%s submits %s: %s", u.name, name, out)
	}
}

// waits wants that a job waits, and that our own command says why.
func (u *user) waits(name string) {
	u.Helper()
	u.until(name, `"state": "WAITING"`)
	u.says(`\d GPU`, "", "job", "explain", name)
}

// ended is a job once it has ended: one after others, each of which is longer on a busy machine.
func (u *user) ended(name string) (d labJob) {
	u.Helper()
	out := ""
	ended := testkit.Within(5*testkit.Patience, func() bool {
		out = u.pai("getj", "--user", u.name, "comb", name)
		i := strings.Index(out, "{")
		return i >= 0 && json.Unmarshal([]byte(out[i:]), &d) == nil && d.JobStatus.CompletedTime != 0
	})
	if !ended {
		u.Fatalf("%s of %s does not end: %s", name, u.name, out)
	}
	return d
}
