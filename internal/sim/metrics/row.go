package metrics

import (
	"bufio"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/combsched/comb/internal/core/model"
)

// Row is one job in the table of jobs. GPU-time is in leaf-microseconds.
type Row struct {
	ID                       model.JobID
	TraceID, Name, VC, User  string
	App, Model               string
	GPUs                     int32 // leaves of all tasks
	Nodes                    int32 // most that one attempt of a gang used
	Submit, Start, End       model.Time
	Phase                    model.Phase
	Cause                    model.EndCause
	Class                    string         // of a failure
	Duration                 model.Duration // ideal
	FairShare, Fragmentation model.Duration // time in the queue
	BackOff                  model.Duration
	Attempts, Preemptions    int32
	Migrations, Suspends     int32
	GPU, Effective, Shared   uint64
	Wasted, Saved            uint64
	Rho                      Number
	Miss                     Number
}

// JCT is the completion time of a job that has ended.
func (r *Row) JCT() model.Duration { return model.Duration(r.End - r.Submit) }

// columns are those of jobs.csv, in order.
var columns = []string{"id", "trace_id", "name", "vc", "user", "app", "model", "gpus", "nodes", "submit_s", "start_s", "end_s",
	"phase", "cause", "class", "jct_s", "duration_s", "queue_s", "wait_fair_share_s", "wait_fragmentation_s", "wait_backoff_s",
	"attempts", "preemptions", "migrations", "suspends", "gpu_s", "effective_gpu_s", "shared_gpu_s", "wasted_gpu_s", "saved_gpu_s", "rho", "deadline_miss"}

// JobsWriter writes jobs.csv, a row for each job in the order in which they end.
type JobsWriter struct {
	w      *bufio.Writer
	origin model.Time
	buf    []byte
	err    error
}

// NewJobsWriter writes the header line; times are printed relative to origin.
func NewJobsWriter(w io.Writer, origin model.Time) *JobsWriter {
	j := &JobsWriter{w: bufio.NewWriterSize(w, 1<<16), origin: origin}
	for i, c := range columns {
		if i > 0 {
			j.buf = append(j.buf, ',')
		}
		j.buf = append(j.buf, c...)
	}
	j.flush()
	return j
}

func (j *JobsWriter) flush() {
	if j.err == nil {
		_, j.err = j.w.Write(append(j.buf, '\n'))
	}
	j.buf = j.buf[:0]
}

// Write writes one row. It fits Options.Ended. Close returns errors.
func (j *JobsWriter) Write(r *Row) {
	b := strconv.AppendInt(j.buf, int64(r.ID), 10)
	for _, s := range [...]string{r.TraceID, r.Name, r.VC, r.User, r.App, r.Model} {
		b = appendText(append(b, ','), s)
	}
	b = appendInts(b, int64(r.GPUs), int64(r.Nodes))
	over := r.Phase.Ended()
	b = j.time(b, r.Submit, true)
	b = j.time(b, r.Start, r.Attempts > 0)
	b = j.time(b, r.End, over)
	for _, s := range [...]string{string(r.Phase), r.Cause.String(), r.Class} {
		b = appendText(append(b, ','), s)
	}
	b = append(b, ',')
	if over {
		b = appendSeconds(b, int64(r.JCT()))
	}
	b = appendSeconds(append(b, ','), int64(r.Duration))
	b = append(b, ',')
	if over {
		b = appendSeconds(b, int64(r.JCT()-r.Duration))
	}
	for _, d := range [...]model.Duration{r.FairShare, r.Fragmentation, r.BackOff} {
		b = appendSeconds(append(b, ','), int64(d))
	}
	b = appendInts(b, int64(r.Attempts), int64(r.Preemptions), int64(r.Migrations), int64(r.Suspends))
	for _, v := range [...]uint64{r.GPU, r.Effective, r.Shared, r.Wasted, r.Saved} {
		b = appendSeconds(append(b, ','), int64(v))
	}
	for _, n := range [...]Number{r.Rho, r.Miss} {
		if b = append(b, ','); n.Defined() {
			b = n.append(b)
		}
	}
	j.buf = b
	j.flush()
}

func (j *JobsWriter) time(b []byte, t model.Time, known bool) []byte {
	if b = append(b, ','); known {
		b = appendSeconds(b, int64(t-j.origin))
	}
	return b
}

// Close writes what is left and returns the first error.
func (j *JobsWriter) Close() error {
	if j.err == nil {
		j.err = j.w.Flush()
	}
	return j.err
}

func appendInts(b []byte, vs ...int64) []byte {
	for _, v := range vs {
		b = strconv.AppendInt(append(b, ','), v, 10)
	}
	return b
}

// appendSeconds appends microseconds as seconds, exactly.
func appendSeconds(b []byte, us int64) []byte {
	if us < 0 {
		b = append(b, '-')
		us = -us
	}
	b = strconv.AppendInt(b, us/1_000_000, 10)
	rest := us % 1_000_000
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(100_000); rest > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// appendText appends one field of a CSV line (RFC 4180). Bytes that are not UTF-8 are
// replaced.
func appendText(b []byte, s string) []byte {
	plain := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ',' || c == '"' || c == '\n' || c == '\r' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return append(b, s...)
	}
	b = append(b, '"')
	for _, c := range s {
		if c == '"' {
			b = append(b, '"')
		}
		b = utf8.AppendRune(b, c)
	}
	return append(b, '"')
}

// Bar is one attempt in the chart of jobs.
type Bar struct {
	From, To model.Time
	Cause    model.EndCause // "" while it runs
}

// maxBars bounds the bars of one job; further attempts lengthen the last bar.
const maxBars = 64

func addBar(bars []Bar, b Bar) []Bar {
	if len(bars) == maxBars {
		bars[maxBars-1].To, bars[maxBars-1].Cause = b.To, b.Cause
		return bars
	}
	return append(bars, b)
}

// maxGantt is how many jobs the chart of jobs shows.
const maxGantt = 40

// ganttJob is a job in the chart of jobs.
type ganttJob struct {
	row  Row
	bars []Bar
}

// gantt keeps the jobs with most GPU-time, as a heap with the least on top. Among equals the
// earlier job stays.
type gantt struct{ jobs []ganttJob }

func (g *gantt) less(i, k int) bool {
	a, b := &g.jobs[i].row, &g.jobs[k].row
	return a.GPU < b.GPU || a.GPU == b.GPU && a.ID > b.ID
}

func (g *gantt) offer(r *Row, bars []Bar) {
	n := len(g.jobs)
	switch {
	case len(bars) == 0:
		return
	case n < maxGantt:
		g.jobs = append(g.jobs, ganttJob{*r, append([]Bar(nil), bars...)})
		for i := n; i > 0 && g.less(i, (i-1)/2); i = (i - 1) / 2 {
			g.jobs[i], g.jobs[(i-1)/2] = g.jobs[(i-1)/2], g.jobs[i]
		}
		return
	case r.GPU < g.jobs[0].row.GPU, r.GPU == g.jobs[0].row.GPU && r.ID > g.jobs[0].row.ID:
		return
	}
	g.jobs[0] = ganttJob{*r, append(g.jobs[0].bars[:0], bars...)}
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if g.less(k, least) {
				least = k
			}
		}
		if least == i {
			return
		}
		g.jobs[i], g.jobs[least] = g.jobs[least], g.jobs[i]
		i = least
	}
}
