// Package metrics folds the core's events into figures: completion times, waits
// by cause, use of GPUs, fairness, fragmentation. The simulator and the server
// use the same fold, so what is measured in one is measured in the other. It must
// not decide anything, and reads no clock: all times come from the records. Every
// figure is defined in docs/metrics.md.
//
// A Fold keeps integers and computes fractions once, at the end: the same records
// give the same bytes on every machine. Its memory grows with the jobs that have
// not ended; of an ended one it keeps 24 bytes, for exact percentiles.
package metrics

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// FullSpeed is the speed of an attempt that nothing slows down: speeds are in
// millionths.
const FullSpeed = 1_000_000

// Facts are what events do not say about a job. Zero values are unknown: the
// duration is then derived from the attempts, app and model from the job's hints.
type Facts struct {
	// Duration is the job's ideal run time: its work at full speed, alone.
	Duration model.Duration
	TraceID  string // its name in the trace it came from
	App      string // jobs of one app in one VC share a finish-time fairness
	Model    string
}

// Options are what a fold cannot see in the records, and what it passes on.
type Options struct {
	// Policy is named in the summary.
	Policy string
	// Origin is what times are printed relative to, in tables and plots; 0 gives
	// seconds since 1970.
	Origin model.Time
	// Facts, when set, is called once for each job, when it is submitted.
	Facts func(model.JobID, *model.Job) Facts
	// Speed, when set, is called when an attempt is placed or moved, and returns its speed in
	// millionths of full speed. SetSpeed changes it later.
	Speed func(model.AttemptID, *model.Job, *cell.Placement) int64
	// Ended, when set, is called once for each job as it ends. Jobs that have not ended
	// follow in order of id when the fold finishes. The row is valid during the call.
	Ended func(*Row)
	// Width is the least width of a row of the timeline; 0 is one second.
	Width model.Duration
	// Steps bounds the rows of the timeline for each VC; 0 is 1024.
	Steps int
}

// Fold folds records into figures. Use New.
type Fold struct {
	o         Options
	records   uint64
	events    int64
	now       model.Time
	began     bool // a job was submitted: everything is counted from then on
	start     model.Time
	end       model.Time // when the last job ended
	open      int        // jobs that have not ended
	jobs      map[model.JobID]*job
	found     *job // the job that find returned last
	freedJobs []*job
	live      []*gang // gangs that hold leaves, by slot; nil is an unused slot
	slots     []int32 // unused slots
	vcs       []*account
	vcOf      map[cell.VCName]*account
	apps      map[appKey]*app
	leaves    leafStates
	backOffs  backOffs // gangs that wait from a later time on
	line      timeline
	gantt     gantt
	row       Row
	err       error
}

// New returns an empty fold.
func New(o Options) *Fold {
	if o.Width <= 0 {
		o.Width = model.Second
	}
	if o.Steps <= 0 {
		o.Steps = 1024
	}
	o.Steps = max(o.Steps, 2)
	f := &Fold{o: o, jobs: map[model.JobID]*job{}, vcOf: map[cell.VCName]*account{}, apps: map[appKey]*app{}}
	f.leaves.init()
	f.line = timeline{width: o.Width, limit: o.Steps}
	return f
}

// Records returns how many records were added.
func (f *Fold) Records() uint64 { return f.records }

// Add folds records, which must come in order and without a gap. A record that does not fit
// those before is a bug of the caller, which Finish reports.
func (f *Fold) Add(rs []model.Record) {
	for i := range rs {
		f.records++
		if rs[i].Time > f.now {
			f.advance(rs[i].Time)
		}
		f.add(rs[i].Event)
	}
}

// add folds one event at the present time.
func (f *Fold) add(e model.Event) {
	switch e := e.(type) {
	case model.Decided, model.JobCompleting, model.TaskExited, model.StopSent:
		f.addFrequent(e)
	case model.JobSubmitted:
		f.events++
		f.submitted(e)
	case model.Placed:
		f.events++
		f.placed(&e, false)
	case model.Joined:
		f.events++
		f.placed(&model.Placed{Attempt: e.Attempt, Placement: e.Placement}, true)
	case model.Rotated:
		f.rotated(&e)
	case model.TaskStarted:
		f.started(e.Attempt)
	case model.AttemptEnded:
		f.events++
		f.attemptEnded(&e)
	case model.JobEnded:
		f.jobEnded(&e)
	case model.Progress:
		f.reported(&e)
	case model.Noted:
		f.noted(&e)
	case model.TaskRetried:
		f.retried(&e)
	case model.JobRetried:
		f.jobRetried(&e)
	case model.JobUpdated:
		if j := f.jobs[e.Job]; j != nil {
			j.spec = e.On(j.spec)
		}
	case model.StopRequested:
		f.stopWaiting(e.Job)
	case model.Quarantined:
		f.stopWaiting(e.Job)
	case model.LazilyPreempted:
		f.setLazy(e.Attempt, true)
		f.setAllLazy(e.With, true)
	case model.Upgraded:
		f.setLazy(e.Attempt, false)
		f.setAllLazy(e.With, false)
	case model.Configured:
		f.configured(&e)
	default:
		f.addHealth(e)
	}
}

// addFrequent folds frequent events that change little.
func (f *Fold) addFrequent(e model.Event) {
	switch e := e.(type) {
	case model.JobCompleting:
		f.completing(&e)
	case model.StopSent:
		f.events++
	}
}

// addHealth folds the health of nodes and leaves.
func (f *Fold) addHealth(e model.Event) {
	switch e := e.(type) {
	case model.NodeHealth:
		f.markNode(e.Node, cell.Down, !e.Up)
	case model.NodeSuspected:
		f.markNode(e.Node, cell.Suspect, e.Until > 0)
	case model.NodeCordoned:
		f.markNode(e.Node, cell.Cordoned, e.On)
		if !e.On {
			f.markNode(e.Node, cell.Suspect, false)
		}
	case model.LeafHealth:
		f.markLeaf(e)
	}
}

// advance lets time pass. Until t only back-offs end, and rows of the timeline.
func (f *Fold) advance(t model.Time) {
	for len(f.backOffs) > 0 && f.backOffs[0].at <= t {
		f.backOffEnds(f.backOffs.pop())
	}
	if f.began {
		f.line.advance(f, t)
	}
	f.now = t
}

// find returns a job that has not ended, else nil. Calls for the same job often follow each
// other, so the last result is kept.
func (f *Fold) find(id model.JobID) *job {
	if f.found == nil || f.found.id != id {
		f.found = f.jobs[id]
	}
	return f.found
}

// fail remembers the first record that does not fit.
func (f *Fold) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("record %d: %s", f.records, fmt.Sprintf(format, args...))
	}
}
