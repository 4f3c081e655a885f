package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/combsched/comb/internal/sched"
)

func knowsPhilly(_ []string, head []byte) bool {
	head = bytes.TrimSpace(head)
	return bytes.HasPrefix(head, []byte("[")) && bytes.Contains(head, []byte(`"jobid"`)) && bytes.Contains(head, []byte(`"attempts"`))
}

// openPhilly reads cluster_job_log of the Philly trace (Jeon et al., ATC'19): a JSON
// array of jobs with their attempts. A job's Duration is the sum of its attempts',
// its GPUs and Nodes those of its widest attempt, since the log does not say what
// was asked for. A job without attempts, or without GPUs in them, is passed over.
func openPhilly(l *lines, o *opening) (source, error) {
	p := &philly{in: entries{lines: l}, o: o}
	p.c = cursor{file: l.file, names: &interner{}, row: true}
	return p, nil
}

type philly struct {
	in   entries
	c    cursor
	o    *opening
	zero zeroDate
}

func (p *philly) next() (Job, string, error) {
	b, line, err := p.in.next()
	if err != nil {
		return Job{}, "", err
	}
	c := &p.c
	c.reset(b, line)
	j := Job{}
	submitted, hasID := int64(math.MinInt64), false
	c.object(func(key []byte) {
		switch string(key) {
		case "jobid":
			j.ID, hasID = string(c.str()), true
		case "user":
			j.User = c.name()
		case "vc":
			j.VC = c.name()
		case "submitted_time":
			submitted = p.date()
		case "status":
			j.Outcome = p.status()
		case "attempts":
			c.array(func() { p.attempt(&j) })
		default:
			c.skip()
		}
	})
	c.end()
	if c.err == nil && (!hasID || j.ID == "") {
		c.fail(0, isEmpty, "the job has no jobid")
	}
	if c.err == nil && submitted == math.MinInt64 {
		c.fail(0, isEmpty, "job %q has no submitted_time; give it a date or remove it", j.ID)
	}
	if c.err != nil {
		return Job{}, "", c.err
	}
	return p.finish(j, submitted)
}

// finish sums the attempts up. Their starts are seconds of the epoch until here.
func (p *philly) finish(j Job, submitted int64) (Job, string, error) {
	j.Submit = p.zero.from(submitted)
	for i := range j.Attempts {
		a := &j.Attempts[i]
		if a.Start != noDate {
			a.Start = p.zero.from(int64(a.Start))
		} else {
			a.Start = j.Submit
			p.o.odd("attempt without a start: taken as the submission")
		}
		if a.Duration == 0 {
			p.o.odd("attempt without both times: counts nothing")
		}
		j.Duration += a.Duration
		j.GPUs, j.Nodes = max(j.GPUs, a.GPUs), max(j.Nodes, a.Nodes)
	}
	switch {
	case len(j.Attempts) == 0:
		return j, skipNoAttempt, nil
	case j.GPUs == 0:
		return j, skipNoGPU, nil
	}
	return j, "", nil
}

// noDate stands for a date that is not there.
const noDate = sched.Time(math.MinInt64)

func (p *philly) attempt(j *Job) {
	if len(j.Attempts) == maxList {
		p.c.fail(p.c.at, "list too long", "more than %d attempts", maxList)
		return
	}
	a := Attempt{Start: noDate}
	end := int64(noDate)
	p.c.object(func(key []byte) {
		switch string(key) {
		case "start_time":
			a.Start = sched.Time(p.date())
		case "end_time":
			end = p.date()
		case "detail":
			p.c.array(func() { p.detail(&a) })
		default:
			p.c.skip()
		}
	})
	switch {
	case a.Start == noDate || end == int64(noDate):
	case end < int64(a.Start):
		p.o.odd("attempt that ends before it starts: counts nothing")
	default:
		a.Duration = sched.Duration(end-int64(a.Start)) * sched.Second
	}
	j.Attempts = append(j.Attempts, a)
}

// detail reads the GPUs of one node.
func (p *philly) detail(a *Attempt) {
	n := int32(0)
	p.c.object(func(key []byte) {
		if string(key) == "gpus" {
			p.c.array(func() { p.c.str(); n++ })
		} else {
			p.c.skip()
		}
	})
	if a.GPUs > MaxGPUs-n {
		p.c.fail(p.c.at, tooLarge, "more than %d GPUs", MaxGPUs)
		return
	}
	if n > 0 {
		a.GPUs += n
		a.Nodes++
	}
}

