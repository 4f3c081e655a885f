package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/spec/trace"
)

// Manifest says how a folder of results came about. Folders whose manifests differ only in
// Version have equal results.
type Manifest struct {
	Version string `json:"version"` // of the program
	Core    string `json:"core"`    // of the decision code
	Spec    Spec   `json:"spec"`
	Trace   string `json:"trace"` // file name, without its folder
	// Format and VC are the format and the virtual cluster that flags set for the trace.
	Format trace.Format `json:"format,omitempty"`
	VC     string       `json:"vc,omitempty"`
	// TraceHash, ClusterHash and VCsHash are the SHA-256 of the files; the latter two are
	// empty where no file names the cluster or its virtual clusters.
	TraceHash   string `json:"trace_sha256"`
	ClusterHash string `json:"cluster_sha256,omitempty"`
	VCsHash     string `json:"vcs_sha256,omitempty"`
	// ThroughputsHash and SpreadsHash are those of the tables of speeds.
	ThroughputsHash string `json:"throughputs_sha256,omitempty"`
	SpreadsHash     string `json:"spreads_sha256,omitempty"`
	TraceCounts
	Timeless  int `json:"without_run_time,omitempty"` // jobs that end as soon as they start
	Submitted int `json:"submitted"`
	Refused   int `json:"refused,omitempty"`
	// Refusals are the refused jobs by reason.
	Refusals []Refusal `json:"refusals,omitempty"`
	KeptOff  Tally     `json:"kept_off,omitempty"` // jobs by types of GPUs on which they cannot run
	Ignored  Tally     `json:"ignored,omitempty"`  // jobs by what the simulation ignores of them
	Records  uint64    `json:"records"`
	// Replayed is set where a journal was replayed. Trace and TraceHash are then those of the
	// journal, and the hash covers all of its events.
	Replayed *ReplayCounts `json:"past,omitempty"`
}

// about says in one line what was run.
func (m *Manifest) about(date string) string {
	text := "Trace " + m.Trace
	if m.Replayed != nil {
		text = "Journal " + m.Trace
	}
	if m.Spec.Cluster != "" {
		text += ", cluster " + m.Spec.Cluster
	}
	text += ", policy " + cmp.Or(m.Spec.Policy, "its own") + fmt.Sprintf(", seed %d", m.Spec.Seed)
	if date != "" {
		text += ", " + date
	}
	return text
}

const (
	manifestFile = "manifest.json"
	jobsFile     = "jobs.csv"
)

// newManifest is what is known before a run.
func newManifest(spec *Spec, t *Trace) (Manifest, error) {
	m := Manifest{Core: model.Version, Spec: *spec, Trace: filepath.Base(t.Path), VC: t.Options.VC}
	if t.Options.Format != trace.Auto {
		m.Format = t.Options.Format
	}
	var err error
	if m.TraceHash, err = hashFile(t.Path); err != nil {
		return m, err
	}
	if isFile(spec.Cluster) {
		m.Spec.Cluster = filepath.Base(spec.Cluster)
		if m.ClusterHash, err = hashFile(spec.Cluster); err != nil {
			return m, err
		}
	}
	if isFile(spec.VCs) {
		m.Spec.VCs = filepath.Base(spec.VCs)
		if m.VCsHash, err = hashFile(spec.VCs); err != nil {
			return m, err
		}
	}
	return m, m.tables(spec)
}

// tables adds the hashes of the tables of speeds.
func (m *Manifest) tables(spec *Spec) error {
	for _, f := range []struct {
		path      string
		name, sum *string
	}{{spec.Throughputs, &m.Spec.Throughputs, &m.ThroughputsHash}, {spec.Spreads, &m.Spec.Spreads, &m.SpreadsHash}} {
		if f.path == "" {
			continue
		}
		var err error
		*f.name = filepath.Base(f.path)
		if *f.sum, err = hashFile(f.path); err != nil {
			return err
		}
	}
	return nil
}

// finished reports whether a folder holds the results of a run with an equal manifest.
func (m Manifest) finished(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return false
	}
	var was Manifest
	if json.Unmarshal(text, &was) != nil {
		return false
	}
	was.Version, was.Submitted, was.Refused, was.Refusals, was.Records = "", 0, 0, nil, 0
	was.TraceCounts, was.Timeless, was.KeptOff, was.Ignored = TraceCounts{}, 0, nil, nil
	if was.Replayed != nil {
		return false
	}
	a, err1 := json.Marshal(was)
	b, err2 := json.Marshal(m)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

