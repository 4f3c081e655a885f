// Package walk goes the way of Comb's users through the whole product in one run,
// as a black box: the built program as a real server, real processes as jobs, and
// nothing but the command line and REST. Each step says what is expected and what
// was seen; later steps stand on what earlier ones left. It must not look into the
// data directory, nor wait for a fixed time where something can be waited for.
package walk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/lab"
)

const (
	patience = 3 * time.Minute // until what a step waits for has happened, on a busy machine
	glance   = 20 * time.Millisecond
)

// Options say where things are and go.
type Options struct {
	Bin string    // folder with the programs comb and train
	Out io.Writer // the report, live
	// Keep is a new folder that gets the user's in the end, with the server's data directory. Empty
	// is none.
	Keep string
	// Images are two of different systems, for the way through containers. Both have a shell.
	Images [2]string
	// Pods is set for the way through a Kubernetes cluster.
	Pods *Pods
}

// Pods are two nodes of a Kubernetes cluster on this machine, and a claim that is a folder here.
// kubectl finds the cluster by KUBECONFIG, as an administrator.
type Pods struct {
	Node, Claim, Folder string
	Others              string   // a simulated node with 8 GPUs of a device plugin
	Rights              string   // the file with what Comb may do in the cluster
	Args                []string // of comb serve
	// API ends the cluster's API server, or starts it and waits until it answers.
	API func(ctx context.Context, up bool) error
}

// step is one part of the way.
type step struct {
	title string
	run   func(context.Context, *walk) error
}

// steps are in the order of a user's days: what comes to Comb adds its own.
func steps() []step {
	return []step{
		{"a cluster file with two virtual clusters is planned and applied", configure},
		{"a job file is checked by a dry run and submitted", submitFile},
		{"job run follows a command and ends as it does", runCommand},
		{"top shows what a running job takes", topped},
		{"a folder with code is uploaded once, and each job runs in a copy", uploads},
		{"a command runs beside a task, and a port of it is reached", beside},
		{"mistakes are told, all at once", mistakes},
		{"a gang waits, and explain names what is in the way", gangWaits},
		{"a prod gang preempts one that checkpoints and resumes", preempted},
		{"the logs of every attempt are there", attemptLogs},
		{"an opportunistic job borrows and leaves", borrows},
		{"the server is killed under load and comes back", killed},
		{"a node is cordoned and comes back", cordoned},
		{"a node is drained: its job is told what comes, saves, and goes on where that was said", drained},
		{"a changed quota is planned, applied and taken back", requota},
		{"an earlier cluster file comes back", versions},
		{"two trainings take turns on the same GPUs, frozen and woken", turns},
		{"the day is replayed under its own policy and under another", replayed},
		{"a backup of the running server is made, checked and restored", backedUp},
		{"two users in two virtual clusters do not see each other's jobs", apart},
		{"OpenPAI's configuration is pushed, and its call gives a user a virtual cluster", fromOpenPAI},
	}
}

// walk is one run: a server, a user's folder, and what earlier steps left.
type walk struct {
	Options
	dir    string
	server *lab.Server
	client *rest.Client
	failed int
	jobs   map[string]rest.Job // ended ones that later steps look at, by name
}

// Run goes all steps and returns an error when one of them saw something else
// than it expected, or something was left behind.
func Run(ctx context.Context, o Options) error { return goAll(ctx, o, steps(), pretended("auto")...) }

// pretended are the arguments of a server that pretends GPUs.
func pretended(runtime string) []string {
	return []string{"--virtual-gpus", "2", "--overcommit", "--trust-users", "--runtime", runtime}
}

// InContainers goes the way of a user with images, where a container engine answers ($DOCKER_HOST).
func InContainers(ctx context.Context, o Options) error {
	return goAll(ctx, o, boxedSteps(), pretended("container")...)
}

// InPods goes the way of a user whose jobs become pods of Kubernetes.
func InPods(ctx context.Context, o Options) error {
	return goAll(ctx, o, podSteps(), append([]string{"--cluster", podCluster}, o.Pods.Args...)...)
}

func goAll(ctx context.Context, o Options, all []step, args ...string) (err error) {
	w, err := begin(ctx, o, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	began := time.Now()
	for i, s := range all {
		if err := w.take(ctx, i+1, s); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "\n%d steps in %s, %d expectations not met\n", len(all), time.Since(began).Round(time.Second), w.failed)
	if w.failed > 0 {
		return fmt.Errorf("%d expectations were not met", w.failed)
	}
	return nil
}

// take goes one step. What the next ones need may be missing after a failure, so
// an error ends the walk.
func (w *walk) take(ctx context.Context, number int, s step) error {
	began := time.Now()
	fmt.Fprintf(w.Out, "\n%2d. %s\n", number, s.title)
	err := s.run(ctx, w)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("step %d, %s: %w\nthe server said:\n%s", number, s.title, err, w.said())
	}
	fmt.Fprintf(w.Out, "    %.1f s\n", time.Since(began).Seconds())
	return nil
}

