package containers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// serves answers on a port for a while, and asks others: by name and by address.
const serves = `
      - nc -ll -p 7000 -e echo page &
      - hostname -i > /comb/checkpoint/at-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
      - while [ ! -e /comb/checkpoint/ask ]; do sleep 0.1; done
      - for at in worker-0 worker-1 $(cat /comb/checkpoint/ask); do echo "$at $(nc -w 2 $at 7000 < /dev/null 2>&1 | tail -1)"; done
      - touch /comb/checkpoint/done-$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX
      - while [ ! -e /comb/checkpoint/done-1 ]; do sleep 0.1; done
`

// The tasks of a job reach each other by name, and nothing of other jobs: neither of a gang's nor
// of a single task's. Its network is gone when it is over.
func TestNetworks(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	first := w.submit(fmt.Sprintf(gang, "first") + serves)
	second := w.submit(fmt.Sprintf(gang, "second") + serves)
	single := func(name string) string {
		return strings.Replace(strings.Replace(fmt.Sprintf(gang, name)+serves, "instances: 2", "instances: 1", 1), "minSucceededInstances: 2", "minSucceededInstances: 1", 1)
	}
	third, fourth := w.submit(strings.ReplaceAll(single("third"), "done-1", "done-0")), w.submit(strings.ReplaceAll(single("fourth"), "done-1", "done-0"))
	at := map[string]string{}
	for _, ref := range []string{first, second, third, fourth} {
		w.until(ref, "it serves", func(*rest.Job) bool {
			at[ref] = w.left(ref, "at-0")
			return at[ref] != ""
		})
	}
	w.until(second, "all of it serves", func(*rest.Job) bool { return w.left(second, "at-1") != "" })
	w.until(first, "all of it serves", func(*rest.Job) bool { return w.left(first, "at-1") != "" })
	asked := map[string][]string{first: {at[second], at[third]}, second: {at[first]}, third: {at[fourth], at[first]}, fourth: {at[third]}}
	for ref, others := range asked {
		w.put(ref, "ask", strings.Join(others, " "))
	}
	for ref, others := range asked {
		j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
		out, _, _ := w.cli("job", "logs", ref, "--task", "worker-0")
		if j.Phase != model.Succeeded {
			t.Errorf("job %s: %s: %+v\n%s", j.Name, j.Phase, j.Tasks, out)
		}
		for i, name := range []string{"worker-0", "worker-1"} {
			if reached := strings.Contains(out, name+" page"); reached != (i < len(j.Tasks) && len(j.Tasks) == 2) {
				t.Errorf("job %s of %d tasks: %s was reached: %v\n%s", j.Name, len(j.Tasks), name, reached, out)
			}
		}
		for _, other := range others {
			if !strings.Contains(out, other+" ") || strings.Contains(out, other+" page") {
				t.Errorf("job %s reached %s, which is of another job:\n%s", j.Name, other, out)
			}
		}
	}
	w.until(first, "the networks of jobs are gone", func(*rest.Job) bool {
		return !slices.ContainsFunc(w.engine.Networks(), func(name string) bool {
			return strings.HasSuffix(name, "-"+first) || strings.HasSuffix(name, "-"+second)
		})
	})
}
