package simulate

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/spec/trace"
)

// Sweep is a set of runs that differ in policy, load and seed: one cell for each
// combination.
type Sweep struct {
	Trace    string // beside the file, unless absolute
	Options  trace.Options
	Base     Spec // of all cells
	Policies []string
	Loads    []float64
	Seeds    []uint64
}

// maxCells bounds a sweep.
const maxCells = 10_000

// Cell is one run of a sweep.
type Cell struct {
	Dir  string `json:"dir"` // inside the sweep's folder
	Spec Spec   `json:"spec"`
	// Summary is the outcome; Err why there is none. Kept says that a former run made it.
	Summary *metrics.Summary `json:"summary,omitempty"`
	Kept    bool             `json:"kept,omitempty"`
	Err     error            `json:"-"`
}

// sweepKeys are the keys of a sweep file by the flags of comb sim run to which they belong.
// Mistakes in a flag are reported at its key.
var sweepKeys = map[string]string{"--cluster": "cluster", "--vcs": "vcs", "--racks": "racks", "--placement": "placement", "--quota": "quota",
	"--shape": "shape", "--restart-cost": "restartCost", "--noise": "noise", "--faults": "faults", "--failures": "failures",
	"--spreads": "spreads", "--throughputs": "throughputs", "--gpu": "gpu", "--without": "without"}

// ParseSweep reads a sweep file (docs/simulate.md). It reports all problems that can be known
// before the trace is read. Files that it names are relative to its folder.
func ParseSweep(file string, src []byte, policies model.Policies) (*Sweep, document.Problems) {
	root, ps := document.Parse(file, src, document.DefaultLimits())
	if len(ps) > 0 {
		return nil, ps
	}
	r := document.NewReader()
	m := r.Map(root, "a sweep")
	m.Require("trace", "cluster", "policies")
	text := func(key string) string { return m.String(key, document.Text{Max: 4096}) }
	beside := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(file), name)
	}
	s := &Sweep{Trace: beside(text("trace")), Options: trace.Options{Lenient: m.Bool("lenient", false), VC: text("vc"), JobTable: beside(text("jobTable"))}}
	s.Options.Format = trace.Format(m.String("format", document.Text{OneOf: strings.Split(trace.FormatNames(), ", ")}))
	s.Base = Spec{Cluster: text("cluster"), VCs: text("vcs"), Racks: int32(m.Int("racks", document.Range{})),
		Placement: text("placement"), Quota: text("quota"), Shape: Shape(text("shape")), RestartCost: text("restartCost"),
		Noise: text("noise"), Faults: text("faults"), Failures: text("failures"), Spreads: beside(text("spreads")),
		Throughputs: beside(text("throughputs")), GPU: text("gpu"), Without: text("without")}
	for _, name := range []*string{&s.Base.Cluster, &s.Base.VCs} {
		if near := beside(*name); isFile(near) {
			*name = near
		}
	}
	s.lists(r, m, policies)
	s.check(r, m, policies)
	m.Rest()
	return s, r.Problems()
}

