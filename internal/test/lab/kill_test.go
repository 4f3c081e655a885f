package lab

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/test/testkit"
)

var (
	serverKills     = flag.Int("server-kills", 10, "how often the server is killed under load")
	supervisorKills = flag.Int("supervisor-kills", 5, "how many supervisors are killed under load")
)

// killCluster has one node, so that a device's index alone names a GPU.
const killCluster = `physicalCluster:
  skuTypes:
    LAB-GPU: {gpu: 1, cpu: 0, memory: 64Mi}
  cellTypes:
    LAB-NODE: {childCellType: LAB-GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: LAB-NODE, cellAddress: node-a}
virtualClusters:
  default:
    virtualCells: [{cellType: LAB-NODE, cellNumber: 1}]
`

const killJob = `protocolVersion: 2
name: %s
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 256}
    commands:
    - exec env %s=%s %s=%d %s
`

// crash is a server that is going to be killed, with its books.
type crash struct {
	t      *testing.T
	dir    string
	books  string
	server *Server
	client *rest.Client

	mu    sync.Mutex
	acked map[string]model.JobID
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	return newCrashOn(t, killCluster)
}

// newCrashOn starts a server with a cluster of one node with four GPUs.
func newCrashOn(t *testing.T, file string, change ...func(*Server)) *crash {
	t.Helper()
	dir := t.TempDir()
	c := &crash{t: t, dir: dir, books: filepath.Join(dir, "books"), acked: map[string]model.JobID{}}
	cluster := filepath.Join(dir, "cluster.yaml")
	for name, text := range map[string]string{cluster: file} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(c.books, 0o700); err != nil {
		t.Fatal(err)
	}
	c.server = &Server{Bin: bin, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log"),
		Listen: testkit.FreeAddress(t), Args: []string{"--virtual-gpus", "4", "--overcommit", "--cluster", cluster}}
	for _, f := range change {
		f(c.server)
	}
	c.start()
	var err error
	if c.client, err = c.server.Client(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.server.Kill()
		kill(mentioning(dir))
	})
	return c
}

func (c *crash) start() {
	c.t.Helper()
	if err := c.server.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// load submits jobs until ctx ends. A submission whose fate is unknown is
// repeated with its key, as any client would, so that in the end every job was
// acknowledged or never sent.
func (c *crash) load(ctx context.Context, prefix string, millis int) {
	var unended []model.JobID
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		for key := rest.NewKey(); ; time.Sleep(20 * time.Millisecond) { // the pace of a client
			s, err := c.client.Submit(c.t.Context(), rest.SubmitRequest{Source: c.job(name, millis)}, key)
			if err == nil {
				c.mu.Lock()
				c.acked[name] = s.ID
				c.mu.Unlock()
				unended = append(unended, s.ID)
				break
			}
			if code := rest.CodeOf(err); code != "" && code != rest.CodeBusy && code != rest.CodeUnavailable {
				c.t.Errorf("%s is refused: %v", name, err)
				return
			}
			if c.t.Context().Err() != nil {
				return
			}
		}
		pace(50, 300)
		// A busy machine ends fewer jobs than clients can submit, and what waits would be drained
		// for long.
		for ctx.Err() == nil && len(unended) >= 4 {
			j, err := c.client.Job(ctx, rest.JobRef(unended[0]))
			if err == nil && j.Phase.Ended() {
				unended = unended[1:]
				continue
			}
			pace(20, 100)
		}
	}
}

func (c *crash) job(name string, millis int) string {
	return fmt.Sprintf(killJob, name, taskDir, c.books, taskMillis, millis, os.Args[0])
}

// drain waits until every acknowledged job has ended and returns their statuses.
// How long all of them take is the machine's affair; that for two minutes none
// ends is a fault.
func (c *crash) drain() map[string]rest.Job {
	c.t.Helper()
	out := map[string]rest.Job{}
	inOrder := slices.SortedFunc(maps.Keys(c.acked), func(a, b string) int { return cmp.Compare(c.acked[a], c.acked[b]) })
	for _, name := range inOrder { // each is asked for until it has ended
		id := c.acked[name]
		ended := testkit.Within(testkit.Patience, func() bool {
			j, err := c.client.Job(c.t.Context(), rest.JobRef(id))
			if err != nil {
				c.t.Fatalf("the acknowledged job %s (%d) is lost: %v", name, id, err)
			}
			out[name] = j
			return j.Phase.Ended()
		})
		if !ended {
			c.t.Fatalf("job %s (%d) does not end within %v:\n%s", name, id, testkit.Patience, c.stuck(out))
		}
	}
	return out
}

// pace lets some milliseconds pass, so that what comes next comes at any moment.
func pace(least, most int) {
	time.Sleep(time.Duration(least+rand.IntN(most-least)) * time.Millisecond) // nothing is waited for
}

