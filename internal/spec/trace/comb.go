package trace

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
)

// combMark is the key that identifies a comb trace. combVersion is the version that is read
// and written.
const (
	combMark    = "comb_trace"
	combVersion = 1
)

// openComb reads our own format: a header line, then one JSON object a line, in
// order of submission. An unknown key is a mistake.
func openComb(l *lines, _ *opening) (source, error) {
	s := &combSource{lines: l, c: cursor{file: l.file, names: &interner{}}}
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	s.c.reset(line, l.n)
	version := int64(0)
	s.c.object(func(key []byte) {
		if string(key) == combMark {
			version = s.c.whole(span{0, maxCount})
		} else {
			s.c.skip()
		}
	})
	s.c.end()
	switch {
	case s.c.err != nil:
		return nil, s.c.err
	case version == 0:
		return nil, &Error{File: l.file, Line: 1, Kind: "no header", Text: `the first line must be {"` + combMark + `":1}`}
	case version != combVersion:
		return nil, &Error{File: l.file, Line: 1, Kind: "unknown version",
			Text: fmt.Sprintf("this is version %d of the comb format; this program reads version %d", version, combVersion)}
	}
	s.c.row = true
	return s, nil
}

type combSource struct {
	*lines
	c    cursor
	last model.Time
}

func (s *combSource) next() (Job, string, error) {
	for {
		line, err := s.lines.next()
		if err != nil {
			return Job{}, "", err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		s.c.reset(line, s.n)
		var j Job
		s.job(&j)
		s.check(&j)
		if s.c.err != nil {
			return Job{}, "", s.c.err
		}
		s.last = j.Submit
		return j, "", nil
	}
}

// check checks what cannot be checked key by key.
func (s *combSource) check(j *Job) {
	s.c.end()
	switch {
	case s.c.err != nil:
	case j.ID == "":
		s.c.fail(0, isEmpty, "the job has no id")
	case j.GPUs == 0:
		s.c.fail(0, isEmpty, "job %q has no gpus; want at least 1", j.ID)
	case j.Submit < s.last:
		s.c.fail(0, "out of order", "job %q is submitted before the one above it; sort the lines by submit_us", j.ID)
	case (j.MinGPUs == 0) != (j.MaxGPUs == 0) || j.MinGPUs > 0 && (j.GPUs < j.MinGPUs || j.GPUs > j.MaxGPUs):
		s.c.fail(0, "contradiction", "job %q: gpus_min and gpus_max come together, with gpus between them", j.ID)
	case j.Loss != nil && (j.Loss.Last > j.Loss.First || j.Loss.Half == 0):
		s.c.fail(0, "contradiction", "job %q: a loss falls from first to last, and has half_us above 0", j.ID)
	case len(j.Deadlines) > 0 && j.Class == BestEffort:
		s.c.fail(0, "contradiction", "job %q has deadlines and is besteffort; remove one of the two", j.ID)
	}
	for i := 1; i < len(j.Deadlines); i++ {
		if a, b := j.Deadlines[i-1], j.Deadlines[i]; b.After <= a.After || b.Value > a.Value {
			s.c.fail(0, "contradiction", "deadlines of job %q: they must rise and their values must not", j.ID)
		}
	}
}

var (
	anyGPUs   = span{0, MaxGPUs}
	someGPUs  = span{1, MaxGPUs}
	partOfGPU = span{0, 1000}
	anyRank   = span{-maxPriority, maxPriority}
)

// job reads one object. The keys are listed in the order in which they are written.
func (s *combSource) job(j *Job) {
	c := &s.c
	c.object(func(key []byte) {
		switch string(key) {
		case "id":
			j.ID = string(c.str())
		case "submit_us":
			j.Submit = model.Time(c.whole(anyTime))
		case "duration_us":
			j.Duration = model.Duration(c.whole(anyTime))
		case "gpus":
			j.GPUs = int32(c.whole(someGPUs))
		case "user":
			j.User = c.name()
		case "vc":
			j.VC = c.name()
		case "app":
			j.App = c.name()
		case "model":
			j.Model = c.name()
		case "class":
			j.Class = s.word(Strict, Soft, BestEffort)
		case "outcome":
			j.Outcome = Outcome(s.word(string(Passed), string(Failed), string(Killed)))
		default:
			s.rareKey(j, key)
		}
	})
}

func (s *combSource) rareKey(j *Job, key []byte) {
	c := &s.c
	switch string(key) {
	case "estimate_us":
		j.Estimate = model.Duration(c.whole(anyTime))
	case "gpu_milli":
		j.GPUMilli = int32(c.whole(partOfGPU))
	case "gpus_min":
		j.MinGPUs = int32(c.whole(someGPUs))
	case "gpus_max":
		j.MaxGPUs = int32(c.whole(someGPUs))
	case "loss":
		loss := s.curve()
		j.Loss = &loss
	case "skus":
		j.SKUs = nil
		s.list(func() { j.SKUs = append(j.SKUs, c.name()) })
	case "milli_cpu":
		j.MilliCPU = c.whole(anyCount)
	case "memory_mb":
		j.MemoryMB = c.whole(anyCount)
	case "nodes":
		j.Nodes = int32(c.whole(anyGPUs))
	case "tasks":
		j.Tasks = nil
		s.list(func() { j.Tasks = append(j.Tasks, s.task()) })
	case "priority":
		j.Priority = int32(c.whole(anyRank))
	case "weight_milli":
		j.Weight = c.whole(anyCount)
	case "deadlines":
		j.Deadlines = nil
		s.list(func() { j.Deadlines = append(j.Deadlines, s.deadline()) })
	case "iterations":
		j.Iterations = c.whole(anyCount)
	case "interval_us":
		j.Interval = model.Duration(c.whole(anyTime))
	case "attempts":
		j.Attempts = nil
		s.list(func() { j.Attempts = append(j.Attempts, s.attempt()) })
	case "failure":
		j.Failure = c.name()
	default:
		s.unknown(key, combKeys())
	}
}

// combKeys are the keys of a job.
func combKeys() []string {
	return []string{"id", "submit_us", "duration_us", "gpus", "user", "vc", "app", "model", "class", "outcome", "estimate_us",
		"gpu_milli", "skus", "milli_cpu", "memory_mb", "nodes", "tasks", "priority", "weight_milli", "deadlines", "iterations",
		"interval_us", "attempts", "failure", "gpus_min", "gpus_max", "loss"}
}

func (s *combSource) unknown(key []byte, known []string) {
	s.c.fail(s.c.at, "unknown key", "there is no such key%s", document.DidYouMean(string(key), known))
}

// word reads one of the known texts.
func (s *combSource) word(known ...string) string {
	s.c.look()
	at := s.c.at
	b := s.c.str()
	for _, k := range known {
		if string(b) == k {
			return k
		}
	}
	s.c.fail(at, "unknown word", "%s is none of %v", quoted(b), known)
	return ""
}

// list reads an array of at most maxList entries.
func (s *combSource) list(each func()) {
	n := 0
	s.c.array(func() {
		if n++; n > maxList {
			s.c.fail(s.c.at, "list too long", "more than %d entries", maxList)
			return
		}
		each()
	})
}

func (s *combSource) task() (t Task) {
	c := &s.c
	known := []string{"name", "instances", "gpu_milli", "milli_cpu", "memory_mb", "sku"}
	t.Instances = 1
	c.object(func(key []byte) {
		switch slices.Index(known, string(key)) {
		case 0:
			t.Name = c.name()
		case 1:
			t.Instances = int32(c.whole(someGPUs))
		case 2:
			t.GPUMilli = int32(c.whole(span{0, 1000 * MaxGPUs}))
		case 3:
			t.MilliCPU = c.whole(anyCount)
		case 4:
			t.MemoryMB = c.whole(anyCount)
		case 5:
			t.SKU = c.name()
		default:
			s.unknown(key, known)
		}
	})
	return t
}

func (s *combSource) deadline() (d model.Deadline) {
	c := &s.c
	known := []string{"after_us", "value"}
	c.object(func(key []byte) {
		switch slices.Index(known, string(key)) {
		case 0:
			d.After = model.Duration(c.whole(anyTime))
		case 1:
			d.Value = c.whole(anyCount)
		default:
			s.unknown(key, known)
		}
	})
	return d
}

// anyLoss is a loss in billionths, at most a million.
var anyLoss = span{0, 1_000_000_000_000_000}

func (s *combSource) curve() (v Curve) {
	c := &s.c
	known := []string{"first", "last", "half_us"}
	c.object(func(key []byte) {
		switch slices.Index(known, string(key)) {
		case 0:
			v.First = c.number(9, anyLoss)
		case 1:
			v.Last = c.number(9, anyLoss)
		case 2:
			v.Half = model.Duration(c.whole(anyTime))
		default:
			s.unknown(key, known)
		}
	})
	return v
}

func (s *combSource) attempt() (a Attempt) {
	c := &s.c
	known := []string{"start_us", "duration_us", "gpus", "nodes"}
	c.object(func(key []byte) {
		switch slices.Index(known, string(key)) {
		case 0:
			a.Start = model.Time(c.whole(span{-maxTime, maxTime}))
		case 1:
			a.Duration = model.Duration(c.whole(anyTime))
		case 2:
			a.GPUs = int32(c.whole(anyGPUs))
		case 3:
			a.Nodes = int32(c.whole(anyGPUs))
		default:
			s.unknown(key, known)
		}
	})
	return a
}
