package containers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// noticed reports whether a job was told something.
func noticed(j *rest.Job, text string) bool {
	return strings.Contains(strings.Join(j.Notices, "\n"), text)
}

// ends waits for the end of a job of one task and returns how it ended.
func (w *world) ends(ref string) *rest.Job {
	w.Helper()
	return w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
}

// An image that is not on the machine is fetched, by tag and by digest, once for all tasks that
// wait for it. Later attempts run what the first ran, also when the tag means something else by
// then and the machine has forgotten it.
func TestPull(t *testing.T) {
	w, h := newWorld(t, plain), newHub(t)
	first, again := h.ref("team/box:1"), strings.Replace(with("again", h.ref("team/box:1"),
		"cat /etc/motd", "test -e /comb/checkpoint/ran && exit 0", "touch /comb/checkpoint/ran; while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done", "exit 9"),
		"name: again", "name: again\njobRetryCount: 1", 1)
	w.engine.Import(first, map[string]string{"etc/motd": "first"})
	w.engine.Push(first, "", "")
	h.set(func() { h.rate = 400_000 })

	ref := w.submit(strings.Replace(with("eight", first, "cat /etc/motd"), "    dockerImage: box", "    instances: 8\n    dockerImage: box", 1))
	w.until(ref, "it is told how far its image is", func(j *rest.Job) bool {
		return noticed(j, "the image "+first+" is being fetched from "+h.Listener.Addr().String()+": 0 of 1 layers are here, ")
	})
	if j := w.ends(ref); j.Phase != model.Succeeded || noticed(j, "is being fetched") || !noticed(j, "was fetched: 1 layers") {
		t.Errorf("it is %s and was told %q", j.Phase, j.Notices)
	}
	if n := h.copies(); n != 1 {
		t.Errorf("8 tasks read a layer %d times", n)
	}
	h.set(func() { h.rate = 0 })
	ref = w.submit(again)
	j := w.until(ref, "it runs", running(1))
	digest := ""
	for _, text := range j.Notices {
		if _, after, ok := strings.Cut(text, "@"); ok {
			digest = strings.TrimSpace(after)
		}
	}
	w.engine.Import(first, map[string]string{"etc/motd": "second"})
	w.engine.Push(first, "", "")
	w.engine.Forget(h.ref("team/box@" + digest))
	w.letGo(ref)
	if j := w.ends(ref); j.Phase != model.Succeeded {
		t.Errorf("the later attempt is %s: %+v", j.Phase, j.Tasks[0].Exit)
	}
	if out, _, _ := w.cli("job", "logs", ref); out != "first" {
		t.Errorf("the later attempt printed %q", out)
	}
	prints := map[string]string{} // by job
	for name, want := range map[string]string{first: "second", h.ref("team/box@" + digest): "first"} {
		prints[w.submit(with(fmt.Sprint("names-", len(prints)), name, "cat /etc/motd"))] = want
	}
	wrong := map[string]string{}
	for name, says := range map[string]string{
		h.ref("team/box:2"):  "is not in its registry",
		h.ref("team/none:1"): "is not in its registry",
		h.ref("team/box@sha256:" + strings.Repeat("0", 64)): "is not in its registry",
		"sha256:" + strings.Repeat("0", 64):                 "an ID cannot be fetched",
	} {
		wrong[w.submit(with(fmt.Sprint("wrong-", len(wrong)), name, "true"))] = name + " " + says
	}
	for ref, want := range prints {
		w.ends(ref)
		if out, _, _ := w.cli("job", "logs", ref); out != want {
			t.Errorf("it printed %q, want %s", out, want)
		}
	}
	for ref, says := range wrong {
		j := w.ends(ref)
		name, says, _ := strings.Cut(says, " ")
		if x := j.Tasks[0].Exit; j.Phase != model.Failed || x == nil || x.Code != 126 || !strings.Contains(x.Message, says) {
			t.Errorf("%s: %s with %+v, want %q", name, j.Phase, x, says)
		}
	}
}

const twoVCs = `
physicalCluster:
  skuTypes:
    CPU: {gpu: 0, cpu: 1, memory: 512Mi}
  cellTypes:
    CPU-NODE: {childCellType: CPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
    - {cellType: CPU-NODE, cellAddress: one}
    - {cellType: CPU-NODE, cellAddress: two}
virtualClusters:
  a: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  b: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
`

// as is a job of a VC with an image and, unless user is "", credentials for its registry.
func as(vc, user, password, image string) string {
	source := with("login", image, "echo ran") + "defaults: {virtualCluster: " + vc + "}\n"
	if user == "" {
		return source
	}
	source = strings.Replace(source, "uri: \""+image+"\"}", "uri: \""+image+"\", auth: {username: "+user+", password: <% $secrets.registry.password %>}}", 1)
	return source + "secrets: {registry: {password: " + password + "}}\n"
}

