package kube_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// asBefore lets the records of an attempt be as an earlier version kept them: each in the folder of
// its task.
func (d *driver) asBefore(at model.AttemptID) {
	d.t.Helper()
	file := d.recordOf(at)
	data, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		who, text, _ := bytes.Cut(line, []byte{' '})
		if len(text) == 0 || string(who) == "*" {
			continue
		}
		dir := filepath.Join(filepath.Dir(file), string(who))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pod.json"), text, 0o600); err != nil { // the last one stays
			d.t.Fatal(err)
		}
	}
	if err := os.Remove(file); err != nil {
		d.t.Fatal(err)
	}
}

// A server takes up what an earlier version noted of the tasks that run, though users took their
// seals away: none is made twice, one whose pod was taken away is unknown, and the others end as
// any task does.
func TestRecordsOfAnEarlierVersion(t *testing.T) {
	d := newDriver(t, 12)
	d.api.Linger()
	gang, single := d.of("red", "n0", "n1", "n2"), d.of("", "n1")
	for n := range int32(3) {
		d.runsIn("red", gang, n)
	}
	d.runsIn("comb", single, 0)
	d.e.Close()
	d.asBefore(gang)
	d.asBefore(single)
	for _, pod := range d.api.Objects("pods") {
		d.api.Unmark(pod)
	}
	taken := d.podOf(gang, 2)
	d.mu.Lock()
	d.stripped[taskOf{gang, 2}] = taken
	d.mu.Unlock()
	d.api.Strip(taken)
	began := d.told("TaskStarted")
	d.restart()
	d.until("the others are known, and it is unknown", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.facts["TaskStarted"] >= began+3 && d.unknown[taskOf{gang, 2}] == taken
	})
	d.end(gang)
	d.end(single)
	d.finish()
	if n := d.api.Began(); n != 4 {
		t.Errorf("%d containers were started for four tasks", n)
	}
	for _, at := range []model.AttemptID{gang, single} {
		if text, err := d.logOf(at); err != nil {
			t.Errorf("the log of %v is %q, %v", at, text, err)
		}
	}
}
