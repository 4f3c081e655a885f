package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

const plain = `
physicalCluster:
  skuTypes:
    CPU: {gpu: 0, cpu: 1, memory: 512Mi}
  cellTypes:
    CPU-NODE: {childCellType: CPU, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
    - {cellType: CPU-NODE, cellAddress: here}
virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
`

// with is a job of one task with an image.
func with(name, image string, commands ...string) string {
	return fmt.Sprintf(`
protocolVersion: 2
name: %s
type: job
prerequisites:
  - {type: dockerimage, name: box, uri: %q}
taskRoles:
  worker:
    dockerImage: box
    resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 128}
    commands: [%s]
`, name, image, strings.Join(quoted(commands), ", "))
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = fmt.Sprintf("%q", text)
	}
	return out
}

// foreign is a program for another CPU: what this machine has in its place does not run it.
func foreign(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const machine, s390 = 18, 22 // e_machine's offset; EM_S390
	program[machine] = s390
	return string(program)
}

// An image that cannot run fails its job at once, and the job's end says what is wrong
// with the image and what to do. Nothing is tried again.
func TestImagesThatCannotRun(t *testing.T) {
	w := newWorld(t, plain)
	linked, err := os.ReadFile("/bin/bash") // its libraries are not in the image
	if err != nil {
		t.Fatal(err)
	}
	w.engine.ImportOnly("local.test/empty:1", runtime.GOARCH, map[string]string{"etc/motd": "hello"})
	w.engine.ImportOnly("local.test/foreign:1", "s390x", map[string]string{"bin/sh": foreign(t)})
	w.engine.ImportOnly("local.test/linked:1", runtime.GOARCH, map[string]string{"bin/bash": string(linked)})
	w.engine.ImportOnly("local.test/script:1", runtime.GOARCH, map[string]string{"bin/sh": "not a program"})
	w.engine.Import("local.test/user:1", nil, "USER eve")
	w.engine.Import("local.test/keeper:1", nil, "USER 64789")
	refused := map[string]struct {
		files   map[string]string
		changes []string
		says    string
	}{
		"private": {nil, []string{`VOLUME ["/comb/private/x"]`}, `its VOLUME "/comb/private/x" is in a place`},
		"bin":     {map[string]string{"v": "-> /comb/bin"}, []string{`VOLUME ["/v"]`}, `its VOLUME "/v" leads through a link: use one without`},
		"locks":   {map[string]string{"v": "-> comb"}, []string{`VOLUME ["/v/locks"]`}, `its VOLUME "/v/locks" leads through a link`},
		"deep":    {map[string]string{"a/b/v": "-> ../../comb/private"}, []string{`VOLUME ["/a", "/a/b/v"]`}, `its VOLUME "/a/b/v" leads through a link`},
		"file":    {map[string]string{"v": "a file"}, []string{`VOLUME ["/v"]`}, "a VOLUME of it is a file: use one without"},
		"round":   {map[string]string{"v": "-> /v"}, []string{`VOLUME ["/v"]`}, "a VOLUME of it leads through a link"},
		"pipe":    {map[string]string{"etc/passwd": "|"}, nil, "its /etc/passwd is not a plain file"},
		"group":   {map[string]string{"etc/group": "-> /tmp/a", "tmp/a": "-> ../etc/b", "etc/b": "|"}, nil, "its /etc/group is not a plain file"},
		"device":  {map[string]string{"etc/passwd": "-> /dev/zero"}, nil, "its /etc/passwd is a link that leads nowhere, or out of the image"},
		"kept":    {map[string]string{"etc/passwd": "-> /comb/checkpoint/p"}, nil, "its /etc/passwd is a link that leads nowhere, or out of the image"},
		"loop":    {map[string]string{"etc/passwd": "-> /etc/passwd"}, nil, "its /etc/passwd is a link that leads nowhere, or out of the image"},
		"huge":    {map[string]string{"etc/passwd": strings.Repeat("x", 1<<20+1)}, nil, "its /etc/passwd is not a plain file of at most 1048576 bytes"},
	}
	cases := []struct{ image, says string }{
		{"sha256:" + strings.Repeat("0", 64), "is not on this machine, and an ID cannot be fetched: name the image as its registry does"},
		{"local.test/empty:1", "the image local.test/empty:1 cannot be used: it has neither /bin/bash nor /bin/sh"},
		{"local.test/foreign:1", "the image local.test/foreign:1 cannot be used: it is for s390x, and this machine is " + runtime.GOARCH},
		{"local.test/linked:1", "the image local.test/linked:1 cannot be used: it lacks a library that its /bin/bash is started with"},
		{"local.test/script:1", "the image local.test/script:1 cannot be used: its /bin/sh is not a program for this machine"},
		{"local.test/user:1", `the image local.test/user:1 cannot be used: the image's user "eve" is not in its /etc/passwd`},
		{"local.test/keeper:1", "the image local.test/keeper:1 cannot be used: its user is 64789"},
	}
	var refs []string
	submit := func() { // what is here is looked at while the next images are made
		for i := len(refs); i < len(cases); i++ {
			refs = append(refs, w.submit(with(fmt.Sprintf("image-%d", i), cases[i].image, "echo never")))
		}
	}
	submit()
	for _, name := range []string{"Local Test//no image", ".", "a/../../containers/json?all=1#", "%2e%2e/containers"} {
		want := fmt.Sprintf("--image: %q is not the name of an image: write one such as python:3.12", name)
		if _, errs, code := w.cli("job", "run", "--image", name, "--", "true"); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s is taken: %d, %s", name, code, errs)
		}
	}
	for name, r := range refused {
		image := "local.test/refused-" + name + ":1"
		w.engine.ImportBare(image, r.files, r.changes...)
		cases = append(cases, struct{ image, says string }{image, r.says})
		submit()
	}
	for i, c := range cases {
		j := w.until(refs[i], "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
		x := j.Tasks[0].Exit
		if x == nil || !strings.Contains(x.Message, c.says) || j.Tasks[0].Attempt != 1 {
			t.Errorf("image %s: attempt %v ended with %+v, want %q", c.image, j.Tasks[0].Attempt, x, c.says)
		}
	}
	w.noContainers()
}