// An image of a registry that asks for credentials runs with those of the job, which appear
// nowhere. What one VC's got another runs only with its own, and then nothing is fetched twice.
func TestPullWithCredentials(t *testing.T) {
	w, h := newWorld(t, twoVCs), newHub(t)
	name := h.ref("team/box:1")
	h.set(func() { h.users = map[string]string{"ada": "s3cret-of-ada", "bob": "s3cret-of-bob"} })
	w.engine.Import(name, nil)
	w.engine.Push(name, "ada", "s3cret-of-ada")
	run := func(what, source string, phase model.Phase, says string) {
		t.Helper()
		j := w.ends(w.submit(source))
		x := j.Tasks[0].Exit
		if j.Phase != phase || phase == model.Failed && (x.Code != 126 || !strings.Contains(x.Message, says)) {
			t.Errorf("%s: %s with %+v, want %s %q", what, j.Phase, x, phase, says)
		}
	}
	run("none", as("a", "", "", name), model.Failed, "check its name; if it needs credentials, give the prerequisite an auth")
	run("wrong", as("a", "ada", "wr0ng-password", name), model.Failed, "it was asked as user ada with the password of the secret registry.password")
	run("right", as("a", "ada", "s3cret-of-ada", name), model.Succeeded, "")
	before := h.copies()
	run("of a, by b as what it is here", as("b", "", "", w.stored()[name].ID), model.Failed, "was fetched with credentials that are not of VC b")
	run("of a, by b without", as("b", "", "", name), model.Failed, "give the prerequisite an auth")
	run("of a, by b with wrong ones", as("b", "bob", "wr0ng-password", name), model.Failed, "it was asked as user bob")
	run("by b with its own", as("b", "bob", "s3cret-of-bob", name), model.Succeeded, "")
	if n := h.copies(); n != before {
		t.Errorf("the layers were read %d times, and %d times before b had them", n, before)
	}
	h.set(func() { h.down = true })
	run("of a again, without the registry", as("a", "", "", name), model.Succeeded, "")
	run("of b again, without the registry", as("b", "", "", name), model.Succeeded, "")

	events, _, _ := w.cli("job", "events", "3", "-o", "json")
	get, _, _ := w.cli("job", "get", "3", "-o", "json")
	texts := map[string]string{"the events": events, "job get": get, "the log": w.log()}
	err := filepath.WalkDir(filepath.Join(w.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, readErr := os.ReadFile(path)
			texts[path], err = string(data), readErr
		}
		return err
	})
	if err != nil || len(events) < 1000 || len(get) < 100 {
		t.Errorf("%v; %d bytes of events, %d of a job", err, len(events), len(get))
	}
	for where, text := range texts {
		if strings.Contains(text, "s3cret-of") || strings.Contains(text, "wr0ng") {
			t.Errorf("%s has a password", where)
		}
	}
}

// A registry that hangs or is away holds nothing up but the job that needs it, which is tried again
// and not blamed; and a job that is stopped meanwhile ends at once.
func TestPullInTrouble(t *testing.T) {
	w, h := newWorld(t, plain), newHub(t)
	names := make([]string, 4)
	for i := range names {
		names[i] = h.ref(fmt.Sprintf("team/box-%d:1", i))
		if i == 3 {
			break // it is for another CPU
		}
		w.engine.Import(names[i], map[string]string{"etc/motd": names[i]})
		w.engine.Push(names[i], "", "")
	}
	w.engine.ImportOnly(names[3], "s390x", map[string]string{"bin/sh": foreign(t)})
	w.engine.Push(names[3], "", "")
	h.set(func() { h.hangs = true })
	stopped := w.submit(with("stopped", names[1], "true"))
	testkit.Wait(t, "the registry is asked", func() bool { return h.copies() > 0 })
	if j := w.ends(w.submit(with("beside", image, "true"))); j.Phase != model.Succeeded {
		t.Errorf("beside a fetch that hangs it is %s", j.Phase)
	}
	w.cli("job", "stop", stopped, "--wait") // its image would be waited for half an hour
	if j := w.until(stopped, "it is stopped", func(j *rest.Job) bool { return j.Phase.Ended() }); j.Phase != model.Stopped || noticed(j, "is being fetched") {
		t.Errorf("stopped while its image came it is %s, and was told %q", j.Phase, j.Notices)
	}
	w.server.Kill()
	patient := w.server.Args
	w.server.Args = append(slices.Clip(patient), "--image-pull-timeout", "3s")
	w.start()
	slow := w.submit(with("slow", names[0], "cat /etc/motd"))
	w.says("was not fetched within 3s: its registry is slow or hangs", "job", "get", slow)
	w.server.Kill()
	w.server.Args = patient // on a busy machine each fetch may take 3 s
	w.start()
	h.set(func() { h.hangs, h.down = false, true })
	h.CloseClientConnections() // an engine goes on only then: it waits for what it has begun to read
	away := w.submit(with("away", names[2], "true"))
	w.until(away, "it was told", func(j *rest.Job) bool { return noticed(j, "is not fetched yet, since its registry cannot be used") })
	h.set(func() { h.down = false })
	other := w.submit(with("foreign", names[3], "true"))
	if j := w.ends(away); j.Phase != model.Succeeded || j.Counted != 0 || noticed(j, "is not fetched yet") {
		t.Errorf("behind a registry that was away it is %s, with %d failures of its own, and was told "+
			"%q", j.Phase, j.Counted, j.Notices)
	}
	if j := w.ends(slow); j.Phase != model.Succeeded || j.Counted != 0 {
		t.Errorf("behind a registry that hung it is %s, with %d failures of its own", j.Phase, j.Counted)
	}
	if j := w.ends(other); j.Phase != model.Failed || !strings.Contains(j.Tasks[0].Exit.Message, "it is for s390x") {
		t.Errorf("an image for another CPU is %s: %+v", j.Phase, j.Tasks[0].Exit)
	}
	w.noContainers()
}

