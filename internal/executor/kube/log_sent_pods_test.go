package kube_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// logOf is what is kept of the log of an attempt's first task.
func (d *driver) logOf(at model.AttemptID) (string, error) {
	l, err := d.e.OpenLog(executor.LogRef{Attempt: at, Stream: executor.Stdout}, 0)
	if err != nil {
		return "", err
	}
	defer l.Close()
	text, err := io.ReadAll(l)
	return string(text), err
}

// The log of a pod that sends it is asked of no kubelet while it runs, nor when all of it came; of
// one that ended in between the rest is. Another server goes on where the last one was. Of
// simulated nodes nothing is asked.
func TestLogsThatPodsSend(t *testing.T) {
	d := newDriver(t, 11)
	d.link = &pods.ServerLink{Image: "comb:1", URL: "https://comb:1", Pin: "p"}
	d.restart()
	d.api.Linger()
	d.api.Simulate("n2")
	whole, cut, simulated := d.of("", "n0"), d.of("", "n1"), d.of("", "n2")
	send := func(at model.AttemptID, from int64, text string, last bool) (int64, error) {
		return d.e.PodHandler().Log(d.podOf(at, 0), link.LogBlock{From: from, At: time.Now(), Text: []byte(text), Last: last})
	}
	d.until("all have begun", func() bool { return d.told("TaskStarted") == 3 })
	if text, err := d.logOf(whole); text != "" || err != nil {
		t.Errorf("before it prints its log is %q, %v", text, err)
	}
	if _, err := d.logOf(model.AttemptID{Job: whole.Job, N: 2}); !errors.Is(err, executor.ErrNoLog) {
		t.Errorf("the log of an attempt that has not begun: %v", err)
	}
	if kept, err := send(whole, 0, "one\n", false); kept != 4 || err != nil {
		t.Fatalf("%d are kept, %v", kept, err)
	}
	if kept, err := send(cut, 0, "it ha", false); kept != 5 || err != nil { // see simapi.Server.log
		t.Fatalf("%d are kept, %v", kept, err)
	}
	var all sync.WaitGroup
	for range 20 { // it sends the same many times at once
		all.Go(func() {
			if kept, err := send(cut, 5, "s", false); kept != 6 && !errors.Is(err, link.ErrSoon) {
				t.Errorf("%d are kept, %v", kept, err)
			}
		})
	}
	all.Wait()
	d.restart()
	d.until("a new server takes more, and nothing twice", func() bool {
		kept, err := send(whole, 0, "one\ntwo\n", true)
		return kept == 8 && err == nil
	})
	if n := d.api.Asked()["GET pods/log"]; n != 0 {
		t.Errorf("while they run %d logs were asked for", n)
	}
	for _, at := range []model.AttemptID{whole, simulated} {
		d.end(at)
		d.until("it is gone", func() bool { return d.podOf(at, 0) == "" })
	}
	if n := d.api.Asked()["GET pods/log"]; n != 0 {
		t.Errorf("for one that sent all, and one of a simulated node, %d logs were asked for", n)
	}
	if _, err := send(whole, 8, "more\n", false); !errors.Is(err, link.ErrNoTask) {
		t.Errorf("one that has ended sends: %v", err)
	}
	d.end(cut)
	d.until("it is gone", func() bool { return d.podOf(cut, 0) == "" })
	if n := d.api.Asked()["GET pods/log"]; n != 1 {
		t.Errorf("for the rest of one %d logs were asked for", n)
	}
	for at, want := range map[model.AttemptID]string{whole: "one\ntwo\n", cut: "it has ended\n", simulated: ""} {
		if text, err := d.logOf(at); text != want || err != nil {
			t.Errorf("of %v is kept %q, want %q: %v", at, text, want, err)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(d.recordOf(simulated))); err != nil || len(list) != 1 {
		t.Errorf("of a task that printed nothing there are the files %v, %v", list, err)
	}
	d.finish()
}
