package sched

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// snapshotVersion is written into every snapshot; another one is refused, and
// the log is folded instead.
const snapshotVersion = 4

// image is a state without what follows from the rest: cells are taken again
// from the placements, queues and timers are built anew. A snapshot is the image
// on its first line and then a line for each job, so that it needs no second copy
// in memory to be written or read. Jobs are in order of id and attempts in order
// of theirs, so equal states have equal snapshots.
type image struct {
	Version  int            `json:"version"`
	Seq      uint64         `json:"seq"`
	Now      model.Time     `json:"now"`
	NextJob  model.JobID    `json:"next_job"`
	Config   *model.Config  `json:"config"`
	Jobs     int            `json:"jobs"` // how many lines follow
	Attempts []attemptImage `json:"attempts"`
	Notes    []Noted        `json:"notes,omitempty"`
	Failed   []PolicyFailed `json:"failed,omitempty"`
	Debts    []debt         `json:"debts,omitempty"`
	Moved    []moved        `json:"moved,omitempty"`
	Nodes    []nodeNote     `json:"nodes"`
	Leaves   []leafNote     `json:"leaves"`
	Bound    []cell.Bound   `json:"bound,omitempty"`
	Shares   []shareImage   `json:"shares,omitempty"` // in order of their first attempts
	Again    model.Time     `json:"again"`
	AgainFor []cell.VCName  `json:"again_for,omitempty"`
	Turns    int            `json:"turns,omitempty"`
	Bookings int64          `json:"bookings,omitempty"`
	Decided  model.Time     `json:"decided,omitempty"`
	Habits   HabitRows      `json:"habits,omitempty"`
}

// shareImage is how the members of an allocation take turns.
type shareImage struct {
	Rotation model.Rotation `json:"rotation"`
	Since    model.Time     `json:"since"`
}

type jobImage struct {
	ID          model.JobID       `json:"id"`
	Spec        *model.Job        `json:"spec"`
	Submitted   model.Time        `json:"submitted"`
	Started     model.Time        `json:"started"`
	Retry       int32             `json:"retry"`
	Counted     int32             `json:"counted"`
	Preempted   int32             `json:"preempted"`
	Yielded     int32             `json:"yielded,omitempty"`
	Stop        bool              `json:"stop"`
	StopReason  string            `json:"stop_reason"`
	Quarantined bool              `json:"quarantined"`
	Aside       int32             `json:"aside,omitempty"`
	Held        *model.HoldStatus `json:"held,omitempty"`
	Completing  *JobCompleting    `json:"completing"`
	After       model.Time        `json:"after"`
	Gangs       []gangImage       `json:"gangs"`
	Tasks       []taskImage       `json:"tasks"`
	Notices     []string          `json:"notices"`
	Lasting     []lasting         `json:"lasting,omitempty"`
	Note        *note             `json:"note,omitempty"`
	Size        int32             `json:"size,omitempty"` // where it is not the usual one
}

type gangImage struct {
	N       int32                `json:"n"`
	Done    bool                 `json:"done"`
	Waiting bool                 `json:"waiting"`
	After   model.Time           `json:"after"`
	Faults  int32                `json:"faults"`
	Retries int32                `json:"retries"`
	Free    int32                `json:"free,omitempty"`
	Ran     model.Duration       `json:"ran,omitempty"`
	Avoid   []avoidance          `json:"avoid"`
	Last    *model.AttemptStatus `json:"last"`
	Booked  *Booked              `json:"booked,omitempty"`
	Alone   bool                 `json:"alone,omitempty"`
	Meant   []cell.NodeName      `json:"meant,omitempty"`
}

type taskImage struct {
	State    model.TaskState     `json:"state"`
	Dead     bool                `json:"dead"`
	Attempt  int32               `json:"attempt"`
	Place    cell.Task           `json:"place"`
	Host     string              `json:"host"`
	PID      int32               `json:"pid"`
	Ports    []int32             `json:"ports"`
	Exit     *Exit               `json:"exit"`
	Retries  int32               `json:"retries"`
	Progress *model.TaskProgress `json:"progress"`
}