// A gang that waits for the end of another one has its image fetched meanwhile.
func TestPullForPromisedCells(t *testing.T) {
	w, h := newWorld(t, strings.Replace(plain, "childCellNumber: 8", "childCellNumber: 1", 1)), newHub(t)
	name := h.ref("team/box:1")
	w.engine.Import(name, nil)
	w.engine.Push(name, "", "")
	holds := w.submit(with("holds", image, "trap 'while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done; exit 0' TERM", "echo ready", "while :; do sleep 0.1; done"))
	w.says("ready", "job", "logs", holds)
	next := w.submit(with("next", name, "true") + "extras: {hivedScheduler: {jobPriorityClass: prod}}\n")
	testkit.WaitFor(t, func() string {
		out, _, _ := w.cli("job", "explain", next)
		return fmt.Sprintf("it is fetched before the cells are free:\n%s\n%s", out, w.log())
	}, func() bool { return w.engine.Has(name) })
	if j, err := w.client.Job(w.Context(), holds); err != nil || !running(1)(&j) && j.Tasks[0].Exit != nil {
		t.Errorf("the cells are free: %+v, %v", j, err)
	}
	w.letGo(holds)
	if j := w.ends(next); j.Phase != model.Succeeded || !noticed(j, "was fetched: 1 layers") {
		t.Errorf("it is %s and was told %q", j.Phase, j.Notices)
	}
	if n := h.copies(); n != 1 {
		t.Errorf("a layer was read %d times", n)
	}
}

// An image with the tag latest is looked up in its registry when a job starts first, and the job is
// told of another one there; pull: always fetches that. What a job began with it goes on with. comb
// job run prints what it is told.
func TestPullPolicy(t *testing.T) {
	w, h := newWorld(t, plain), newHub(t)
	latest, tagged := h.ref("team/latest"), h.ref("team/tagged:1")
	h.set(func() { h.users = map[string]string{"ada": "s3cret-of-ada"} })
	for _, name := range []string{latest + ":latest", tagged} { // the registry has the second, and the machine the first
		w.engine.Import(name, map[string]string{"etc/motd": "second", "etc/name": name})
		w.engine.Push(name, "ada", "s3cret-of-ada")
		w.engine.Import(name, map[string]string{"etc/motd": "first", "etc/name": name})
	}
	if made := w.stored()[tagged]; len(made.Digests) > 0 {
		t.Fatalf("what was made here is of a registry: %+v", made)
	}
	login := func(name, vcImage, pull string) string {
		return strings.Replace(strings.Replace(as("default", "ada", "s3cret-of-ada", vcImage), "name: login", "name: "+name, 1), "echo ran", "cat /etc/motd", 1) +
			"extras: {comb: {pull: " + pull + "}}\n"
	}
	ran := func(ref, want string, newer bool) {
		t.Helper()
		j := w.ends(ref)
		if out := w.printed1(ref); j.Phase != model.Succeeded || out != want {
			t.Errorf("%s: it is %s and printed %q, want %q", j.Name, j.Phase, out, want)
		}
		if newer != noticed(j, "the registry has a newer image for ") {
			t.Errorf("%s was told %q", j.Name, j.Notices)
		}
	}
	asked := h.requests()
	ran(w.submit(login("made-here", latest, "missing")), "first", false)
	ran(w.submit(login("tagged", tagged, "missing")), "first", false)
	if n := h.requests(); n != asked {
		t.Errorf("of images that were made here the registry was asked %d times", n-asked)
	}
	// Nor is what was made here replaced by whoever owns its name in the registry.
	ref := w.submit(login("kept", latest, "always"))
	ran(ref, "first", false)
	if j := w.ends(ref); !noticed(j, "the image "+latest+" on this machine was not fetched by Comb, and is not replaced by what its registry has") {
		t.Errorf("it was told %q", j.Notices)
	}
	if _, errs, code := w.cli("image", "pull", latest); code == 0 || !strings.Contains(errs, "was not fetched by Comb") {
		t.Errorf("pull of what was made here: %d %s", code, errs)
	}
	if n := h.requests(); n != asked {
		t.Errorf("of images that were made here the registry was asked %d times", n-asked)
	}
	w.engine.Forget(latest + ":latest")
	ran(w.submit(login("always", latest, "always")), "second", false)
	ran(w.submit(login("as-it-is", latest, "missing")), "second", false)
	second := w.stored()[latest+":latest"].ID
	w.engine.Import(latest+":latest", map[string]string{"etc/motd": "third"})
	w.engine.Push(latest+":latest", "ada", "s3cret-of-ada")
	w.engine.Tag(second, latest+":latest")
	ref = w.submit(strings.Replace(login("older", latest, "missing"), "cat /etc/motd", "cat /etc/motd; while [ ! -e "+
		"/comb/checkpoint/go ]; do sleep 0.1; done", 1))
	j := w.until(ref, "it is told of the newer one", func(j *rest.Job) bool { return noticed(j, "the registry has a newer image for "+latest+": sha256:") })
	if !noticed(j, "; this job runs the one on the machine; --pull always fetches it") {
		t.Errorf("it was told %q", j.Notices)
	}
	w.letGo(ref)
	ran(ref, "second", true)
	h.set(func() { h.users = nil })
	out, errs, code := w.cli("job", "run", "--image", latest, "--pull", "always", "--cpus", "1", "--memory", "128", "--", "cat", "/etc/motd")
	if code != 0 || out != "third" || !strings.Contains(errs, "notice: the image "+latest+" was fetched: ") {
		t.Errorf("comb job run ended with %d and printed %q, %q", code, out, errs)
	}
}