// A later attempt runs the very image of the first. When that is gone, and no registry has it, the
// job says so.
func TestImageVanishes(t *testing.T) {
	w := newWorld(t, plain)
	source := strings.Replace(with("vanishes", image, "touch /comb/checkpoint/runs", "while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done", "exit 9"),
		"name: vanishes", "name: vanishes\njobRetryCount: 1", 1)
	ref := w.submit(source)
	w.until(ref, "it runs", running(1))
	w.engine.Import(image, map[string]string{"etc/motd": "another"}) // the same name, another image
	w.server.Kill()
	if err := os.WriteFile(filepath.Join(w.dir, "data", "jobs", ref, "checkpoint", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.noContainers()
	var noted map[string]struct{ ID string }
	data, err := os.ReadFile(filepath.Join(w.dir, "data", "jobs", ref, "images.json"))
	if err == nil {
		err = json.Unmarshal(data, &noted)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.engine.Forget(noted[image].ID)
	w.start()
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Failed })
	if x := j.Tasks[0].Exit; x == nil || !strings.Contains(x.Message, "when the job started first, and that is not on this machine any more; it came from no registry") {
		t.Errorf("it ended with %+v", x)
	}
}

// What process 1 says when it cannot even take its folder reaches the user. An engine whose
// profile of system calls is too narrow is such a case, and not the job's fault.
func TestProcessOneSpeaks(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	text := `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["capset"], "action": "SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plain, "--seccomp-profile", profile)
	ref := w.submit(with("speaks", image, "echo never"))
	w.says("process 1 of its container could not start the task: keep the capabilities", "job", "get", ref)
}

// Images whose own paths are links or files lead mounts, devices and process 1 nowhere else: the
// task runs inside, or fails at once as its image's fault, and the node is not blamed.
func TestImagesOfLinks(t *testing.T) {
	w := newWorld(t, plain)
	images := []map[string]string{
		{"comb": "-> /etc"}, {"comb": "-> " + w.dir}, {"proc": "-> /tmp"}, {"dev": "-> /tmp"}, {"sys": "-> /etc"}, {"comb": "a file"},
		{"comb/private": "-> /etc"}, {"comb/file": "a file"}, {"dev/null": "-> /etc/passwd"}, {"comb/work": "-> /proc/1/root"}, {"comb/bin/comb": "-> /bin/sh"},
	}
	refs := make([]string, len(images))
	for i, files := range images {
		name := fmt.Sprintf("local.test/links-%d:1", i)
		w.engine.Import(name, files)
		refs[i] = w.submit(with(fmt.Sprintf("links-%d", i), name, "echo of the task > comb-was-here"))
	}
	const taken = "it has something of its own in /comb, where the task's folders are put: use one without"
	for i, files := range images {
		j := w.until(refs[i], "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
		x, inside := j.Tasks[0].Exit, false // /comb itself is hidden, whatever it has
		for path := range files {
			inside = inside || strings.HasPrefix(path, "comb/")
		}
		if j.Tasks[0].Attempt != 1 || files["comb"] != "" && !strings.HasSuffix(x.Message, taken) || inside && j.Phase != model.Succeeded {
			t.Errorf("%v: attempt %d ended with %+v", files, j.Tasks[0].Attempt, x)
		}
	}
	for _, dir := range []string{"/", "/etc", "/etc/work", w.dir, filepath.Join(w.dir, "work"), "/tmp"} {
		if _, err := os.Lstat(filepath.Join(dir, "comb-was-here")); err == nil {
			t.Errorf("a task wrote to %s of this machine", dir)
		}
	}
	nodes, err := w.client.Nodes(w.Context())
	if err != nil || nodes.Nodes[0].Suspect != 0 {
		t.Errorf("the node is blamed: %+v, %v", nodes.Nodes, err)
	}
	w.noContainers()
}
