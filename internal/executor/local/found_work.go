package local

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// Look reads from a jobs folder and from the machine's processes which attempts there were. live
// names the jobs whose folders are read as well; the folders of all jobs would be too many.
func Look(dir, cluster string, live func(model.JobID) bool) (executor.FoundWork, error) {
	var seen executor.FoundWork
	e := &Executor{o: Options{Dir: dir, Cluster: cluster}, place: place(dir)}
	found, err := e.foundTasks()
	if err != nil {
		return seen, err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		attempt, _, _ := strings.Cut(name, "/")
		var a model.AttemptID
		if _, err := fmt.Sscanf(attempt, "%d.%d.%d", &a.Job, &a.Gang, &a.N); err == nil {
			seen.Attempts = append(seen.Attempts, a)
		}
		if s := found[name]; s.since > 0 {
			seen.Running = append(seen.Running, name)
		}
	}
	jobs, err := numbered(dir)
	if err != nil {
		return seen, err
	}
	for _, job := range jobs {
		id := model.JobID(job)
		if !live(id) {
			seen.Attempts = append(seen.Attempts, model.AttemptID{Job: id})
			continue
		}
		attempts, err := e.folders(id)
		if err != nil {
			return seen, err
		}
		seen.Attempts = append(seen.Attempts, attempts...)
	}
	return seen, nil
}

// folders returns the attempts of one job that have a folder.
func (e *Executor) folders(id model.JobID) ([]model.AttemptID, error) {
	entries, err := os.ReadDir(e.place.job(id))
	if err != nil {
		return nil, err
	}
	var found []model.AttemptID
	for _, entry := range entries {
		a := model.AttemptID{Job: id}
		_, err := fmt.Sscanf(entry.Name(), "%d.%d", &a.Gang, &a.N)
		if err == nil && a.N > 0 && fmt.Sprintf("%d.%d", a.Gang, a.N) == entry.Name() {
			found = append(found, a)
		}
	}
	return found, nil
}

// numbered returns the folders below dir whose names are numbers.
func numbered(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []int64
	for _, entry := range entries {
		var n int64
		if _, err := fmt.Sscanf(entry.Name(), "%d", &n); err == nil && n > 0 && fmt.Sprint(n) == entry.Name() {
			found = append(found, n)
		}
	}
	return found, nil
}
