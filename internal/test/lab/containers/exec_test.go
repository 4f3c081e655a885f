package containers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// inside is what a command beside a task says of itself. The words are those of tries.
const inside = `
for k in CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Groups; do echo $k $(grep ^$k: /proc/self/status | cut -f2); done
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo $what may; else echo $what may not; fi; }
echo user $(id -u):$(id -g)
echo files $(ls /proc/self/fd | tr '\n' ' ')
echo folder $PWD
echo job $COMB_JOB_NAME $OWN
if cmp -s /proc/self/cgroup /proc/$(cat /comb/checkpoint/pid)/cgroup; then echo group same; fi
try kill-one kill -9 1
try read-one cat /proc/1/environ
try private ls /comb/private
try door ls /comb/private/door
try mount mount -t tmpfs none /tmp
`

// A command beside a task has the task's user and no capability, also as root; it is in the task's
// groups, and has nothing open that the task has not. The engine is not needed for it.
func TestExec(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	w.engine.Import("local.test/ada:1", nil, "USER ada")
	for _, c := range []struct{ name, image, user string }{{"roots", image, "0:0"}, {"adas", "local.test/ada:1", "1000:1000"}} {
		name := c.name
		ref := w.submit(with(name, c.image, "export OWN=no; echo $$ > /comb/checkpoint/pid; exec sleep 600"))
		w.until(ref, "it runs", running(1))
		if name == "adas" {
			w.engine.Kill() // what follows needs none
		}
		out, errs, code := w.cli("job", "exec", ref, "--", "sh", "-c", inside)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s\n%s", name, code, errs, w.log())
		}
		for what, want := range map[string]string{"CapInh": zero, "CapPrm": zero, "CapEff": zero, "CapBnd": zero, "CapAmb": zero, "NoNewPrivs": "1", "Seccomp": "2",
			"user": c.user, "Groups": "", "files": "0 1 2 3", "folder": "/comb/work", "job": name, "group": "same",
			"kill-one": "may not", "read-one": "may not", "private": "may not", "door": "may not", "mount": "may not"} {
			if got := strings.TrimSpace(word(out, what+" ")); got != want {
				t.Errorf("%s: %s is %q, want %q", name, what, got, want)
			}
		}
		w.terminal(ref, strings.Split(c.user, ":")[0])
		w.endsWithTask(ref)
	}
}

const zero = "0000000000000000"

// terminal runs a shell at a terminal, which is the user's own.
func (w *world) terminal(ref, user string) {
	w.Helper()
	task := rest.TaskName{Job: ref, Role: "worker"}
	e, err := w.client.Exec(w.Context(), task, rest.ExecRequest{Command: []string{"sh"}, Terminal: &rest.TermSize{Rows: 31, Cols: 91}, Term: "vt100"})
	if err != nil {
		w.Fatal(err)
	}
	defer e.Close()
	fmt.Fprint(e, "stat -c 'ow''ner %u' $(tty); echo si''ze $(stty size) $TERM; echo h''i > $(tty); exit 6\n")
	var said bytes.Buffer
	end, err := e.Follow(&said, io.Discard)
	if err != nil || end.Code != 6 {
		w.Errorf("the shell ended with %+v: %v", end, err)
	}
	for _, want := range []string{"owner " + user + "\r\n", "size 31 91 vt100\r\n", "hi\r\n"} {
		if !strings.Contains(said.String(), want) {
			w.Errorf("the terminal does not say %q: %q", want, said.String())
		}
	}
}

// endsWithTask stops a job beside whose task a command runs.
func (w *world) endsWithTask(ref string) {
	w.Helper()
	e, err := w.client.Exec(w.Context(), rest.TaskName{Job: ref, Role: "worker"}, rest.ExecRequest{Command: []string{"sh", "-c", "trap '' TERM HUP; echo yes > $COMB_CHECKPOINT_DIR/trapped; sleep 611; sleep 612"}})
	if err != nil {
		w.Fatal(err)
	}
	defer e.Close()
	w.until(ref, "the command has set its trap", func(*rest.Job) bool { return w.left(ref, "trapped") != "" })
	if _, err := w.client.Stop(w.Context(), ref, ""); err != nil {
		w.Fatal(err)
	}
	end, err := e.Follow(io.Discard, io.Discard)
	if err != nil || end.Why != "the task has ended" {
		w.Errorf("the command ended with %+v: %v", end, err)
	}
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() }) // the command would hold it up for longer than this waits
}

// A server that is killed leaves no command behind, and its task runs.
func TestExecEndsWithServer(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(with("stays", image, "sleep 600"))
	w.until(ref, "it runs", running(1))
	e, err := w.client.Exec(w.Context(), rest.TaskName{Job: ref, Role: "worker"}, rest.ExecRequest{Command: []string{"sh", "-c", "trap '' TERM HUP; sleep 613; sleep 614"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	count := func() string {
		out, _, _ := w.cli("job", "exec", ref, "--", "sh", "-c", "ps | grep -c 'slee[p] 61'")
		return strings.TrimSpace(out)
	}
	if n := count(); n == "0" {
		t.Fatalf("the command does not run: %s", n)
	}
	w.server.Kill()
	w.start()
	testkit.Wait(t, "the command is gone", func() bool { return count() == "0" })
	w.until(ref, "it runs", running(1))
}

// A port of a container's own loopback is reached, and no other container's.
func TestPortForward(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	ref := w.submit(with("web", image, "echo hello from inside > index.html; exec httpd -f -p 127.0.0.1:8080"))
	w.until(ref, "it runs", running(1))
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "comb"), "job", "port-forward", ref, "0:8080",
		"--server", w.client.URL(), "--token-file", filepath.Join(w.server.Data, "admin-token"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, _, _ := strings.Cut(line, " ")
	if err != nil || !strings.HasSuffix(line, " -> worker-0:8080\n") {
		t.Fatalf("it says %q: %v", line, err)
	}
	for i := range 3 {
		got := ""
		testkit.Within(testkit.Patience, func() bool {
			resp, err := http.Get("http://" + address)
			if err == nil { // it may not listen yet
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				got = string(body)
			}
			return got != ""
		})
		if got != "hello from inside\n" {
			t.Errorf("the %dth request got %q", i+1, got)
		}
	}
	if _, err := w.client.Stop(t.Context(), ref, ""); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well, and its task had ended")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}