// date reads a date in quotes; null and "None" are none.
func (p *philly) date() int64 {
	if p.c.null() {
		return int64(noDate)
	}
	p.c.look()
	at := p.c.at
	b := p.c.str()
	if p.c.err != nil || len(b) == 0 || string(b) == "None" {
		return int64(noDate)
	}
	t, ok := date(b)
	if !ok {
		p.c.fail(at, "no date", "%s is no date; want YYYY-MM-DD HH:MM:SS", quoted(b))
	}
	return t
}

func (p *philly) status() Outcome {
	p.c.look()
	at := p.c.at
	switch b := p.c.str(); string(b) {
	case "Pass":
		return Passed
	case "Failed":
		return Failed
	case "Killed":
		return Killed
	default:
		p.c.fail(at, "unknown word", "%s is no status; want Pass, Failed or Killed", quoted(b))
		return ""
	}
}

// entries cuts a JSON array that does not fit into memory into its entries.
type entries struct {
	*lines
	rest  []byte // of the current line
	begun bool
	ended bool
	count int
	buf   []byte
}

// next gives one entry and the line on which it begins.
func (e *entries) next() ([]byte, int, error) {
	if e.ended {
		return nil, 0, io.EOF
	}
	b, err := e.signs()
	switch {
	case err != nil:
		return nil, 0, err
	case b == ']':
		return nil, 0, e.tail()
	case b != '{':
		return nil, 0, e.wrong("want an entry in { }, found " + quoted([]byte{b}))
	}
	e.count++
	return e.whole()
}

// signs passes over what stands between entries and gives the byte that follows.
func (e *entries) signs() (byte, error) {
	if !e.begun {
		b, err := e.sign()
		if err != nil {
			return 0, err
		}
		if b != '[' {
			return 0, e.wrong("want a JSON array of jobs, found " + quoted([]byte{b}))
		}
		e.begun = true
		e.rest = e.rest[1:]
		return e.sign()
	}
	b, err := e.sign()
	if err == nil && b == ',' {
		e.rest = e.rest[1:]
		if b, err = e.sign(); err == nil && b == ']' {
			return 0, e.wrong("a comma before the end of the array; remove it")
		}
	} else if err == nil && b == '{' {
		return 0, e.wrong("a comma between two entries is missing")
	}
	return b, err
}

// sign gives the next byte that is no white space, without passing over it.
func (e *entries) sign() (byte, error) {
	for {
		e.rest = bytes.TrimLeft(e.rest, " \t\r\n")
		if len(e.rest) > 0 {
			return e.rest[0], nil
		}
		if err := e.more(); err != nil {
			return 0, err
		}
	}
}

// more reads a line; the file must not end before the array does.
func (e *entries) more() error {
	line, err := e.lines.next()
	var bad *Error
	switch {
	case errors.Is(err, io.EOF) && e.n == 0:
		return io.EOF
	case errors.Is(err, io.EOF):
		return e.wrong("the file ends inside the array: it is not whole")
	case errors.As(err, &bad):
		bad.Row = false // where the next entry begins is not known
		return bad
	case err != nil:
		return err
	}
	e.rest = line
	return nil
}

func (e *entries) wrong(text string) error {
	e.ended = true
	return &Error{File: e.file, Line: max(e.n, 1), Kind: "bad JSON", Text: text}
}

// tail wants that nothing follows the array.
func (e *entries) tail() error {
	e.rest = e.rest[1:]
	for {
		if rest := bytes.TrimSpace(e.rest); len(rest) > 0 {
			return e.wrong("want nothing behind the array, found " + quoted(rest))
		}
		line, err := e.lines.next()
		if err != nil {
			e.ended = true
			return err
		}
		e.rest = line
	}
}

// whole collects an entry up to its closing brace, knowing only quotes and depth.
func (e *entries) whole() ([]byte, int, error) {
	e.buf = e.buf[:0]
	line, depth, quote := e.n, 0, false
	for {
		for i := 0; i < len(e.rest); i++ {
			switch c := e.rest[i]; {
			case quote && c == '\\':
				i++
			case c == '"':
				quote = !quote
			case quote:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				if depth--; depth == 0 {
					e.buf = append(e.buf, e.rest[:i+1]...)
					e.rest = e.rest[i+1:]
					return e.buf, line, nil
				}
			}
		}
		e.buf = append(append(e.buf, e.rest...), '\n')
		if len(e.buf) > maxEntry {
			return nil, 0, e.wrong(fmt.Sprintf("the entry that begins on line %d has more than %d bytes", line, maxEntry))
		}
		if err := e.more(); err != nil {
			return nil, 0, err
		}
	}
}