// stuck says of every job that has not ended why, and what the server last wrote.
func (c *crash) stuck(jobs map[string]rest.Job) string {
	c.t.Helper()
	var b strings.Builder
	for name, j := range jobs {
		if j.Phase.Ended() {
			continue
		}
		fmt.Fprintf(&b, "%s: %+v\n", name, j)
		if why, err := c.client.Explain(c.t.Context(), rest.JobRef(j.ID)); err == nil {
			fmt.Fprintf(&b, "  %+v\n", why)
		}
	}
	text, err := os.ReadFile(c.server.Log)
	if err != nil {
		return b.String()
	}
	return b.String() + string(text[max(0, len(text)-4000):])
}

// runs returns the attempts that ran, by job.
func (c *crash) runs() map[string][]string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.books, "runs"))
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			c.t.Fatalf("a torn line in the books: %q", line)
		}
		out[f[0]] = append(out[f[0]], f[1])
	}
	return out
}

// checkEnd is what must hold after any disaster.
func (c *crash) checkEnd() {
	c.t.Helper()
	if bad, err := os.ReadFile(filepath.Join(c.books, "bad")); err == nil {
		c.t.Errorf("the tasks noticed:\n%s", bad)
	}
	for name, attempts := range c.runs() {
		slices.Sort(attempts)
		if len(slices.Compact(slices.Clone(attempts))) != len(attempts) {
			c.t.Errorf("an attempt of %s ran twice: %v", name, attempts)
		}
		if _, ok := c.acked[name]; !ok {
			c.t.Errorf("%s ran, but nobody was told that it was accepted", name)
		}
	}
	c.checkAfter()
}

// checkAfter is what must hold when all is over, whatever ran.
func (c *crash) checkAfter() {
	c.t.Helper()
	c.checkCells()
	c.checkStream()
	if err := c.server.Stop(); err != nil {
		c.t.Error(err)
	}
	out, errs, code, err := c.server.CLI(c.t.Context(), "journal", "verify", "--data", c.server.Data)
	if err != nil || code != 0 {
		c.t.Errorf("journal verify ends with %d, %v:\n%s%s", code, err, out, errs)
	}
	if left := leftovers(c.dir, goneTime); len(left) > 0 {
		c.t.Errorf("processes are left behind: %v", left)
	}
}

// checkCells wants every leaf free.
func (c *crash) checkCells() {
	c.t.Helper()
	list, err := c.client.Cells(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	leaves := 0
	var visit func([]rest.CellStatus)
	visit = func(cells []rest.CellStatus) {
		for _, x := range cells {
			if x.Level == 1 {
				leaves++
			}
			if x.State != "Free" || x.Job != 0 {
				c.t.Errorf("%s is %s by job %d when all is over", x.Address, x.State, x.Job)
			}
			visit(x.Children)
		}
	}
	visit(list.Cells)
	if leaves != 4 {
		c.t.Errorf("%d leaves, want 4", leaves)
	}
}

// checkStream folds the whole event stream: no GPU has two owners.
func (c *crash) checkStream() {
	c.t.Helper()
	info, err := c.client.Info(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	line := newTimeline()
	ctx, cancel := context.WithTimeout(c.t.Context(), testkit.Patience)
	defer cancel()
	err = c.client.Follow(ctx, "", 0, rest.Follower{
		Resync: func(r rest.Resync) error { return fmt.Errorf("the stream starts at %d", r.Seq) },
		Event: func(e rest.Event) error {
			if _, err := line.add(e); err != nil {
				return err
			}
			if e.Seq >= info.Seq {
				cancel()
			}
			return nil
		}})
	if err != nil && ctx.Err() != context.Canceled {
		c.t.Fatal(err)
	}
	if two := line.twoOwners(); two != "" {
		c.t.Errorf("a GPU has two owners: %s", two)
	}
	if len(line.jobs) != len(c.acked) {
		c.t.Errorf("the stream knows %d jobs, %d were acknowledged", len(line.jobs), len(c.acked))
	}
}

// few is the number of kills: fewer in short runs.
func few(n int) int {
	if testing.Short() {
		return min(n, 3)
	}
	return n
}

// TestServerKilled kills the server again and again while jobs come and run.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() { c.load(ctx, fmt.Sprintf("client-%d", i), 400) })
	}
	for range few(*serverKills) {
		pace(50, 750)
		c.server.Kill()
		pace(0, 300)
		c.start()
	}
	stop()
	group.Wait()
	jobs, runs := c.drain(), c.runs()
	for name, j := range jobs {
		if j.Phase != model.Succeeded {
			t.Errorf("%s is %s: %s", name, j.Phase, j.Message)
		}
		if len(runs[name]) != 1 {
			t.Errorf("%s ran %d times: %v", name, len(runs[name]), runs[name])
		}
	}
	t.Logf("%d jobs over %d kills of the server", len(jobs), few(*serverKills))
	c.checkEnd()
}

