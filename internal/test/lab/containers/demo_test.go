package containers

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/test/enginetest"
	"github.com/combsched/comb/internal/test/lab"
)

// The experiments run in containers where an engine answers, of an image that is made for them and
// gone at the end. Here those in which what runs the tasks matters: a job is preempted and goes on,
// and a gang starts as a whole; all five run as processes.
func TestDemoInContainers(t *testing.T) {
	e := enginetest.Start(t, "--live-restore")
	t.Setenv("DOCKER_HOST", e.Host())
	var said bytes.Buffer
	err := lab.Demo(t.Context(), lab.Options{Bin: bin, Files: "../../../../testdata/lab", Evidence: t.TempDir(), Out: io.MultiWriter(&said, t.Output()),
		Experiments: []int{2, 4}})
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(said.String(), "\n"); !strings.HasPrefix(first, "tasks run in containers (engine ") {
		t.Errorf("it says %q", first)
	}
	if left := e.Containers(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
}
