package containers

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// A whole image, whose own program would fail.
const instructions = "FROM " + image + `
ENV OWN=own PAI_JOB_NAME=other HOME=/elsewhere
WORKDIR /app
RUN echo ok >train.txt
USER ada
ENTRYPOINT ["/bin/false"]
CMD ["never"]
STOPSIGNAL SIGQUIT
`

// What an image says reaches its task as the table of docs/containers.md has it: one row for each
// instruction. HEALTHCHECK, VOLUME and what of ENV does not reach process 1 are in
// TestImageReachesItsTaskOnly.
func TestInstructionsOfAnImage(t *testing.T) {
	w := newWorld(t, plain)
	dir := folder(t, map[string]string{"Dockerfile": instructions})
	if _, errs, code := w.cli("image", "build", "-t", "lab/app:1", dir); code != 0 {
		t.Fatal(errs)
	}
	ref := w.submit(with("says", "lab/app:1",
		"trap 'echo asked by TERM; exit 9' TERM", "trap 'echo asked by QUIT; exit 9' QUIT",
		`echo "WORKDIR $(pwd) $(cat train.txt)"`, `echo "USER $(id -un)"`, `echo "ENV $OWN $PAI_JOB_NAME $HOME"`,
		`echo "ENTRYPOINT $(cat /proc/$PPID/comm)"`, "echo ready", "while :; do sleep 0.1; done"))
	w.until(ref, "it runs", func(j *rest.Job) bool {
		return j.Phase.Ended() || strings.Contains(w.printed1(ref), "ready\n")
	})
	if out, errs, code := w.cli("job", "exec", ref, "--", "pwd"); code != 0 || out != "/app\n" {
		t.Errorf("a command beside it is in %q: %s", out, errs)
	}
	if _, errs, code := w.cli("job", "stop", ref); code != 0 {
		t.Fatal(errs)
	}
	w.ends(ref)
	out := w.printed1(ref)
	const stopSignal = "asked by TERM"
	for _, row := range []string{"WORKDIR /app ok", "USER ada", "ENV own says /home/ada", "ENTRYPOINT comb", stopSignal} {
		if !strings.Contains(out, row+"\n") {
			t.Errorf("not there: %q\n%s", row, out)
		}
	}
	if strings.Contains(out, "QUIT") {
		t.Errorf("the image says how it is asked:\n%s", out)
	}
	w.noContainers()
}

// printed1 is what the only task of a job has printed.
func (w *world) printed1(ref string) string {
	out, _, _ := w.cli("job", "logs", ref)
	return out
}

// A task begins in the WORKDIR of its image, unless its job says otherwise. One that is not there
// is as an empty one, and the task's own folder is that; one that its user may not enter ends it
// as its own failure, with what helps.
func TestWorkdirOfImages(t *testing.T) {
	w := newWorld(t, plain)
	app := map[string]string{"app/train.txt": "ok\n"}
	w.engine.Import("lab/app:1", app, "WORKDIR /app")
	w.engine.Import("lab/relative:1", app, "WORKDIR app")
	w.engine.Import("lab/none:1", app)
	w.engine.Import("lab/root:1", app, "WORKDIR /")
	w.engine.Import("lab/missing:1", app, "WORKDIR /not/there")
	w.engine.Import("lab/file:1", app, "WORKDIR /app/train.txt")
	w.engine.Import("lab/private:1", app, "WORKDIR /comb/private", "USER ada")
	for name, c := range map[string]struct{ image, extras, want, fails string }{
		"app":      {"lab/app:1", "", "/app ok", ""},
		"relative": {"lab/relative:1", "", "/app ok", ""},
		"none":     {"lab/none:1", "", "/comb/work none", ""},
		"root":     {"lab/root:1", "", "/comb/work none", ""},
		"missing":  {"lab/missing:1", "", "/comb/work none", ""},
		"file":     {"lab/file:1", "", "/comb/work none", ""},
		"asked":    {"lab/app:1", "extras: {comb: {taskRoles: {worker: {workDir: /tmp}}}}\n", "/tmp none", ""},
		"private": {"lab/private:1", "", "",
			"the working directory /comb/private cannot be entered by user 1000: allow"},
	} {
		ref := w.submit(with(name, c.image, `echo "$(pwd) $(cat train.txt 2>/dev/null || echo none)"`) + c.extras)
		j := w.ends(ref)
		if out := w.printed1(ref); c.fails == "" && (j.Phase != model.Succeeded || strings.TrimSpace(out) != c.want) {
			t.Errorf("%s: %s, and it printed %q", name, j.Phase, out)
		}
		x := j.Tasks[0].Exit
		if c.fails != "" && (j.Phase != model.Failed || x == nil || !strings.Contains(x.Message, c.fails)) {
			t.Errorf("%s: %s: %+v", name, j.Phase, x)
		}
	}
}
