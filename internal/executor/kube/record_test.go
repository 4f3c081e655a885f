package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// recordsIn are those of an attempt below a folder, as another process has them.
func recordsIn(jobs string) *gangRecords { return &gangRecords{dir: filepath.Join(jobs, "7", "0.1")} }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// startOn is a start of so many tasks, each on a node of its own number.
func startOn(tasks int32) *model.Start {
	s := &model.Start{}
	for n := range tasks {
		s.Tasks = append(s.Tasks, model.TaskStart{Task: n, Place: cell.Task{Node: cell.NodeName(fmt.Sprint("n", n))}})
	}
	return s
}

// The last whole line of a task counts, whatever was torn behind it or before.
func TestRecord(t *testing.T) {
	jobs := t.TempDir()
	g := recordsIn(jobs)
	path := filepath.Join(g.dir, recordsFile)
	wants := func(what string, n int32, begun bool, uid types.UID) {
		t.Helper()
		r, got, err := recordsIn(jobs).load(n)
		if err != nil || got != begun || r.UID != uid {
			t.Errorf("%s: begun %v with %q, %v; want %v with %q", what, got, r.UID, err, begun, uid)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wants("nothing", 1, false, "")
	ok(g.begin("red", startOn(6)))
	wants("a pod that may be there", 1, true, "")
	wants("one that the attempt has not", 6, false, "")
	if r, _, err := recordsIn(jobs).load(1); err != nil || r.Node != "n1" || r.Nodes != nil {
		t.Errorf("task 1 is for node %q, %v; all: %v", r.Node, err, r.Nodes)
	}
	if r, found := recordsIn(jobs).any(); !found || r.Namespace != "red" {
		t.Errorf("the attempt is found %v in namespace %q", found, r.Namespace)
	}
	ok(g.note(1, &record{UID: "a"}, false))
	ok(g.note(11, &record{UID: "eleven"}, false))
	wants("a pod", 1, true, "a")
	wants("one of a longer number", 11, true, "eleven")
	wants("another task of the gang", 2, true, "")
	appendTo(t, path, `1 {"uid": "b`)
	wants("behind a torn line", 1, true, "a")
	appendTo(t, path, "\n1 {\"uid\": \"b")
	wants("behind two", 1, true, "a")
	ok(g.note(1, &record{UID: "c"}, false))
	wants("a line behind a torn one", 1, true, "c")
	ok(g.note(1, &record{UID: "c", Exit: &model.Exit{Code: 3}}, true))
	if r, _, err := recordsIn(jobs).load(1); err != nil || r.Exit == nil || r.Exit.Code != 3 {
		t.Errorf("its end is %+v, %v", r.Exit, err)
	}
	ok(os.WriteFile(path, []byte("\n* {\"names"), 0o600))
	wants("a torn first line alone: no pod was made", 1, false, "")
	ok(g.note(1, &record{UID: "d"}, true))
	wants("a line behind it", 1, true, "d")
	wants("another one", 2, false, "")
}

// A record is read as an earlier version wrote it, also where this one has begun to write.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	jobs := t.TempDir()
	g := recordsIn(jobs)
	for n, text := range map[int32]string{
		0: "\n{}\n\n{\"made\":\"zero\"}\n\n{\"uid\":\"zero\",\"made\":\"zero\",\"namespace\":\"red\"}\n",
		1: `{"uid":"one","namespace":"red"}`,
		2: "\n{\"namespace\":\"red\"}\n\n{\"uid\":\"tw",
		3: "\n{\"uid\":\"th",
	} {
		dir := g.taskDir(n)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, taskRecordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(n int32, begun bool, uid types.UID) {
		t.Helper()
		r, got, err := recordsIn(jobs).load(n)
		if err != nil || got != begun || r.UID != uid || begun && r.Namespace != "red" {
			t.Errorf("of task %d begun %v with %+v, %v; want %v with %q", n, got, r, err, begun, uid)
		}
	}
	if r, found := recordsIn(jobs).any(); !found || r.Namespace != "red" {
		t.Errorf("the attempt is found %v in namespace %q", found, r.Namespace)
	}
	wants(0, true, "zero")
	wants(1, true, "one")
	wants(2, true, "")
	wants(3, false, "")
	if err := g.begin("red", startOn(4)); err != nil { // this version makes the pod of task 3
		t.Fatal(err)
	}
	wants(0, true, "zero")
	wants(3, true, "")
	if err := g.note(1, &record{UID: "one", Namespace: "red", Exit: &model.Exit{}}, true); err != nil {
		t.Fatal(err)
	}
	wants(0, true, "zero")
	wants(1, true, "one")
}

// Tasks of a gang that end together lose no line.
func TestRecordsAtOnce(t *testing.T) {
	jobs := t.TempDir()
	g := recordsIn(jobs)
	var all sync.WaitGroup
	for n := range int32(100) {
		all.Go(func() {
			if _, _, err := g.load(n); err != nil {
				t.Error(err)
			}
			for _, code := range []int32{1, 2} {
				x := model.Exit{Code: code, Message: strings.Repeat("x", int(n)*20)}
				if err := g.note(n, &record{UID: "a", Exit: &x}, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n := range int32(100) {
		r, begun, err := recordsIn(jobs).load(n)
		if err != nil || !begun || r.Exit == nil || r.Exit.Code != 2 || len(r.Exit.Message) != int(n)*20 {
			t.Errorf("of task %d is kept %+v, %v", n, r, err)
		}
	}
	if g.synced != g.written {
		t.Errorf("%d of %d lines are known to be on the disk", g.synced, g.written)
	}
}

// The file of a gang is read once for all of its tasks. What was noted first is from when on pods
// may have been made, also for later servers; a version before this one did not note it.
func TestRecordsAreReadOnce(t *testing.T) {
	jobs := t.TempDir()
	g := recordsIn(jobs)
	if err := errors.Join(g.begin("red", startOn(3)), g.note(1, &record{UID: "a"}, false)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(g.dir, recordsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now().Unix()
	appendTo(t, path, "\n* "+fmt.Sprintf(`{"namespace":"red","nodes":{"0":"n0"},"since":%d}`, since+1000)+"\n")
	later := recordsIn(jobs)
	for n, uid := range map[int32]types.UID{0: "", 1: "a"} {
		r, begun, err := later.load(n)
		if err != nil || !begun || r.UID != uid || r.Since == 0 || r.Since > since {
			t.Errorf("task %d is begun %v with %+v, %v", n, begun, r, err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err) // else the second look reads nothing but what the first one read
		}
	}
	older := regexp.MustCompile(`,"since":\d+`).ReplaceAll(text, nil)
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "\n* "+fmt.Sprintf(`{"namespace":"red","since":%d}`, since)+"\n")
	if r, begun, err := recordsIn(jobs).load(1); err != nil || !begun || r.Since != 0 {
		t.Errorf("behind a line of an earlier version: begun %v with %+v, %v", begun, r, err)
	}
}
