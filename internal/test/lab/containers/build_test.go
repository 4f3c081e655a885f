package containers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// folder makes a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const dockerfile = "FROM " + image + ` AS first
ARG WHO=nobody
COPY . /app
RUN echo "made by $WHO in $(ls /app | tr '\n' ' ')" | tee /made; echo oops >&2
FROM first
RUN cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true
CMD ["/bin/sh"]
`

// An image is built of a folder without what its .dockerignore leaves out: its steps are shown, the
// second time as cached, and a job runs in it. A step that fails, and a build that is interrupted,
// leave no image and no container.
func TestImageBuild(t *testing.T) {
	w := newWorld(t, plain)
	dir := folder(t, map[string]string{"docker/Dockerfile": dockerfile, "main.py": "print(1)\n", "data/large": "x", ".dockerignore": "data\ndocker\n", "bad": "FROM " + image + "\nRUN echo before; exit 7\n",
		"slow": "FROM " + image + "\nRUN echo waits; sleep 1000\n", "none": "FROM local.test/absent:1\n", "wrong": "FROM " + image + "\nRUNN x\n"})
	build := func(name, file string, more ...string) (string, string, int) {
		begun := time.Now()
		defer func() { t.Logf("%s of %s: %v", name, file, time.Since(begun)) }()
		return w.cli(append([]string{"image", "build", "-t", name, "-f", file, dir}, more...)...)
	}
	out, errs, code := build("team/app:1", "docker/Dockerfile", "--build-arg", "WHO=ada", "--memory", "64Mi")
	t.Logf("%s%s", errs, out)
	for _, want := range []string{"step 1/7: FROM " + image + " AS first", "step 4/7: RUN echo", "made by ada in bad docker main.py none slow wrong \n", "\noops\n", "step 7/7: CMD", "67108864"} {
		if !strings.Contains(errs, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	made := w.stored()["team/app:1"]
	if code != 0 || made.ID == "" || out != "built team/app:1: "+made.ID+"\n" || strings.Contains(errs, "cached") {
		t.Fatalf("code %d: %s, %+v", code, out, made)
	}
	out, errs, code = build("team/app:2", "docker/Dockerfile", "--build-arg", "WHO=ada", "--memory", "64Mi")
	if code != 0 || !strings.Contains(errs, "which the server has") || !strings.Contains(errs, "step 4/7 (cached): RUN echo") || strings.Contains(errs, "made by ada") || !strings.Contains(out, made.ID) {
		t.Errorf("again: code %d: %s%s", code, errs, out)
	}
	if _, errs, _ = build("team/app:3", "docker/Dockerfile", "--build-arg", "WHO=ada", "--no-cache", "--target", "first"); !strings.Contains(errs, "made by ada") || strings.Contains(errs, "cached") || strings.Contains(errs, "7/7") {
		t.Errorf("without the cache, to the first stage: %s", errs)
	}
	ref := w.submit(with("uses", "team/app:1", "cat /made"))
	if j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() }); j.Phase != model.Succeeded {
		t.Errorf("a job in it is %s", j.Phase)
	}
	if out, _, _ := w.cli("job", "logs", ref); !strings.Contains(out, "made by ada") {
		t.Errorf("a job in it prints %s", out)
	}
	for file, want := range map[string]string{"bad": "returned a non-zero code: 7", "none": "local.test/absent", "wrong": "unknown instruction: RUNN", "absent": "has no file absent"} {
		if out, errs, code := build("team/bad:1", file); code == 0 || !strings.Contains(errs, want) || file == "bad" && !strings.Contains(errs, "before\n") {
			t.Errorf("%s: %d %s%s; want %q", file, code, out, errs, want)
		}
	}
	w.interrupted(dir)
	if w.engine.Has("team/bad:1") || w.engine.Has("team/slow:1") {
		t.Error("there is an image of what was not built")
	}
	w.noContainers()
	if log, _, _ := w.cli("audit", "list", "--no-headers"); strings.Count(log, "build images") < 12 || !strings.Contains(log, "team/slow:1") {
		t.Errorf("the audit log has %s", log)
	}
}

// interrupted begins a build and leaves while a step runs.
func (w *world) interrupted(dir string) {
	w.Helper()
	digest := ""
	if _, errs, code := w.cli("image", "build", "-t", "team/bad:1", "-f", "bad", dir); code != 0 { // it has sent the folder
		_, digest, _ = strings.Cut(errs, "sha256:")
		digest, _, _ = strings.Cut(digest, ",")
	}
	ctx, leave := context.WithTimeout(w.Context(), 90*time.Second)
	defer leave()
	_, err := w.client.BuildImage(ctx, rest.ImageBuild{Name: "team/slow:1", Upload: "sha256:" + digest, Dockerfile: "slow"}, func(l rest.BuildLine) {
		if l.Text == "waits" {
			if n := len(w.engine.Containers()); n != 1 {
				w.Errorf("%d containers build", n)
			}
			leave()
		}
	})
	if ctx.Err() != context.Canceled {
		w.Errorf("it never waited: %v", err)
	}
}
