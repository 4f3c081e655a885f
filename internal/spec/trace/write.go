package trace

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/combsched/comb/internal/core/model"
)

// Writable lists the formats that can be written.
func Writable() []Format { return []Format{Comb, Tiresias, PhillyCSV, Chronus} }

// Writer writes jobs in one format. They must come in order of Submit, the first
// at 0 or later.
type Writer struct {
	out     *bufio.Writer
	format  Format
	buf     []byte
	jobs    int64
	last    model.Time
	lost    counts
	rounded map[string]int64 // last job with a rounded value, by key
	file    *os.File         // nil where the caller made the stream
	zip     *gzip.Writer     // between out and file
	path    string           // final name of file
}

// NewWriter begins a trace on a stream.
func NewWriter(out io.Writer, to Format) (*Writer, error) {
	w := &Writer{out: bufio.NewWriterSize(out, 256<<10), format: to}
	switch to {
	case Comb:
		w.buf = fmt.Appendf(w.buf, "{%q:%d}\n", combMark, combVersion)
	case PhillyCSV:
		w.buf = append(w.buf, "job_id,submit_s,duration_s,num_gpus,vc\n"...)
	case Tiresias:
		w.buf = append(w.buf, "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"...)
	case Chronus:
		w.buf = append(w.buf, "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n"...)
	default:
		return nil, fmt.Errorf("cannot write the trace format %q; want comb, tiresias, philly-csv or chronus", to)
	}
	_, err := w.out.Write(w.buf)
	return w, err
}

// Create begins a trace in a file, gzipped when its name ends with .gz. The file gets its
// name when Close is called.
func Create(path string, to Format) (*Writer, error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".comb-trace-*")
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", path, err)
	}
	var out io.Writer = file
	var zip *gzip.Writer
	if strings.HasSuffix(path, ".gz") {
		zip, _ = gzip.NewWriterLevel(file, gzip.BestSpeed) // fails only for a level that does not exist
		out = zip
	}
	w, err := NewWriter(out, to)
	if err != nil {
		file.Close()
		os.Remove(file.Name())
		return nil, err
	}
	w.file, w.zip, w.path = file, zip, path
	return w, nil
}

// Close writes what is buffered and gives the file its name.
func (w *Writer) Close() error {
	err := w.out.Flush()
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	if w.file == nil {
		return err
	}
	err = errors.Join(err, w.file.Chmod(0o644), w.file.Close())
	if err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		os.Remove(w.file.Name())
		return fmt.Errorf("cannot write %s: %w", w.path, err)
	}
	return nil
}

// Abort removes the file of Create.
func (w *Writer) Abort() {
	if w.file != nil {
		w.file.Close()
		os.Remove(w.file.Name())
	}
}

// Jobs is how many jobs were written.
func (w *Writer) Jobs() int64 { return w.jobs }

// Lost counts, by key of the comb format, the jobs with a value that the format cannot carry,
// or only rounded.
func (w *Writer) Lost() []Count { return w.lost }

// Write adds one job. It refuses a job that no reader would accept.
func (w *Writer) Write(j *Job) error {
	switch {
	case j.ID == "" || j.GPUs < 1 || j.Submit < 0 || j.Duration < 0:
		return fmt.Errorf("job %q with %d GPUs, submitted at %d us, of %d us: want an id, at least one GPU and no negative times", j.ID, j.GPUs, j.Submit, j.Duration)
	case j.Submit < w.last:
		return fmt.Errorf("job %q is submitted before the one written last; give the jobs in order", j.ID)
	}
	w.last = j.Submit
	w.jobs++
	w.buf = w.buf[:0]
	switch w.format {
	case Comb:
		w.buf = appendJob(w.buf, j)
	case PhillyCSV:
		w.losses(j, "duration_us", "vc")
		w.cells(j.ID, w.seconds("submit_us", model.Duration(j.Submit)), w.seconds("duration_us", j.Duration), number(j.GPUs), j.VC)
	case Tiresias:
		w.losses(j, "duration_us", "iterations", "model", "interval_us")
		w.cells(j.ID, number(j.GPUs), w.seconds("submit_us", model.Duration(j.Submit)), number(j.Iterations), j.Model,
			w.seconds("duration_us", j.Duration), w.seconds("interval_us", j.Interval))
	case Chronus:
		w.chronus(j)
	}
	_, err := w.out.Write(w.buf)
	return err
}

