package local

import (
	"time"
)

// A full disk of the server is no fault of a node or a job. A start that meets it waits and keeps
// its leaves: a refusal would be held against the node. It waits in one place, without an event
// for each try, since the journal is on the same disk.

// diskNotice is told once to each job: the same text twice is not kept.
const diskNotice = "a start waits for room on the disk of the server's data directory; free some space there and it goes on by itself"

// serverFault is a refusal for an error with the server's own files.
func serverFault(doing string, err error) *outcome {
	return &outcome{Refused: doing + ": " + err.Error(), disk: ofDisk(err)}
}

// launch starts a task whose start nothing has claimed.
func (t *liveTask) launch() {
	t.fateKnown() // it does not live, so nothing waits for it
	t.fateDecided()
	for {
		refusal := t.tryLaunch()
		switch {
		case refusal == nil, t.e.ctx.Err() != nil:
			return // it was given up with the executor: the next server goes on
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

// awaitDisk waits until the server's disk may be tried again. It returns false when the task was
// stopped, or the executor is closed.
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

// diskTrouble logs, once, that starts wait.
func (e *Executor) diskTrouble(why string) {
	if e.diskWaits.CompareAndSwap(false, true) {
		e.o.Log.Error("starts wait for the disk of the data directory; no node is blamed", "error", why)
	}
}

// diskWell logs that they go on.
func (e *Executor) diskWell() {
	if e.diskWaits.CompareAndSwap(true, false) {
		e.o.Log.Info("starts go on: the disk of the data directory takes them again")
	}
}