// requests is how often the registry was asked for anything.
func (h *hub) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// A job without a command runs what its image runs by itself, as the image's user, in its folder
// and with its variables; no shell is needed for that. What an image has not ends the job as its
// own failure.
func TestOwnProgramOfImages(t *testing.T) {
	w := newWorld(t, plain)
	w.engine.Import("lab/serve:1", map[string]string{"app/bin/serve": "#!/bin/sh\necho \"$0 $* in $(pwd) as $(id " +
		"-un), $MODE\"\nexit 7\n"},
		`ENTRYPOINT ["serve", "--port"]`, `CMD ["80 81"]`, "ENV PATH=/bin:bin MODE=quick", "WORKDIR /app", "USER ada")
	w.engine.Import("lab/line:1", nil, "CMD echo one word $PAI_JOB_NAME")
	w.engine.Import("lab/none:1", nil)
	w.engine.Import("lab/lacks:1", nil, `ENTRYPOINT ["serve"]`)
	w.engine.Import("lab/below:1", map[string]string{"app/file": ""}, `ENTRYPOINT ["/app/file/x"]`)
	w.engine.ImportBare("lab/bare:1", map[string]string{"true": "x"}, `CMD ["/true"]`)
	for name, c := range map[string]struct {
		code          int32
		prints, fails string
	}{
		"serve": {7, "/app/bin/serve --port 80 81 in /app as ada, quick\n", ""},
		"line":  {0, "one word line\n", ""},
		"none": {126, "", "the image lab/none:1 has neither ENTRYPOINT nor CMD, and role worker has no commands: write " +
			"what it runs"},
		"lacks": {126, "", "what its ENTRYPOINT and CMD name, serve, is not there, or lacks what it is started with: " +
			"write the role's commands, or use another image"},
		"bare": {126, "", "its /true is not a program for this machine"},
		"below": {126, "", "what its ENTRYPOINT and CMD name, /app/file/x, cannot be run (not a directory): write the " +
			"role's commands, or use another image"},
	} {
		ref := w.submit(strings.Replace(with(name, "lab/"+name+":1"), "    commands: []\n", "", 1))
		j := w.ends(ref)
		if x := j.Tasks[0].Exit; x == nil || x.Code != c.code || !strings.Contains(x.Message, c.fails) {
			t.Errorf("%s: %s: %+v", name, j.Phase, x)
		}
		if out := w.printed1(ref); out != c.prints {
			t.Errorf("%s printed %q", name, out)
		}
	}
	out, errs, code := w.cli("job", "run", "--image", "lab/line:1", "--name", "cli", "--cpus", "1", "--memory", "128")
	if code != 0 || out != "one word cli\n" {
		t.Errorf("comb job run ended with %d and printed %q, %q", code, out, errs)
	}
	w.noContainers()
}
