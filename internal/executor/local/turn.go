package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
)

// turnOrder is the rotation that the server wants a task to follow.
type turnOrder struct {
	rotation *model.Rotation // nil: it runs all the time
	given    bool            // the server has set it; else what the task has is left alone
	late     bool            // it could not be written yet
}

// rotate gives an attempt another rotation; e.mu is held. An attempt that is over needs none; one
// that has not begun gets it at its start.
func (e *Executor) rotate(id model.AttemptID, r *model.Rotation) {
	if at := e.attempts[id]; at != nil {
		for _, t := range at.tasks {
			t.rotate(r)
		}
		return
	}
	if len(e.onDisk(id)) == 0 {
		e.turns[id] = r
	}
}

func (t *liveTask) rotate(r *model.Rotation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn = turnOrder{rotation: r, given: true}
	t.leaveRotation()
}

// leaveRotation writes the task's rotation and wakes its supervisor; t.mu is held. As with a
// stop, either a new supervisor finds the file, or it is known and gets the signal.
func (t *liveTask) leaveRotation() {
	if !t.turn.given || !t.made {
		return
	}
	r := model.Rotation{}
	if t.turn.rotation != nil {
		r = *t.turn.rotation
	} else if _, err := os.Lstat(filepath.Join(t.dir, rotationFile)); errors.Is(err, fs.ErrNotExist) {
		return // it never had one
	}
	err := safefile.Write(t.dir, rotationFile, r)
	if t.turn.late = err != nil; err != nil {
		if t.said != err.Error() {
			t.said = err.Error()
			t.e.o.Log.Warn("leave a rotation; it is tried again", "attempt", t.at.id, "task", t.n, "error", err)
		}
		return
	}
	t.signalOwner(true)
}
