package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

func (a *commands) traceCommand() *cobra.Command {
	return cli.Noun("trace", "Traces: lists of jobs of public and own clusters (docs/traces.md)", a.traceInfo(),
		a.traceConvert(), a.traceGenerate())
}

// traceInput are the flags of the commands that read a trace.
type traceInput struct {
	trace.Options
	throughputs string
	format      string
}

func (in *traceInput) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&in.format, "format", "auto", "format of the trace: "+trace.FormatNames())
	f.BoolVar(&in.Lenient, "lenient", false, "pass over bad rows and count them")
	f.StringVar(&in.throughputs, "throughputs", "", "table of throughputs (Gavel's JSON); a gavel trace needs it")
	f.StringVar(&in.GPU, "gpu", "", "GPU type of that table for which a gavel trace gets its run times, such as v100")
	f.StringVar(&in.VC, "vc", "", "virtual cluster of the jobs for which the trace names none")
	f.StringVar(&in.JobTable, "job-table", "", "pai_job_table of an alibaba2020 trace (default: the one beside the task table)")
}

// reads are the files that are read for a trace.
func (in *traceInput) reads(file string) []string {
	o := in.Options
	o.Format = trace.Format(in.format)
	return []string{file, in.throughputs, trace.JobTable(file, o)}
}

// check checks that the format exists.
func (in *traceInput) check() error {
	if !slices.Contains(strings.Split(trace.FormatNames(), ", "), in.format) {
		return fmt.Errorf("--format %q: want one of %s", in.format, trace.FormatNames())
	}
	return nil
}

// prepare reads the files of the options.
func (in *traceInput) prepare() error {
	in.Format = trace.Format(in.format)
	if in.throughputs == "" {
		return nil
	}
	var err error
	in.Throughputs, _, err = trace.ReadSpeeds(in.throughputs)
	return err
}

// source is a trace to simulate.
func (in *traceInput) source(file string) (*simulate.Trace, error) {
	err := in.prepare()
	return &simulate.Trace{Path: file, Options: in.Options}, err
}

// open opens a trace. "-" is standard input, which stream then opens.
func (in *traceInput) open(a *commands, c *cobra.Command, file string,
	stream func(string, io.Reader, trace.Options) (*trace.Reader, error)) (*trace.Reader, error) {
	if err := in.prepare(); err != nil {
		return nil, err
	}
	if file == "-" {
		r, err := stream("standard input", untilDone(c.Context(), a.In), in.Options)
		if err != nil && c.Context().Err() != nil {
			err = c.Context().Err()
		}
		return r, err
	}
	r, err := trace.Open(file, in.Options)
	if err == nil {
		context.AfterFunc(c.Context(), func() { _ = r.Close() })
	}
	return r, err
}

// untilDone reads a stream until the command is interrupted. Otherwise a Read from a pipe
// into which nothing is written could not be ended.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	out, fill := io.Pipe()
	context.AfterFunc(ctx, func() { _ = fill.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(fill, in)
		_ = fill.CloseWithError(err)
	}()
	return out
}

// goodJobs yields the jobs of a trace until the command is interrupted. Bad rows become one
// error at the end, or when there are many.
func goodJobs(ctx context.Context, jobs iter.Seq2[trace.Job, error]) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		n := 0
		for j, err := range trace.Good(jobs) {
			if n++; (n%4096 == 0 || err != nil) && ctx.Err() != nil { // the file was closed because of that
				yield(j, ctx.Err())
				return
			}
			if err != nil {
				err = badTrace(err)
			}
			if !yield(j, err) {
				return
			}
		}
	}
}

// badTrace adds to bad rows of a trace how to go on without them.
func badTrace(err error) error {
	var one *trace.Error
	if !errors.As(err, &one) || !one.Row {
		return err
	}
	var rows trace.BadRows
	if errors.As(err, &rows) && len(rows) == trace.ShownErrors {
		err = fmt.Errorf("%w\n(there may be more)", err)
	}
	return cli.Hint{Err: err, Next: "correct the file, or pass over bad rows with --lenient"}
}

// traceReport is what comb trace info shows.
type traceReport struct {
	File    string        `json:"file"`
	Format  trace.Format  `json:"format"`
	Skipped []trace.Count `json:"skipped,omitempty"` // entries that are not GPU jobs
	Bad     []trace.Count `json:"bad,omitempty"`     // rows that --lenient skipped
	Mended  []trace.Count `json:"mended,omitempty"`
	*trace.Summary
}