// inTimeJob ends well within its limit, when its test lets it.
const inTimeJob = `protocolVersion: 2
name: in-time-%d
type: job
taskRoles:
  worker:
    instances: 1
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 256}
    commands:
    - while [ ! -e %s ]; do sleep 0.05; done
extras:
  comb:
    timeLimit: %s
`

// TestEndedWhileAway has jobs end in time while no server runs, and a server come back when their
// limit has passed: what they were is known before the clock decides.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	limit := 12 * time.Second
	gate := filepath.Join(c.books, "gate")
	var ids []model.JobID
	for i := range 4 {
		id := c.submit(fmt.Sprintf(inTimeJob, i, gate, limit))
		ids = append(ids, id)
	}
	started := map[model.JobID]time.Time{}
	for _, id := range ids {
		j := c.await(id, "it is known that it runs", func(j rest.Job) bool {
			return j.Phase.Ended() || len(j.Tasks) == 1 && j.Tasks[0].State == model.TaskRunning
		})
		started[id] = time.UnixMicro(int64(j.Started))
	}
	c.server.Kill()
	killed := time.Now()
	write(c.books, "gate", "open")
	testkit.Wait(t, "all have ended", func() bool {
		ends, err := filepath.Glob(filepath.Join(c.server.Data, "jobs", "*", "*", "0", "outcome.json"))
		return err == nil && len(ends) == len(ids)
	})
	ended := time.Now()
	time.Sleep(limit - time.Since(killed)) // without a server
	c.start()
	inTime := 0
	for _, id := range ids {
		j := c.await(id, "ended", func(j rest.Job) bool { return j.Phase.Ended() })
		if ended.Sub(started[id]) > limit {
			continue // on a busy machine its limit may have passed before its end
		}
		if inTime++; j.Phase != model.Succeeded {
			t.Errorf("job %d is %s: %s", id, j.Phase, j.Message)
		}
	}
	if inTime == 0 {
		t.Error("the limits of all jobs had passed before their ends")
	}
}

// TestSupervisorKilled kills supervisors: the old tree must be dead before the
// next attempt starts (the tasks' locks tell), and every job ends well.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() { c.load(ctx, fmt.Sprintf("client-%d", i), 1000) })
	}
	want, killed, early := few(*supervisorKills), 0, 0
	patience := 2*testkit.Patience + time.Duration(want)*2*time.Second
	for end := time.Now().Add(patience); killed < want && time.Now().Before(end); {
		pace(100, 500)
		pids := c.supervisors()
		if len(pids) == 0 {
			continue
		}
		pid := pids[rand.IntN(len(pids))]
		if !claimed(pid) {
			if early == 2 {
				continue // one more refused start, and the node gets no work for five minutes
			}
			early++
		}
		kill([]int{pid})
		killed++
	}
	stop()
	group.Wait()
	if killed < want {
		t.Fatalf("only %d supervisors were found to kill", killed)
	}
	jobs, runs, again := c.drain(), c.runs(), 0
	for name, j := range jobs {
		if j.Phase != model.Succeeded || j.Counted != 0 {
			t.Errorf("%s is %s with %d counted retries: %s", name, j.Phase, j.Counted, j.Message)
		}
		again += len(runs[name]) - 1
	}
	t.Logf("%d jobs over %d kills of supervisors, %d runs again", len(jobs), killed, again)
	if again > killed {
		t.Errorf("%d runs again after only %d kills", again, killed)
	}
	c.checkEnd()
}

// supervisors finds the processes of our binary, beside the server, that work on
// our data directory.
func (c *crash) supervisors() []int {
	var out []int
	for _, pid := range mentioning(c.dir) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && exe == filepath.Join(bin, "comb") && pid != c.server.PID() {
			out = append(out, pid)
		}
	}
	// A child of one that has not become the task yet looks like it: to kill it is to kill the
	// task.
	all := slices.Clone(out)
	return slices.DeleteFunc(out, func(pid int) bool {
		st, ok := process.ReadStat(pid)
		return !ok || slices.Contains(all, st.Parent)
	})
}

// claimed reports whether a supervisor owns the start of its task, so that its death is no start
// that the node refused.
func claimed(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Split(string(line), "\x00") // comb supervise FOLDER
	if len(words) < 3 {
		return false
	}
	_, err := os.Lstat(filepath.Join(words[2], "started"))
	return err == nil
}

// TestKilledNameRace submits one name many times at the same instant: one wins.
func TestKilledNameRace(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	for round := range 5 {
		name := fmt.Sprintf("same-%d", round)
		var group sync.WaitGroup
		won := make(chan model.JobID, 16)
		for range cap(won) {
			group.Go(func() {
				s, err := c.client.Submit(t.Context(), rest.SubmitRequest{Source: c.job(name, 100)}, "")
				if err == nil {
					won <- s.ID
				} else if rest.CodeOf(err) != rest.CodeConflict {
					t.Errorf("the loser hears: %v", err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			t.Fatalf("%d submissions of %s won", len(won), name)
		}
		c.acked[name] = <-won
	}
	c.drain()
	c.checkEnd()
}
