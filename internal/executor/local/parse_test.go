package local

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
)

func TestDiscover(t *testing.T) {
	m, err := Discover(t.Context())
	if err != nil || m.Host == "" || m.Boot == "" || m.Cores < 1 || m.MemoryMB < 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if kb, err := parseMemory("MemFree: 1 kB\nMemTotal:  2048 kB\n"); kb != 2 || err != nil {
		t.Errorf("%d, %v", kb, err)
	}
	if _, err := parseMemory("nothing"); err == nil {
		t.Error("no MemTotal is no error")
	}
}

func TestReadPrivate(t *testing.T) {
	for _, p := range []private{{script: []byte("abc\n\n")}, {script: []byte("x"), surroundings: []string{"A=1\n2", "B=caf\xe9"}}, {script: []byte{}}} {
		got, err := readPrivate(io.MultiReader(bytes.NewReader(p.encode()), strings.NewReader("rest")))
		if err != nil || !reflect.DeepEqual(*got, p) {
			t.Errorf("%+v came as %+v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "5", "5\nabcde", "5 0\nabc", "1 5\nxA=1", "-1 0\n", "0 -1\n", "x 0\n", "99999999999 0\n", "0 99999999999\n"} {
		if got, err := readPrivate(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Dir: "relative", Cluster: "c", Self: "/bin/true"}, {Dir: t.TempDir(), Cluster: "c", Self: "/bin/true"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// A process 1 that found other mounts than it was started with is the image's fault, and a task
// cannot say so in its place.
func TestMountsOfAnImageAreItsFault(t *testing.T) {
	c := &caretaker{supervisor: newSupervised(t.TempDir(), outcomeFile)}
	c.spec.Container = &containerSpec{Image: "box:1", Engine: "unix://" + c.dir + "/none"}
	o := c.ended(docker.State{Code: exitTaken})
	if want := "the image box:1 cannot be used: it has something of its own in /comb, where the task's folders are put: use one without"; !o.Job || o.Refused != want {
		t.Errorf("%+v, want %q", o, want)
	}
	if err := safefile.Write(c.dir, runsFile, identity{}); err != nil {
		t.Fatal(err)
	}
	if o := c.ended(docker.State{Code: exitTaken}); o.Refused != "" || o.Exit == nil || o.Exit.Cause != model.SupervisorLost {
		t.Errorf("behind a start: %+v", o)
	}
}
