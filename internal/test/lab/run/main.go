// Command run runs what the lab offers: the five experiments, the walk through the
// whole product, or the figures.
//
//	run demo  [-bin bin] [-files testdata/lab] [-evidence bin/demo-evidence] [-keep]
//	run walk  [-bin bin]
//	run portal [-bin bin] [-listen 127.0.0.1:8420]
//	run bench [-bin bin] [-files testdata/lab] [-jobs 100000]
//	run core  [-only load-4096] [-cpuprofile file]
//	run sim   [-bin bin] [-only philly-las] [-cpuprofile file]
//
// It exits with 0 when every expectation was met, 1 when one was not, and 2 when
// it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/walk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "run: say what: demo, walk, portal, bench, core or sim")
		os.Exit(2)
	}
	o := lab.Options{Out: os.Stdout}
	f := flag.NewFlagSet("run "+os.Args[1], flag.ExitOnError)
	f.StringVar(&o.Bin, "bin", "bin", "folder with comb and train")
	f.StringVar(&o.Files, "files", "testdata/lab", "folder with the job and cluster files")
	f.StringVar(&o.Evidence, "evidence", "bin/demo-evidence", "folder that keeps what was observed; it is emptied first")
	f.BoolVar(&o.Keep, "keep", false, "keep the data directory")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8420", "portal: where the server listens")
	f.IntVar(&o.Jobs, "jobs", 100_000, "bench: jobs that are journalled before the recovery is measured")
	f.StringVar(&o.Only, "only", "", "core, sim: only the figures whose name contains this")
	kept := f.String("kept", "", "walk: a new folder that gets the data directory in the end")
	profile := f.String("cpuprofile", "", "core, sim: write a profile of the processor's time to this file")
	f.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "demo":
		err = lab.Demo(ctx, o)
	case "walk":
		err = walk.Run(ctx, walk.Options{Bin: o.Bin, Out: o.Out, Keep: *kept})
	case "portal":
		err = lab.Portal(ctx, o)
	case "bench":
		err = lab.Bench(ctx, o)
	case "core":
		err = profiled(ctx, o, *profile, lab.BenchCore)
	case "sim":
		err = profiled(ctx, o, *profile, lab.BenchSim)
	default:
		err = errors.New("unknown: say demo, walk, portal, bench, core or sim")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "run %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// profiled measures, with a profile if a file is named for it.
func profiled(ctx context.Context, o lab.Options, profile string, measure func(context.Context, lab.Options) error) error {
	if profile == "" {
		return measure(ctx, o)
	}
	f, err := os.Create(profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	err = measure(ctx, o)
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}
