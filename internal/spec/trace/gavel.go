package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

const gavelColumns = "job_type,command,working_directory,num_steps_arg,needs_data_dir,total_steps,scale_factor,weight,SLO,arrival_time"

func knowsGavel(_ []string, head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.Count(line, []byte("\t")) == 9
}

// openGavel reads a trace of the Gavel artifact (Narayanan et al., OSDI'20): tab separated,
// without a header. It tells how many steps a job has, and not its run time. That is steps /
// throughput on the GPU type of Options.GPU. An SLO is a multiple of that time; below zero is
// none. Jobs are numbered from 0.
func openGavel(l *lines, o *opening) (source, error) {
	if o.Throughputs != nil && o.GPU == "" {
		return nil, fmt.Errorf("%s: name the GPU type that run times are for with --gpu; the table of throughputs has %s", l.file,
			strings.Join(o.Throughputs.Workers(), ", "))
	}
	if o.Throughputs == nil || o.GPU == "" {
		return nil, fmt.Errorf("%s: a gavel trace has steps, not run times; name a table of throughputs and the GPU type that run times are for "+
			"(--throughputs FILE --gpu v100)", l.file)
	}
	if workers := o.Throughputs.Workers(); !slices.Contains(workers, o.GPU) {
		return nil, fmt.Errorf("the table of throughputs has no GPU type %q%s", o.GPU, document.DidYouMean(o.GPU, workers))
	}
	t := newTable(l, '\t')
	var f []field
	for i, name := range strings.Split(gavelColumns, ",") {
		f = append(f, field{name, i})
	}
	t.columns = len(f)
	count := 0
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: strconv.Itoa(count), Model: r.text(f[0]), Iterations: r.whole(f[5], anyCount),
			GPUs: r.gpus(f[6]), Weight: r.optional(f[7], 3, anyCount), Submit: model.Time(r.seconds(f[9]))}
		count++
		slo := r.optional(f[8], 3, span{-1000, 1000 * 1000})
		if r.err != nil || j.GPUs == 0 {
			return j, skipNoGPU
		}
		rate, ok := o.Throughputs.Rate(o.GPU, perf.Work{Model: j.Model, Scale: j.GPUs})
		if !ok || rate <= 0 {
			r.fail(f[0], "no throughput", fmt.Sprintf("the table has no throughput of %q with %d GPUs on %s; name another GPU type", j.Model, j.GPUs, o.GPU))
			return j, ""
		}
		if j.Duration = rate.Time(j.Iterations); int64(j.Duration) > maxTime {
			r.fail(f[5], tooLarge, fmt.Sprintf("would run for more than a century on %s", o.GPU))
			return j, ""
		}
		if slo > 0 {
			j.Class = Strict
			j.Deadlines = []model.Deadline{{After: j.Duration / 1000 * model.Duration(slo), Value: 10}}
		}
		return j, ""
	}}, nil
}
