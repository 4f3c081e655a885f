package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// driver answers as nvidia-smi does, on a machine with four GPUs.
const driver = `#!/bin/sh
case $1 in
--query-gpu=index,name,*) for i in 0 1 2 3; do echo "$i, LAB, 16000"; done ;;
--query-gpu=index,uuid,*) for i in 0 1 2 3; do echo "$i, GPU-$i, 2$i, 100$i, 16000"; done ;;
esac
`

// withDriver gives a server a driver of its own.
func withDriver(t *testing.T) func(*Server) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(driver), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(s *Server) { s.Path = dir }
}

// TestSamplesLive: what the driver says of a job's GPUs is told to users and journalled.
func TestSamplesLive(t *testing.T) {
	t.Parallel()
	c := newCrashOn(t, strings.Replace(policyCluster, "%s", "fifo", 1), withDriver(t))
	id := c.submit(strings.Replace(largeJob, "sleep 3", "sleep 600", 1))
	j := c.await(id, "its GPUs are seen", func(j rest.Job) bool { return j.Tasks[0].Progress != nil && j.Tasks[0].Progress.Use != nil })
	first := j.Tasks[0].Devices[0]
	if len(j.Tasks[0].Devices) != 3 || first > 1 {
		t.Fatalf("it has the devices %v", j.Tasks[0].Devices)
	}
	want := rest.DeviceUse{Util: 210 + 10*first, MemoryMB: int64(1002 + first)}
	if got := *j.Tasks[0].Progress.Use; got != want {
		t.Errorf("use %+v, want %+v", got, want)
	}
	out, errs, code, err := c.server.CLI(t.Context(), "job", "get", rest.JobRef(id))
	if err != nil || code != 0 || !strings.Contains(out, "% busy, 1,00") && !strings.Contains(out, "% busy, 100") {
		t.Errorf("job get ends with %d, %v: %s%s", code, err, out, errs)
	}
	if _, err := c.client.Stop(t.Context(), rest.JobRef(id), "enough"); err != nil {
		t.Fatal(err)
	}
	c.await(id, "it is stopped", func(j rest.Job) bool { return j.Phase == model.Stopped })
	c.checkAfter()
}
