package trace

import (
	"bytes"
	"math"

	"github.com/combsched/comb/internal/core/model"
)

func knowsPhilly(_ []string, head []byte) bool {
	head = bytes.TrimSpace(head)
	return bytes.HasPrefix(head, []byte("[")) && bytes.Contains(head, []byte(`"jobid"`)) && bytes.Contains(head, []byte(`"attempts"`))
}

// openPhilly reads cluster_job_log of the Philly trace (Jeon et al., ATC'19): a JSON array of
// jobs with their attempts. A job's Duration is the sum over its attempts. Its GPUs and Nodes
// are those of its widest attempt, since the log does not say what was asked for. A job
// without attempts, or without GPUs in them, is skipped.
func openPhilly(l *lines, o *opening) (source, error) {
	p := &philly{in: entries{lines: l, line: 1}, o: o}
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
	b, err := p.in.next()
	if err != nil {
		return Job{}, "", err
	}
	c := &p.c
	c.reset(b, p.in.fromLine)
	c.column = p.in.fromColumn
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

// finish sums up the attempts. Their starts are seconds of the epoch until here.
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

// noDate stands for a missing date.
const noDate = model.Time(math.MinInt64)

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
			a.Start = model.Time(p.date())
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
		a.Duration = model.Duration(end-int64(a.Start)) * model.Second
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
	t, wrong := p.zero.date(b)
	if wrong != "" {
		p.c.fail(at, "no date", "%s", wrong)
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
