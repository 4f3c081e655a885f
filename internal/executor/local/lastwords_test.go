package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
)

// What a task said last on standard error is told with its failure, without secrets and
// without what drives a terminal; of a success or a stop nothing is.
func TestLastWords(t *testing.T) {
	const canary = "c4n4ry-55d1"
	for _, c := range []struct{ line, want string }{
		{"echo first >&2; echo 'ValueError: no data' >&2; exit 3", "ValueError: no data"},
		{"echo 'key <% $secrets.token %> is wrong' >&2; exit 1", "key *** is wrong"},
		{`printf '\033[31mred\rname\377\n' >&2; exit 1`, "[31mred name?"},
		{"head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1", ""},
		{"echo out; exit 1", ""},
		{"echo fine >&2", ""},
		{"echo stopped >&2; exec sleep 600", ""},
	} {
		w := newWorld(t, func(o *Options) {
			o.Secrets = func(model.JobID) (map[string]string, error) { return map[string]string{"token": canary}, nil }
		})
		a := w.action(1, c.line)
		w.e.Do(a)
		want[model.TaskStarted](w)
		if strings.Contains(c.line, "stopped") {
			w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
		}
		if x := w.exit(); x.Message != c.want {
			t.Errorf("%s: %q, want %q", c.line, x.Message, c.want)
		}
	}
}

// Ends that came while no server ran are told in their order: the task that failed first is first,
// whatever its number.
func TestEndsOfAnAbsenceAreToldInOrder(t *testing.T) {
	w := newWorld(t)
	const tasks = 4
	a := w.action(tasks, `i=$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX`, `until [ -e $COMB_CHECKPOINT_DIR/go.$i ]; do sleep 0.02; done; exit $i`)
	w.e.Do(a)
	for range tasks {
		want[model.TaskStarted](w)
	}
	w.e.Close()
	for n := int32(tasks - 1); n >= 0; n-- {
		if err := os.WriteFile(filepath.Join(w.e.place.job(1), "checkpoint", fmt.Sprintf("go.%d", n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := w.e.place.task(a.Attempt, n)
		w.eventually("it has ended, and its supervisor", func() bool {
			var c claim
			_, err := os.Stat(filepath.Join(dir, outcomeFile))
			return err == nil && safefile.Read(dir, claimFile, &c) == nil && !c.Supervisor.Alive()
		})
	}
	w.open()
	a.Known = true
	w.e.Do(a)
	for n := range int32(tasks) {
		if x := want[model.TaskExited](w); x.Task != tasks-1-n {
			t.Errorf("end %d told is of task %d", n, x.Task)
		}
	}
}
