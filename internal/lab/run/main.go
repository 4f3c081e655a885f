// Command run runs what the lab offers: the five experiments, or the figures.
//
//	run demo  [-bin bin] [-files testdata/lab] [-evidence bin/demo-evidence] [-keep]
//	run bench [-bin bin] [-files testdata/lab] [-jobs 100000]
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
	"syscall"

	"github.com/combsched/comb/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "run: say what: demo or bench")
		os.Exit(2)
	}
	o := lab.Options{Out: os.Stdout}
	f := flag.NewFlagSet("run "+os.Args[1], flag.ExitOnError)
	f.StringVar(&o.Bin, "bin", "bin", "folder with comb and train")
	f.StringVar(&o.Files, "files", "testdata/lab", "folder with the job and cluster files")
	f.StringVar(&o.Evidence, "evidence", "bin/demo-evidence", "folder that keeps what was observed; it is emptied first")
	f.BoolVar(&o.Keep, "keep", false, "keep the data directory")
	f.IntVar(&o.Jobs, "jobs", 100_000, "bench: jobs that are journalled before the recovery is measured")
	f.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "demo":
		err = lab.Demo(ctx, o)
	case "bench":
		err = lab.Bench(ctx, o)
	default:
		err = errors.New("unknown: say demo or bench")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "run %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
