package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// openAlibaba2023 reads an openb_pod_list of Alibaba's GPU-sharing trace (Weng et al.,
// ATC'23): one pod a row, seconds since an unknown start. A pod that was never scheduled has
// no run time. Best-effort pods become best-effort jobs.
func openAlibaba2023(l *lines, _ *opening) (source, error) {
	t := newTable(l, ',')
	f, err := t.header("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
		"creation_time", "deletion_time", "scheduled_time")
	if err != nil {
		return nil, err
	}
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: r.id(f[0]), MilliCPU: r.optional(f[1], 0, anyCount), MemoryMB: r.optional(f[2], 0, anyCount),
			GPUs: r.gpus(f[3]), Submit: model.Time(r.seconds(f[8]))}
		if milli := int32(r.optional(f[4], 0, partOfGPU)); milli < 1000 {
			j.GPUMilli = milli
		}
		if spec := r.raw(f[5]); !absent(spec) {
			j.SKUs = skuList(r, f[5])
		}
		if string(r.raw(f[6])) == "BE" {
			j.Class = BestEffort
		}
		switch string(r.raw(f[7])) {
		case "Succeeded":
			j.Outcome = Passed
		case "Failed":
			j.Outcome = Failed
		}
		if !absent(r.raw(f[10])) && !absent(r.raw(f[9])) {
			start, end := r.seconds(f[10]), r.seconds(f[9])
			if end < start {
				r.fail(f[9], "contradiction", "is before scheduled_time; correct one of them")
			}
			j.Duration = model.Duration(end - start)
		}
		return j, withoutGPU(&j)
	}}, nil
}

// skuList reads V100M16|V100M32.
func skuList(r *row, f field) []string {
	if bytes.Count(r.raw(f), []byte("|")) >= maxFields {
		r.fail(f, "list too long", "too many GPU types")
		return nil
	}
	list := strings.Split(r.text(f), "|")
	slices.Sort(list)
	return slices.Compact(list)
}

// The columns of the tables of Alibaba's 2020 trace, whose files have no header.
const (
	paiTaskColumns = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
	paiJobColumns  = "job_name,inst_id,user,status,start_time,end_time"
)

// paiStatus are the words of the status columns.
func paiStatus(s string) bool {
	return slices.Contains([]string{"Running", "Terminated", "Failed", "Waiting", "Interrupted"}, s)
}

func knowsAlibaba2020(first []string, _ []byte) bool {
	return len(first) == 10 && (first[0] == "job_name" && first[2] == "inst_num" || paiStatus(first[3]))
}

// openAlibaba2020 reads a pai_task_table of Alibaba's PAI trace (Weng et al., NSDI'22), with
// or without its header. Users and submission times come from the pai_job_table, if there is
// one. A job is all tasks of one job_name, which may be anywhere in the table, so the whole
// table is held in memory. Instances that ask for a part of a GPU count as one GPU each.
// Times are seconds since an unknown start.
func openAlibaba2020(l *lines, o *opening) (source, error) {
	t := newTable(l, ',')
	f, err := paiHeader(t, paiTaskColumns)
	if err != nil {
		return nil, err
	}
	s := &paiSource{t: t, f: f, jobs: map[string]*paiJob{}}
	if o.JobTable != "" {
		return s, s.readJobTable(o)
	}
	return s, nil
}

// paiHeader binds the columns in their documented order, and skips a header.
func paiHeader(t *table, columns string) ([]field, error) {
	names := strings.Split(columns, ",")
	if bytes.HasPrefix(t.peek(), []byte(names[0]+",")) {
		return t.header(names...)
	}
	var out []field
	for i, n := range names {
		out = append(out, field{n, i})
	}
	t.columns = len(names)
	return out, nil
}

// paiJob is a job while its tasks are gathered.
type paiJob struct {
	job        Job
	tasks      int
	start, end int64 // of its tasks; start is -1 until one is known
	running    bool  // a task has no end
	submitted  bool  // the job table knows it
	order      int
	mixed      bool
}

type paiSource struct {
	t     *table
	f     []field
	jobs  map[string]*paiJob
	count int
	ready []*paiJob
	read  bool
}

func (s *paiSource) of(id string) *paiJob {
	j := s.jobs[id]
	if j == nil {
		j = &paiJob{job: Job{ID: id}, start: -1, order: -1}
		s.jobs[id] = j
	}
	return j
}

// readJobTable takes users and submission times. A bad row ends the reading, even of a
// lenient reader: it would leave a job at a wrong time.
func (s *paiSource) readJobTable(o *opening) error {
	in, err := os.Open(o.JobTable)
	if err != nil {
		return fmt.Errorf("cannot read the job table: %w", err)
	}
	defer in.Close()
	l, err := newLines(o.JobTable, in, o.MaxBytes)
	if err != nil {
		return err
	}
	t := newTable(l, ',')
	f, err := paiHeader(t, paiJobColumns)
	if err != nil {
		return err
	}
	for {
		r, err := t.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, user, at := r.id(f[0]), r.text(f[2]), r.optional(f[4], 6, anyTime)
		known := !absent(r.raw(f[4]))
		if r.err != nil {
			r.err.Row = false
			return r.err
		}
		j := s.of(id)
		j.job.User, j.job.Submit, j.submitted = user, model.Time(at), known
	}
}

