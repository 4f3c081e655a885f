package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/combsched/comb/internal/core/perf"
)

// Options say how to read a trace. The zero value detects the format, and each bad row is an
// error that the caller sees.
type Options struct {
	Format  Format // "" and "auto" look into the file
	Lenient bool   // pass over bad rows and count them
	// Throughputs and GPU turn the steps of a gavel trace into run times. GPU is the type
	// whose speed counts, such as "v100".
	Throughputs *perf.Throughputs
	GPU         string
	// JobTable is the pai_job_table that belongs to a pai_task_table. Where it is empty, a
	// file of that name beside the task table is read.
	JobTable string
	// VC is the virtual cluster of jobs for which the trace names none.
	VC       string
	MaxBytes int64 // after decompression; 0 is DefaultMaxBytes
}

// source reads the jobs of one file in its order. skip says in a few words why an entry is
// not a job; "" is a job. The end is io.EOF.
type source interface {
	next() (job Job, skip string, err error)
}

// Reader reads one trace, once.
type Reader struct {
	file    string
	format  Format
	src     source
	closing sync.Mutex
	close   []io.Closer
	lenient bool
	vc      string
	used    bool
	skipped counts
	bad     counts
	odd     counts
	// again opens the same file once more; nil where that cannot be done.
	again func() (*Reader, error)
	order *Order // of what was read to its end
}

// Open opens a trace file, gzip or plain. An unknown format, a missing column or a missing
// option is an error here. A bad row is an error of Jobs.
func Open(path string, o Options) (*Reader, error) {
	f, err := os.Open(path)
	if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("cannot read %s: %w", path, bad.Err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a folder; name the file with the jobs in it", path)
	}
	given := o // the second reading looks for the job table itself
	if o.JobTable == "" {
		o.JobTable = tableBeside(path)
	}
	r, err := NewReader(path, f, o)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.close = append(r.close, f)
	if given.JobTable != "" && r.format != Alibaba2020 {
		r.Close()
		return nil, fmt.Errorf("%s: a job table belongs to an alibaba2020 trace, and this is read as %s; leave out --job-table", path, r.format)
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		given.Format = r.format
		r.again = func() (*Reader, error) { return Open(path, given) }
	}
	return r, nil
}

