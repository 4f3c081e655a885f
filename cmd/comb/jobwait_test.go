package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/job"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// waits is a job that waits: for a reason, "" is none, and with notices, of which so many last.
func waits(reason string, lasting int, notices ...string) *rest.Job {
	j := &rest.Job{}
	j.Phase, j.Notices, j.Lasting = model.Waiting, notices, lasting
	if reason != "" {
		j.Reason = &rest.Reason{Message: reason}
	}
	return j
}

// behind is a job that waits for a reason of a code, and for jobs.
func behind(code model.Code, message string, jobs ...model.JobID) *rest.Job {
	j := waits(message, 0)
	j.Reason.Code, j.Reason.Jobs = code, jobs
	return j
}

func onNode(j *rest.Job, node cell.NodeName) *rest.Job {
	j.Reason.Nodes = []cell.NodeName{node}
	return j
}

// TestWaitLinesOfAFile: why a job waits is printed when another reason, or other jobs or nodes, are
// in the way, not when a time or a number changes; what it is told is printed once.
func TestWaitLinesOfAFile(t *testing.T) {
	var out bytes.Buffer
	for _, boxed := range []bool{true, false} {
		w := job.NewWaitLines(cli.NewScreen(nil, nil), &out, boxed)
		for _, j := range []*rest.Job{
			behind(model.BackOff, "next try there in 29 s"), behind(model.BackOff, "next try there in 28 s"),
			behind(model.VCBusy, "1 of 2 GPUs free"), behind(model.VCBusy, "0 of 2 GPUs free"),
			behind(model.PriorityAhead, "job 3, for another 12 s", 3), behind(model.PriorityAhead, "job 3, for another 11 s", 3),
			behind(model.PriorityAhead, "job 4", 4), onNode(behind(model.PriorityAhead, "job 4 on n1", 4), "n1"),
			waits("", 0, "a limit"), waits("", 1, "a limit", "box is being fetched: 1 layer"), waits("", 1, "a limit", "box is being fetched: 1 layer"),
			waits("", 1, "a limit", "box is being fetched: 2 layers\x1b[2J"), waits("", 0, "a limit", "box was fetched"), waits("1 of 2 GPUs free", 5, "a limit"),
		} {
			w.Show(j)
		}
		out.WriteString("--\n")
	}
	const reasons = `waiting: next try there in 29 s
waiting: 1 of 2 GPUs free
waiting: job 3, for another 12 s
waiting: job 4
waiting: job 4 on n1
`
	want := reasons + `notice: a limit
notice: box is being fetched: 1 layer
notice: box is being fetched: 2 layers [2J
notice: box was fetched
waiting: 1 of 2 GPUs free
--
` + reasons + `notice: box is being fetched: 1 layer
notice: box is being fetched: 2 layers [2J
waiting: 1 of 2 GPUs free
notice: a limit
--
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
}

// TestWaitLinesOfATerminal: there they are lines that change in their place, and that are gone when
// the job prints.
func TestWaitLinesOfATerminal(t *testing.T) {
	keeper, side := openTerminal(t, 60, 10)
	var mu sync.Mutex
	g := &glass{width: 60}
	go g.read(keeper, &mu)
	onto := cli.NewScreen(side)
	w, job := job.NewWaitLines(onto, side, true), onto.Writer(side, true, "")
	see := func(want ...string) {
		t.Helper()
		testkit.Wait(t, "the terminal shows "+strings.Join(want, " / "), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(g.shows(), "\n") == strings.Join(want, "\n")
		})
	}
	w.Show(waits("1 of 2 GPUs free", 0))
	see("waiting: 1 of 2 GPUs free")
	w.Show(waits("0 of 2 GPUs free", 0))
	see("waiting: 0 of 2 GPUs free")
	w.Show(waits("", 1, "box is being fetched: 1 layer"))
	see("notice: box is being fetched: 1 layer")
	w.Show(waits("", 1, "box is being fetched: 2 layers"))
	see("notice: box is being fetched: 2 layers")
	w.Show(waits("its start was refused", 0, "box was fetched"))
	see("notice: box was fetched", "waiting: its start was refused")
	if _, err := job.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	see("notice: box was fetched", "hello")
	began := waits("", 0, "box was fetched")
	began.Started = 1
	w.Show(began)
	if _, err := job.Write([]byte(" world\n")); err != nil {
		t.Fatal(err)
	}
	see("notice: box was fetched", "hello world")
	again := waits("it makes room", 0, "box was fetched")
	again.Started = 1
	w.Show(again)
	see("notice: box was fetched", "hello world", "waiting: it makes room")
	side.Close()
	mu.Lock()
	defer mu.Unlock()
	if g.fault != "" {
		t.Error(g.fault)
	}
}
