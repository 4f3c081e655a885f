package containers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// A container that fills its disk, wherever it writes, is ended with the number; others go on. What
// is no use of its disk is not counted.
func TestDiskOfContainers(t *testing.T) {
	w := newWorld(t, plain)
	w.server.Kill()
	w.server.Args = append(w.server.Args, "--container-disk", "100Mi")
	w.start()
	w.engine.Import("local.test/volume:1", nil, "VOLUME /data")
	other := w.submit(with("other", image, "head -c 30000000 /dev/zero > /mine; cd $COMB_CHECKPOINT_DIR; until [ -s go ]; do sleep 0.1; done; while kill -0 $(cat go) 2>/dev/null; do sleep 0.1; done; echo went on"))
	asks := func(name, image, disk, command string) string {
		return with(name, image, command) + fmt.Sprintf("extras: {comb: {taskRoles: {worker: {disk: %s}}}}\n", disk)
	}
	fill := func(path string) string {
		return "cd " + path + " && n=0; while [ $n -lt 100 ]; do head -c 4000000 /dev/zero > f$n; n=$((n+1)); sleep 0.2; done; echo filled; sleep 60"
	}
	// All at once: what takes time is that each is measured now and then.
	full := map[string]string{}
	for name, source := range map[string]string{
		"layer":   asks("layer", image, "50Mi", fill("/tmp")),
		"work":    asks("work", image, "50Mi", fill("/comb/work")),
		"volume":  asks("volume", "local.test/volume:1", "50Mi", fill("/data")),
		"default": with("default", image, "mkdir -p /tmp; "+fill("/tmp")),
	} {
		full[name] = w.submit(source)
	}
	// Holes, checkpoints and shared memory are none of it.
	fine := w.submit(asks("fine", image, "50Mi", "mkdir -p /tmp; truncate -s 10G /tmp/holes; head -c 80000000 /dev/zero > $COMB_CHECKPOINT_DIR/big; rm -f $COMB_CHECKPOINT_DIR/big; head -c 40000000 /dev/zero > /tmp/x; sleep 3; echo fine"))
	greedy := w.submit(asks("greedy", image, "1Gi", "true"))
	for name, ref := range full {
		j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
		want := "more than the 50 MiB that it may: write to a storage or the checkpoint folder, or ask for more"
		if name == "default" {
			want = "more than the 100 MiB that it may"
		}
		out, _, _ := w.cli("job", "get", ref)
		if j.Phase != model.Failed || j.Exit == nil || j.Exit.Signal != 9 || !strings.Contains(j.Exit.Message, want) || !strings.Contains(out, "it wrote ") {
			t.Errorf("%s: %s, %+v\n%s", name, j.Phase, j.Exit, out)
		}
	}
	if j := w.until(fine, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() }); j.Phase != model.Succeeded {
		t.Errorf("within its limit: %s, %+v", j.Phase, j.Exit)
	}
	if j := w.until(greedy, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() }); j.Phase != model.Failed || j.Exit == nil ||
		!strings.Contains(j.Exit.Message, "asks for 1024 MiB of disk, more than the 100 MiB that a container may have here") {
		t.Errorf("more than the server allows: %s, %+v", j.Phase, j.Exit)
	}
	// The task waits for the command's end: a command beside a task ends with it.
	if _, errs, code := w.cli("job", "exec", other, "--", "sh", "-c", "echo $$ > $COMB_CHECKPOINT_DIR/go"); code != 0 {
		t.Fatal(errs)
	}
	if j := w.until(other, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() }); j.Phase != model.Succeeded {
		t.Errorf("another one: %s, %+v", j.Phase, j.Exit)
	}
	w.noContainers()
}