// lists reads the lists of a sweep: policies, loads and seeds.
func (s *Sweep) lists(r *document.Reader, m *document.MapReader, policies model.Policies) {
	once := func(n *document.Node, seen bool) bool {
		if seen {
			r.Problem(n, "this is in the list already; remove one of them")
		}
		return !seen
	}
	for _, n := range m.List("policies") {
		p := r.String(n, document.Text{Max: 4096})
		if n.Kind == document.Null || n.Kind == document.Scalar && n.Text == "" {
			r.Problem(n, "name a policy here, such as fifo")
		} else if p == "" {
			continue // the type of the value is reported elsewhere
		} else if err := checkPolicy(p, policies); err != nil {
			r.Problem(n, "%s", err)
		} else if once(n, slices.Contains(s.Policies, p)) {
			s.Policies = append(s.Policies, p)
		}
	}
	for _, n := range m.List("loads") {
		if l := r.Float(n, 0, minLoad, maxLoad); l > 0 && once(n, slices.Contains(s.Loads, l)) {
			s.Loads = append(s.Loads, l)
		}
	}
	for _, n := range m.List("seeds") {
		if seed := r.Int(n, document.Range{Max: 1 << 53, Default: -1}); seed >= 0 && once(n, slices.Contains(s.Seeds, uint64(seed))) {
			s.Seeds = append(s.Seeds, uint64(seed))
		}
	}
	for _, n := range slices.Concat(m.List("loads"), m.List("seeds")) {
		if n.Kind == document.Null {
			r.Problem(n, "expected a number, found nothing")
		}
	}
	if n := m.Node("policies"); n != nil && n.Kind == document.List && len(n.Items) == 0 {
		r.Problem(n, "name at least one policy, such as [fifo]")
	}
	if len(s.Loads) == 0 {
		s.Loads = []float64{1}
	}
	if len(s.Seeds) == 0 {
		s.Seeds = []uint64{1}
	}
	if n := len(s.Policies) * len(s.Loads) * len(s.Seeds); n > maxCells {
		r.Problem(m.Self(), "policies, loads and seeds make %d cells; a sweep has at most %d", n, maxCells)
	}
}

// check reports what is wrong with all cells of a sweep, at the place in the file.
func (s *Sweep) check(r *document.Reader, m *document.MapReader, policies model.Policies) {
	if m.Has("trace") && s.Trace != "" && !isFile(s.Trace) {
		r.Problem(m.Node("trace"), "there is no file %s", document.Quote(s.Trace))
	}
	wrong := s.Base.mistakes(policies)
	for i := range wrong {
		flag, _, _ := strings.Cut(wrong[i].flag, " ")
		n := m.Node(sweepKeys[flag])
		if n == nil || n.Kind != document.Scalar {
			continue // it is reported as missing, or as no text
		}
		var places document.Problems
		if errors.As(wrong[i].err, &places) {
			r.Add(places)
		} else {
			r.Problem(n, "%s", wrong[i].err)
		}
	}
}

// Cells lists the runs in order of policy, load and seed. Folders are named after these, so a
// sweep that is extended keeps the runs that it has.
func (s *Sweep) Cells() []Cell {
	var out []Cell
	for _, p := range s.Policies {
		for _, l := range s.Loads {
			for _, seed := range s.Seeds {
				c := Cell{Spec: s.Base}
				c.Spec.Policy, c.Spec.Load, c.Spec.Seed = p, l, seed
				c.Dir = fmt.Sprintf("%s,load=%s,seed=%d", plainName(p), strconv.FormatFloat(l, 'g', -1, 64), seed)
				out = append(out, c)
			}
		}
	}
	return out
}

// plainName makes a file name of a policy. Where the policy is long or has other characters a
// hash at the end makes the name unique.
func plainName(text string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("=,.-_", r) {
			return r
		}
		return '_'
	}, text)
	if plain != text || len(plain) > 80 {
		plain = fmt.Sprintf("%.80s-%08x", plain, uint32(hashText(text)))
	}
	return plain
}

// SweepOptions are what a sweep needs beside its file.
type SweepOptions struct {
	Folder
	Options
	Workers int // runs side by side; 0 is one for each processor
	// Done, when set, is told of each cell that is finished, one call at a time.
	Done func(*Cell)
}