type attemptImage struct {
	ID         model.AttemptID    `json:"id"`
	State      model.AttemptState `json:"state"`
	Placement  cell.Placement     `json:"placement"`
	Cause      model.EndCause     `json:"cause"`
	By         *model.AttemptID   `json:"by"`
	Message    string             `json:"message"`
	Placed     model.Time         `json:"placed"`
	Started    model.Time         `json:"started"`
	Checkpoint model.Time         `json:"checkpoint"`
	Told       model.Time         `json:"told,omitempty"`
	Lazy       bool               `json:"lazy"`
	Orphaned   bool               `json:"orphaned"`
	Requeue    bool               `json:"requeue,omitempty"`
	Refused    bool               `json:"refused"`
	Platform   bool               `json:"platform"`
	Alive      int32              `json:"alive"`
	Victims    []model.AttemptID  `json:"victims"`
	Drains     []cell.LeafID      `json:"drains,omitempty"`
	Origins    []cell.Origin      `json:"origins,omitempty"`
	Host       *model.AttemptID   `json:"host,omitempty"`  // whose leaves it shares, if it is not the first who has them
	Share      int32              `json:"share,omitempty"` // number in Shares, from 1
	Ran        model.Duration     `json:"ran,omitempty"`
	Turn       int64              `json:"turn,omitempty"`
}

// Save returns the canonical snapshot of the state: equal states give equal bytes.
func (s *fold) Save() []byte {
	im := image{Version: snapshotVersion, Seq: s.seq, Now: s.now, NextJob: s.nextJob, Config: s.cfg, Notes: s.notes, Failed: s.failed, Debts: s.debts, Moved: s.moved, Leaves: s.leaves, Again: s.again, AgainFor: s.againFor, Turns: s.turns, Bookings: s.bookings, Decided: s.decided, Habits: s.habits.Rows()}
	if s.cl != nil {
		im.Bound = s.cl.Bound()
	}
	for _, n := range s.nodes {
		if n.Down || n.Cordon || n.Suspect > 0 || n.Reason != "" || n.Cordoned != "" || len(n.Refused) > 0 {
			im.Nodes = append(im.Nodes, n)
		}
	}
	ids := s.slots.IDs()
	im.Jobs = len(ids)
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none {
			im.Attempts = append(im.Attempts, s.imageOfAttempt(a))
		}
	}
	slices.SortFunc(im.Attempts, func(a, b attemptImage) int { return compareAttempts(a.ID, b.ID) })
	im.Shares = s.numberShares(im.Attempts)
	out := appendLine(nil, &im)
	head := len(out)
	for i, id := range ids {
		out = appendLine(out, imageOf(s.find(id)))
		if i == 63 { // by now it is known about how much the rest will take
			out = slices.Grow(out, (len(out)-head)/64*len(ids))
		}
	}
	return out
}

// appendLine appends a value as one line of JSON.
func appendLine(out []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sched: a state cannot be encoded: %v", err))
	}
	return append(append(out, data...), '\n')
}

func (s *fold) imageOfAttempt(a *attempt) attemptImage {
	odd := rare(a.odd)
	im := attemptImage{ID: a.id, State: a.state, Cause: a.cause, By: a.by, Message: odd.message, Placed: a.placed, Started: a.started, Checkpoint: a.checkpoint, Told: a.told,
		Lazy: a.lazy, Orphaned: a.orphaned, Refused: a.refused, Platform: a.platform, Alive: a.alive, Victims: odd.victims, Drains: odd.drains, Origins: odd.origins, Share: a.share, Ran: odd.ran, Turn: odd.turn, Requeue: odd.requeue}
	if a.joined {
		host := s.holder(a.alloc).id
		im.Host = &host
		return im
	}
	im.Placement = s.cl.Alloc(a.alloc).Placement
	if a.lazy {
		im.Placement.Binds = nil // it gave them back
	}
	return im
}

// numberShares numbers the rotations in the order in which attempts name them, since
// their places in memory differ after a restart.
func (s *fold) numberShares(attempts []attemptImage) []shareImage {
	if len(s.shares) == 0 {
		return nil
	}
	var out []shareImage
	numbers := make([]int32, len(s.shares)+1)
	for i := range attempts {
		n := attempts[i].Share
		if n == 0 {
			continue
		}
		if numbers[n] == 0 {
			out = append(out, shareImage{s.shares[n-1].rotation, s.shares[n-1].since})
			numbers[n] = int32(len(out))
		}
		attempts[i].Share = numbers[n]
	}
	return out
}

