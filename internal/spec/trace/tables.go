package trace

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Why an entry that is not a job is skipped.
const (
	skipNoGPU     = "no GPU"
	skipNoAttempt = "never started"
)

// tableSource reads jobs from rows.
type tableSource struct {
	t     *table
	parse func(*row) (Job, string)
}

func (s *tableSource) next() (Job, string, error) {
	r, err := s.t.read()
	if err != nil {
		return Job{}, "", err
	}
	j, skip := s.parse(r)
	if r.err != nil {
		return Job{}, "", r.err
	}
	return j, skip, nil
}

// openPhillyCSV reads the table that the Pollux artifact made of the Philly trace:
// job_id, submit_s, duration_s, num_gpus, vc.
func openPhillyCSV(l *lines, o *opening) (source, error) {
	t := newTable(l, ',')
	f, err := t.header("job_id", "submit_s", "duration_s", "num_gpus", o.vc(), "?user")
	if err != nil {
		return nil, err
	}
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: r.id(f[0]), Submit: model.Time(r.seconds(f[1])), Duration: model.Duration(r.seconds(f[2])),
			GPUs: r.gpus(f[3]), VC: r.text(f[4]), User: r.text(f[5])}
		return j, withoutGPU(&j)
	}}, nil
}

func withoutGPU(j *Job) string {
	if j.GPUs == 0 {
		return skipNoGPU
	}
	return ""
}

// vc is the column of virtual clusters. It may be absent where the caller names a VC.
func (o *opening) vc() string {
	if o.VC != "" {
		return "?vc"
	}
	return "vc"
}

// openTiresias reads the job table of the Tiresias simulator, in seconds.
func openTiresias(l *lines, _ *opening) (source, error) {
	t := newTable(l, ',')
	f, err := t.header("job_id", "num_gpu", "submit_time", "?iterations", "?model_name", "duration", "?interval", "?user", "?vc")
	if err != nil {
		return nil, err
	}
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: r.id(f[0]), GPUs: r.gpus(f[1]), Submit: model.Time(r.seconds(f[2])),
			Iterations: r.optional(f[3], 0, anyCount), Model: r.text(f[4]),
			Duration: model.Duration(r.seconds(f[5])), Interval: model.Duration(r.optional(f[6], 6, anyTime)),
			User: r.text(f[7]), VC: r.text(f[8])}
		return j, withoutGPU(&j)
	}}, nil
}

// openChronus reads the Chronus artifact's job table. All times are in minutes, and "user" is
// the virtual cluster. Jobs without a GPU are skipped, as the artifact does. Deadlines count
// from submission; those of best-effort jobs mean nothing.
func openChronus(l *lines, _ *opening) (source, error) {
	t := newTable(l, ',')
	f, err := t.header("job_id", "user", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval",
		"expect_time_list", "expect_value_list", "best_effort", "job_type")
	if err != nil {
		return nil, err
	}
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: r.id(f[0]), VC: r.text(f[1]), GPUs: r.gpus(f[2]), Submit: model.Time(r.minutes(f[3])),
			Iterations: r.whole(f[4], anyCount), Model: r.text(f[5]), Duration: model.Duration(r.minutes(f[6])),
			Interval: model.Duration(r.minutes(f[7]))}
		if r.err == nil && j.GPUs == 0 {
			return j, skipNoGPU
		}
		j.Class = chronusClass(r, f[10], f[11])
		if j.Class != BestEffort {
			j.Deadlines = chronusDeadlines(r, f[8], f[9])
		}
		return j, ""
	}}, nil
}

func chronusClass(r *row, bestEffort, jobType field) string {
	class := string(r.raw(jobType))
	if class == "best" {
		class = BestEffort
	}
	if class != Strict && class != Soft && class != BestEffort {
		r.fail(jobType, "unknown word", quoted(r.raw(jobType))+" is no class of jobs; want strict, soft or best")
		return ""
	}
	if flag := r.whole(bestEffort, span{0, 1}); r.err == nil && (flag == 1) != (class == BestEffort) {
		r.fail(bestEffort, "contradiction", fmt.Sprintf("is %d, but job_type is %s; correct one of them", flag, quoted(r.raw(jobType))))
	}
	return class
}

// chronusDeadlines reads two lists joined by '-': minutes and rewards.
func chronusDeadlines(r *row, times, values field) []model.Deadline {
	if r.err != nil {
		return nil
	}
	afters, rewards := bytes.Split(r.raw(times), []byte("-")), bytes.Split(r.raw(values), []byte("-"))
	if len(afters) != len(rewards) || len(afters) > maxList {
		r.fail(values, "contradiction", fmt.Sprintf("has %d rewards for %d deadlines; give each deadline one", len(rewards), len(afters)))
		return nil
	}
	out := make([]model.Deadline, len(afters))
	for i := range afters {
		after, wrong := decimal(afters[i], 0)
		if wrong != "" || after > maxTime/int64(model.Minute) || after < 0 {
			r.fail(times, notANumber, quoted(afters[i])+" is no deadline; want whole minutes after submission, joined by -")
			return nil
		}
		value, wrong := decimal(rewards[i], 0)
		if wrong != "" || value > maxCount {
			r.fail(values, notANumber, quoted(rewards[i])+" is no reward; want whole numbers joined by -")
			return nil
		}
		out[i] = model.Deadline{After: model.Duration(after) * model.Minute, Value: value}
		if i > 0 && (out[i].After <= out[i-1].After || out[i].Value > out[i-1].Value) {
			r.fail(times, "contradiction", "deadlines must rise and their rewards must not")
		}
	}
	return out
}

// openHelios reads a cluster_log.csv of SenseTime's Helios traces (Hu et al., SC'21): dates
// as submission times, run times in seconds. Jobs without a GPU are skipped, and so are those
// without a run time that were cancelled before they started.
func openHelios(l *lines, o *opening) (source, error) {
	t := newTable(l, ',')
	f, err := t.header("job_id", "user", o.vc(), "gpu_num", "cpu_num", "node_num", "state", "submit_time", "duration", "?start_time")
	if err != nil {
		return nil, err
	}
	zero := zeroDate{}
	return &tableSource{t, func(r *row) (Job, string) {
		j := Job{ID: r.id(f[0]), User: r.text(f[1]), VC: r.text(f[2]), GPUs: r.gpus(f[3]),
			MilliCPU: r.optional(f[4], 3, anyCount), Nodes: int32(r.optional(f[5], 0, span{0, MaxGPUs}))}
		j.Outcome, j.Failure = slurmState(string(r.raw(f[6])))
		if j.Outcome == "" && r.err == nil {
			o.odd("state " + string(r.raw(f[6])) + " taken as unknown")
		}
		j.Submit = zero.since(r, f[7])
		if f[9].at >= 0 && absent(r.raw(f[9])) && absent(r.raw(f[8])) {
			return j, skipNoAttempt
		}
		j.Duration = model.Duration(r.seconds(f[8]))
		return j, withoutGPU(&j)
	}}, nil
}

// slurmState maps a state of Slurm's accounting to how the job ended. Slurm also
// writes "CANCELLED by USER".
func slurmState(state string) (Outcome, string) {
	word, _, _ := strings.Cut(state, " ")
	switch word {
	case "COMPLETED":
		return Passed, ""
	case "CANCELLED":
		return Killed, ""
	case "FAILED", "BOOT_FAIL":
		return Failed, ""
	case "TIMEOUT", "DEADLINE":
		return Failed, "timeout"
	case "NODE_FAIL":
		return Failed, "node"
	case "OUT_OF_MEMORY":
		return Failed, "memory"
	}
	return "", ""
}
