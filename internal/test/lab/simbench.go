package lab

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
	"github.com/combsched/comb/internal/spec/trace"
)

// BenchSim measures simulations: events (submissions, starts, stops, exits) for each second that
// this process spent on processors in the loop, with the trace in memory and without results, a
// short trace several times; then whole runs of the program, as they report themselves. It reads
// the public traces below COMB_DATA; what is not there is replaced by a generated trace of the same
// size.
func BenchSim(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "comb-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &simBench{bench: bench{Figures: Figures{o.Out}}, o: o, dir: dir}
	philly := simCase{file: "philly/philly_jobs.csv.gz", jobs: 82_247, spec: simulate.Spec{Cluster: "64x8", VCs: "from-trace"}}
	tiresias := simCase{file: "tiresias/480_synth_job.csv", jobs: 480, spec: simulate.Spec{Cluster: "15x4", Placement: "count"}}
	for _, p := range []string{"fifo", "firstfit", "srtf", "las", "themis", "gandiva"} {
		err = errors.Join(err, b.loop(ctx, philly, p))
	}
	for _, p := range []string{"fifo", "srtf", "las", "gittins", "themis"} {
		err = errors.Join(err, b.loop(ctx, tiresias, p))
	}
	million := simCase{jobs: 1_000_000, spec: simulate.Spec{Cluster: "4096x8"}}
	chronus := simCase{file: "chronus/trace_job_Philly_MIX1.csv.gz", kind: "chronus", jobs: 30_940,
		spec: simulate.Spec{Cluster: "120x8", Placement: "count", RestartCost: "log2:30"}}
	return errors.Join(err, b.whole(ctx, philly, "fifo"), b.whole(ctx, philly, "las"), b.whole(ctx, million, "fifo"),
		b.whole(ctx, chronus, "chronus:profiler=off,lease=1200"))
}

type simBench struct {
	bench
	o   Options
	dir string
}

// simCase is a trace with the cluster that it is replayed on.
type simCase struct {
	file string // below COMB_DATA; "" is generated
	kind string // of the generated one; "" is philly
	jobs int64
	spec simulate.Spec
}

// trace returns the case's file and how it is named in the figures; "" when the figure,
// so named, is not asked for.
func (b *simBench) trace(c *simCase, figure string) (path, label string, err error) {
	if c.file != "" {
		path, label = filepath.Join(cmp.Or(os.Getenv("COMB_DATA"), filepath.Join("..", "shared", "data")), c.file), filepath.Dir(c.file)
		if _, err := os.Stat(path); err != nil {
			path = ""
		}
	}
	if path == "" {
		label = fmt.Sprintf("generated-%d", c.jobs)
	}
	if !strings.Contains(fmt.Sprintf(figure, label), b.o.Only) {
		return "", label, nil
	}
	if path != "" {
		return path, label, nil
	}
	path = filepath.Join(b.dir, label)
	if _, err := os.Stat(path); err == nil {
		return path, label, nil
	}
	return path, label, generate(path, c)
}

// generate writes a trace of the case's kind that asks for nine tenths of its cluster.
func generate(path string, c *simCase) (err error) {
	shapes, err := trace.ParseNodeGroups(c.spec.Cluster)
	if err != nil {
		return err
	}
	jobs, err := trace.Generate(trace.Spec{Kind: cmp.Or(c.kind, "philly"), Jobs: c.jobs, LoadMilli: 900, Cluster: shapes, Survey: c.kind == "chronus"})
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	w, err := trace.NewWriter(out, trace.Comb)
	if err != nil {
		return err
	}
	for j := range jobs {
		if err := w.Write(&j); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Flush())
}

// loop measures the loop alone.
func (b *simBench) loop(ctx context.Context, c simCase, name string) error {
	path, label, err := b.trace(&c, "sim-%s-"+name)
	if err != nil || path == "" {
		return err
	}
	t := &simulate.Trace{Path: path}
	if err := t.Keep(); err != nil {
		return err
	}
	c.spec.Policy = name
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(simulate.GCPercent))
	begin, err := ownTime()
	if err != nil {
		return err
	}
	var events int64
	var spent time.Duration
	for spent < leastLoop {
		r, err := simulate.Run(ctx, c.spec, t, simulate.Options{Policies: policy.New})
		if err != nil {
			return err
		}
		now, err := ownTime()
		if err != nil {
			return err
		}
		events, spent = events+r.Summary.Events, now-begin
	}
	b.Print("sim_events_per_s", float64(events)/spent.Seconds(), "1/s_of_cpu", "policy", name, "trace", label)
	return nil
}

// leastLoop is for how long a loop is measured at least, in runs one after the other: a
// trace of some hundred jobs is over in 10 ms, most of which its first run spends on
// taking memory that later ones find.
const leastLoop = time.Second

// ownTime is what this process has spent on processors.
func ownTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// whole measures a run of the program with all its results.
func (b *simBench) whole(ctx context.Context, c simCase, name string) error {
	short, _, _ := strings.Cut(name, ":")
	path, label, err := b.trace(&c, "sim-run-%s-"+short)
	if err != nil || path == "" {
		return err
	}
	out := filepath.Join(b.dir, "out")
	args := []string{"sim", "run", "--trace", path, "--cluster", c.spec.Cluster, "--policy", name, "-o", out}
	for _, flag := range [][2]string{{"--vcs", c.spec.VCs}, {"--placement", c.spec.Placement}, {"--restart-cost", c.spec.RestartCost}} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	if said, err := exec.CommandContext(ctx, filepath.Join(b.o.Bin, "comb"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("comb %s: %w: %s", strings.Join(args, " "), err, said)
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		return err
	}
	var s metrics.Summary
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	b.Print("sim_run_cpu", float64(s.CPU), "s", "policy", short, "trace", label)
	b.Print("sim_run_peak_memory", float64(s.PeakRSS)/(1<<20), "MiB", "policy", short, "trace", label)
	return nil
}