// chronus writes minutes. A job without a class is best effort there. Deadlines of such jobs
// mean nothing: the artifact repeats the submission.
func (w *Writer) chronus(j *Job) {
	w.losses(j, "duration_us", "vc", "iterations", "model", "interval_us", "class", "deadlines")
	submit := w.minutes("submit_us", model.Duration(j.Submit))
	class, flag, times, values := "best", "1", submit, "10"
	if len(j.Deadlines) > 0 {
		class, flag, times, values = Strict, "0", "", ""
		if j.Class == Soft {
			class = Soft
		}
		last := model.Duration(-1)
		for i, d := range j.Deadlines {
			if i > 0 {
				times, values = times+"-", values+"-"
			}
			last = max(last+1, w.units("deadlines", d.After, model.Minute)) // they must rise
			times, values = times+number(last), values+number(d.Value)
		}
	} else if j.Class != BestEffort {
		w.lost.add("class")
	}
	w.cells(j.ID, j.VC, number(j.GPUs), submit, number(j.Iterations), j.Model, w.minutes("duration_us", j.Duration),
		w.minutes("interval_us", j.Interval), times, values, flag, class)
}

// losses counts what a job has beyond its id, submission, GPUs and the keys kept.
func (w *Writer) losses(j *Job, kept ...string) {
	for _, k := range saidBy(j) {
		if !slices.Contains(kept, k) {
			w.lost.add(k)
		}
	}
}

// saidBy names the optional keys that a job has.
func saidBy(j *Job) []string {
	out := make([]string, 0, 24)
	say := func(there bool, key string) {
		if there {
			out = append(out, key)
		}
	}
	say(j.Duration != 0, "duration_us")
	say(j.User != "", "user")
	say(j.VC != "", "vc")
	say(j.App != "", "app")
	say(j.Model != "", "model")
	say(j.Class != "", "class")
	say(j.Outcome != "", "outcome")
	say(j.Failure != "", "failure")
	say(j.Estimate != 0, "estimate_us")
	say(j.GPUMilli != 0, "gpu_milli")
	say(len(j.SKUs) > 0, "skus")
	say(j.MinGPUs != 0, "gpus_min")
	say(j.MaxGPUs != 0, "gpus_max")
	say(j.Loss != nil, "loss")
	say(j.MilliCPU != 0, "milli_cpu")
	say(j.MemoryMB != 0, "memory_mb")
	say(j.Nodes != 0, "nodes")
	say(len(j.Tasks) > 0, "tasks")
	say(j.Priority != 0, "priority")
	say(j.Weight != 0, "weight_milli")
	say(len(j.Deadlines) > 0, "deadlines")
	say(j.Iterations != 0, "iterations")
	say(j.Interval != 0, "interval_us")
	say(len(j.Attempts) > 0, "attempts")
	return out
}

// cells adds one line of a table.
func (w *Writer) cells(values ...string) {
	for i, v := range values {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		v = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return utf8.RuneError
			}
			return r
		}, v)
		if strings.ContainsAny(v, `,"`) {
			v = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
		}
		w.buf = append(w.buf, v...)
	}
	w.buf = append(w.buf, '\n')
}

func (w *Writer) seconds(key string, d model.Duration) string {
	return number(w.units(key, d, model.Second))
}

func (w *Writer) minutes(key string, d model.Duration) string {
	return number(w.units(key, d, model.Minute))
}

// units rounds a time to whole units. A time above 0 becomes at least one unit, unless it is
// a submission.
func (w *Writer) units(key string, d, unit model.Duration) model.Duration {
	n := (d + unit/2) / unit
	if n == 0 && d > 0 && key != "submit_us" {
		n = 1
	}
	if n*unit != d {
		w.rounds(key)
	}
	return n
}

// rounds counts a job with a rounded value, once per key.
func (w *Writer) rounds(key string) {
	what := key + " rounded"
	if w.rounded == nil {
		w.rounded = map[string]int64{}
	}
	if w.rounded[what] != w.jobs {
		w.rounded[what] = w.jobs
		w.lost.add(what)
	}
}

