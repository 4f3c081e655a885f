package local

import (
	"time"
)

// What the server's own disk does not take is no fault of a node, and none of a job: a start that
// meets it waits with its leaves, where a refusal would be held against the node. It waits in one
// place, without an event for each try, since the journal is on the same disk.

// diskNotice is told once to each job: the same text twice is not kept.
const diskNotice = "a start waits for room on the disk of the server's data directory; free some space there and it goes on by itself"

// unable is a refusal for an error with the server's own files.
func unable(doing string, err error) *outcome {
	return &outcome{Refused: doing + ": " + err.Error(), disk: ofDisk(err)}
}

// launch starts a task that nobody has started.
func (t *liveTask) launch() {
	t.judged() // it does not live, and nothing need wait until it does
	t.clear()
	for {
		refusal := t.tryLaunch()
		switch {
		case refusal == nil, t.e.ctx.Err() != nil:
			return // what was given up with the executor the next server goes on with
		case t.stopAsked():
			t.neverStarted()
			return
		case !refusal.disk:
			t.refused(*refusal)
			return
		case !t.awaitDisk(refusal.Refused):
			return
		}
	}
}

// awaitDisk waits until the server's disk may be tried again; false when there is nothing to try
// any more: the task was stopped, or the executor is closed.
func (t *liveTask) awaitDisk(why string) bool {
	t.e.diskTrouble(why)
	t.notice(diskNotice)
	if t.known {
		t.e.roster.leave(t)
	}
	for {
		select {
		case <-t.e.ctx.Done():
			return false
		case <-time.After(diskPause):
		}
		if t.stopAsked() {
			t.neverStarted()
			return false
		}
		if t.e.o.Room == nil || t.e.o.Room() == nil {
			return true
		}
	}
}

func (t *liveTask) stopAsked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.order != nil
}

// diskTrouble says once in the log that starts wait.
func (e *Executor) diskTrouble(why string) {
	if e.diskWaits.CompareAndSwap(false, true) {
		e.o.Log.Error("starts wait for the disk of the data directory; no node is blamed", "error", why)
	}
}

// diskWell says that they go on.
func (e *Executor) diskWell() {
	if e.diskWaits.CompareAndSwap(true, false) {
		e.o.Log.Info("starts go on: the disk of the data directory takes them again")
	}
}
