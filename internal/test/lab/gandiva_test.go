package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// TestGandivaLive runs two training gangs on the same four GPUs by turns of a second.
// The server is killed while one of them is suspended: they go on by turns without
// it. A more important job takes the GPUs from both, and they go on from their
// checkpoints. Both learn what they learn alone.
func TestGandivaLive(t *testing.T) {
	if !testing.Short() {
		t.Run("packed", packed)
	}
	for name, how := range map[string]string{
		"frozen": "    suspendable: true",
		// train does not acknowledge: it is stopped, and does not share any more.
		"stopped": "    suspend: {timeout: 2s}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrashOn(t, fmt.Sprintf(policyCluster, "{name: gandiva, params: {quantum: 1}}"))
			const steps = 250
			// Both are there for as long as they are looked at.
			first := c.submit(c.heldTraining("first", steps, how))
			c.await(first, "it trains", func(j rest.Job) bool { return stepOf(j) >= 10 })
			second := c.submit(c.heldTraining("second", steps, how))
			if name == "frozen" {
				c.takeTurns(first, second)
				c.preempts(first, second)
			} else {
				testkit.Wait(t, "one is stopped since it does not acknowledge", func() bool {
					return slices.Contains(c.causes(first, second), model.SuspendTimeout)
				})
			}
			c.release()
			for _, id := range []model.JobID{first, second} {
				j := c.await(id, "it ends", func(j rest.Job) bool { return j.Phase.Ended() })
				if j.Phase != model.Succeeded || j.Counted != 0 {
					t.Errorf("%s is %s with %d counted retries: %s", j.Name, j.Phase, j.Counted, j.Message)
				}
				c.learned(id, steps, name == "frozen")
			}
			if causes := c.causes(first, second); slices.Contains(causes, model.SuspendTimeout) != (name == "stopped") {
				t.Errorf("the attempts ended for %v", causes)
			}
			c.checkAfter()
		})
	}
}

// takeTurns waits until each was suspended, kills the server, and wants that
// both get on by turns while it is dead.
func (c *crash) takeTurns(ids ...model.JobID) {
	c.t.Helper()
	for _, id := range ids {
		c.await(id, "it trains", func(j rest.Job) bool { return stepOf(j) > 0 })
		c.await(id, "it is suspended", func(j rest.Job) bool { return j.Attempts[0].State == model.AttemptSuspended })
	}
	c.server.Kill()
	before := c.logged(ids)
	now := before
	testkit.WaitFor(c.t, func() string { return fmt.Sprintf("both jobs get on without the server: %v, then %v", before, now) }, func() bool {
		now = c.logged(ids)
		return now[0] > before[0] && now[1] > before[1]
	})
	c.start()
}

// packedCluster knows how much memory its GPUs have, and packs after a short look.
const packedCluster = `physicalCluster:
  skuTypes:
    LAB-GPU: {gpu: 1, cpu: 0, memory: 256Mi, gpuMemory: 16000Mi}
  cellTypes:
    LAB-NODE: {childCellType: LAB-GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: LAB-NODE, cellAddress: node-a}
virtualClusters:
  default:
    virtualCells: [{cellType: LAB-NODE, cellNumber: 1}]
    policy: {name: gandiva, params: {quantum: 1, window: 20, moves: 0}}
`

// packed: two training gangs that use little of their GPUs take turns at first
// and are then packed. The server is killed while both run at once.
func packed(t *testing.T) {
	t.Parallel()
	c := newCrashOn(t, packedCluster, withDriver(t))
	const steps = 700
	how := "    suspendable: true\n    packable: true\n    gpuMemory: 4000"
	var ids []model.JobID
	for _, name := range []string{"first", "second"} {
		ids = append(ids, c.submit(fmt.Sprintf(trainJob, name, steps, "", how)))
	}
	for _, id := range ids {
		c.await(id, "it is suspended", func(j rest.Job) bool { return j.Attempts[0].State == model.AttemptSuspended })
	}
	c.untilRotated("both are packed", func(r model.Rotation) bool { return len(r.Turns) == 1 && len(r.Turns[0]) == 2 })
	c.server.Kill()
	time.Sleep(500 * time.Millisecond) // without a server
	c.start()
	for _, id := range ids {
		j := c.await(id, "it ends", func(j rest.Job) bool { return j.Phase.Ended() })
		if j.Phase != model.Succeeded || j.Counted+j.Preempted != 0 {
			t.Errorf("%s is %s with %d counted retries and %d preemptions: %s", j.Name, j.Phase, j.Counted, j.Preempted, j.Message)
		}
		c.learned(id, steps, false)
	}
	c.checkAfter()
}

// untilRotated follows the events until a rotation is as it should be.
func (c *crash) untilRotated(what string, f func(model.Rotation) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Minute)
	defer cancel()
	found := false
	var seen []model.Rotation
	err := c.client.Follow(ctx, "", 0, rest.Follower{Event: func(e rest.Event) error {
		var r model.Rotation
		if e.Kind == "Rotated" && json.Unmarshal(e.Data, &r) == nil {
			seen = append(seen, r)
			if found = f(r); found {
				cancel()
			}
		}
		return nil
	}})
	if !found {
		c.t.Fatalf("waited in vain until %s (%v): %v", what, err, seen)
	}
}

// preempts gives all GPUs to a more important job: both are stopped, also the one that
// is suspended, with time for a checkpoint.
func (c *crash) preempts(ids ...model.JobID) {
	c.t.Helper()
	urgent := c.submit(strings.Replace(largeJob, "gpu: 3", "gpu: 4", 1))
	c.await(urgent, "it ends", func(j rest.Job) bool { return j.Phase == model.Succeeded })
	for _, id := range ids {
		c.await(id, "it was preempted", func(j rest.Job) bool { return j.Preempted > 0 })
	}
}

// logged is how much the tasks of jobs have printed; it asks no server.
func (c *crash) logged(ids []model.JobID) []int64 {
	c.t.Helper()
	out := make([]int64, len(ids))
	for i, id := range ids {
		files, err := filepath.Glob(filepath.Join(c.server.Data, "jobs", fmt.Sprint(id), "*", "0", "stdout.*"))
		if err != nil || len(files) == 0 {
			c.t.Fatalf("job %d has no log: %v", id, err)
		}
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				out[i] += st.Size()
			}
		}
	}
	return out
}

// causes are the platform's causes of all ends of tasks of some jobs.
func (c *crash) causes(ids ...model.JobID) []model.ExitCause {
	c.t.Helper()
	var out []model.ExitCause
	for _, id := range ids {
		events, err := c.client.JobEvents(c.t.Context(), rest.JobRef(id), 0)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range events.Events {
			var x model.TaskExited
			if e.Kind == "TaskExited" && json.Unmarshal(e.Data, &x) == nil {
				out = append(out, x.Exit.Cause)
			}
		}
	}
	return out
}
