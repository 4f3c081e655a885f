package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// hook stands for NVIDIA's: the engine runs it in the start of each container that is given GPUs.
// It notes which, by the bundle of the container.
const hook = `#!/bin/sh
bundle=$(sed 's/.*"bundle":"\([^"]*\)".*/\1/')
grep -o '"NVIDIA_[A-Z_]*=[^"]*"' "$bundle/config.json" | tr '\n' ' ' >> "%DIR%/given"
echo >> "%DIR%/given"
`

const gpus = `
physicalCluster:
  skuTypes: {GPU: {gpu: 1, cpu: 1, memory: 512Mi, pretended: false}}
  cellTypes: {GPU-NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}}
  physicalCells: [{cellType: GPU-NODE, cellAddress: here}]
virtualClusters:
  default: {virtualCells: [{cellType: GPU-NODE, cellNumber: 1}]}
`

// giver stands for a maker's runtime: it would give devices by what a container's variables say.
const giver = `#!/bin/sh
case " $* " in *" create "*) echo "$*" >> "%DIR%/asked";; esac
exec runc "$@"
`

// Where the engine's default runtime gives devices by variables, an image that asks for all of them
// gets none.
func TestDefaultRuntimeGivesNothing(t *testing.T) {
	dir := t.TempDir()
	wrapper := filepath.Join(dir, "giver")
	if err := os.WriteFile(wrapper, []byte(strings.ReplaceAll(giver, "%DIR%", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plain, "--add-runtime", "nvidia="+wrapper, "--default-runtime", "nvidia")
	w.engine.Import("local.test/all:1", nil, "ENV NVIDIA_VISIBLE_DEVICES=all")
	ref := w.submit(with("none", "local.test/all:1", `echo "<$NVIDIA_VISIBLE_DEVICES>"`))
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if out, _, _ := w.cli("job", "logs", ref); out != "<void>\n" {
		t.Errorf("it printed %q", out)
	}
	if asked, err := os.ReadFile(filepath.Join(dir, "asked")); err == nil {
		t.Errorf("the runtime that gives devices made the container: %s", asked)
	}
}

// driver stands for NVIDIA's, with four GPUs: its program, and a folder in the place of /dev. It
// returns the arguments of a server that has it.
func driver(t *testing.T) []string {
	dir := t.TempDir()
	cards := ""
	for i, name := range []string{"0", "1", "2", "3", "ctl"} {
		if err := os.WriteFile(filepath.Join(dir, "nvidia"+name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if i < 4 {
			cards += "echo '" + name + ", GPU-" + name + ", 1000'\n"
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+cards), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return []string{"--dev", dir}
}

// Where there is NVIDIA's driver each container is given its own GPUs, by the engine, and counts
// them from 0. An engine without NVIDIA's toolkit says what is missing, and that is no fault of the
// job.
func TestGPUsOfContainers(t *testing.T) {
	dev := driver(t)
	source := func(name, image string) string {
		return strings.Replace(with(name, image, `echo "$CUDA_VISIBLE_DEVICES of $COMB_LEAVES"`), "gpu: 0,", "gpu: 2,", 1)
	}
	t.Run("none", func(t *testing.T) {
		w := newWorldOn(t, gpus, dev)
		ref := w.submit(source("none", image))
		w.until(ref, "it is refused", func(*rest.Job) bool {
			out, _, _ := w.cli("job", "get", ref)
			return strings.Contains(out, "the container engine cannot give NVIDIA GPUs to containers: an administrator installs NVIDIA's container toolkit on this node")
		})
	})
	t.Run("hook", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "nvidia-container-runtime-hook"), []byte(strings.ReplaceAll(hook, "%DIR%", dir)), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		w := newWorldOn(t, gpus, dev)
		w.engine.Import("local.test/all:1", nil, "ENV NVIDIA_VISIBLE_DEVICES=all")
		for i, want := range []string{"0,1 of 0,1\n", "0,1 of 2,3\n"} {
			name := []string{"first", "second"}[i]
			ref := w.submit(strings.Replace(source(name, "local.test/all:1"), "echo", "while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done; echo", 1))
			w.until(ref, "it runs", running(1))
			defer func() {
				w.letGo(ref)
				w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
				if out, _, _ := w.cli("job", "logs", ref); out != want {
					t.Errorf("%s: %q, want %q", name, out, want)
				}
			}()
		}
		given, err := os.ReadFile(filepath.Join(dir, "given"))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(given)), "\n") {
			all := strings.Split(line, `"NVIDIA_VISIBLE_DEVICES=`)
			if last := all[len(all)-1]; !strings.HasPrefix(last, []string{`0,1"`, `2,3"`}[i]) {
				t.Errorf("container %d was given %s", i, line)
			}
		}
	})
}