func imageOf(j *job) *jobImage {
	odd := rare(j.odd)
	out := &jobImage{ID: j.id, Spec: j.spec, Submitted: j.submitted, Started: j.started, Retry: j.retry, Counted: j.counted,
		Preempted: j.preempted, Yielded: j.yielded, Stop: j.stop, StopReason: odd.stopReason, Quarantined: j.quarantined, Completing: j.completing,
		Held: odd.held, Aside: odd.aside, After: odd.after, Notices: odd.notices, Lasting: odd.lasting, Note: odd.note}
	if j.size != j.spec.UsualSize() {
		out.Size = j.size
	}
	for i := range j.gangs {
		g := &j.gangs[i]
		odd := rare(g.odd)
		out.Gangs = append(out.Gangs, gangImage{g.n, g.done, g.waiting, g.after, g.faults, g.retries, g.free, g.ran, odd.avoid, g.last, odd.booked, g.alone, odd.meant})
	}
	for i := range j.tasks {
		t := &j.tasks[i]
		b := t.runs()
		out.Tasks = append(out.Tasks, taskImage{t.state, t.dead, t.attempt, t.started(), b.host, b.pid, b.ports, t.exit, t.retries, t.progress})
	}
	return out
}

// Digest is the hex SHA-256 of Save.
func (s *fold) Digest() string {
	sum := sha256.Sum256(s.Save())
	return hex.EncodeToString(sum[:])
}

// load fills an empty state from a snapshot.
func (s *fold) load(snapshot []byte) (err error) {
	var im image
	head, rest, _ := bytes.Cut(snapshot, []byte{'\n'})
	if err := json.Unmarshal(head, &im); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if im.Version != snapshotVersion {
		return fmt.Errorf("snapshot has version %d, this binary reads %d", im.Version, snapshotVersion)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("snapshot contradicts itself: %v", p)
		}
	}()
	s.seq, s.now, s.nextJob = im.Seq, im.Now, im.NextJob
	s.failed = im.Failed
	s.notes, s.nodes, s.leaves, s.again, s.turns, s.decided = im.Notes, im.Nodes, im.Leaves, im.Again, im.Turns, im.Decided
	s.bookings, s.againFor = im.Bookings, im.AgainFor
	s.at(s.again, 0, 0)
	if err := s.loadJobs(rest, im.Jobs); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if im.Config != nil {
		s.loadCluster(&im)
	}
	s.debts, s.moved, s.habits = im.Debts, im.Moved, ReadHabits(im.Habits)
	return s.Verify()
}

// loadJobs reads a line for each job.
func (s *fold) loadJobs(lines []byte, want int) error {
	n := 0
	for line := range bytes.Lines(lines) {
		var im jobImage
		if err := json.Unmarshal(line, &im); err != nil {
			return fmt.Errorf("job %d of %d: %w", n+1, want, err)
		}
		s.loadJob(&im)
		n++
	}
	if n != want {
		return fmt.Errorf("it has %d jobs instead of %d", n, want)
	}
	return nil
}

