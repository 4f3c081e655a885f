// Package sim has the commands of traces, simulations and scenarios, which need no server. It
// must not know how any of them runs.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

func (a *commands) simCommand() *cobra.Command {
	return cli.Noun("sim", "Simulations: a trace on a cluster under a policy, by the code that runs live", a.simRun(),
		a.simReplay(), a.simSweep(), a.simCompare(), a.simReport())
}

// simFlags are the flags of a simulation.
type simFlags struct {
	trace   traceInput
	file    string
	dir     string
	journal string
	version string // of this program
	// vcPolicies are the values VC=POLICY as given
	vcPolicies []string
	spec       simulate.Spec
}

// speedsUsage describes --throughputs of a simulation.
const speedsUsage = "table of speeds, ours or Gavel's (docs/simulate.md); without one every job has full speed"

// shared adds the flags that a run and a replay share.
func (s *simFlags) shared(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&s.vcPolicies, "vc-policy", nil, "policy of one virtual cluster: VC=NAME[:key=value,...]; may be given several times")
	f.StringVar(&s.spec.RestartCost, "restart-cost", "", "SECONDS, or log2:SECONDS (times 1 + log2 of the GPUs), of each start after the first")
	f.StringVar(&s.spec.Noise, "noise", "", "how wrong policies are about run times: survey or uniform:PERCENT")
	f.StringVar(&s.spec.Without, "without", "", "effects on speed to switch off, joined by commas: "+perf.EffectNames())
	f.StringVar(&s.spec.Spreads, "spreads", "", "file with the speed of models on several nodes (Chronus' model_info.json)")
	f.Uint64Var(&s.spec.Seed, "seed", 1, "seed of everything random")
	f.StringVar(&s.journal, "journal", "", "also write the journal to this file, for comb journal verify, comb sim replay and comb sim report")
	f.StringVarP(&s.dir, "output", "o", "", "folder for the results")
}

func (s *simFlags) flags(c *cobra.Command) {
	s.trace.flags(c)
	s.shared(c)
	f := c.Flags()
	f.Lookup("throughputs").Usage = speedsUsage + "; a gavel trace needs Gavel's"
	f.Lookup("gpu").Usage = "GPU type of the table of throughputs that run times are for, such as v100"
	f.StringVar(&s.file, "trace", "", "trace to replay")
	f.StringVar(&s.spec.Cluster, "cluster", "", "NODESxGPUS[:TYPE],..., such as 64x8, or a cluster file")
	f.Int32Var(&s.spec.Racks, "racks", 0, "racks that the nodes of each kind stand in; 0 is none")
	f.StringVar(&s.spec.Policy, "policy", "fifo", "NAME[:key=value,...], such as las:limits=3250/7200; backfill, minRun, defragmentation and budget are the virtual cluster's")
	f.StringVar(&s.spec.VCs, "vcs", "", `"from-trace" divides the nodes among the trace's virtual clusters; or a cluster file, whose virtual clusters own as much here (default: one that has all)`)
	f.StringVar(&s.spec.Placement, "placement", "cells", `"cells", or "count": where GPUs are does not matter`)
	f.StringVar(&s.spec.Quota, "quota", "cells", `"cells", or "count": virtual clusters own numbers of GPUs`)
	f.StringVar((*string)(&s.spec.Shape), "shape", "node", `"node": gangs are full nodes and a remainder; "gpu": each GPU is a task of its own`)
	f.StringVar(&s.spec.Faults, "faults", "", "MTBF,REPAIR of each node in seconds, leaf:MTBF,REPAIR of each device, or both joined by a slash")
	f.StringVar(&s.spec.Failures, "failures", "", "PERCENT,SECONDS[,RETRIES]: so many of the jobs fail, after so long in the mean, and again each time that they are retried (default: never)")
	f.Float64Var(&s.spec.Load, "load", 0, "factor by which jobs arrive faster (default 1)")
}

