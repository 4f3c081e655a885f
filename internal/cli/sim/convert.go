package sim

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/spec/trace"
)

// traceOutput are the flags of the commands that write a trace. Their --output is a file, and
// hides the global flag for the format of tables.
type traceOutput struct{ file, to string }

func (o *traceOutput) flags(c *cobra.Command) {
	c.Flags().StringVarP(&o.file, "output", "o", "", `file to write, packed when it ends with .gz; "-" is standard output`)
	c.Flags().StringVar(&o.to, "to", "comb", "format to write: comb, tiresias, philly-csv or chronus")
}

// create creates the file.
func (o *traceOutput) create(a *commands, c *cobra.Command) (*trace.Writer, error) {
	known := false
	for _, f := range trace.Writable() {
		known = known || string(f) == o.to
	}
	switch {
	case !known:
		return nil, cli.Usage(c, "--to %q: want comb, tiresias, philly-csv or chronus", o.to)
	case o.file == "":
		return nil, cli.Usage(c, "name the file to write with -o")
	case !c.Flags().Changed("to") && strings.HasSuffix(strings.TrimSuffix(o.file, ".gz"), ".csv"):
		return nil, cli.Usage(c, "the comb format is no table: name a file such as trace.jsonl, or say --to philly-csv, tiresias or chronus for %s", o.file)
	case o.file == "-":
		return trace.NewWriter(a.Out, trace.Format(o.to))
	}
	if info, err := os.Stat(o.file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file; name another one, or - for standard output", o.file)
	}
	return trace.Create(o.file, trace.Format(o.to))
}