func (a *commands) traceInfo() *cobra.Command {
	in, cluster := traceInput{}, ""
	c := &cobra.Command{Use: "info FILE", Short: "Show what a trace holds",
		Long: `Show what a trace holds: jobs, time span, virtual clusters, users, GPU sizes, run
times, GPU-hours, and with --cluster the load that it would be. The file may be
packed with gzip; "-" reads standard input.`,
		Example: "  comb trace info philly_jobs.csv.gz --cluster 64x8",
		Args:    cli.Args(cobra.ExactArgs(1))}
	in.flags(c)
	c.Flags().StringVar(&cluster, "cluster", "", "cluster to compare with: NODESxGPUS[:TYPE],... such as 64x8")
	c.RunE = func(c *cobra.Command, args []string) error {
		shapes, err := shapesOf(c, cluster)
		if err != nil {
			return err
		}
		r, err := in.open(a, c, args[0], trace.NewReader)
		if err != nil {
			return err
		}
		defer r.Close()
		s, err := trace.Summarize(goodJobs(c.Context(), r.Jobs()), shapes)
		if err != nil {
			return err
		}
		out := traceReport{args[0], r.Format(), r.Skipped(), r.Bad(), r.Odd(), s}
		return a.Show(out, func(t *cli.Table) { drawTrace(t, &out) })
	}
	return c
}

func shapesOf(c *cobra.Command, cluster string) ([]trace.NodeGroup, error) {
	if cluster == "" {
		return nil, nil
	}
	shapes, err := trace.ParseNodeGroups(cluster)
	if err != nil {
		return nil, cli.Usage(c, "--cluster: %w", err)
	}
	return shapes, nil
}

func drawTrace(t *cli.Table, r *traceReport) {
	t.Row("format", string(r.Format))
	t.Row("jobs", cli.Number(r.Jobs))
	for _, c := range r.Skipped {
		t.Row("skipped", cli.Number(c.N)+" ("+c.What+")")
	}
	for _, c := range r.Bad {
		t.Row("bad", cli.Number(c.N)+" ("+c.What+")")
	}
	for _, c := range r.Mended {
		t.Row("mended", cli.Number(c.N)+" ("+c.What+")")
	}
	if r.WithoutDuration > 0 {
		t.Row("without run time", cli.Number(r.WithoutDuration))
	}
	t.Row("span", fmt.Sprintf("%.2f days", r.SpanS/86400))
	t.Row("users", cli.Number(r.Users))
	if r.Apps > 0 {
		t.Row("apps", cli.Number(r.Apps))
	}
	t.Row("GPU-hours", hours(r.GPUHours))
	t.Row("GPUs per job", fmt.Sprintf("%.2f on average, at most %d", r.MeanGPUs, r.LargestGang))
	if l := r.Load; l != nil {
		t.Row("load", fmt.Sprintf("%.3f of %d GPUs", l.Load, l.GPUs))
		if l.TooLarge > 0 {
			t.Row("too large", cli.Count(l.TooLarge, "job needs", "jobs need")+" more GPUs than there are")
		}
	}
	t.Row("classes", countList(r.Classes))
	t.Row("outcomes", countList(r.Outcomes))
	t.Row("models", countList(r.Models))
	t.Row("GPU types", countList(r.SKUs))
	d := r.DurationS
	t.Line("")
	t.Head("RUN TIME", "MEAN", "MIN", "P10", "P25", "P50", "P75", "P90", "P95", "P99", "MAX")
	t.Row("seconds", whole(d.Mean), whole(d.Min), whole(d.P10), whole(d.P25), whole(d.P50), whole(d.P75), whole(d.P90),
		whole(d.P95), whole(d.P99), whole(d.Max))
	t.Line("")
	t.Head("GPUS", "JOBS", "SHARE", "GPU-HOURS", "SHARE")
	for _, s := range r.Sizes {
		t.Row(cli.Number(s.GPUs), cli.Number(s.Jobs), percent(float64(s.Jobs), float64(r.Jobs)), hours(s.GPUHours),
			percent(s.GPUHours, r.GPUHours))
	}
	t.Line("")
	t.Head("VC", "JOBS", "USERS", "GPU-HOURS", "SHARE", "LARGEST GANG")
	for _, v := range r.VCs {
		t.Row(v.Name, cli.Number(v.Jobs), cli.Number(v.Users), hours(v.GPUHours), percent(v.GPUHours, r.GPUHours),
			cli.Number(v.LargestGang))
	}
}

func hours(h float64) string { return strconv.FormatFloat(h, 'f', 1, 64) }
func whole(s float64) string { return strconv.FormatFloat(s, 'f', 0, 64) }

func percent(part, all float64) string {
	if all == 0 {
		return ""
	}
	return strconv.FormatFloat(100*part/all, 'f', 2, 64) + "%"
}

func countList(list []trace.Count) string {
	var out []string
	for _, c := range list {
		out = append(out, c.What+" "+cli.Number(c.N))
	}
	return strings.Join(out, ", ")
}