// begin starts a server as a user would, on a new data directory and an address
// that it keeps over restarts.
func begin(ctx context.Context, o Options, args []string) (*walk, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	o.Bin = bin
	dir, err := os.MkdirTemp("", "comb-walk-")
	if err != nil {
		return nil, err
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	w := &walk{Options: o, dir: dir, jobs: map[string]rest.Job{}}
	w.server = &lab.Server{Bin: bin, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "server.log"), Listen: listen,
		Args: args}
	if o.Pods != nil {
		if err := w.writePods(); err != nil {
			return nil, err
		}
	}
	if err := w.server.Start(ctx); err != nil {
		return nil, errors.Join(err, w.end())
	}
	if w.client, err = w.server.Client(); err != nil {
		return nil, errors.Join(err, w.end())
	}
	return w, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// end stops the server and proves that nothing of the walk is left.
func (w *walk) end() error {
	err := errors.Join(w.server.Stop(), lab.Sweep(w.dir))
	if w.Keep != "" {
		err = errors.Join(err, exec.Command("cp", "-a", w.dir, w.Keep).Run())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

func (w *walk) said() string {
	text, err := os.ReadFile(w.server.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// expect prints one expectation and what was seen instead or as well.
func (w *walk) expect(ok bool, want, seen string, args ...any) {
	mark := "ok  "
	if !ok {
		mark = "FAIL"
		w.failed++
	}
	fmt.Fprintf(w.Out, "    %s expected: %s\n         seen:     %s\n", mark, want, strings.TrimSpace(fmt.Sprintf(seen, args...)))
}

// answer is what a command printed.
type answer struct {
	out, errs string
	code      int
}

// all is everything that it printed, on one line.
func (a answer) all() string { return strings.Join(strings.Fields(a.out+" "+a.errs), " ") }

// command makes a call of the command line in a user's own folder: it finds the
// server as a user's would, by what the server left for it.
func (w *walk) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.Bin, "comb"), args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(w.dir, "config"),
		"PATH="+w.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// comb runs the command line as the administrator. The error is about running it at all.
func (w *walk) comb(ctx context.Context, args ...string) (answer, error) {
	return w.as(ctx, "", "", args...)
}

// must runs a command that has to succeed for the walk to go on.
func (w *walk) must(ctx context.Context, args ...string) (answer, error) {
	a, err := w.comb(ctx, args...)
	if err == nil && a.code != 0 {
		err = fmt.Errorf("comb %s ends with %d: %s", strings.Join(args, " "), a.code, a.all())
	}
	return a, err
}

// read decodes what a command prints as JSON.
func (w *walk) read(ctx context.Context, into any, args ...string) error {
	a, err := w.must(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(a.out), into); err != nil {
		return fmt.Errorf("comb %s -o json: %w", strings.Join(args, " "), err)
	}
	return nil
}

// job is a job as the command line tells it.
func (w *walk) job(ctx context.Context, name string) (rest.Job, error) {
	var j rest.Job
	return j, w.read(ctx, &j, "job", "get", name)
}

// until asks for a job until it is as wanted.
func (w *walk) until(ctx context.Context, name, want string, ok func(rest.Job) bool) (rest.Job, error) {
	for end := time.Now().Add(patience); ; time.Sleep(glance) {
		j, err := w.job(ctx, name)
		if err != nil || ok(j) {
			return j, err
		}
		if time.Now().After(end) {
			return j, fmt.Errorf("job %s is not %s after %v: it is %s", name, want, patience, j.Phase)
		}
	}
}

// ended waits for a job's end by comb job wait.
func (w *walk) ended(ctx context.Context, name string) (rest.Job, error) {
	a, err := w.comb(ctx, "job", "wait", name)
	if err != nil {
		return rest.Job{}, err
	}
	if a.code != 0 && a.code != 10 && a.code != 11 {
		return rest.Job{}, fmt.Errorf("comb job wait %s ends with %d: %s", name, a.code, a.all())
	}
	j, err := w.job(ctx, name)
	w.jobs[name] = j
	return j, err
}

// write puts a file into the user's folder.
func (w *walk) write(name, text string) (string, error) {
	path := filepath.Join(w.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}