// write writes all jobs. What the format cannot carry is reported on stderr, like everything
// else, so that standard output is only the trace.
func (o *traceOutput) write(a *commands, c *cobra.Command, jobs iter.Seq2[trace.Job, error]) error {
	w, err := o.create(a, c)
	if err != nil {
		return err
	}
	for j, err := range jobs {
		if err == nil {
			err = w.Write(&j)
		}
		if err != nil {
			w.Abort()
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	to := o.file
	if to == "-" {
		to = "standard output"
	}
	fmt.Fprintf(a.Errs, "wrote %s to %s (%s)\n", cli.Count(w.Jobs(), "job", "jobs"), cli.Clean(to, false), o.to)
	var lost, rounded []trace.Count
	for _, l := range w.Lost() {
		if what, is := strings.CutSuffix(l.What, " rounded"); is {
			rounded = append(rounded, trace.Count{What: what, N: l.N})
		} else {
			lost = append(lost, l)
		}
	}
	tellCounts(a.Errs, "lost: "+o.to+" has no place for", lost)
	tellCounts(a.Errs, "rounded to what "+o.to+" has:", rounded)
	return nil
}

func tellCounts(out io.Writer, what string, list []trace.Count) {
	for _, c := range list {
		fmt.Fprintf(out, "%s %s (%s)\n", what, cli.Clean(c.What, false), cli.Count(c.N, "job", "jobs"))
	}
}

func (a *commands) traceConvert() *cobra.Command {
	in, out := traceInput{}, traceOutput{}
	c := &cobra.Command{Use: "convert [flags] IN -o OUT", Short: "Write a trace in another format",
		Long: `Write a trace in another format, its jobs in order of submission. The comb format
carries everything; what another one has no place for is counted and told.`,
		Example: "  comb trace convert cluster_job_log.json -o philly.jsonl.gz",
		Args:    cli.Args(cobra.ExactArgs(1))}
	in.flags(c)
	out.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.KeepApart(c, in.reads(args[0]), cli.Writes{Flag: "-o", Files: []string{out.file}}); err != nil {
			return err
		}
		r, err := in.open(a, c, args[0], trace.OpenStream)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := out.write(a, c, goodJobs(c.Context(), r.InOrder())); err != nil {
			return err
		}
		fmt.Fprintf(a.Errs, "read as %s\n", r.Format())
		tellCounts(a.Errs, "passed over:", r.Skipped())
		tellCounts(a.Errs, "passed over, bad:", r.Bad())
		for _, m := range r.Odd() {
			fmt.Fprintf(a.Errs, "mended: %s (%d times)\n", cli.Clean(m.What, false), m.N)
		}
		return nil
	}
	return c
}

func (a *commands) traceGenerate() *cobra.Command {
	spec, out := trace.Spec{}, traceOutput{}
	cluster, load, slo, mix := "", "", "", ""
	about := "Generate a trace from a seed: the same flags give the same bytes on every machine.\nThe kinds, whose sources are in docs/traces.md:\n"
	names := ""
	for i, k := range trace.Kinds() {
		about += fmt.Sprintf("\n  %-8s %s", k.Name, k.About)
		if i > 0 {
			names += ", "
		}
		names += k.Name
	}
	c := &cobra.Command{Use: "generate [flags] -o FILE", Short: "Generate a trace with published distributions",
		Long:    about,
		Example: "  comb trace generate --kind philly --jobs 10000 --load 0.9 --cluster 64x8 --slo survey -o trace.jsonl",
		Args:    cli.Args(cobra.NoArgs)}
	f := c.Flags()
	f.StringVar(&spec.Kind, "kind", "philly", names)
	f.Int64Var(&spec.Jobs, "jobs", 1000, "how many jobs")
	f.Uint64Var(&spec.Seed, "seed", 1, "seed")
	f.StringVar(&load, "load", "", "GPU-time asked for, as a part of the cluster's, such as 0.9; sets the rate of arrivals")
	f.StringVar(&cluster, "cluster", "", "cluster for --load; no job is larger: NODESxGPUS,... such as 64x8")
	f.Int64Var(&spec.PerDay, "rate", 0, "jobs a day, instead of --load (default: the kind's own)")
	f.Int64Var(&spec.AppJobs, "app-jobs", 0, "make apps of 1 to so many jobs, alike and submitted together (default: none)")
	f.Int64Var(&spec.Elastic, "elastic", 0, "let jobs have from 1/N to N times their GPUs (default: one size)")
	f.BoolVar(&spec.Loss, "loss", false, "let jobs report a loss that falls")
	f.StringVar(&slo, "slo", "none", "none, or survey: classes, deadlines and estimates as users of Chronus' survey give them")
	f.StringVar(&mix, "slo-mix", "35/35/30", "parts of strict, soft and best-effort jobs under the survey")
	out.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var wrong [5]error // all are reported at once
		spec.Cluster, wrong[0] = shapesOf(c, cluster)
		spec.LoadMilli, wrong[1] = loadOf(c, load)
		if spec.Mix, wrong[2] = trace.ParseMix(mix); wrong[2] != nil {
			wrong[2] = fmt.Errorf("--slo-mix %w", wrong[2])
		}
		if slo != "none" && slo != "survey" {
			wrong[3] = fmt.Errorf("--slo %q: want none or survey", slo)
		}
		spec.Survey = slo == "survey"
		if c.Flags().Changed("slo-mix") && slo == "none" && wrong[2] == nil {
			wrong[2] = errors.New("--slo-mix says which jobs of the survey have deadlines: it wants --slo survey")
		}
		if cluster != "" && wrong[0] != nil { // any cluster will do for the other checks
			spec.Cluster = []trace.NodeGroup{{Nodes: 1 << 20, GPUs: 1}}
		}
		var jobs iter.Seq[trace.Job]
		jobs, wrong[4] = trace.Generate(spec)
		if err := errors.Join(wrong[:]...); err != nil {
			return cli.UsageError{Command: c, Err: err}
		}
		return out.write(a, c, goodJobs(c.Context(), func(yield func(trace.Job, error) bool) {
			jobs(func(j trace.Job) bool { return yield(j, nil) })
		}))
	}
	return c
}

// loadOf reads --load in thousandths.
func loadOf(c *cobra.Command, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0.001 && f <= 1000) {
		return 0, cli.Usage(c, "--load %q: want a number from 0.001 to 1000, such as 0.9", text)
	}
	return int64(f*1000 + 0.5), nil
}