func (s *paiSource) next() (Job, string, error) {
	for !s.read {
		r, err := s.t.read()
		if errors.Is(err, io.EOF) {
			s.gathered()
			break
		}
		if err != nil {
			return Job{}, "", err
		}
		if s.task(r); r.err != nil {
			return Job{}, "", r.err
		}
	}
	if len(s.ready) == 0 {
		return Job{}, "", io.EOF
	}
	j := s.ready[0]
	s.ready[0] = nil // the caller has it, and memory can be freed
	s.ready = s.ready[1:]
	return j.finish()
}

// gathered sorts the jobs that have tasks by submission, and those of one time by their first
// tasks.
func (s *paiSource) gathered() {
	s.read = true
	for _, j := range s.jobs {
		if j.tasks == 0 {
			continue
		}
		if !j.submitted {
			j.job.Submit = model.Time(max(j.start, 0))
		}
		s.ready = append(s.ready, j)
	}
	s.jobs = nil
	slices.SortFunc(s.ready, func(a, b *paiJob) int {
		return cmp.Or(cmp.Compare(a.job.Submit, b.job.Submit), cmp.Compare(a.order, b.order))
	})
}

// task adds one row to its job.
func (s *paiSource) task(r *row) {
	id := r.id(s.f[0])
	t := Task{Name: r.text(s.f[1]), Instances: int32(r.whole(s.f[2], someGPUs)),
		MilliCPU: r.optional(s.f[6], 1, anyCount),                        // hundredths of a CPU, with one more digit
		MemoryMB: r.optional(s.f[7], 3, span{0, maxCount}) * 1024 / 1000, // GB
		GPUMilli: int32(r.optional(s.f[8], 1, span{0, 1000 * 1024}))}
	if !absent(r.raw(s.f[9])) {
		t.SKU = r.text(s.f[9])
	}
	status := string(r.raw(s.f[3]))
	start, end := r.optional(s.f[4], 6, anyTime), r.optional(s.f[5], 6, anyTime)
	noStart, noEnd := absent(r.raw(s.f[4])), absent(r.raw(s.f[5]))
	if !noStart && !noEnd && end < start {
		r.fail(s.f[5], "contradiction", "is before start_time; correct one of them")
	}
	if r.err != nil {
		return
	}
	j := s.of(id)
	if len(j.job.Tasks) == maxList {
		r.fail(s.f[0], "list too long", fmt.Sprintf("job %s has more than %d tasks", quoted([]byte(id)), maxList))
		return
	}
	if j.tasks == 0 {
		s.count++
		j.order = s.count
	}
	j.add(t, status)
	if !noStart && (j.start < 0 || start < j.start) {
		j.start = start
	}
	j.end, j.running = max(j.end, end), j.running || noEnd
	if total := int64(j.job.GPUs) + t.gpus(); total > MaxGPUs {
		r.fail(s.f[2], tooLarge, fmt.Sprintf("the job would have %d GPUs; want at most %d", total, MaxGPUs))
	} else {
		j.job.GPUs = int32(total)
	}
}

// gpus is how many GPUs a task needs; a part of a GPU counts as one.
func (t *Task) gpus() int64 { return int64(t.Instances) * ((int64(t.GPUMilli) + 999) / 1000) }

func (j *paiJob) add(t Task, status string) {
	if t.GPUMilli > 0 {
		part := t.GPUMilli
		if part >= 1000 {
			part = 0
		}
		j.mixed = j.mixed || j.job.GPUs > 0 && j.job.GPUMilli != part
		j.job.GPUMilli = part
		if t.SKU != "" && !slices.Contains(j.job.SKUs, t.SKU) {
			j.job.SKUs = append(j.job.SKUs, t.SKU)
		}
	}
	j.tasks++
	j.job.Tasks = append(j.job.Tasks, t)
	j.job.MilliCPU = min(maxCount, j.job.MilliCPU+int64(t.Instances)*min(t.MilliCPU, maxCount/MaxGPUs))
	j.job.MemoryMB = min(maxCount, j.job.MemoryMB+int64(t.Instances)*min(t.MemoryMB, maxCount/MaxGPUs))
	switch {
	case status == "Failed":
		j.job.Outcome = Failed
	case status == "Terminated" && j.job.Outcome == "" && j.tasks == 1:
		j.job.Outcome = Passed
	case status != "Terminated" && j.job.Outcome == Passed:
		j.job.Outcome = ""
	}
}

// finish makes a job from its tasks.
func (j *paiJob) finish() (Job, string, error) {
	if j.mixed {
		j.job.GPUMilli = 0
	}
	if len(j.job.SKUs) > 1 {
		slices.Sort(j.job.SKUs)
	}
	switch {
	case j.job.GPUs == 0:
		return j.job, skipNoGPU, nil
	case j.start < 0:
		return j.job, skipNoAttempt, nil
	}
	if !j.running {
		j.job.Duration = model.Duration(j.end - j.start)
	}
	return j.job, "", nil
}
