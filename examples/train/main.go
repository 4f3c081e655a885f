// Command train is a small but real data-parallel training program: synchronous
// stochastic gradient descent on a neural network, with the gradients averaged
// over TCP between the tasks of a gang. It shows what a job under Comb looks
// like, and it serves the demo and the tests.
//
// The tasks find one another through OpenPAI's PAI_* variables; without them the
// program trains alone. A gang of which only a part was started hangs and says
// every second for whom it waits. On SIGTERM all tasks finish the same step, the
// first one writes a checkpoint to COMB_CHECKPOINT_DIR, and all exit; the next
// run resumes there and reaches bit for bit the result of a run that was never
// stopped. Progress goes as JSON lines to COMB_PROGRESS_FILE.
//
// Exit codes: 0 trained; 1 failed (a peer was lost, a disk is full); 2 wrong
// flags or environment; 3 the gang was not complete within -connect-timeout; 143
// stopped by SIGTERM, after the checkpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 3
	exitStopped = 128 + int(syscall.SIGTERM)
)

// Errors that have an exit code of their own.
var (
	errStopped = errors.New("stopped by a signal")
	errTimeout = errors.New("the gang is not complete")
	errUsage   = errors.New("wrong use")
)

// options are the flags.
type options struct {
	steps           uint64
	stepTime        time.Duration
	checkpointEvery uint64
	connectTimeout  time.Duration
	logEvery        uint64
	seed            uint64
	port            string
	alone           bool
	until           string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "train:", err)
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, errStopped):
		return exitStopped
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errUsage):
		return exitUsage
	}
	return exitFailed
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("train", flag.ContinueOnError)
	f.Uint64Var(&o.steps, "steps", 100, "number of steps")
	f.DurationVar(&o.stepTime, "step-time", 0, "least time of one step, as if the model were large")
	f.Uint64Var(&o.checkpointEvery, "checkpoint-every", 0, "steps between checkpoints; 0 saves only on SIGTERM")
	f.DurationVar(&o.connectTimeout, "connect-timeout", 0, "how long to wait for the rest of the gang; 0 waits for ever")
	f.Uint64Var(&o.logEvery, "log-every", 10, "steps between lines of output; 0 prints none")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the data and of the first weights")
	f.StringVar(&o.port, "port", "train", "label of the port in resourcePerInstance.ports")
	f.BoolVar(&o.alone, "alone", false, "train without the other tasks: each task is a run of its own")
	f.StringVar(&o.until, "until", "", "a file: until it is there, half of the steps are made and no more")
	if err := f.Parse(args); err != nil {
		return o, fmt.Errorf("%w: %v", errUsage, err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected argument %q; see -help", errUsage, f.Arg(0))
	}
	if o.stepTime < 0 || o.connectTimeout < 0 {
		return o, fmt.Errorf("%w: -step-time and -connect-timeout cannot be negative", errUsage)
	}
	return o, nil
}

// run trains to the end. It returns errStopped when ctx ended first and the
// checkpoint, if there is a place for it, is safe on disk.
func run(ctx context.Context, args, environ []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	w, err := readWorld(environ, o)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	fmt.Fprintf(out, "began %s pid %d\n", time.Now().Format(time.RFC3339Nano), os.Getpid())
	defer func() { fmt.Fprintf(out, "ended %s\n", time.Now().Format(time.RFC3339Nano)) }()
	t := &trainer{options: o, world: w, out: out, model: newModel(o.seed), store: newStore(w, o)}
	if w.rank == 0 {
		if t.step, err = t.store.load(t.model); err != nil {
			return err
		}
	}
	t.peers, err = connect(ctx, w, t, out)
	if err != nil {
		return err
	}
	defer t.peers.close()
	return t.train(ctx)
}

// trainer is one task's part of the training.
type trainer struct {
	options
	world *world
	out   io.Writer
	model *model
	store *store
	peers *peers
	step  uint64 // steps done; equal in all tasks of the gang
}

func (t *trainer) train(ctx context.Context) error {
	if t.step > 0 {
		fmt.Fprintf(t.out, "resumed at step %d\n", t.step)
	}
	fmt.Fprintf(t.out, "training: task %d of %d, %d steps\n", t.world.rank, len(t.world.tasks), t.steps)
	for t.step < t.steps {
		t.wait(ctx)
		began := time.Now()
		loss, stop, err := t.oneStep(ctx.Err() != nil)
		if err != nil {
			return err
		}
		time.Sleep(t.stepTime - time.Since(began))
		if err := t.tell(loss, time.Since(began), stop); err != nil {
			return err
		}
		if stop && t.step < t.steps {
			fmt.Fprintf(t.out, "stopped at step %d\n", t.step)
			return errStopped
		}
	}
	fmt.Fprintf(t.out, "done: step %d loss %.12g weights %08x\n", t.step, t.model.evaluate(t.seed), t.model.sum())
	return nil
}

// wait keeps a training from its second half until the file of -until is there, for those who have
// to see it run. The tasks beside the first one wait for it in their next step.
func (t *trainer) wait(ctx context.Context) {
	var said time.Time
	for t.until != "" && t.world.rank == 0 && t.step >= t.steps/2 && ctx.Err() == nil {
		if _, err := os.Stat(t.until); err == nil {
			return
		}
		if time.Since(said) >= waitTick {
			said = time.Now()
			fmt.Fprintf(t.out, "waiting at step %d for %s ...\n", t.step, t.until)
		}
		time.Sleep(filePause)
	}
}

// oneStep computes this task's share of the batch, averages with the others and
// moves the weights. stop is true for all tasks when any of them was asked to.
func (t *trainer) oneStep(asked bool) (loss float64, stop bool, err error) {
	m := message{step: t.step, stop: asked, sums: make([]float64, modelSize+1)}
	from, to := share(t.world.rank, len(t.world.tasks))
	m.sums[modelSize] = t.model.gradient(t.seed, t.step*batchSize+from, t.step*batchSize+to, m.sums[:modelSize])
	if err := t.peers.reduce(&m); err != nil {
		return 0, false, err
	}
	t.model.move(m.sums[:modelSize])
	t.step++
	return m.sums[modelSize] / batchSize, m.stop, nil
}

// tell writes the checkpoint when one is due, the progress line and the output.
func (t *trainer) tell(loss float64, took time.Duration, stop bool) error {
	last := t.step == t.steps
	save := t.world.rank == 0 && (stop || t.checkpointEvery > 0 && t.step%t.checkpointEvery == 0)
	if save && t.store.dir != "" {
		if err := t.store.save(t.step, t.model); err != nil {
			return err
		}
	} else {
		save = false
	}
	show := t.logEvery > 0 && t.step%t.logEvery == 0 || last
	if show {
		fmt.Fprintf(t.out, "step %d/%d loss %.6f\n", t.step, t.steps, loss)
	}
	if show || save {
		return t.store.progress(t.step, t.steps, loss, took, save)
	}
	return nil
}
