package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/smalldisk"
	"github.com/combsched/comb/internal/test/testkit"
)

const (
	diskMiB = 96
	// healTime is from room on the disk to the starts, on a busy machine: 10 s is the aim, and
	// what a node that was blamed waits for is five minutes.
	healTime = testkit.Patience
)

// gateJob runs until the gate in the books opens, whenJob as soon as it may; what
// each asks for is more than a folder: ports, a list of members, a secret.
const gateJob = `protocolVersion: 2
name: %s
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands: ["echo %[1]s >> %[2]s/ran; while [ ! -e %[2]s/gate ]; do sleep 0.05; done"]
`

var whenJobs = []string{`protocolVersion: 2
name: plain-%[1]d
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands: ["echo plain-%[1]d >> %[2]s/ran"]
`, `protocolVersion: 2
name: ports-%[1]d
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64, ports: {web: 2}}
    commands: ["echo ports-%[1]d >> %[2]s/ran"]
`, `protocolVersion: 2
name: members-%[1]d
type: job
taskRoles:
  worker:
    instances: 2
    completion: {minFailedInstances: 1, minSucceededInstances: -1}
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands: ["grep -q version $COMB_MEMBERS_FILE && echo members-%[1]d >> %[2]s/ran"]
extras:
  comb: {taskRoles: {worker: {minInstances: 1}}}
`, `protocolVersion: 2
name: secret-%[1]d
type: job
secrets: {word: sesame}
taskRoles:
  worker:
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands: ["[ <%% $secrets.word %%> = sesame ] && echo secret-%[1]d >> %[2]s/ran"]
`}

// TestFullDiskHeals fills the disk of a server's data directory, with jobs that run and jobs that
// wait, and makes room again: nothing is lost, no node is blamed, and all start.
func TestFullDiskHeals(t *testing.T) {
	if !smalldisk.Alone(t) {
		return
	}
	var disk string
	c := newCrashOn(t, killCluster, func(s *Server) {
		disk = filepath.Join(filepath.Dir(s.Data), "disk")
		smalldisk.Mount(t, disk, diskMiB<<20)
		s.Data = filepath.Join(disk, "data")
	})
	for i := range 4 {
		c.submit(fmt.Sprintf(gateJob, fmt.Sprintf("gate-%d", i), c.books))
	}
	c.ran(4, testkit.Patience)
	var waiting []model.JobID
	for i := range 8 {
		waiting = append(waiting, c.submit(fmt.Sprintf(whenJobs[i%len(whenJobs)], i, c.books)))
	}
	stopped := c.submit(fmt.Sprintf(gateJob, "stopped", c.books))
	heal := smalldisk.Fill(t, disk, 0)
	c.refusesJobs()
	write(c.books, "gate", "open")
	c.noneBlamed(40)
	if _, err := c.client.Stop(t.Context(), rest.JobRef(stopped), "enough"); err != nil {
		t.Fatalf("a stop on a full disk: %v", err)
	}
	c.await(stopped, "it is stopped", func(j rest.Job) bool { return j.Phase == model.Stopped })
	c.server.Kill()
	c.start()
	c.noneBlamed(10)
	healed := time.Now()
	heal()
	c.ran(4+8, healTime)
	t.Logf("all ran %v after there was room", time.Since(healed))
	waiting = append(waiting, c.submit(fmt.Sprintf(whenJobs[0], 100, c.books)))
	for _, id := range waiting {
		j := c.await(id, "it succeeds", func(j rest.Job) bool { return j.Phase == model.Succeeded })
		if slices.ContainsFunc(j.Attempts, func(a rest.AttemptStatus) bool { return a.ID.N > 1 }) {
			t.Errorf("job %d was started more than once: %+v", id, j)
		}
	}
	c.checkAfter()
}

// ran waits until tasks of so many jobs have written down that they ran.
func (c *crash) ran(n int, patience time.Duration) {
	c.t.Helper()
	var text []byte
	if testkit.Within(patience, func() bool {
		text, _ = os.ReadFile(filepath.Join(c.books, "ran")) // it is not there at first
		lines := strings.Fields(string(text))
		slices.Sort(lines)
		return len(slices.Compact(lines)) >= n
	}) {
		return
	}
	c.t.Fatalf("%d jobs have not run within %v:\n%s\n%s", n, patience, text, c.server.tail(0))
}

// refusesJobs submits until a job is refused, with what to do.
func (c *crash) refusesJobs() {
	c.t.Helper()
	testkit.Wait(c.t, "a job is refused on a full disk", func() bool {
		s, err := c.client.Submit(c.t.Context(), rest.SubmitRequest{Source: fmt.Sprintf(gateJob, "late", c.books)}, "")
		var p *rest.Problem
		if errors.As(err, &p) {
			if p.Code != rest.CodeStorageFull || !strings.Contains(p.Detail, "free space there and try again") {
				c.t.Errorf("refused with %s: %s", p.Code, p.Detail)
			}
			return true
		}
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.client.Stop(c.t.Context(), rest.JobRef(s.ID), ""); err != nil {
			c.t.Fatal(err)
		}
		c.acked[fmt.Sprintf("late-%d", s.ID)] = s.ID
		return false
	})
}

// noneBlamed looks so many times, ten a second, whether the server holds its own disk against a
// node.
func (c *crash) noneBlamed(looks int) {
	c.t.Helper()
	for range looks {
		time.Sleep(100 * time.Millisecond) // the pace of the looks
		list, err := c.client.Nodes(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		for _, n := range list.Nodes {
			if n.Suspect != 0 || !n.Up {
				c.t.Fatalf("the server's disk is held against a node: %+v", n)
			}
		}
	}
}