// Run runs the cells that are not finished: those whose folder has no equal manifest. The
// outcome of a cell does not depend on how many run side by side. Run returns all cells, also
// when the context is done. Cells that were not run have neither a summary nor an error.
func (s *Sweep) Run(ctx context.Context, o SweepOptions) ([]Cell, error) {
	t := &Trace{Path: s.Trace, Options: s.Options}
	t.Options.GPU = s.Base.GPU
	if file := s.Base.Throughputs; file != "" {
		var err error
		if t.Options.Throughputs, _, err = trace.ReadSpeeds(file); err != nil {
			return nil, err
		}
	}
	if err := t.Keep(); err != nil {
		return nil, err
	}
	// The table of a former sweep must not be mistaken for that of this one.
	if err := os.Remove(filepath.Join(o.Dir, tableFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cells := s.Cells()
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	work := make(chan *Cell)
	var all sync.WaitGroup
	var one sync.Mutex
	for range min(o.Workers, len(cells)) {
		all.Go(func() {
			for c := range work {
				c.run(ctx, t, &o)
				one.Lock()
				if o.Done != nil && ctx.Err() == nil {
					o.Done(c)
				}
				one.Unlock()
			}
		})
	}
	for i := range cells {
		if ctx.Err() == nil {
			work <- &cells[i]
		}
	}
	close(work)
	all.Wait()
	return cells, ctx.Err()
}

// run runs a cell, or reads the results of a former run.
func (c *Cell) run(ctx context.Context, t *Trace, o *SweepOptions) {
	out := o.Folder
	out.Dir = filepath.Join(o.Dir, c.Dir)
	m, err := newManifest(&c.Spec, t)
	if err == nil && m.finished(out.Dir) {
		if c.Summary, err = metrics.ReadSummary(out.Dir); err == nil {
			c.Kept = true
			return
		}
	}
	r, err := RunInto(ctx, out, c.Spec, t, o.Options)
	switch {
	case err == nil:
		c.Summary = &r.Summary
	case ctx.Err() == nil:
		c.Err = err
	}
}

// Reads are the files that a sweep reads beside its own.
func (s *Sweep) Reads() []string {
	out := []string{s.Trace}
	if table := trace.JobTable(s.Trace, s.Options); table != "" {
		out = append(out, table)
	}
	for _, policy := range s.Policies {
		of := s.Base
		of.Policy = policy
		out = append(out, of.Files()...)
	}
	return out
}

// Writes are the files that it writes into a folder.
func (s *Sweep) Writes(dir string) []string {
	out := []string{filepath.Join(dir, tableFile), filepath.Join(dir, tableFile+unfinished)}
	for _, c := range s.Cells() {
		out = append(out, Folder{Dir: filepath.Join(dir, c.Dir)}.Files()...)
	}
	return out
}

// WriteSweep writes a table of all cells as CSV. It leaves out what differs from run to run,
// so equal sweeps have equal tables.
func WriteSweep(w io.Writer, cells []Cell) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{"policy", "load", "seed", "jobs", "finished", "jct_avg_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "makespan_s",
		"queue_avg_s", "preemptions", "gpu_utilization", "fragmentation", "rho_p95", "jain_rho", "slo_miss_rate", "be_latency_avg_s", "early_saved_gpu_h", "probe_saved_gpu_h", "profiler_gpu_h"})
	for i := range cells {
		c := &cells[i]
		if c.Summary == nil {
			continue
		}
		f := &c.Summary.Figures
		row := []string{c.Spec.Policy, strconv.FormatFloat(c.Spec.Load, 'g', -1, 64),
			strconv.FormatUint(c.Spec.Seed, 10),
			strconv.FormatInt(f.Jobs, 10), strconv.FormatInt(f.Finished, 10)}
		for _, n := range []metrics.Number{f.JCTAvg, f.JCTP50, f.JCTP95, f.JCTP99, f.Makespan, f.QueueAvg, metrics.Number(f.Preemptions), f.GPUUtilization,
			f.Fragmentation, f.RhoP95, f.JainRho, f.SLOMissRate, f.BELatencyAvg, f.EarlySaved, f.ProbeSaved, f.Profiler} {
			row = append(row, figure(n))
		}
		err = errors.Join(err, out.Write(row))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// figure writes a number as summary.json does; nothing where it is not defined.
func figure(n metrics.Number) string {
	if !n.Defined() {
		return ""
	}
	b, _ := n.MarshalJSON()
	return string(b)
}

// tableFile is the table of a sweep in its folder.
const tableFile = "sweep.csv"

// WriteFile writes the table of a sweep into its folder.
func (s *Sweep) WriteFile(dir string, cells []Cell) error {
	name := filepath.Join(dir, tableFile)
	f, err := os.Create(name + unfinished)
	if err != nil {
		return err
	}
	if err := errors.Join(WriteSweep(f, cells), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+unfinished, name)
}
