package walk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
)

// jobFile trains on GPUs of red with checkpoints: %d steps of 20 ms.
const jobFile = `protocolVersion: 2
name: %s
type: job
taskRoles:
  worker:
    instances: 1
    completion: {minFailedInstances: 1, minSucceededInstances: 1}
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 2}
    commands:
    - exec train -alone -steps %d -step-time 20ms -seed 7%s
defaults: {virtualCluster: red}
extras:
  hivedScheduler: {jobPriorityClass: test}
  comb: {grace: 10s, checkpoint: true}
`

func (w *walk) path(name string) string { return filepath.Join(w.dir, name) }

// trainFile writes a job file of so many steps.
func (w *walk) trainFile(name string, steps int) (string, error) {
	return w.write(name+".yaml", fmt.Sprintf(jobFile, name, steps, ""))
}

// heldTraining is the text of a job file of so many steps, of which half are made until the job is
// released: so it is there for as long as a busy machine needs to look at it.
func (w *walk) heldTraining(name string, steps int) string {
	return fmt.Sprintf(jobFile, name, steps, " -until "+w.path("go-"+name))
}

// release lets trainings that are held go on.
func (w *walk) release(names ...string) (err error) {
	for _, name := range names {
		_, failed := w.write("go-"+name, "")
		err = errors.Join(err, failed)
	}
	return err
}

// hold starts a job that holds its GPUs until it is stopped, and waits until it runs.
func (w *walk) hold(ctx context.Context, name string, flags ...string) error {
	args := append([]string{"job", "run", "-d", "--name", name}, flags...)
	if _, err := w.must(ctx, append(args, "--", "sleep", "600")...); err != nil {
		return err
	}
	_, err := w.until(ctx, name, "running", running)
	return err
}

// running reports whether all tasks of a job run.
func running(j rest.Job) bool {
	for _, t := range j.Tasks {
		if t.State.String() != "Running" {
			return false
		}
	}
	return len(j.Tasks) > 0
}

// stop stops jobs and waits for their ends.
func (w *walk) stop(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := w.must(ctx, "job", "stop", name, "--wait"); err != nil {
			return err
		}
		j, err := w.job(ctx, name)
		if err != nil {
			return err
		}
		w.jobs[name] = j
	}
	return nil
}

// submitFile: the dry run changes nothing, the submission runs to its end.
func submitFile(ctx context.Context, w *walk) error {
	file, err := w.trainFile("whole", 150)
	if err != nil {
		return err
	}
	dry, err := w.must(ctx, "job", "submit", file, "--dry-run")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(dry.all(), "start"), "the dry run says that it starts now", "%s", dry.all())
	none, err := w.comb(ctx, "job", "get", "whole")
	if err != nil {
		return err
	}
	w.expect(none.code == 3, "a dry run submits nothing", "comb job get whole ends with %d: %s", none.code, none.all())
	if _, err := w.must(ctx, "job", "submit", file); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "tag", "whole", "first"); err != nil {
		return err
	}
	whole, err := w.ended(ctx, "whole")
	if err != nil {
		return err
	}
	tagged, err := w.comb(ctx, "job", "list", "--tag", "first")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(tagged.out, "whole"), "a list finds it by its tag when it has ended", "%s", tagged.all())
	w.expect(whole.Phase == "Succeeded" && len(whole.Tasks) == 1 && len(whole.Tasks[0].Devices) == 2,
		"it succeeds on two GPUs of red", "%s, %s on %s %v", whole.Phase, whole.VC, whole.Tasks[0].Node, whole.Tasks[0].Devices)
	return nil
}

