// Package lab proves Comb on the machine it runs on: it starts the real binary
// as a real server, gives it real jobs, and judges what the event stream and the
// processes' own logs show. It runs the five experiments of `make demo`, the
// figures of `make bench` and, in its tests, the kill loops. It must use Comb
// only as a user could, by its command line and its REST API, and must not
// expect anything that it did not observe.
package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/lab/image"
)

// Options say where things are and go.
type Options struct {
	Bin      string    // folder with the programs comb and train
	Files    string    // folder with the job and cluster files
	Evidence string    // folder that keeps what was observed; made anew
	Out      io.Writer // what happens, live, and the report
	Keep     bool      // keeps the data directory and says where it is
	Jobs     int       // of Bench: journalled before the recovery
	Listen   string    // of Portal: the address; "" is a free port of 127.0.0.1
	Only     string    // of BenchCore: figures whose name contains it; "" is all

	Experiments []int // of Demo: which of the five, by number; nil is all

	Pods *Pods // of Demo: tasks are pods of a Kubernetes cluster; nil: containers or processes of this machine

	trust   bool         // several users may have processes
	runtime string       // of comb serve; "" is process
	image   *image.Image // of the tasks' containers; nil: they are processes
}

// Pods say how tasks become pods.
type Pods struct {
	Args  []string // of comb serve: the executor, a claim for checkpoints, the image of the caretaker
	Image string   // of the tasks, with a shell and train, which the node has: see image.Save
}

// Lab is one server with everything that watches it.
type Lab struct {
	opts   Options
	dir    string // thrown away at the end
	server *Server
	watch  *watch
	start  time.Time
	held   map[string]bool // names of jobs: see hold
}

// experiment is one of the five.
type experiment struct {
	number int
	title  string
	run    func(context.Context, *Lab, *finding) error
}

// Demo runs the five experiments and prints the report. It returns an error when
// an expectation failed or something was left behind; the report says which.
func Demo(ctx context.Context, o Options) (err error) {
	if err := os.RemoveAll(o.Evidence); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Evidence, 0o755); err != nil {
		return err
	}
	if o.Pods != nil {
		fmt.Fprintf(o.Out, "tasks run as pods, of the image %s\n", o.Pods.Image)
	} else if o.runtime, o.image, err = choose(ctx, o); err != nil {
		return err
	}
	l, err := open(ctx, o, "two-vcs.yaml")
	if err != nil {
		return errors.Join(err, o.forget())
	}
	report := &report{lab: l}
	defer func() { err = errors.Join(err, l.close(), o.forget()) }()
	for _, e := range experiments() {
		if o.Experiments != nil && !slices.Contains(o.Experiments, e.number) {
			continue
		}
		if err := l.conduct(ctx, e, report); err != nil {
			return err
		}
	}
	report.add(l.verifyJournal(ctx))
	return report.finish()
}

// choose says what runs the tasks of the experiments: containers, of an image that is made now,
// where an engine answers, else processes.
func choose(ctx context.Context, o Options) (runtime string, made *image.Image, err error) {
	made, err = image.Make(ctx, fmt.Sprintf("comb.local/lab-%d:1", os.Getpid()), filepath.Join(o.Bin, "train"))
	if err != nil {
		fmt.Fprintf(o.Out, "tasks run as processes: %v\n", err)
		return "process", nil, nil
	}
	fmt.Fprintf(o.Out, "tasks run in containers (%s), of an image made now of a shell and bin/train\n", made.Engine)
	return "container", made, nil
}

// forget removes the image.
func (o *Options) forget() error {
	if o.image == nil {
		return nil
	}
	return o.image.Remove(context.Background())
}