// OpenStream reads a stream as NewReader does, for callers of InOrder. What must be read
// twice for that is copied into a nameless temporary file until the reader is closed. The
// limit Options.MaxBytes then also holds before unpacking.
func OpenStream(name string, in io.Reader, o Options) (*Reader, error) {
	s := &spool{in: in, name: name, most: spoolHead}
	if 0 < o.MaxBytes && o.MaxBytes < s.most {
		s.most = o.MaxBytes
	}
	r, l, err := recognize(name, s, o)
	if err != nil {
		return nil, err
	}
	if r.Ordered() {
		s.done, s.head = true, nil
		if err := r.begin(l, o); err != nil {
			return nil, err
		}
		return r, nil
	}
	f, err := s.keep(o.MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := r.begin(l, o); err != nil {
		f.Close()
		return nil, err
	}
	r.close = append(r.close, f)
	o.Format = r.format
	r.again = func() (*Reader, error) { return NewReader(name, io.NewSectionReader(f, 0, s.size), o) }
	return r, nil
}

// spoolHead bounds what a spool holds in memory. It is more than the buffers of lines hold,
// which is all that is read before the format is known.
const spoolHead = 4 << 20

// spool copies what is read: into memory first, then into a file.
type spool struct {
	in   io.Reader
	name string // of the stream, for errors
	head []byte
	out  io.Writer // the file; nil before keep
	done bool      // nothing is copied any more
	size int64
	most int64
	full error // the error of Read once the stream had too many bytes
}

// keep goes on with a file. Its name is removed before anything is written, so that the file
// goes away with the program, however that ends.
func (s *spool) keep(most int64) (*os.File, error) {
	f, err := os.CreateTemp("", "comb-trace-")
	if err == nil {
		if err = os.Remove(f.Name()); err == nil {
			_, err = f.Write(s.head)
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot keep %s for a second reading: %w; name a folder with room for it in TMPDIR, or convert a file", s.name, err)
	}
	if most <= 0 {
		most = DefaultMaxBytes
	}
	s.out, s.head, s.most = f, nil, most
	return f, nil
}

// Read implements io.Reader. A stream with too many bytes, even if it unpacks to few, is an
// *Error.
func (s *spool) Read(p []byte) (int, error) {
	if s.full != nil {
		return 0, s.full
	}
	n, err := s.in.Read(p)
	if s.done || n <= 0 {
		return n, err
	}
	if s.size += int64(n); s.size > s.most {
		where := "to keep for a second reading"
		if s.out == nil {
			where = "before its format can be told"
		}
		s.full = &Error{File: s.name, Kind: "file too large", Text: fmt.Sprintf("the stream has more than %d bytes %s; split it", s.most, where)}
		return 0, s.full
	}
	if s.out == nil {
		s.head = append(s.head, p[:n]...)
	} else if _, wrong := s.out.Write(p[:n]); wrong != nil {
		return 0, fmt.Errorf("and keep it for a second reading: %w", wrong)
	}
	return n, err
}

// JobTable is the job table that is read with a trace: the one that the options name, or the
// one beside an alibaba2020 trace. It is "" where there is none.
func JobTable(path string, o Options) string {
	f, err := os.Open(path)
	if err != nil || o.JobTable != "" {
		return o.JobTable
	}
	defer f.Close()
	r, _, err := recognize(path, f, o)
	if err != nil || r.format != Alibaba2020 {
		return ""
	}
	return tableBeside(path)
}

func tableBeside(path string) string {
	return siblingFile(path, "pai_job_table.csv", "pai_job_table.csv.gz")
}

// siblingFile returns the first of the names that is a file in the folder of path.
func siblingFile(path string, names ...string) string {
	for _, name := range names {
		p := filepath.Join(filepath.Dir(path), name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// NewReader reads a trace from a stream; name stands for it in errors.
func NewReader(name string, in io.Reader, o Options) (*Reader, error) {
	r, l, err := recognize(name, in, o)
	if err == nil {
		err = r.begin(l, o)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// recognize makes a reader whose format is known, and has read no more than detection needs.
func recognize(name string, in io.Reader, o Options) (*Reader, *lines, error) {
	r := &Reader{file: name, format: o.Format, lenient: o.Lenient, vc: o.VC}
	l, err := newLines(name, in, o.MaxBytes)
	if err == nil && (o.Format == "" || o.Format == Auto) {
		r.format, err = detect(l)
	}
	if err == nil && formatNamed(r.format) == nil {
		err = fmt.Errorf("there is no trace format %q; want one of %s", o.Format, FormatNames())
	}
	return r, l, err
}

// begin reads the head of the file.
func (r *Reader) begin(l *lines, o Options) error {
	var err error
	r.src, err = formatNamed(r.format).open(l, &opening{o, r})
	if errors.Is(err, io.EOF) {
		return &Error{File: r.file, Kind: "empty", Text: "the file is empty"}
	}
	return err
}

// opening is what a format's open function gets.
type opening struct {
	Options
	reader *Reader
}

// odd counts something in the file that was repaired or left out.
func (o *opening) odd(what string) { o.reader.odd.add(what) }

// Format is the format that is read, also where it was detected.
func (r *Reader) Format() Format { return r.format }

// Skipped counts the entries that are not jobs, such as those without a GPU, by reason.
func (r *Reader) Skipped() []Count { return r.skipped }

// Bad counts what Lenient skipped, by what was wrong.
func (r *Reader) Bad() []Count { return r.bad }

// Odd counts what was repaired. It is complete only when all jobs were read.
func (r *Reader) Odd() []Count { return r.odd }

// Close closes the file. It may be called while jobs are read, and ends the reading.
func (r *Reader) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	var errs []error
	for _, c := range r.close {
		errs = append(errs, c.Close())
	}
	r.close = nil
	return errors.Join(errs...)
}

// Jobs returns the jobs in the file's order, in constant memory. Only alibaba2020, whose jobs
// are spread over the file, is gathered and comes in order of submission. Submit counts from
// the file's own zero. Where that is a date it counts from the first job of the file, and can
// be negative. After an error of a row the sequence can go on. After another error it ends.
func (r *Reader) Jobs() iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		if r.used {
			yield(Job{}, errors.New("this trace was read already; open it again"))
			return
		}
		r.used = true
		order, failed := &Order{}, false
		for {
			job, skip, err := r.src.next()
			var bad *Error
			switch {
			case errors.Is(err, io.EOF):
				order.finish()
				r.order = order
				if order.jobs == 0 && !failed {
					yield(Job{}, r.noJobs())
				}
				return
			case errors.As(err, &bad) && bad.Row && r.lenient:
				r.bad.add(bad.Kind)
				continue
			case err != nil:
				if failed = true; !yield(Job{}, err) || bad == nil || !bad.Row {
					return
				}
				continue
			case skip != "":
				r.skipped.add(skip)
				continue
			}
			if job.VC == "" {
				job.VC = r.vc
			}
			order.add(job.Submit)
			if !yield(job, nil) {
				return
			}
		}
	}
}

// noJobs is the error of a file without a job, which is never what was meant.
func (r *Reader) noJobs() error {
	text := "the file has no job"
	for _, c := range slices.Concat(r.skipped, r.bad) {
		text += fmt.Sprintf("; %d passed over (%s)", c.N, c.What)
	}
	return &Error{File: r.file, Kind: "no job", Text: text + "; name a file with jobs that use GPUs"}
}

// ShownErrors is how many bad rows an error names.
const ShownErrors = 10

// Load reads a whole trace in the order of InOrder, once. Its error names the first bad rows.
func Load(path string, o Options) ([]Job, *Reader, error) {
	r, err := Open(path, o)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	r.again = nil // everything is held anyway
	var all []Job
	for j, err := range Good(r.InOrder()) {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, j)
	}
	return all, r, nil
}

// BadRows are the first bad rows of a trace, at most ShownErrors.
type BadRows []error

// Error is a line for each.
func (b BadRows) Error() string { return errors.Join(b...).Error() }

// Unwrap gives the errors.
func (b BadRows) Unwrap() []error { return b }

// Good returns the jobs up to the first error. It then reads on without returning jobs, and
// ends with one BadRows of that error and the further ones.
func Good(jobs iter.Seq2[Job, error]) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		var bad BadRows
		for j, err := range jobs {
			if err != nil {
				if bad = append(bad, err); len(bad) == ShownErrors {
					break
				}
				continue
			}
			if len(bad) == 0 && !yield(j, nil) {
				return
			}
		}
		if len(bad) > 0 {
			yield(Job{}, bad)
		}
	}
}