// runCommand: what a command prints and how it ends comes back through job run.
func runCommand(ctx context.Context, w *walk) error {
	good, err := w.comb(ctx, "job", "run", "--vc", "red", "--gpus", "1", "--name", "hello", "--", "sh", "-c", "echo to be or; echo not >&2")
	if err != nil {
		return err
	}
	w.expect(good.code == 0 && strings.Contains(good.out, "to be or") && strings.Contains(good.errs, "not"),
		"exit code 0, its output and its standard error apart", "exit code %d, %q", good.code, good.out)
	bad, err := w.comb(ctx, "job", "run", "--vc", "red", "--gpus", "1", "--name", "wrong", "--", "sh", "-c", "echo no such data >&2; exit 3")
	if err != nil {
		return err
	}
	w.expect(bad.code == 10 && strings.Contains(bad.errs, "no such data"), "a command that fails ends it with 10", "exit code %d: %s", bad.code, bad.all())
	wrong, err := w.job(ctx, "wrong")
	if err != nil {
		return err
	}
	w.expect(wrong.Phase == "Failed" && wrong.Exit != nil && wrong.Exit.Code == 3, "the job tells the command's own exit code", "%s, %+v", wrong.Phase, wrong.Exit)
	w.expect(wrong.ExitClass != nil && wrong.ExitClass.Class == "user" && wrong.ExitClass.Actor == "you", "and that its user must act", "%+v", wrong.ExitClass)
	past, err := w.comb(ctx, "job", "history", "wrong")
	if err != nil {
		return err
	}
	w.expect(past.code == 0 && strings.Contains(past.out, "user: main-0 exit 3"), "its history tells the attempt and whose doing its end was", "%s", past.all())
	again, err := w.comb(ctx, "job", "clone", "hello", "--set", "name=hello-2", "--show")
	if err != nil {
		return err
	}
	w.expect(again.code == 0 && strings.Contains(again.out, "name: hello-2"), "a job can be cloned with changes", "%s", again.all())
	w.jobs["hello"], w.jobs["wrong"] = rest.Job{}, wrong
	return nil
}

// topped: what a job takes is shown while it runs.
func topped(ctx context.Context, w *walk) error {
	if err := w.hold(ctx, "taking", "--vc", "red", "--gpus", "1"); err != nil {
		return err
	}
	var top answer
	for range 50 {
		var err error
		if top, err = w.comb(ctx, "job", "top", "taking"); err != nil {
			return err
		}
		if strings.Contains(top.out, "MiB") {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	w.expect(top.code == 0 && strings.Contains(top.out, "main-0") && strings.Contains(top.out, "MiB"), "its CPUs and its memory", "%s", top.all())
	return w.stop(ctx, "taking")
}

// mistakes: what is wrong with a file or a command line is said with its place, and
// nothing is submitted.
func mistakes(ctx context.Context, w *walk) error {
	file, err := w.write("bad.yaml", "protocolVersion: 2\nname: bad\ntype: jop\ntaskRoles:\n  worker:\n    resourcePerInstance: {gpu: -1}\n    commands: []\n")
	if err != nil {
		return err
	}
	bad, err := w.comb(ctx, "job", "submit", file)
	if err != nil {
		return err
	}
	w.expect(bad.code == 1 && strings.Contains(bad.errs, "bad.yaml:3") && strings.Contains(bad.errs, "bad.yaml:6"),
		"a bad file: every mistake with its line", "exit code %d: %s", bad.code, bad.all())
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"a file that is not there", 3, []string{"job", "submit", w.path("none.yaml")}},
		{"a job that is not there", 3, []string{"job", "get", "none"}},
		{"a virtual cluster that is not there", 1, []string{"job", "run", "--vc", "green", "--gpus", "1", "--", "true"}},
		{"a flag that is not there", 2, []string{"job", "list", "--colour"}},
		{"more GPUs than the virtual cluster has", 1, []string{"job", "run", "--vc", "blue", "--gpus", "2", "--tasks", "2", "--", "true"}},
	} {
		a, err := w.comb(ctx, c.args...)
		if err != nil {
			return err
		}
		w.expect(a.code == c.code && a.errs != "", fmt.Sprintf("%s: exit code %d and why", c.want, c.code), "exit code %d: %s", a.code, a.all())
	}
	return nil
}
