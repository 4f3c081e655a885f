package lab

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// policyCluster is one node whose virtual cluster has the policy under test.
const policyCluster = `physicalCluster:
  skuTypes:
    LAB-GPU: {gpu: 1, cpu: 0, memory: 256Mi}
  cellTypes:
    LAB-NODE: {childCellType: LAB-GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: LAB-NODE, cellAddress: node-a}
virtualClusters:
  default:
    virtualCells: [{cellType: LAB-NODE, cellNumber: 1}]
    preemptionBudget: 50
    policy: %s
`

// trainJob is a gang of two that takes all four GPUs and averages its gradients.
const trainJob = `protocolVersion: 2
name: %s
type: job
taskRoles:
  worker:
    instances: 2
    completion: {minFailedInstances: 1, minSucceededInstances: 2}
    resourcePerInstance: {gpu: 2, cpu: 0, memoryMB: 512, ports: {train: 1}}
    commands:
    - exec train -steps %d -step-time 50ms -log-every 5%s
extras:
  comb:
    checkpoint: true
    grace: 30s
%s
`

// lived is one policy with two jobs that contend under it: the second comes while
// the first runs and, by the policy, takes its cells for a while.
type lived struct {
	policy        string
	first, second string // lines of extras.comb
	steps         int    // of the first, 50 ms each
}

// TestPoliciesLive runs real training jobs under policies with scaled quanta: one is
// preempted, the server is killed while the other runs, and the first goes on from
// its checkpoint to the very result of a run that nobody stopped.
func TestPoliciesLive(t *testing.T) {
	for name, l := range map[string]lived{
		"las": {policy: "{name: las, params: {limits: 8, quantum: 2}}", steps: 150},
		"themis": {policy: "{name: themis, params: {lease: 4, round: 1}}", steps: 200,
			first: "    duration: 10s", second: "    duration: 2s"},
		"chronus": {policy: "{name: chronus, params: {lease: 60, slot: 1, restart: 1, quantum: 2}}", steps: 600,
			first: "    duration: 75s", second: "    duration: 5s\n    class: soft\n    deadlines: [{after: 5m, value: 1}]"},
	} {
		if name == "chronus" && testing.Short() {
			continue // its leases are at least a minute
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.run(t)
		})
	}
}

func (l lived) run(t *testing.T) {
	c := newCrashOn(t, fmt.Sprintf(policyCluster, l.policy))
	// Else the first may have ended before the policy has looked.
	first := c.submit(c.heldTraining("first", l.steps, l.first))
	c.await(first, "it trains", func(j rest.Job) bool { return stepOf(j) >= 20 })
	second := c.submit(fmt.Sprintf(trainJob, "second", 40, "", l.second))
	c.await(first, "it is preempted", func(j rest.Job) bool { return j.Preempted+j.Yielded > 0 })
	c.release()
	c.await(second, "it runs", func(j rest.Job) bool { return j.Started > 0 })
	c.server.Kill()
	time.Sleep(500 * time.Millisecond) // without a server
	c.start()
	for _, id := range []model.JobID{second, first} {
		j := c.await(id, "it ends", func(j rest.Job) bool { return j.Phase.Ended() })
		if j.Phase != model.Succeeded || j.Counted != 0 {
			t.Errorf("%s is %s with %d counted retries: %s", j.Name, j.Phase, j.Counted, j.Message)
		}
	}
	c.learned(first, l.steps, true)
	c.checkAfter()
}

// heldTraining writes the job of a gang that trains, and makes no more than half of its steps until
// it is released.
func (c *crash) heldTraining(name string, steps int, more string) string {
	return fmt.Sprintf(trainJob, name, steps, " -until "+filepath.Join(c.books, "go"), more)
}

// release lets all that is held go on.
func (c *crash) release() {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.books, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// submit submits a job and returns its number.
func (c *crash) submit(source string) model.JobID {
	c.t.Helper()
	s, err := c.client.Submit(c.t.Context(), rest.SubmitRequest{Source: source}, "")
	if err != nil {
		c.t.Fatal(err)
	}
	c.acked[fmt.Sprint(s.ID)] = s.ID
	return s.ID
}

// await waits until a job is as it should be; a machine under load takes its time.
func (c *crash) await(id model.JobID, what string, f func(rest.Job) bool) rest.Job {
	c.t.Helper()
	var j rest.Job
	if is := false; !testkit.Within(2*testkit.Patience, func() bool {
		var err error
		if j, err = c.client.Job(c.t.Context(), rest.JobRef(id)); err != nil {
			c.t.Fatal(err)
		}
		is = f(j)
		return is || j.Phase.Ended()
	}) || !is {
		c.t.Fatalf("waited in vain until of job %d %s: %+v", id, what, j)
	}
	return j
}

// stepOf is how far a job's tasks say that they are.
func stepOf(j rest.Job) int64 {
	most := int64(0)
	for _, k := range j.Tasks {
		if k.Progress != nil {
			most = max(most, k.Progress.Step)
		}
	}
	return most
}

// trained is the last line of a training.
var trained = regexp.MustCompile(`done: step (\d+) loss (\S+) `)

// learned requires that what a job learned is what a run without a stop learns and,
// if resumed, that its last run began in the middle.
func (c *crash) learned(id model.JobID, steps int, resumed bool) {
	c.t.Helper()
	out, errs, code, err := c.server.CLI(c.t.Context(), "job", "logs", fmt.Sprint(id), "--task", "worker-0")
	if err != nil || code != 0 {
		c.t.Fatalf("job logs ends with %d, %v: %s", code, err, errs)
	}
	again := resumedLine.FindStringSubmatch(out)
	if resumed && (again == nil || again[1] == "0") {
		c.t.Errorf("job %d did not go on from its checkpoint:\n%s", id, out)
	}
	whole, err := exec.CommandContext(c.t.Context(), filepath.Join(bin, "train"), "-steps", strconv.Itoa(steps), "-log-every", "0").CombinedOutput()
	if err != nil {
		c.t.Fatalf("train: %v: %s", err, whole)
	}
	got, want := loss(c.t, out), loss(c.t, string(whole))
	if math.Abs(got-want) > 1e-6*want {
		c.t.Errorf("job %d learned to a loss of %g, without a stop it is %g", id, got, want)
	}
}

func loss(t *testing.T, out string) float64 {
	t.Helper()
	m := trained.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no result in:\n%s", out)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(m[2]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