// check reports all that is wrong with the flags at once.
func (s *simFlags) check(c *cobra.Command) error {
	var missing []string
	for _, f := range []struct{ name, value string }{{"--trace", s.file}, {"--cluster", s.spec.Cluster},
		{"-o", s.dir}} {
		if f.value == "" {
			missing = append(missing, f.name)
		}
	}
	var wrong []error
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Errorf("give %s", strings.Join(missing, ", ")))
	}
	if s.file != "" {
		wrong = append(wrong, checkTrace(s.file))
	}
	if c.Flags().Changed("load") && s.spec.Load == 0 { // elsewhere 0 is the default
		wrong = append(wrong, errors.New("--load: want a number from 0.001 to 1000, found 0"))
	}
	s.spec.Throughputs, s.spec.GPU = s.trace.throughputs, s.trace.GPU
	wrong = append(wrong, s.trace.check(), s.readVCPolicies(), s.spec.Check(policy.New))
	if err := errors.Join(wrong...); err != nil {
		return cli.UsageError{Command: c, Err: err}
	}
	return nil
}

// checkTrace refuses a file that cannot be read more than once.
func checkTrace(file string) error {
	switch info, err := os.Stat(file); {
	case file == "-":
		return errors.New("--trace: a simulation reads its trace more than once; give a file, not standard input")
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--trace: there is no file %q", file)
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("--trace: %s is no regular file, and a simulation reads its trace more than once; name the file with the jobs in it", file)
	}
	return nil // other problems show when it is opened
}

// readVCPolicies reads the values of --vc-policy. A policy may contain commas.
func (s *simFlags) readVCPolicies() error {
	var wrong []error
	s.spec.VCPolicies = map[string]string{}
	for _, text := range s.vcPolicies {
		vc, policy, ok := strings.Cut(text, "=")
		if _, twice := s.spec.VCPolicies[vc]; twice {
			wrong = append(wrong, fmt.Errorf("--vc-policy: the virtual cluster %q has two policies", vc))
		} else if !ok || vc == "" || policy == "" {
			wrong = append(wrong, fmt.Errorf("--vc-policy %q: want VC=NAME[:key=value,...]", text))
		} else {
			s.spec.VCPolicies[vc] = policy
		}
	}
	return errors.Join(wrong...)
}

func (a *commands) simRun() *cobra.Command {
	s := simFlags{version: a.Version}
	c := &cobra.Command{Use: "run", Short: "Replay a trace and write what came of it",
		Long: `Replay a trace on a cluster under a policy, with the decision code that runs live,
and write summary.json, jobs.csv, timeline.csv, report.html (no network needed) and
manifest.json into a folder. Equal inputs and seed give equal bytes, but for the
three figures of what the run took.`,
		Example: "  comb sim run --trace philly_jobs.csv.gz --cluster 64x8 --vcs from-trace --policy las -o out/las",
		Args:    cli.Args(cobra.NoArgs)}
	s.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := s.check(c); err != nil {
			return err
		}
		if err := a.KeepApart(c, append(s.spec.Files(), s.trace.reads(s.file)...), s.writes()...); err != nil {
			return err
		}
		t, err := s.trace.source(s.file)
		if err != nil {
			return err
		}
		r, err := s.run(func(out simulate.Folder, o simulate.Options) (*simulate.Result, error) {
			return simulate.RunInto(c.Context(), out, s.spec, t, o)
		})
		if err != nil {
			return traceError(err)
		}
		return a.Show(r.Summary, func(t *cli.Table) { drawRun(t, s.dir, r) })
	}
	return c
}

// writes are the files that a simulation writes.
func (s *simFlags) writes() []cli.Writes {
	all := []cli.Writes{{Flag: "-o", Files: simulate.Folder{Dir: s.dir}.Files()}}
	if s.journal != "" {
		all = append(all, cli.Writes{Flag: "--journal", Files: []string{s.journal, store.Unfinished(s.journal)}})
	}
	return all
}

// run runs a simulation into the folder and the journal of the flags.
func (s *simFlags) run(sim func(simulate.Folder, simulate.Options) (*simulate.Result, error)) (r *simulate.Result,
	err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(simulate.GCPercent)
	}
	began := time.Now()
	p := runProgress{w: os.Stderr, shown: cli.IsTerminal(os.Stderr)}
	out := simulate.Folder{Dir: s.dir, Version: s.version, Date: began.UTC().Format(time.DateOnly),
		Cost: func() metrics.Cost { return costSince(began) }}
	err = journalled(s.journal, func(o simulate.Options) (err error) {
		if o.OnBatch = p.batch; !p.shown {
			o.OnBatch = nil
		}
		r, err = sim(out, o)
		return err
	})
	p.end()
	return r, err
}

// runProgress shows the progress of a run on a terminal.
type runProgress struct {
	w          io.Writer
	shown      bool
	jobs, over int
	begin      model.Time
	last       time.Time // when it was last shown
}

