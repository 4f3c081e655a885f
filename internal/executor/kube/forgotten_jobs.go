package kube

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/combsched/comb/internal/core/model"
)

// forgottenJobs holds the jobs whose records were deleted, after all their pods were proven gone. A
// pod that still has the name of such a job's pod is a user's copy. They are kept in a file that
// outlives the folders of the jobs; each line is a job or a range of jobs.
type forgottenJobs struct {
	mu   sync.Mutex
	file string
	jobs []jobRange // sorted, disjoint and not adjacent
}

// jobRange is a range of jobs, both ends included.
type jobRange struct{ from, to model.JobID }

// openForgottenJobs reads the file. It rewrites it where fewer lines would do, or where its last
// line is torn.
func openForgottenJobs(file string) (*forgottenJobs, error) {
	f := &forgottenJobs{file: file}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read which jobs are forgotten: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var r jobRange
		whole, ends := strings.CutSuffix(line, "\n")
		if n, _ := fmt.Sscanf(whole, "%d-%d", &r.from, &r.to); n == 1 {
			r.to = r.from
		}
		if ends && r.String() == whole { // else a crash of the machine has torn it
			f.add(r)
		}
	}
	if short := f.text(); short != string(text) {
		if err := writeSynced(file, short); err != nil {
			return nil, fmt.Errorf("cannot note which jobs are forgotten: %w", err)
		}
	}
	return f, nil
}

func (r jobRange) String() string {
	if r.from == r.to {
		return fmt.Sprint(int64(r.from))
	}
	return fmt.Sprintf("%d-%d", int64(r.from), int64(r.to))
}

func (f *forgottenJobs) text() string {
	var b strings.Builder
	for _, r := range f.jobs {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// add notes jobs in memory. f.mu is held, or f is not shared yet.
func (f *forgottenJobs) add(r jobRange) {
	// Ranges from first to last overlap the new one or are adjacent to it.
	first, _ := slices.BinarySearchFunc(f.jobs, r.from, func(old jobRange, from model.JobID) int { return cmp.Compare(old.to+1, from) })
	last := first
	for last < len(f.jobs) && f.jobs[last].from <= r.to+1 {
		r.from, r.to = min(r.from, f.jobs[last].from), max(r.to, f.jobs[last].to)
		last++
	}
	f.jobs = slices.Replace(f.jobs, first, last, r)
}

// has reports whether a job is forgotten.
func (f *forgottenJobs) has(id model.JobID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, found := slices.BinarySearchFunc(f.jobs, id, func(r jobRange, id model.JobID) int {
		switch {
		case r.to < id:
			return -1
		case r.from > id:
			return 1
		}
		return 0
	})
	return found
}

// note marks a job as forgotten. A crash of the machine may lose the line; nothing waits for the
// disk.
func (f *forgottenJobs) note(id model.JobID) (err error) {
	if f.has(id) {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot note that job %d is forgotten: %w", id, err)
		}
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(f.file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, int64(id))
	if err = errors.Join(err, out.Close()); err == nil {
		f.add(jobRange{id, id})
	}
	return err
}
