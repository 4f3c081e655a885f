package containers

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

const gang = `
protocolVersion: 2
name: %s
type: job
prerequisites:
  - {type: dockerimage, name: box, uri: ` + image + `}
taskRoles:
  worker:
    instances: 2
    dockerImage: box
    completion: {minSucceededInstances: 2}
    resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 128}
    commands:
`

// The tasks of a gang reach each other at the addresses that they are told, by every name under
// which frameworks look for them.
func TestGangMeets(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(fmt.Sprintf(gang, "meets") + `
      - echo "mine $(hostname -i)"
      - echo "hosts $PAI_HOST_IP_worker_0 $PAI_HOST_IP_worker_1"
      - echo "master $MASTER_ADDR"
      - echo "tf $TF_CONFIG"
      - if [ $RANK = 0 ]; then echo "heard $(nc -l -p $MASTER_PORT)"; exit 0; fi
      - echo hello from $RANK >/comb/checkpoint/hello # from a file: nc ends when the other side says no more, even before a pipe is written
      - until nc $MASTER_ADDR $MASTER_PORT </comb/checkpoint/hello; do sleep 0.1; done
`)
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if j.Phase != model.Succeeded {
		t.Errorf("it is %s: %+v", j.Phase, j.Tasks)
	}
	var hosts, said [2]string
	for i := range said {
		said[i], _, _ = w.cli("job", "logs", ref, "--task", fmt.Sprintf("worker-%d", i))
		hosts[i] = word(said[i], "mine ")
		if a, err := netip.ParseAddr(hosts[i]); err != nil || a.IsLoopback() {
			t.Fatalf("task %d is at %q:\n%s", i, hosts[i], said[i])
		}
	}
	if hosts[0] == hosts[1] {
		t.Errorf("both are at %s", hosts[0])
	}
	for i, text := range said {
		if got := word(text, "hosts "); got != hosts[0]+" "+hosts[1] {
			t.Errorf("task %d was told the hosts %q, which are %v", i, got, hosts)
		}
		if got := word(text, "master "); got != hosts[0] {
			t.Errorf("task %d was told the master %q, which is %s", i, got, hosts[0])
		}
		var tf struct{ Cluster struct{ Worker []string } }
		if err := json.Unmarshal([]byte(word(text, "tf ")), &tf); err != nil || len(tf.Cluster.Worker) != 2 ||
			!strings.HasPrefix(tf.Cluster.Worker[1], hosts[1]+":") {
			t.Errorf("task %d was told %q: %v", i, word(text, "tf "), err)
		}
	}
	if got := word(said[0], "heard "); got != "hello from 1" {
		t.Errorf("it heard %q", got)
	}
}

// word is what stands behind a beginning of a line.
func word(text, begins string) string {
	_, rest, _ := strings.Cut("\n"+text, "\n"+begins)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// Members that come and go are told to containers: by a file with their addresses, and by a signal.
func TestMembersOfContainers(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	source := strings.Replace(fmt.Sprintf(gang, "members"), "commands:", "commands:\n"+`
      - told=0; trap 'told=1' USR1
      - if [ $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX = 1 ]; then while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done; exit 0; fi
      - until grep -q '"index":1' $COMB_MEMBERS_FILE && grep -q '"index":0' $COMB_MEMBERS_FILE; do sleep 0.1; done; echo "both $(cat $COMB_MEMBERS_FILE)"; told=0; touch /comb/checkpoint/go
      - until [ $told = 1 ]; do sleep 0.1; done; until ! grep -q '"index":1' $COMB_MEMBERS_FILE; do sleep 0.1; done
      - echo "one $(cat $COMB_MEMBERS_FILE)"; echo no > $COMB_MEMBERS_FILE || echo "it stays"
extras: {gangAllocation: false, comb: {membersSignal: USR1}}
`, 1)
	ref := w.submit(source)
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	out, errs, _ := w.cli("job", "logs", ref, "--task", "worker-0")
	var both, one struct{ Members []struct{ Host string } }
	for begins, members := range map[string]any{"both ": &both, "one ": &one} {
		if err := json.Unmarshal([]byte(word(out, begins)), members); err != nil {
			t.Fatalf("%v; the job is %s\n%s%s", err, j.Phase, out, errs)
		}
	}
	if len(both.Members) != 2 || len(one.Members) != 1 || both.Members[0].Host == both.Members[1].Host || strings.HasPrefix(both.Members[0].Host, "127.") {
		t.Errorf("it was told %+v, then %+v", both, one)
	}
	if !strings.Contains(out, "it stays") {
		t.Errorf("a task can write the file:\n%s", out)
	}
}

// A task whose gang does not come is not left waiting, and its commands do not run.
func TestGangThatDoesNotMeet(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	w.engine.ImportOnly("local.test/bare:1", runtime.GOARCH, map[string]string{"file": "no shell"})
	ref := w.submit(`
protocolVersion: 2
name: alone
type: job
prerequisites:
  - {type: dockerimage, name: box, uri: ` + image + `}
  - {type: dockerimage, name: bare, uri: "local.test/bare:1"}
taskRoles:
  a: {dockerImage: box, resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 128}, commands: ["echo ran > /comb/checkpoint/ran"]}
  b: {dockerImage: bare, resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 128}, commands: ["echo never"]}
`)
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	if x := j.Tasks[0].Exit; x == nil || x.Code == 0 && x.Cause != model.NeverStarted {
		t.Errorf("the one that came ended with %+v", x)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", "ran")); err == nil {
		t.Error("its commands ran")
	}
	w.noContainers()
}
