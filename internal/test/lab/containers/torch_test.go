package containers

import (
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

var torchImage = flag.String("torch", "", "the file system that examples/pytorch/image.sh has written, as an archive")

const (
	torchFiles = "../../../../examples/pytorch"
	torchSteps = 400 // of train.py
)

// pair is a node for two ranks.
var pair = strings.NewReplacer("childCellNumber: 8", "childCellNumber: 2", "memory: 512Mi", "memory: 1Gi").Replace(plain)

var (
	lossLine = regexp.MustCompile(`(?m)^step \d+ loss .+$`)
	savedAt  = regexp.MustCompile(`(?m)^rank 0 saved at step (\d+)$`)
)

// train submits the example as it stands.
func (w *world) train() string {
	w.Helper()
	out, errs, code := w.cli("job", "submit", "--upload", torchFiles, torchFiles+"/job.yaml", "-o", "json")
	var accepted rest.Submitted
	if code != 0 || json.Unmarshal([]byte(out), &accepted) != nil {
		w.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	return rest.JobRef(accepted.ID)
}

// printed is what a rank printed in an attempt.
func (w *world) printed(ref string, rank, attempt int) string {
	w.Helper()
	out, _, _ := w.cli("job", "logs", ref, "--task", fmt.Sprintf("worker-%d", rank), "--attempt", fmt.Sprint(attempt))
	return out
}

// Real PyTorch in a gang of two containers is preempted in the middle, goes on when its cells are
// free, and has the same losses, step for step and digit for digit, and the same parameters as a
// run that was left alone.
func TestTorch(t *testing.T) {
	if !testkit.Live(t, "torch") {
		return
	}
	w := newWorld(t, pair, "--live-restore")
	w.patience = 15 * time.Minute
	if out, err := w.docker(t.Context(), "import", *torchImage, "local.test/torch:1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	alone := w.train()
	if j := w.ends(alone); j.Phase != model.Succeeded {
		t.Fatalf("left alone it is %s: %+v\n%s", j.Phase, j.Tasks, w.printed(alone, 0, 1))
	}
	want := lossLine.FindAllString(w.printed(alone, 0, 1), -1)
	if len(want) != torchSteps || want[0] == want[torchSteps-1] {
		t.Fatalf("%d losses: %q", len(want), want)
	}
	t.Logf("left alone: %s ... %s", want[0], want[torchSteps-1])

	ref := w.train()
	if !testkit.Within(w.patience, func() bool { return strings.Contains(w.printed(ref, 0, 1), "\nstep 50 ") }) {
		t.Fatalf("it does not train: %s", w.printed(ref, 0, 1))
	}
	first := w.submit(many(2, with("first", image, "while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done")) +
		"extras: {hivedScheduler: {jobPriorityClass: prod}}\n")
	w.until(first, "it has the cells", running(2))
	w.letGo(first)
	j := w.ends(ref)
	if j.Phase != model.Succeeded || j.Preempted != 1 || j.Counted != 0 || j.Tasks[0].Attempt != 2 {
		t.Fatalf("preempted it is %s: %+v, %+v", j.Phase, j.JobStatus, j.Tasks[0].Exit)
	}
	before, after := w.printed(ref, 0, 1), w.printed(ref, 0, 2)
	saved := savedAt.FindStringSubmatch(before)
	if saved == nil || !strings.Contains(after, "rank 0 goes on at step "+saved[1]+"\n") {
		t.Fatalf("it said last:\n%.300s\nand then:\n%.300s", before[max(len(before)-300, 0):], after)
	}
	got := lossLine.FindAllString(before+"\n"+after, -1)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("saved at step %s it has %d losses:\n%q\nleft alone:\n%q", saved[1], len(got), got, want)
	}
	for rank := range 2 {
		wants, gets := word(w.printed(alone, rank, 1), fmt.Sprintf("rank %d parameters ", rank)), word(w.printed(ref, rank, 2), fmt.Sprintf("rank %d parameters ", rank))
		if wants == "" || wants != gets {
			t.Errorf("rank %d has the parameters %q, left alone %q", rank, gets, wants)
		}
	}
	if p := j.Tasks[0].Progress; p == nil || p.Step != torchSteps || p.Total != torchSteps {
		t.Errorf("its progress is %+v", p)
	}
	t.Logf("preempted at step %s, and on from there", saved[1])
}