// batch counts jobs, and shows them twice a second.
func (p *runProgress) batch(b engine.Batch) {
	for i := range b.Records {
		switch b.Records[i].Event.(type) {
		case model.JobSubmitted:
			p.jobs++
		case model.JobEnded:
			p.over++
		}
	}
	if n := len(b.Records); n > 0 && time.Since(p.last) > time.Second/2 {
		at := b.Records[n-1].Time
		if p.begin == 0 {
			p.begin = at
		}
		p.last = time.Now()
		fmt.Fprintf(p.w, "\r\x1b[Kday %.1f: %s submitted, %d ended", float64(at-p.begin)/float64(24*model.Hour),
			cli.Count(p.jobs, "job", "jobs"), p.over)
	}
}

// end removes the line.
func (p *runProgress) end() {
	if !p.last.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// journalled runs a simulation whose journal goes to a file; without a name it is in memory.
// A failed run leaves no file.
func journalled(file string, run func(simulate.Options) error) error {
	o := simulate.Options{Policies: policy.New}
	if file == "" {
		return run(o)
	}
	w, err := store.CreateFile(file)
	if err != nil {
		return err
	}
	o.Journal = w
	if err := run(o); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// traceError adds how to continue after a bad row.
func traceError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return badTrace(err)
}

// drawRun prints the main figures.
func drawRun(t *cli.Table, dir string, r *simulate.Result) {
	s := &r.Summary
	t.Row("jobs", fmt.Sprintf("%d, of which %d ended", s.Jobs, s.Finished))
	if p := r.Replayed; p != nil {
		t.Row("replayed", fmt.Sprintf("%s, %s, %s and %s", cli.Count(p.Jobs, "job", "jobs"),
			cli.Count(p.Stops, "stop", "stops"),
			cli.Count(p.NodeFaults, "node fault", "node faults"), cli.Count(p.LeafFaults, "device fault",
				"device faults")))
		if p.Censored > 0 {
			t.Row("censored", cli.Count(p.Censored, "job", "jobs")+" that had not ended: their work is what they had done")
		}
		if p.LeftOut > 0 {
			t.Row("left out", cli.Count(p.LeftOut, "job", "jobs")+" that had neither run nor ended")
		}
		for _, c := range p.NotRepeated {
			t.Row("not repeated", fmt.Sprintf("%s (%s)", cli.Number(c.N), c.What))
		}
	}
	for _, c := range r.Trace.Bad {
		t.Row("bad rows", cli.Number(c.N)+" passed over ("+c.What+")")
	}
	for _, c := range r.KeptOff {
		t.Row("kept off "+c.What, cli.Count(c.N, "job", "jobs")+" whose throughput there is 0")
	}
	for _, c := range r.Ignored {
		t.Row("not looked at", fmt.Sprintf("%s (of %s)", c.What, cli.Count(c.N, "job", "jobs")))
	}
	if r.Timeless > 0 {
		t.Row("without run time", cli.Count(r.Timeless, "job, which ends as soon as it starts",
			"jobs, which end as soon as they start"))
	}
	for _, f := range r.Refusals {
		t.Row("refused", f.String())
	}
	if s.Finished > 0 { // else there is no mean
		t.Row("JCT", fmt.Sprintf("%.0f s on average, median %.0f s, p95 %.0f s", s.JCTAvg, s.JCTP50, s.JCTP95))
		t.Row("queueing", fmt.Sprintf("%.0f s on average: %.0f s while the guarantee was used up, %.0f s while enough was free (shape, hardware or jobs ahead)", s.QueueAvg, s.QueueFairShareAvg, s.QueueFragmentationAvg))
		t.Row("makespan", fmt.Sprintf("%.0f s", s.Makespan))
	}
	t.Row("utilization", fmt.Sprintf("%.1f %%", 100*s.GPUUtilization))
	t.Row("preemptions", cli.Number(s.Preemptions))
	t.Row("took", fmt.Sprintf("%.1f s of CPU, %d events, %d MiB", s.CPU, r.Records, s.PeakRSS>>20))
	t.Row("results", filepath.Join(dir, "report.html"))
}

// costSince measures what this program used since a moment.
func costSince(began time.Time) metrics.Cost {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return metrics.Cost{}
	}
	cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	return metrics.Cost{CPU: metrics.Number(cpu.Seconds()), Wall: metrics.Number(time.Since(began).Seconds()),
		PeakRSS: u.Maxrss << 10}
}