// Folder is where results go.
type Folder struct {
	Dir     string
	Version string // of the program
	// Date, when set, is named in the report.
	Date string
	// Cost, when set, measures at the end what the run took.
	Cost func() metrics.Cost
}

// RunInto replays a trace and writes the folder of results: summary.json, jobs.csv,
// timeline.csv, report.html with its SVG files, manifest.json. The folder is made;
// files that a former run left there are replaced.
func RunInto(ctx context.Context, out Folder, spec Spec, t *Trace, o Options) (*Result, error) {
	m, err := newManifest(&spec, t)
	if err != nil {
		return nil, err
	}
	return out.fill(m, Origin, o, func(o Options) (*Result, error) { return Run(ctx, spec, t, o) })
}

// ReplayInto replays a journal and writes the same folder.
func ReplayInto(ctx context.Context, out Folder, spec Spec, j *Journal, o Options) (*Result, error) {
	m := Manifest{Core: model.Version, Spec: spec, Trace: filepath.Base(j.Path)}
	if err := m.tables(&spec); err != nil {
		return nil, err
	}
	p, old, err := spec.planReplay(ctx, j)
	if err != nil {
		return nil, err
	}
	m.TraceHash = old.digest
	return out.fill(m, old.origin, o, func(o Options) (*Result, error) { return p.replay(ctx, &spec, j, old, o) })
}

// unfinished is the folder inside a folder of results into which a run writes.
const unfinished = ".unfinished"

// Files are those that a run replaces in its folder of results, or removes.
func (out Folder) Files() []string {
	files := []string{filepath.Join(out.Dir, jobsFile), filepath.Join(out.Dir, manifestFile)}
	for _, name := range metrics.FileNames() {
		files = append(files, filepath.Join(out.Dir, name))
	}
	left, _ := os.ReadDir(filepath.Join(out.Dir, unfinished))
	for _, f := range left {
		files = append(files, filepath.Join(out.Dir, unfinished, f.Name()))
	}
	return files
}

// fill runs and writes a folder of results. The files are moved into place once all are
// written, the manifest last. So a folder with a manifest is finished, and a run that is
// broken off leaves the former results.
func (out Folder) fill(m Manifest, origin model.Time, o Options, run func(Options) (*Result, error)) (r *Result, err error) {
	m.Version = out.Version
	dir := filepath.Join(out.Dir, unfinished)
	was, missing := os.Stat(out.Dir)
	if missing == nil && !was.IsDir() {
		return nil, fmt.Errorf("cannot make the folder of results: %s is a file; name another folder", out.Dir)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, fmt.Errorf("cannot make the folder of results: %w", err)
	}
	defer func() {
		os.RemoveAll(dir)
		if err != nil && missing != nil {
			os.Remove(out.Dir) // fails, rightly, if anything else is in it
		}
	}()
	if r, err = runJobs(filepath.Join(dir, jobsFile), origin, o, run); err != nil {
		return nil, err
	}
	m.Submitted, m.Refused, m.Refusals, m.Records, m.Replayed = r.Submitted, r.Refused, r.Refusals, r.Records, r.Replayed
	m.TraceCounts, m.Timeless, m.KeptOff, m.Ignored = r.Trace, r.Timeless, r.KeptOff, r.Ignored
	if out.Cost != nil {
		r.Summary.Cost = out.Cost()
	}
	r.About = m.about(out.Date)
	if err := r.WriteDir(dir); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestFile), append(text, '\n'), 0o644); err != nil {
		return nil, err
	}
	return r, out.publish(dir)
}

// publish moves the files of a folder to their places.
func (out Folder) publish(from string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(out.Dir, manifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if f.Name() != manifestFile {
			err = errors.Join(err, os.Rename(filepath.Join(from, f.Name()), filepath.Join(out.Dir, f.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(from, manifestFile), filepath.Join(out.Dir, manifestFile))
}

// runJobs runs, and writes the table of jobs as they end.
func runJobs(file string, origin model.Time, o Options, run func(Options) (*Result, error)) (*Result, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("cannot write the results: %w", err)
	}
	defer f.Close()
	buffer := bufio.NewWriterSize(f, 1<<16)
	w := metrics.NewJobsWriter(buffer, origin)
	also := o.Ended
	o.Ended = func(row *metrics.Row) {
		w.Write(row)
		if also != nil {
			also(row)
		}
	}
	r, err := run(o)
	if err != nil {
		return nil, err
	}
	return r, errors.Join(w.Close(), buffer.Flush(), f.Close())
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
		return "", fmt.Errorf("cannot read %s: %w", path, bad.Err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
