package local

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/local/record"
	"github.com/combsched/comb/internal/sched"
)

const (
	progressEvery   = time.Second // at most one fact in this time
	maxProgressLine = 4096        // bytes
	maxProgressRead = 1 << 20     // bytes at one look; the rest waits for the next
	maxProgressTail = 16 << 20    // bytes at the last look
)

// report is one line of a progress file. Unknown keys are ignored.
type report struct {
	Step       figure `json:"step"`
	Total      figure `json:"total"`
	Loss       figure `json:"loss"`
	Iteration  figure `json:"iteration_s"`
	Memory     figure `json:"memory"` // MiB
	Checkpoint bool   `json:"checkpoint"`
}

// figure is a number as it was written, or one of the words that Python and others
// write for what is no number: NaN, Infinity, -Infinity.
type figure string

// UnmarshalJSON implements json.Unmarshaler.
func (f *figure) UnmarshalJSON(b []byte) error {
	var n json.Number
	if err := json.Unmarshal(bytes.Trim(b, `"`), &n); err == nil && len(b) > 0 && b[0] != '"' {
		*f = figure(n)
		return nil
	}
	if w := string(bytes.Trim(b, `"`)); slices.Contains(noNumbers, w) {
		*f = figure(w)
		return nil
	}
	return fmt.Errorf("%.40s is no number", b)
}

var noNumbers = []string{"-Infinity", "Infinity", "NaN"}

// quoteNoNumbers puts the words for what is no number, which JSON does not have, into
// quotes. Inside texts they stay.
func quoteNoNumbers(line []byte) []byte {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line
	}
	var out []byte
	for text := false; len(line) > 0; {
		word := slices.IndexFunc(noNumbers, func(w string) bool { return !text && bytes.HasPrefix(line, []byte(w)) })
		switch {
		case word >= 0:
			out = append(append(append(out, '"'), noNumbers[word]...), '"')
			line = line[len(noNumbers[word]):]
			continue
		case line[0] == '"':
			text = !text
		case line[0] == '\\' && len(line) > 1:
			out, line = append(out, line[0]), line[1:]
		}
		out, line = append(out, line[0]), line[1:]
	}
	return out
}

// told is how far a task's progress file was told, so that the next server goes
// on there. It is written one look late: what was told last may not be durable
// when the server dies, and is then told again.
type told struct {
	Offset int64  `json:"offset"`
	File   string `json:"file,omitempty"` // which one: see whichFile
}

// progress follows one task's progress file. Between two facts only the last
// line counts, except that a checkpoint is never passed over.
type progress struct {
	t        *task
	file     string
	at       told // the first byte that is not read
	confirm  told // to write at the next look
	written  told
	skipping bool // inside a line that is too long
	point    *sched.Progress
	latest   *sched.Progress
	warned   bool
}

func newProgress(t *task) *progress {
	p := &progress{t: t, file: filepath.Join(t.dir, progressFile)}
	if shared := filepath.Join(t.dir, sharedDir); t.spec().Boxed != nil {
		p.file = filepath.Join(shared, progressFile)
	}
	var before told
	if record.Read(t.dir, toldFile, &before) == nil && before.Offset > 0 {
		p.at, p.confirm, p.written = before, before, before
	}
	return p
}

// look reads what is new and tells at most one fact.
func (p *progress) look() {
	if p.confirm != p.written {
		if record.Write(p.t.dir, toldFile, p.confirm) == nil {
			p.written = p.confirm
		}
	}
	p.read(maxProgressRead)
	if p.tellOne(&p.point) || p.tellOne(&p.latest) {
		p.confirm = p.at
	}
}

// last tells all that is left, when the task has ended.
func (p *progress) last() {
	p.read(maxProgressTail)
	p.tellOne(&p.point)
	p.tellOne(&p.latest)
}

func (p *progress) tellOne(f **sched.Progress) bool {
	if *f == nil {
		return false
	}
	p.t.e.tell(**f)
	*f = nil
	return true
}

// read takes whole lines; a last line without its end waits.
func (p *progress) read(limit int64) {
	f, err := record.OpenPlain(p.file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.warn()
		}
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return
	}
	is := whichFile(f)
	if st.Size() < p.at.Offset || p.at.File != "" && p.at.File != is {
		p.at.Offset, p.skipping = 0, false // the task began it anew, or put another in its place
	}
	p.at.File = is
	if st.Size() == p.at.Offset {
		return
	}
	if _, err := f.Seek(p.at.Offset, io.SeekStart); err != nil {
		return
	}
	r := bufio.NewReaderSize(io.LimitReader(f, limit), maxProgressLine)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == nil:
			p.line(line)
		case errors.Is(err, bufio.ErrBufferFull):
			p.skipping = true
			p.warn()
		default:
			if p.skipping {
				p.at.Offset += int64(len(line))
			}
			return
		}
		p.at.Offset += int64(len(line))
	}
}

// whichFile tells a file from another that takes its name: by its number, and by when it was
// made, where the file system keeps that, since numbers are used again.
func whichFile(f *os.File) string {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

func (p *progress) line(line []byte) {
	if p.skipping {
		p.skipping = false
		return
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	var r report
	if err := json.Unmarshal(quoteNoNumbers(line), &r); err != nil {
		p.warn()
		return
	}
	f := sched.Progress{Attempt: p.t.at.id, Task: p.t.n, Checkpoint: r.Checkpoint,
		Step: r.Step.count(), Total: r.Total.count(), Loss: r.Loss.text(),
		Iteration: sched.Duration(bounded(r.Iteration.value() * float64(sched.Second))), MemoryMB: r.Memory.count()}
	if !f.Checkpoint {
		p.latest = &f
		return
	}
	if before := p.latest; before != nil { // it is not told any more, so what it alone says is told here
		f.Step, f.Total, f.Loss = cmp.Or(f.Step, before.Step), cmp.Or(f.Total, before.Total), cmp.Or(f.Loss, before.Loss)
		f.Iteration, f.MemoryMB = cmp.Or(f.Iteration, before.Iteration), cmp.Or(f.MemoryMB, before.MemoryMB)
	}
	p.point, p.latest = &f, nil
}

// value is the number; 0 where there is none.
func (f figure) value() float64 {
	v, err := strconv.ParseFloat(string(f), 64)
	if err != nil {
		return 0
	}
	return v
}

// count takes a step, also one written as 1e3; what is no number from 0 up is 0.
func (f figure) count() int64 {
	if v, err := strconv.ParseInt(string(f), 10, 64); err == nil {
		return max(v, 0)
	}
	return bounded(f.value())
}

func bounded(v float64) int64 {
	if math.IsNaN(v) || v <= 0 {
		return 0
	}
	return int64(min(v, 1<<53))
}

// text keeps a number as it was written, or, where that is long, as the shortest text of
// the same number.
func (f figure) text() string {
	if len(f) <= 32 {
		return string(f)
	}
	return strconv.FormatFloat(f.value(), 'g', -1, 64)
}

func (p *progress) warn() {
	if p.warned {
		return
	}
	p.warned = true
	if noteOnce(p.t.e.place.job(p.t.at.id.Job), "progress") {
		p.t.notice("lines of " + "COMB_PROGRESS_FILE that are not one JSON object of at most 4096 bytes are ignored")
	}
}