func (a *commands) simCompare() *cobra.Command {
	var html string
	vcs := false
	c := &cobra.Command{Use: "compare DIR...", Short: "Compare the results of several runs",
		Long: `Compare the folders of several runs: one column a run, the best of each figure
marked, with the difference to the first. The folder of a sweep stands for all of
its runs. Runs of different traces are warned of.`,
		Args: cli.Args(cobra.MinimumNArgs(1))}
	c.Flags().StringVar(&html, "html", "", "also write a page with the plots of all runs")
	c.Flags().BoolVar(&vcs, "vcs", false, "also compare the figures of each virtual cluster")
	c.RunE = func(c *cobra.Command, dirs []string) error {
		if err := a.KeepApart(c, dirs, cli.Writes{Flag: "--html", Files: []string{html}}); err != nil {
			return err
		}
		dirs, err := metrics.Folders(dirs)
		if err != nil {
			return err
		}
		cmp, err := metrics.Compare(dirs)
		if err != nil {
			return err
		}
		for _, w := range metrics.Warnings(dirs) {
			fmt.Fprintf(a.Errs, "warning: %s\n", cli.Clean(w, false))
		}
		if vcs {
			cmp.AddVCs()
		}
		if html != "" {
			if err := writeFile(html, cmp.WriteHTML); err != nil {
				return err
			}
		}
		if a.Format == "table" {
			return cmp.WriteText(a.Out)
		}
		return a.Show(cmp, nil)
	}
	return c
}

func (a *commands) simReport() *cobra.Command {
	report := cli.Noun("report", "Studies of the results of a run")
	var html string
	c := &cobra.Command{Use: "philly DIR|JOURNAL", Short: "The study of the Philly trace (ATC'19), of your own run or cluster",
		Long: `Delay by cause and gang size, utilization by size, locality and co-location,
failures by class and size, GPU time by final state: of the results of a run, of the
data directory of a server, or of a journal that "comb sim run --journal" wrote.`,
		Args: cli.Args(cobra.ExactArgs(1))}
	c.Flags().StringVar(&html, "html", "", "also write it as a page")
	c.RunE = func(c *cobra.Command, dirs []string) error {
		if err := a.KeepApart(c, dirs, cli.Writes{Flag: "--html", Files: []string{html}}); err != nil {
			return err
		}
		r, err := phillyOf(c.Context(), dirs[0])
		if err != nil {
			return err
		}
		if html != "" {
			if err := writeFile(html, r.WriteHTML); err != nil {
				return err
			}
		}
		if a.Format == "table" {
			return r.WriteText(a.Out)
		}
		return a.Show(r, nil)
	}
	report.AddCommand(c)
	return report
}

// phillyOf makes the study of a folder of results or of a journal.
func phillyOf(ctx context.Context, path string) (*metrics.PhillyReport, error) {
	if _, err := os.Stat(filepath.Join(path, "jobs.csv")); err == nil {
		return metrics.PhillyOf(path)
	}
	h, err := openJournal(ctx, path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return metrics.PhillyOfEvents(func(f func(model.Record) error) error { return h.Replay(ctx, 0, f) })
}

// openJournal opens a data directory or the file of a journal. Any other folder gets an error
// of its own.
func openJournal(ctx context.Context, path string) (store.History, error) {
	h, err := store.OpenHistory(ctx, path)
	switch info, wrong := os.Stat(path); {
	case errors.Is(wrong, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read %s: %w", path, errors.Unwrap(wrong))
	case err == nil || wrong != nil || !info.IsDir():
		return h, err
	}
	if _, missing := os.Stat(filepath.Join(path, "manifest.json")); missing == nil {
		return nil, fmt.Errorf("%s is a folder of results, which has no journal; comb sim run --journal FILE writes one beside it", path)
	}
	return nil, fmt.Errorf("%w\n  %s is no folder of results of comb sim run either", err, path)
}

// writeFile creates a file that write fills.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// commands are the commands of traces and simulations.
type commands struct{ *cli.App }

// Commands are all commands of this package.
func Commands(of *cli.App) []*cobra.Command {
	a := &commands{of}
	return []*cobra.Command{a.scriptCommand(), a.traceCommand(), a.simCommand()}
}
