package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// elasticJob has one member that it needs and two that come and go. Each member
// writes down whom it sees, whenever it is told. The handler only says that there is
// something to do: what commands in it return may end bash's loop, and the task with it.
const elasticJob = `protocolVersion: 2
name: elastic
type: job
taskRoles:
  worker:
    instances: 3
    completion: {minFailedInstances: 1, minSucceededInstances: -1}
    resourcePerInstance: {gpu: 1, cpu: 0, memoryMB: 64}
    commands:
    - me=$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
    - see() { grep -o '"index":[0-9]*' "$COMB_MEMBERS_FILE" | cut -d":" -f2 | paste -sd, >> %s/seen.$me; }
    - trap 'told=1' USR2
    - told=1
    - while :; do if [ "$told" ]; then told=; see; fi; sleep 0.05; done
extras:
  comb:
    grace: 5s
    membersSignal: USR2
    taskRoles: {worker: {minInstances: 1}}
`

const largeJob = `protocolVersion: 2
name: large
type: job
taskRoles:
  worker:
    resourcePerInstance: {gpu: 3, cpu: 0, memoryMB: 64}
    commands: ["sleep 3"]
extras:
  hivedScheduler: {jobPriorityClass: prod}
`

// TestElasticJobGrowsAndShrinks: a more important job takes two members away and gives
// them back, and the server is killed while they are away. The member that stays is
// told each time.
func TestElasticJobGrowsAndShrinks(t *testing.T) {
	for _, policy := range []string{"fifo", "gandiva"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			growAndShrink(t, policy)
		})
	}
}

func growAndShrink(t *testing.T, policy string) {
	c := newCrashOn(t, fmt.Sprintf(policyCluster, policy))
	elastic := c.submit(fmt.Sprintf(elasticJob, c.books))
	c.sees("0,1,2")
	gate := filepath.Join(c.books, "gate") // it runs until the first member has seen it
	large := c.submit(strings.Replace(largeJob, "sleep 3", "while [ ! -e "+gate+" ]; do sleep 0.05; done", 1))
	c.sees("0,1,2 0")
	c.server.Kill()
	time.Sleep(300 * time.Millisecond) // without a server
	c.start()
	write(c.books, "gate", "open")
	c.await(large, "it ends", func(j rest.Job) bool { return j.Phase == model.Succeeded })
	c.sees("0,1,2 0 0,1,2")
	if _, err := c.client.Stop(t.Context(), rest.JobRef(elastic), "enough"); err != nil {
		t.Fatal(err)
	}
	c.await(elastic, "it is stopped", func(j rest.Job) bool { return j.Phase == model.Stopped })
	c.checkAfter()
}

// sees waits until the first member has seen these, one after the other, with others
// in between.
func (c *crash) sees(want string) {
	c.t.Helper()
	var text []byte
	testkit.WaitFor(c.t, func() string { return fmt.Sprintf("the first member sees %q; it saw:\n%s", want, text) }, func() bool {
		text, _ = os.ReadFile(filepath.Join(c.books, "seen.0")) // it is not there at first
		left := strings.Fields(want)
		for line := range strings.Lines(string(text)) {
			if len(left) > 0 && strings.TrimSpace(line) == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	})
}
