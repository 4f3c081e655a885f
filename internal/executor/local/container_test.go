package local

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
	"github.com/combsched/comb/internal/test/enginetest"
	"github.com/combsched/comb/internal/test/executortest"
	"github.com/combsched/comb/internal/test/testkit"
)

func init() { runTests = enginetest.Main }

const boxImage = "local.test/box:1"

// openBoxes starts an engine with one image and connects to it.
func openBoxes(t *testing.T) *docker.Engine {
	t.Helper()
	own := enginetest.Start(t, "--live-restore")
	own.Import(boxImage, nil)
	engine, err := docker.OpenEngine(t.Context(), own.Host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// What the core may rely on holds for tasks in containers as for processes.
func TestContainerConformance(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	executortest.Run(t, func(t *testing.T) *executortest.Harness {
		nodes := []cell.NodeName{"a", "b"}
		w := newWorld(t, func(o *Options) {
			o.HasNode = func(n cell.NodeName) bool { return slices.Contains(nodes, n) }
			o.Engine = engine
		}, keepsToken)
		h := w.harness(nodes)
		h.Executor = doer{w, boxImage}
		return h
	})
}

// The shapes of OpenPAI's public job files do and find what they do and find there, in the
// WORKDIR of their image and as its user.
func TestContainerShapesOfOpenPAI(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	own := enginetest.Start(t, "--live-restore")
	files := map[string]string{"app/digits.py": ""}
	for name, text := range executortest.Stubs(t, openpaiFiles) {
		files["usr/local/bin/"+name] = text
	}
	own.Import("lab/app:1", files, "WORKDIR /app", "USER 4242", "ENTRYPOINT /bin/false")
	engine, err := docker.OpenEngine(t.Context(), own.Host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	in := executortest.ShapesIn{Folder: openpaiFiles, Image: "lab/app:1", Dir: "/app", User: "4242",
		Fresh: func(t *testing.T, secrets map[string]string) *executortest.Harness {
			w := newWorld(t, func(o *Options) {
				o.Engine, o.Secrets = engine, func(model.JobID) (map[string]string, error) { return secrets, nil }
				o.Storage = folderFor(t)
			})
			h := w.harness([]cell.NodeName{"n1"})
			h.Executor = doer{w, "lab/app:1"}
			return h
		}}
	in.Run(t)
}

// A task that forks without end is stopped by its limit, and ends.
func TestContainerPids(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	w := newWorld(t, func(o *Options) { o.Engine, o.Pids = engine, 20 })
	a := w.action(1, "i=0; while sleep 600 & do i=$((i+1)); echo started $i; done")
	doer{w, boxImage}.Do(a)
	if x := w.exit(); x.Code == 0 || x.Cause != model.TooManyProcesses {
		t.Errorf("it ended with %+v", x)
	}
	if n := strings.Count(w.output(a.Attempt, 0, Stdout), "started"); n < 5 || n > 20+insidePids {
		t.Errorf("%d processes started, with a limit of 20", n)
	}
}

// A container with hundreds of processes ends at once, with one look at them at most.
func TestContainerOfManyProcesses(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	w := newWorld(t, func(o *Options) { o.Engine = engine })
	for grace, by := range map[model.Duration]int32{100 * model.Millisecond: 9, model.Minute: 15} {
		a := w.action(1, append(many(200), "wait")...)
		if by == 15 { // nothing keeps it from ending by SIGTERM
			role(a).Command = role(a).Command[1:]
		}
		doer{w, boxImage}.Do(a)
		w.ready(a.Attempt, 1)
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: grace})
		if x := w.exit(); x.Signal != by || x.Own {
			t.Errorf("with %d it ended with %+v", by, x)
		}
		if got := w.looks(a.Attempt); got > 1 {
			t.Errorf("its stop looked %d times", got)
		}
	}
}

// What is run beside a task in a container is frozen with it, as with a process.
func TestContainerExecIsSuspended(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	w := newWorld(t, func(o *Options) { o.Engine = engine })
	a := w.action(1, "echo ready; exec sleep 600")
	doer{w, boxImage}.Do(a)
	w.ready(a.Attempt, 1)
	w.suspendedBeside(a)
	w.end(a.Attempt)
}

// A program that was built with cgo, as go build does by itself beside a C compiler, is process 1
// of containers whose images lack its libraries: with the rights that it has otherwise. What an
// image has loaded into every program is not loaded into that, and the task has no right of it.
func TestContainerBuiltWithLibraries(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	own := enginetest.Start(t, "--live-restore")
	own.Import(boxImage, nil)
	own.Import("lab/loads:1", map[string]string{"etc/ld.so.preload": "/own.so\n", "own.so": "x"})
	engine, err := docker.OpenEngine(t.Context(), own.Host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	by, preloads := insideProgram, map[string]string{"lab/loads:1": "/own.so\n"}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		by, preloads = insideLibraries+"/ld-", nil
	}
	w := newWorld(t, func(o *Options) { o.Engine = engine })
	const rights = `grep -hE '^(Uid|Groups|CapPrm|CapEff|NoNewPrivs):' `
	for _, image := range []string{boxImage, "lab/loads:1"} {
		a := w.action(1, `tr '\0' '\n' </proc/1/cmdline | head -n 1`, rights+"/proc/1/task/*/status | sort -u", rights+"/proc/self/status",
			"grep -hE '^Cap' /proc/self/status | cut -f 2 | sort -u", "cat /proc/1/environ /comb/private/*", "cat /etc/ld.so.preload 2>/dev/null", "echo ready; exec sleep 600")
		doer{w, image}.Do(a)
		w.ready(a.Attempt, 1)
		program, out, _ := strings.Cut(w.output(a.Attempt, 0, Stdout), "\n")
		want := strings.ReplaceAll(fmt.Sprintf(`CapEff:	00000000000001e0
CapPrm:	00000000000001e0
Groups:	~
NoNewPrivs:	1
Uid:	%[1]d	%[1]d	%[1]d	%[1]d
Uid:	0	0	0	0
Groups:	~
CapPrm:	0000000000000000
CapEff:	0000000000000000
NoNewPrivs:	1
0000000000000000
%[2]sready
`, initUserID(), preloads[image]), "~", " ")
		if !strings.HasPrefix(program, by) || out != want {
			t.Errorf("%s: process 1 is %q, not %q; rights:\n%swant\n%s", image, program, by, out, want)
		}
		if out, _, end := w.beside(a.Attempt, "", "echo", "beside"); end.Code != 0 || out != "beside\n" {
			t.Errorf("%s: a command beside it ended with %+v and said %q", image, end, out)
		}
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: ample})
		if x := w.exit(); x.Signal != 15 {
			t.Errorf("%s: it ended with %+v", image, x)
		}
	}
	if got := engine.Masked(); !slices.Contains(got, "/proc/kcore") {
		t.Errorf("the engine says that it hides %q", got)
	}
}