// file is the path of a job file for a job: for containers, of a copy that names the image; of one
// that is held, of a copy that waits for what release writes.
func (l *Lab) file(name, job string) (string, error) {
	path, image := filepath.Join(l.opts.Files, name), ""
	switch {
	case l.opts.Pods != nil:
		image = l.opts.Pods.Image
	case l.opts.image != nil:
		image = l.opts.image.Name
	case !l.held[job]:
		return path, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if l.held[job] {
		text = bytes.ReplaceAll(text, []byte("exec train "), []byte("exec train -until $COMB_CHECKPOINT_DIR/go "))
	}
	if l.opts.Pods != nil && name == "vc1-prod.yaml" { // a pod needs seconds to start, and others start while this one runs
		text = bytes.ReplaceAll(text, []byte("-step-time 50ms"), []byte("-step-time 200ms"))
	}
	if image != "" {
		text = bytes.ReplaceAll(text, []byte("uri: example/train"), []byte("uri: "+image))
	}
	path = filepath.Join(l.dir, job+".yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// hold keeps the jobs of these names, of the experiment that begins, from the second half of their
// training until they are released: a busy machine takes longer to look at them than they train.
// The checkpoints of pods are elsewhere, and pods train on.
func (l *Lab) hold(jobs ...string) {
	l.held = map[string]bool{}
	for _, job := range jobs {
		l.held[job] = l.opts.Pods == nil
	}
}

// release lets jobs that are held and run go on.
func (l *Lab) release(jobs ...model.JobID) (err error) {
	for _, id := range jobs {
		if l.opts.Pods == nil {
			at := filepath.Join(l.server.Data, "jobs", fmt.Sprint(id), "checkpoint", "go")
			err = errors.Join(err, os.WriteFile(at, nil, 0o644))
		}
	}
	return err
}

// cluster is the path of a cluster file: of two nodes with a GPU each, or as pods of one node with
// two.
func (o *Options) cluster(name string) string {
	if o.Pods != nil {
		return filepath.Join(o.Files, "pods-"+name)
	}
	return filepath.Join(o.Files, "cluster-"+name)
}

// experimentTime is how long an experiment may take on a busy machine.
const experimentTime = 3 * time.Minute

// open starts a server on a throw-away data directory.
func open(ctx context.Context, o Options, cluster string) (*Lab, error) {
	dir, err := os.MkdirTemp("", "comb-lab-")
	if err != nil {
		return nil, err
	}
	l := &Lab{opts: o, dir: dir, start: time.Now()}
	l.server = &Server{Bin: o.Bin, Data: filepath.Join(dir, "data"), Log: filepath.Join(o.Evidence, "server.log"),
		Args: []string{"--virtual-gpus", "2", "--overcommit", "--runtime", cmp.Or(o.runtime, "process"), "--cluster", o.cluster(cluster)}}
	if o.trust {
		l.server.Args = append(l.server.Args, "--trust-users")
	}
	if o.Pods != nil {
		l.server.Args = append([]string{"--cluster", o.cluster(cluster)}, o.Pods.Args...)
	}
	if err := l.server.Start(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	client, err := l.server.Client()
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.watch = newWatch(client, o.Out)
	l.watch.begin(ctx)
	return l, nil
}

// close ends the server and proves that nothing of it is left.
func (l *Lab) close() error {
	if l.watch != nil {
		l.watch.end()
	}
	errs := []error{l.server.Stop(), Sweep(l.dir)}
	if l.opts.Keep {
		fmt.Fprintf(l.opts.Out, "kept: %s\n", l.dir)
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// conduct runs one experiment and writes its evidence whatever comes of it.
func (l *Lab) conduct(ctx context.Context, e experiment, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, experimentTime)
	defer cancel()
	f := &finding{number: e.number, title: e.title, since: l.watch.seq()}
	l.hold()
	l.watch.heading(fmt.Sprintf("Experiment %d: %s", e.number, e.title))
	if err := e.run(ctx, l, f); err != nil {
		f.check(false, "the experiment ran to its end", "%v", err)
	}
	if err := l.writeEvidence(ctx, f); err != nil {
		return err
	}
	f.print(l.opts.Out)
	r.add(f)
	if ctx.Err() != nil && context.Cause(ctx) == context.Canceled {
		return errors.New("interrupted")
	}
	return nil
}
