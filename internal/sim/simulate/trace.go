package simulate

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/trace"
)

// Trace is a trace that can be read more than once. What the VCs own, medians in the
// parameters of policies, and the order of jobs in an unsorted file depend on all of it.
// Sweeps keep it in memory.
type Trace struct {
	Path    string
	Options trace.Options
	kept    []trace.Job
	order   *trace.Order // of the file, once it was read to its end
	counts  TraceCounts
}

// TraceCounts count what of a trace did not become a job, and what was guessed.
type TraceCounts struct {
	Skipped []trace.Count `json:"skipped,omitempty"` // entries that are no GPU jobs
	Bad     []trace.Count `json:"bad,omitempty"`     // rows passed over by Lenient
	Mended  []trace.Count `json:"mended,omitempty"`
}

// count takes the counts of a reader that came to its end.
func (t *Trace) count(r *trace.Reader) { t.counts = TraceCounts{r.Skipped(), r.Bad(), r.Odd()} }

// Keep reads the whole trace into memory.
func (t *Trace) Keep() error {
	if t.kept != nil {
		return nil
	}
	jobs, r, err := trace.Load(t.Path, t.Options)
	if err != nil {
		return err
	}
	t.count(r)
	t.kept = jobs
	return nil
}

// only is the part of a kept trace that belongs to one VC.
func (t *Trace) only(vc cell.VCName) *Trace {
	part := &Trace{Path: t.Path, Options: t.Options, counts: t.counts, kept: []trace.Job{}}
	for i := range t.kept {
		if t.kept[i].VC == string(vc) {
			part.kept = append(part.kept, t.kept[i])
		}
	}
	return part
}

// jobs yields the jobs in order of submission. The file is read again each time, and once
// more at first, where its order is not known. All bad rows are one error at the end.
func (t *Trace) jobs() iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		if t.kept != nil {
			t.each()(yield)
			return
		}
		r, err := trace.Open(t.Path, t.Options)
		if err == nil && !r.Ordered() && t.order == nil {
			for _, err = range t.each() {
				if err != nil {
					break
				}
			}
		}
		if r != nil {
			defer r.Close()
		}
		if err != nil {
			yield(trace.Job{}, err)
			return
		}
		trace.Good(r.Follow(t.order))(yield)
		t.count(r)
	}
}

// each yields the jobs in any order, which reads the file at most once.
func (t *Trace) each() iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for i := range t.kept {
			if !yield(t.kept[i], nil) {
				return
			}
		}
		if t.kept != nil {
			return
		}
		r, err := trace.Open(t.Path, t.Options)
		if err != nil {
			yield(trace.Job{}, err)
			return
		}
		defer r.Close()
		trace.Good(r.Jobs())(yield)
		t.order = r.Order()
	}
}

// reading returns the same jobs one by one, until stop is called.
func (t *Trace) reading() (next func() (*trace.Job, error, bool), stop func()) {
	if t.kept != nil {
		at := -1
		return func() (*trace.Job, error, bool) {
			if at++; at >= len(t.kept) {
				return nil, nil, false
			}
			return &t.kept[at], nil, true
		}, func() {}
	}
	pull, stop := iter.Pull2(t.jobs())
	var job trace.Job
	return func() (_ *trace.Job, err error, ok bool) {
		job, err, ok = pull()
		return &job, err, ok
	}, stop
}

// readPolicy reads a policy. The limit "median" becomes the median of all jobs' GPU-seconds,
// and a history "@FILE" the samples of that file. With a nil median "median" stays.
func readPolicy(text string, median func() (int64, error)) (model.VCConfig, error) {
	vc, err := ParsePolicy(text)
	if err != nil {
		return vc, err
	}
	for i := range vc.Params {
		p := &vc.Params[i]
		file, named := strings.CutPrefix(p.Value, "@")
		switch {
		case named:
			samples, err := trace.ReadSamples(file)
			if err != nil {
				return vc, err
			}
			p.Value = join(samples)
		case p.Value == "median" && median != nil:
			m, err := median()
			if err != nil {
				return vc, err
			}
			p.Value = strconv.FormatInt(m, 10)
		}
	}
	return vc, nil
}

func join(list []int64) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(words, "/")
}

// medianService is the median over jobs of their GPU-seconds.
func (t *Trace) medianService() (int64, error) {
	var all []int64
	for j, err := range t.each() {
		if err != nil {
			return 0, err
		}
		all = append(all, int64(j.Duration/model.Second)*int64(j.GPUs))
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("%s has no jobs, so no median", t.Path)
	}
	slices.Sort(all)
	return max(all[len(all)/2], 1), nil
}

// nodesOf lists the nodes below cells, in order.
func nodesOf(cells []cell.CellSpec, c *model.Config) []cell.NodeName {
	isNode := map[cell.TypeName]bool{}
	for _, ch := range c.Cluster.Chains {
		for _, l := range ch.Levels {
			isNode[l.Type] = isNode[l.Type] || l.IsNode
		}
	}
	var out []cell.NodeName
	var walk func([]cell.CellSpec)
	walk = func(cells []cell.CellSpec) {
		for i := range cells {
			if isNode[cells[i].Type] {
				out = append(out, cell.NodeName(cells[i].Address))
			} else {
				walk(cells[i].Children)
			}
		}
	}
	walk(cells)
	return out
}
