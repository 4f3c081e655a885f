package kube

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/model"
)

// The last whole line of a record counts, whatever was torn behind it or before.
func TestRecord(t *testing.T) {
	one := podTask{dir: filepath.Join(t.TempDir(), "0.1", "0")}
	path := filepath.Join(one.dir, recordFile)
	wants := func(what string, begun bool, uid types.UID) {
		t.Helper()
		read := podTask{dir: one.dir}
		if got, err := read.load(); err != nil || got != begun || read.record.UID != uid {
			t.Errorf("%s: begun %v with %q, %v; want %v with %q", what, got, read.record.UID, err, begun, uid)
		}
	}
	add := func(text string) {
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
	keep := func(write func() error) {
		t.Helper()
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	wants("nothing", false, "")
	keep(one.note)
	wants("a pod that may be there", true, "")
	one.record.UID = "a"
	keep(one.note)
	wants("a pod", true, "a")
	add(`{"uid": "b`)
	wants("behind a torn line", true, "a")
	one.record.UID = "c"
	keep(one.note)
	wants("a line behind a torn one", true, "c")
	one.record.Exit = &model.Exit{Code: 3}
	keep(one.save)
	wants("its end", true, "c")
	if text, err := os.ReadFile(path); err != nil || string(text) != `{"uid":"c","exit":{"code":3}}`+"\n" {
		t.Errorf("its file is %q, %v", text, err)
	}
	if err := os.WriteFile(path, []byte(`{"uid": "b`), 0o600); err != nil {
		t.Fatal(err)
	}
	wants("a torn line alone", false, "")
	if err := os.WriteFile(path, []byte(`{"uid":"old"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	wants("a record without an end of line", true, "old")
}