func (s *fold) loadJob(im *jobImage) {
	j := s.newJob(im.ID, im.Spec, im.Submitted, room{})
	j.started, j.retry, j.counted, j.preempted = im.Started, im.Retry, im.Counted, im.Preempted
	j.yielded = im.Yielded
	if im.Size != 0 {
		j.size = im.Size
	}
	j.stop, j.quarantined, j.completing = im.Stop, im.Quarantined, im.Completing
	if im.StopReason != "" || im.After != 0 || im.Notices != nil || im.Lasting != nil ||
		im.Note != nil || im.Aside != 0 || im.Held != nil {
		j.odd = &oddJob{after: im.After, stopReason: im.StopReason, notices: im.Notices, lasting: im.Lasting, note: im.Note, aside: im.Aside, held: im.Held}
	}
	for i, g := range im.Gangs {
		t := &j.gangs[i]
		t.n, t.done, t.waiting, t.after, t.faults = g.N, g.Done, g.Waiting, g.After, g.Faults
		t.retries, t.free, t.ran, t.last, t.alone = g.Retries, g.Free, g.Ran, g.Last, g.Alone
		if g.Avoid != nil || g.Meant != nil {
			t.odd = &oddGang{avoid: g.Avoid}
			s.mean(t, g.Meant)
		}
		s.at(g.After, im.ID, int32(i))
		s.loadBooking(t, im.ID, int32(i), g.Booked)
		for _, a := range g.Avoid {
			s.at(a.Until, im.ID, int32(i))
		}
	}
	for i, t := range im.Tasks {
		o := &j.tasks[i]
		o.state, o.dead, o.attempt = t.State, t.Dead, t.Attempt
		if t.Attempt > 0 {
			o.place = &im.Tasks[i].Place
		}
		if t.Host != "" || t.PID != 0 || t.Ports != nil {
			o.begun = &begun{host: t.Host, pid: t.PID, ports: t.Ports}
		}
		o.exit, o.retries, o.progress = t.Exit, t.Retries, t.Progress
	}
	s.at(im.After, im.ID, 0)
	if im.Spec.Partial() {
		s.partials++
	}
	if im.Spec.Hints.Dedicated {
		s.loners++
	}
	s.slots.Put(im.ID, int32(len(s.jobs)))
	s.jobs = append(s.jobs, j)
	s.names.put(int32(len(s.jobs))-1, s.jobs, s.now, s.seq)
}

// loadCluster builds the cells and takes those of all attempts again.
func (s *fold) loadCluster(im *image) {
	s.applyConfigured(Configured{Config: im.Config})
	s.cl.Rebind(im.Bound)
	for _, sh := range im.Shares {
		s.shares = append(s.shares, sharing{rotation: sh.Rotation, since: sh.Since})
	}
	for i := range im.Attempts {
		s.loadAttempt(&im.Attempts[i])
	}
	s.tallies = s.recounted()
	for _, n := range s.nodes {
		s.at(n.Suspect, 0, 0)
		s.at(n.Drain, 0, 0)
	}
	s.looked()
}

// loadAttempt puts an attempt back on its cells, or beside whom it shares them with.
func (s *fold) loadAttempt(a *attemptImage) {
	slot := s.slots.Of(a.ID.Job)
	j := &s.jobs[slot]
	at := int32(len(s.attempts))
	promise := a.State == model.AttemptReserving
	if promise {
		s.promises = append(s.promises, at)
	}
	s.attempts = append(s.attempts, attempt{id: a.ID, job: slot, state: a.State, cause: a.Cause, by: a.By,
		placed: a.Placed, started: a.Started, checkpoint: a.Checkpoint, told: a.Told, lazy: a.Lazy,
		orphaned: a.Orphaned, refused: a.Refused, platform: a.Platform, alive: a.Alive, mate: none, share: a.Share})
	if a.Message != "" || a.Victims != nil || a.Ran != 0 || a.Origins != nil || a.Turn != 0 || a.Requeue {
		s.attempts[at].odd = &oddAttempt{message: a.Message, victims: a.Victims, ran: a.Ran, origins: a.Origins, turn: a.Turn, requeue: a.Requeue}
	}
	if a.Share != 0 {
		s.shares[a.Share-1].members++
	}
	if g := &j.gangs[a.ID.Gang]; promise && (g.attempt != none || g.done) {
		g.next = at
	} else {
		g.attempt = at
	}
	if a.Host != nil {
		s.join(at, s.live(*a.Host).alloc)
	} else {
		alloc := s.cl.Take(s.space(j.spec.VC), j.spec.Priority, a.Placement, promise)
		if a.Lazy && j.spec.Priority >= cell.MinGuaranteed {
			s.cl.Demote(alloc)
		}
		s.setAlloc(alloc, at)
		s.attempts[at].alloc = alloc
	}
	s.link(at)
	s.setMood(&s.attempts[at])
	s.drain(&s.attempts[at], a.Drains)
	s.timeMinRun(&s.attempts[at])
	if a.Lazy {
		s.keepLazy(&s.attempts[at])
	}
	s.timeLimit(&s.attempts[at])
}