func number[T ~int32 | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// appendJob writes one line of the comb format. Keys without a value are left out.
func appendJob(b []byte, j *Job) []byte {
	b = append(b, `{"id":`...)
	b = appendText(b, j.ID)
	b = append(b, `,"submit_us":`...)
	b = strconv.AppendInt(b, int64(j.Submit), 10)
	b = appendInt(b, "duration_us", int64(j.Duration))
	b = appendInt(b, "gpus", int64(j.GPUs))
	b = appendString(b, "user", j.User)
	b = appendString(b, "vc", j.VC)
	b = appendString(b, "app", j.App)
	b = appendString(b, "model", j.Model)
	b = appendString(b, "class", j.Class)
	b = appendString(b, "outcome", string(j.Outcome))
	b = appendString(b, "failure", j.Failure)
	b = appendInt(b, "estimate_us", int64(j.Estimate))
	b = appendInt(b, "gpu_milli", int64(j.GPUMilli))
	b = appendInt(b, "gpus_min", int64(j.MinGPUs))
	b = appendInt(b, "gpus_max", int64(j.MaxGPUs))
	if c := j.Loss; c != nil {
		b = append(appendBillionths(append(b, `,"loss":{"first":`...), c.First), `,"last":`...)
		b = append(appendInt(appendBillionths(b, c.Last), "half_us", int64(c.Half)), '}')
	}
	b = appendInt(b, "milli_cpu", j.MilliCPU)
	b = appendInt(b, "memory_mb", j.MemoryMB)
	b = appendInt(b, "nodes", int64(j.Nodes))
	b = appendInt(b, "priority", int64(j.Priority))
	b = appendInt(b, "weight_milli", j.Weight)
	b = appendInt(b, "iterations", j.Iterations)
	b = appendInt(b, "interval_us", int64(j.Interval))
	b = appendList(b, "skus", j.SKUs, func(b []byte, s *string) []byte { return appendText(b, *s) })
	b = appendList(b, "deadlines", j.Deadlines, func(b []byte, d *model.Deadline) []byte {
		b = strconv.AppendInt(append(b, `{"after_us":`...), int64(d.After), 10)
		return append(appendInt(b, "value", d.Value), '}')
	})
	b = appendList(b, "attempts", j.Attempts, func(b []byte, a *Attempt) []byte {
		b = strconv.AppendInt(append(b, `{"start_us":`...), int64(a.Start), 10)
		b = appendInt(b, "duration_us", int64(a.Duration))
		b = appendInt(b, "gpus", int64(a.GPUs))
		return append(appendInt(b, "nodes", int64(a.Nodes)), '}')
	})
	b = appendList(b, "tasks", j.Tasks, appendTask)
	return append(b, '}', '\n')
}

func appendTask(b []byte, t *Task) []byte {
	b = strconv.AppendInt(append(b, `{"instances":`...), int64(t.Instances), 10)
	b = appendString(b, "name", t.Name)
	b = appendInt(b, "gpu_milli", int64(t.GPUMilli))
	b = appendInt(b, "milli_cpu", t.MilliCPU)
	b = appendInt(b, "memory_mb", t.MemoryMB)
	return append(appendString(b, "sku", t.SKU), '}')
}

func appendList[T any](b []byte, key string, list []T, each func([]byte, *T) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), key...), `":[`...)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, &list[i])
	}
	return append(b, ']')
}

func appendInt(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(append(append(b, `,"`...), key...), `":`...), n, 10)
}

// appendBillionths writes a number that is not negative.
func appendBillionths(b []byte, n int64) []byte {
	b = strconv.AppendInt(b, n/1e9, 10)
	if n%1e9 == 0 {
		return b
	}
	return append(b, strings.TrimRight(fmt.Sprintf(".%09d", n%1e9), "0")...)
}

func appendString(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(append(append(append(b, `,"`...), key...), `":`...), s)
}

// appendText quotes as JSON does. Bytes that are not UTF-8, and characters that the reader
// would refuse, become U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case r < ' ' || r == 0x7f:
			b = utf8.AppendRune(b, utf8.RuneError)
		default:
			b = utf8.AppendRune(b, r)
		}
		i += size
	}
	return append(b, '"')
}

// Text writes At as a decimal number.
func (c *Curve) Text(work model.Duration) string { return string(appendBillionths(nil, c.At(work))) }
