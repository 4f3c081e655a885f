package walk

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// uploads: a folder with code goes to the server without what it ignores, once, and its copy is
// where a job begins.
func uploads(ctx context.Context, w *walk) error { return coded(ctx, w, "/work\n") }

// coded runs a folder with code, twice, by job run with more flags; the second attempt does what
// the first did to its copy.
func coded(ctx context.Context, w *walk, place string, more ...string) error {
	dir := w.path("project")
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"run.sh": "echo in $(pwd)\necho $(ls)\nrm src/main.py && echo ran\n", "src/main.py": "print(1)\n", ".combignore": "*.bin\n", "data.bin": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	var said [2]answer
	for i := range said {
		var err error
		args := append(append([]string{"job", "run", "--vc", "red", "--upload", dir}, more...), "--", "sh", "run.sh")
		if said[i], err = w.must(ctx, args...); err != nil {
			return err
		}
	}
	w.expect(strings.Contains(said[0].out, place) && strings.Contains(said[0].out, "run.sh src\nran"), "it runs in a copy, without what is ignored", "%s", said[0].all())
	w.expect(strings.Contains(said[1].errs, "which the server has") && said[1].out != "" && strings.HasSuffix(said[1].out, "run.sh src\nran\n"),
		"the second job sends nothing, and has a copy of its own", "%s", said[1].all())
	return nil
}

// beside: a command runs in a task's environment and ends with the code that it gives; a service of
// the task, here another server, answers at a port of this machine. The job's events tell both.
func beside(ctx context.Context, w *walk) error {
	if _, err := w.must(ctx, "job", "run", "-d", "--name", "web", "--vc", "red", "--gpus", "1", "--grace", "2s", "--port", "http", "--env", "XDG_STATE_HOME="+w.path("other"), "--",
		"sh", "-c", "exec comb serve --data inner --listen 127.0.0.1:$PAI_PORT_LIST_main_0_http"); err != nil {
		return err
	}
	if _, err := w.until(ctx, "web", "running", running); err != nil {
		return err
	}
	a, err := w.comb(ctx, "job", "exec", "web", "--", "sh", "-c", "echo $COMB_JOB_NAME $PAI_PORT_LIST_main_0_http; exit 7")
	if err != nil {
		return err
	}
	name, port, _ := strings.Cut(strings.TrimSpace(a.out), " ")
	w.expect(a.code == 7 && name == "web" && port != "", "the command has the task's environment, and its own exit code", "exit code %d: %s", a.code, a.all())
	got, err := w.throughPort(ctx, "web", port)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(got, `"ok"`), "what listens in the task answers here", "%s", got)
	events, err := w.must(ctx, "job", "events", "web")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(events.out, ": exit code 7") && strings.Contains(events.out, "to port "+port+" of main-0 by admin"),
		"the events say what ran and which port was used, and by which user", "%s", events.all())
	return w.stop(ctx, "web")
}

// throughPort asks a server that runs as a job whether it is well.
func (w *walk) throughPort(ctx context.Context, job, port string) (string, error) {
	cmd := w.command(ctx, "job", "port-forward", job, "0:"+port)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it ends with 130
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	address, _, ok := strings.Cut(line, " -> ")
	if err != nil || !ok {
		return "", fmt.Errorf("comb job port-forward says %q: %v", line, err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(glance) {
		resp, err := http.Get("http://" + address + "/api/v1/health")
		if err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			return string(text), err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("nothing answers at %s after %v: %w", address, patience, err)
		}
	}
}
