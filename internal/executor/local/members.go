package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
)

// membersFile, in a job's folder, lists the job's running tasks. All its tasks read it.
const membersFile = "members.json"

// membersPause gathers changes that come together, such as when a gang starts, or when a
// restarted server finds tasks again.
const membersPause = 100 * time.Millisecond

// member is one running task, with its processes.
type member struct {
	executor.Member
	top process.ID // all its processes are below this one
}

// roster keeps the members of every job whose tasks may come and go.
type roster struct {
	e     *Executor
	files sync.Mutex // one writer at a time
	mu    sync.Mutex
	jobs  map[model.JobID]*jobMembers
}

// jobMembers are the members of one job.
type jobMembers struct {
	version int64
	signal  unix.Signal // sent to its tasks after each change; 0: none
	members map[int32]*member
	// expected are tasks that may live or not: until it is known, a file without them could be
	// wrong.
	expected map[int32]bool
	adopting bool // tasks from before the start may not all have been named yet
	changed  bool
	writing  bool // a goroutine is about to write
}

// of returns the jobMembers of a task's job, nil where the job needs none; r.mu is held.
func (r *roster) of(t *liveTask) *jobMembers {
	if t.start == nil || !t.at.start.Job.Varies() {
		return nil
	}
	id := t.at.id.Job
	c := r.jobs[id]
	if c == nil {
		c = &jobMembers{members: map[int32]*member{}, expected: map[int32]bool{}}
		var before executor.Membership
		if safefile.Read(r.e.place.job(id), membersFile, &before) == nil && before.Version > 0 &&
			before.Version < 1<<53 {
			c.version = before.Version
		}
		if name := t.at.start.Job.Hints.MembersSignal; name != "" {
			c.signal = unix.SignalNum("SIG" + name)
		}
		r.jobs[id] = c
	}
	return c
}

// ensure makes the file of a job that has none, so that its first task finds one.
func (r *roster) ensure(t *liveTask) error {
	if !t.at.start.Job.Varies() {
		return nil
	}
	r.files.Lock()
	defer r.files.Unlock()
	dir := r.e.place.job(t.at.id.Job)
	if _, err := os.Lstat(filepath.Join(dir, membersFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return safefile.Write(dir, membersFile, executor.Membership{Members: []executor.Member{}})
}

// expect notes that a task may live already.
func (r *roster) expect(t *liveTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.of(t); c != nil {
		c.expected[t.n], c.adopting = true, true
	}
}

// adopted notes that all tasks from before the start were named.
func (r *roster) adopted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.jobs {
		c.adopting = false
		if c.changed {
			r.change(id, c)
		}
	}
}

// open reports whether a file written now could be wrong; r.mu is held.
func (c *jobMembers) open() bool { return c.adopting || len(c.expected) > 0 }

// join notes that a task runs, and where.
func (r *roster) join(t *liveTask, host string, top process.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(t)
	if c == nil {
		return
	}
	delete(c.expected, t.n)
	m := &member{executor.Member{Role: t.at.start.Job.Roles[t.start.Role].Name, Index: t.start.Index, Host: host}, top}
	m.Ports = r.e.ports.Labelled(t.at.id.Job, t.n)
	if before := c.members[t.n]; before != nil {
		m.Leaving = before.Leaving
	}
	c.members[t.n] = m
	r.change(t.at.id.Job, c)
}

// leaving notes that a task was asked to stop; one that does not run yet is not a member.
func (r *roster) leaving(t *liveTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(t)
	if c == nil || c.members[t.n] == nil || c.members[t.n].Leaving {
		return
	}
	c.members[t.n].Leaving = true
	r.change(t.at.id.Job, c)
}

// leave notes that a task is over.
func (r *roster) leave(t *liveTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(t)
	if c == nil || r.e.ctx.Err() != nil {
		return // a closing server does not know of an end of the task
	}
	delete(c.expected, t.n)
	delete(c.members, t.n)
	r.change(t.at.id.Job, c)
}

// change schedules a write of the file; r.mu is held.
func (r *roster) change(id model.JobID, c *jobMembers) {
	c.changed = true
	if c.writing || c.open() {
		return
	}
	c.writing = true
	r.e.wg.Go(func() { r.write(id, c) })
}

// write writes the file until nothing changes any more.
func (r *roster) write(id model.JobID, c *jobMembers) {
	pause := membersPause
	for {
		select {
		case <-r.e.ctx.Done():
			return
		case <-time.After(pause):
		}
		r.mu.Lock()
		if !c.changed || c.open() {
			c.writing = false
			if len(c.members)+len(c.expected) == 0 && !c.changed {
				delete(r.jobs, id)
			}
			r.mu.Unlock()
			return
		}
		c.changed = false
		c.version++
		var tops []process.ID
		now := executor.Membership{Version: c.version, Members: []executor.Member{}}
		for _, n := range slices.Sorted(maps.Keys(c.members)) {
			now.Members = append(now.Members, c.members[n].Member)
			tops = append(tops, c.members[n].top)
		}
		r.mu.Unlock()
		r.files.Lock()
		err := r.put(id, now)
		r.files.Unlock()
		if err != nil {
			if pause == membersPause {
				r.e.o.Log.Warn("tell a job's tasks of its members; it is tried again where the disk is what fails", "job", id, "error", err)
			}
			pause = diskPause
			r.mu.Lock()
			c.changed = c.changed || ofDisk(err)
			r.mu.Unlock()
			continue
		}
		pause = membersPause
		if c.signal != 0 {
			tellMembers(tops, c.signal)
		}
	}
}

// share makes the folder in which containers of a job see its members.
func (r *roster) share(id model.JobID) error {
	r.files.Lock()
	defer r.files.Unlock()
	dir := filepath.Join(r.e.place.job(id), sharedMembers)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	var now executor.Membership
	if err := safefile.Read(r.e.place.job(id), membersFile, &now); err != nil {
		return err
	}
	return r.put(id, now)
}

// put writes the file of a job, and a copy where containers see it; r.files is held.
func (r *roster) put(id model.JobID, now executor.Membership) error {
	dir := r.e.place.job(id)
	if err := safefile.Write(dir, membersFile, now); err != nil {
		return err
	}
	seen := filepath.Join(dir, sharedMembers)
	if _, err := os.Lstat(seen); err != nil {
		return nil // no task of the job runs in a container
	}
	data, err := json.Marshal(now)
	tmp := filepath.Join(seen, membersFile+".new")
	if err == nil {
		err = safefile.WriteNew(tmp, data)
	}
	if err == nil {
		err = os.Chmod(tmp, 0o644) // an image's user may be any
	}
	if err != nil {
		return err
	}
	return safefile.Replace(tmp, filepath.Join(seen, membersFile))
}

// tellMembers signals those processes of each task that catch the signal.
func tellMembers(tops []process.ID, sig unix.Signal) {
	all, err := process.All()
	if err != nil {
		return // the file tells it all
	}
	for _, top := range tops {
		if st, ok := all[top.PID]; !ok || st.Start != top.Start {
			continue
		}
		for _, p := range process.CatchersBelow(all, top.PID, sig) {
			p.Signal(sig)
		}
	}
}

// top is the process above all others of a task: its supervisor, or process 1 of its container;
// zero where that is not known.
func (t *liveTask) top(s *spec, id identity) process.ID {
	if s.Container != nil {
		return id.Main
	}
	var c claim
	if safefile.Read(t.dir, claimFile, &c) != nil || c.Boot != t.e.boot {
		return process.ID{}
	}
	return c.Supervisor
}
