package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// snapshotVersion is written into every snapshot. A snapshot of another version is refused, and
// the journal is folded instead.
const snapshotVersion = 4

// image is a state without what follows from the rest: cells are taken again from the placements,
// and queues and timers are built anew. A snapshot is the image on its first line, then a line for
// each job, so that writing and reading it need no second copy in memory. Jobs and attempts are in
// order of their ids, so equal states have equal snapshots.
type image struct {
	Version  int                  `json:"version"`
	Seq      uint64               `json:"seq"`
	Now      model.Time           `json:"now"`
	NextJob  model.JobID          `json:"next_job"`
	Config   *model.Config        `json:"config"`
	Jobs     int                  `json:"jobs"` // number of lines that follow
	Attempts []attemptImage       `json:"attempts"`
	Notes    []model.Noted        `json:"notes,omitempty"`
	Failed   []model.PolicyFailed `json:"failed,omitempty"`
	Debts    []debt               `json:"debts,omitempty"`
	Moved    []moved              `json:"moved,omitempty"`
	Nodes    []tables.NodeNote    `json:"nodes"`
	Leaves   []tables.LeafNote    `json:"leaves"`
	Bound    []cell.UnownedBind   `json:"bound,omitempty"`
	Shares   []shareImage         `json:"shares,omitempty"` // in order of their first attempts
	Again    model.Time           `json:"again"`
	AgainFor []cell.VCName        `json:"again_for,omitempty"`
	Turns    int                  `json:"turns,omitempty"`
	Bookings int64                `json:"bookings,omitempty"`
	Decided  model.Time           `json:"decided,omitempty"`
	Habits   RunTimeRows          `json:"habits,omitempty"`
}

// shareImage is how the members of an allocation take turns.
type shareImage struct {
	Rotation model.Rotation `json:"rotation"`
	Since    model.Time     `json:"since"`
}

type jobImage struct {
	ID          model.JobID          `json:"id"`
	Spec        *model.Job           `json:"spec"`
	Submitted   model.Time           `json:"submitted"`
	Started     model.Time           `json:"started"`
	Retry       int32                `json:"retry"`
	Counted     int32                `json:"counted"`
	Preempted   int32                `json:"preempted"`
	Yielded     int32                `json:"yielded,omitempty"`
	Stop        bool                 `json:"stop"`
	StopReason  string               `json:"stop_reason"`
	Quarantined bool                 `json:"quarantined"`
	Aside       int32                `json:"aside,omitempty"`
	Held        *model.HoldStatus    `json:"held,omitempty"`
	Completing  *model.JobCompleting `json:"completing"`
	After       model.Time           `json:"after"`
	Gangs       []gangImage          `json:"gangs"`
	Tasks       []taskImage          `json:"tasks"`
	Notices     []string             `json:"notices"`
	Lasting     []tables.Lasting     `json:"lasting,omitempty"`
	Note        *tables.Note         `json:"note,omitempty"`
	Size        int32                `json:"size,omitempty"` // 0 if it is the usual one
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
	Avoid   []tables.Avoidance   `json:"avoid"`
	Last    *model.AttemptStatus `json:"last"`
	Booked  *model.Booked        `json:"booked,omitempty"`
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
	Exit     *model.Exit         `json:"exit"`
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
	Host       *model.AttemptID   `json:"host,omitempty"`  // first member of its allocation; nil: it
	Share      int32              `json:"share,omitempty"` // number in Shares, from 1
	Ran        model.Duration     `json:"ran,omitempty"`
	Turn       int64              `json:"turn,omitempty"`
}

// Save returns the canonical snapshot of the state: equal states give equal bytes.
func (s *State) Save() []byte {
	im := image{Version: snapshotVersion, Seq: s.Seq, Now: s.Now, NextJob: s.NextJob, Config: s.Config, Notes: s.Notes, Failed: s.Failed, Debts: s.Debts, Moved: s.Moved, Leaves: s.Leaves, Again: s.Again, AgainFor: s.AgainFor, Turns: s.againInARow, Bookings: s.Bookings, Decided: s.DecidedAt, Habits: s.RunTimes.Rows()}
	if s.Cluster != nil {
		im.Bound = s.Cluster.UnownedBinds()
	}
	for _, n := range s.Nodes {
		if n.Down || n.Cordon || n.Suspect > 0 || n.Reason != "" || n.Cordoned != "" || len(n.Refused) > 0 {
			im.Nodes = append(im.Nodes, n)
		}
	}
	ids := s.Slots.IDs()
	im.Jobs = len(ids)
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None {
			im.Attempts = append(im.Attempts, s.imageOfAttempt(a))
		}
	}
	slices.SortFunc(im.Attempts, func(a, b attemptImage) int { return model.CompareAttempts(a.ID, b.ID) })
	im.Shares = s.numberShares(im.Attempts)
	out := AppendLine(nil, &im)
	head := len(out)
	for i, id := range ids {
		out = AppendLine(out, imageOf(s.Find(id)))
		if i == 63 { // by now the size of the rest can be guessed
			out = slices.Grow(out, (len(out)-head)/64*len(ids))
		}
	}
	return out
}

// AppendLine appends a value as one line of JSON.
func AppendLine(out []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("core: a state cannot be encoded: %v", err))
	}
	return append(append(out, data...), '\n')
}

func (s *State) imageOfAttempt(a *tables.Attempt) attemptImage {
	odd := tables.RareOf(a.Rare)
	im := attemptImage{ID: a.ID, State: a.State, Cause: a.Cause, By: a.By, Message: odd.Message, Placed: a.Placed,
		Started: a.Started, Checkpoint: a.Checkpoint, Told: a.StopSentAt,
		Lazy: a.Lazy, Orphaned: a.Orphaned, Refused: a.Refused, Platform: a.Platform, Alive: a.Alive, Victims: odd.Victims, Drains: odd.DrainingLeaves, Origins: odd.Origins, Share: a.Share, Ran: odd.RanBefore, Turn: odd.BookingTurn, Requeue: odd.Requeue}
	if a.NotFirst {
		host := s.Holder(a.Alloc).ID
		im.Host = &host
		return im
	}
	im.Placement = s.Cluster.Alloc(a.Alloc).Placement
	if a.Lazy {
		im.Placement.Binds = nil // it gave its preassigned cells back
	}
	return im
}

// numberShares numbers the rotations in the order in which attempts refer to them, since their
// slots differ after a restart.
func (s *State) numberShares(attempts []attemptImage) []shareImage {
	if len(s.Shares) == 0 {
		return nil
	}
	var out []shareImage
	numbers := make([]int32, len(s.Shares)+1)
	for i := range attempts {
		n := attempts[i].Share
		if n == 0 {
			continue
		}
		if numbers[n] == 0 {
			out = append(out, shareImage{s.Shares[n-1].Rotation, s.Shares[n-1].Since})
			numbers[n] = int32(len(out))
		}
		attempts[i].Share = numbers[n]
	}
	return out
}

func imageOf(j *tables.Job) *jobImage {
	odd := tables.RareOf(j.Rare)
	out := &jobImage{ID: j.ID, Spec: j.Spec, Submitted: j.Submitted, Started: j.Started, Retry: j.Retry,
		Counted:   j.Counted,
		Preempted: j.Preempted, Yielded: j.Yielded, Stop: j.Stop, StopReason: odd.StopReason, Quarantined: j.Quarantined, Completing: j.Completing,
		Held: odd.Held, Aside: odd.Aside, After: odd.After, Notices: odd.Notices, Lasting: odd.Lasting, Note: odd.Note}
	if j.Size != j.Spec.UsualSize() {
		out.Size = j.Size
	}
	for i := range j.Gangs {
		g := &j.Gangs[i]
		odd := tables.RareOf(g.Rare)
		out.Gangs = append(out.Gangs, gangImage{g.N, g.Done, g.Waiting, g.After, g.Faults, g.Retries,
			g.UncountedRetries, g.Ran,
			odd.Avoid, g.Last, odd.Booked, g.NeverShares, odd.MoveTo})
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		b := t.StartReport()
		out.Tasks = append(out.Tasks, taskImage{t.State, t.Dead, t.Attempt, t.StartPlace(), b.Host, b.Pid, b.Ports,
			t.Exit, t.Retries, t.Progress})
	}
	return out
}

// Digest is the hex SHA-256 of Save.
func (s *State) Digest() string {
	sum := sha256.Sum256(s.Save())
	return hex.EncodeToString(sum[:])
}

// Load fills an empty state from a snapshot.
func (s *State) Load(snapshot []byte) (err error) {
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
	s.Seq, s.Now, s.NextJob = im.Seq, im.Now, im.NextJob
	s.Failed = im.Failed
	s.Notes, s.Nodes, s.Leaves, s.Again, s.againInARow, s.DecidedAt = im.Notes, im.Nodes, im.Leaves, im.Again, im.Turns, im.Decided
	s.Bookings, s.AgainFor = im.Bookings, im.AgainFor
	s.SetTimer(s.Again, 0, 0)
	in := loader{s}
	if err := in.loadJobs(rest, im.Jobs); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if im.Config != nil {
		in.loadCluster(&im)
	}
	s.Debts, s.Moved, s.RunTimes = im.Debts, im.Moved, ReadRunTimes(im.Habits)
	return s.Verify()
}

// loadJobs reads a line for each job.
func (s loader) loadJobs(lines []byte, want int) error {
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

func (s loader) loadJob(im *jobImage) {
	j := s.NewJob(im.ID, im.Spec, im.Submitted, tables.JobMemory{})
	j.Started, j.Retry, j.Counted, j.Preempted = im.Started, im.Retry, im.Counted, im.Preempted
	j.Yielded = im.Yielded
	if im.Size != 0 {
		j.Size = im.Size
	}
	j.Stop, j.Quarantined, j.Completing = im.Stop, im.Quarantined, im.Completing
	if im.StopReason != "" || im.After != 0 || im.Notices != nil || im.Lasting != nil ||
		im.Note != nil || im.Aside != 0 || im.Held != nil {
		j.Rare = &tables.JobRare{After: im.After, StopReason: im.StopReason, Notices: im.Notices, Lasting: im.Lasting,
			Note: im.Note, Aside: im.Aside, Held: im.Held}
	}
	for i, g := range im.Gangs {
		t := &j.Gangs[i]
		t.N, t.Done, t.Waiting, t.After, t.Faults = g.N, g.Done, g.Waiting, g.After, g.Faults
		t.Retries, t.UncountedRetries, t.Ran, t.Last, t.NeverShares = g.Retries, g.Free, g.Ran, g.Last, g.Alone
		if g.Avoid != nil || g.Meant != nil {
			t.Rare = &tables.GangRare{Avoid: g.Avoid}
			s.SetMoveTo(t, g.Meant)
		}
		s.SetTimer(g.After, im.ID, int32(i))
		s.loadBooking(t, im.ID, int32(i), g.Booked)
		for _, a := range g.Avoid {
			s.SetTimer(a.Until, im.ID, int32(i))
		}
	}
	for i, t := range im.Tasks {
		o := &j.Tasks[i]
		o.State, o.Dead, o.Attempt = t.State, t.Dead, t.Attempt
		if t.Attempt > 0 {
			o.Place = &im.Tasks[i].Place
		}
		if t.Host != "" || t.PID != 0 || t.Ports != nil {
			o.Begun = &tables.Begun{Host: t.Host, Pid: t.PID, Ports: t.Ports}
		}
		o.Exit, o.Retries, o.Progress = t.Exit, t.Retries, t.Progress
	}
	s.SetTimer(im.After, im.ID, 0)
	if im.Spec.Partial() {
		s.PartialJobs++
	}
	if im.Spec.Hints.Dedicated {
		s.DedicatedJobs++
	}
	s.Slots.Put(im.ID, int32(len(s.Jobs)))
	s.Jobs = append(s.Jobs, j)
	s.Names.Put(int32(len(s.Jobs))-1, s.Jobs, s.Now, s.Seq)
}

// loadCluster builds the cells, and has all attempts take theirs again.
func (s loader) loadCluster(im *image) {
	s.applyConfigured(model.Configured{Config: im.Config})
	s.Cluster.Rebind(im.Bound)
	for _, sh := range im.Shares {
		s.Shares = append(s.Shares, tables.Sharing{Rotation: sh.Rotation, Since: sh.Since})
	}
	for i := range im.Attempts {
		s.loadAttempt(&im.Attempts[i])
	}
	s.Tallies = s.recounted()
	for _, n := range s.Nodes {
		s.SetTimer(n.Suspect, 0, 0)
		s.SetTimer(n.Drain, 0, 0)
	}
	s.Clean()
}

// loadAttempt puts an attempt back on its cells, or beside the other members of its allocation.
func (s loader) loadAttempt(a *attemptImage) {
	slot := s.Slots.Of(a.ID.Job)
	j := &s.Jobs[slot]
	at := int32(len(s.Attempts))
	promise := a.State == model.AttemptReserving
	if promise {
		s.Promises = append(s.Promises, at)
	}
	s.Attempts = append(s.Attempts, tables.Attempt{ID: a.ID, Job: slot, State: a.State, Cause: a.Cause, By: a.By,
		Placed: a.Placed, Started: a.Started, Checkpoint: a.Checkpoint, StopSentAt: a.Told, Lazy: a.Lazy,
		Orphaned: a.Orphaned, Refused: a.Refused, Platform: a.Platform, Alive: a.Alive, NextMember: tables.None, Share: a.Share})
	if a.Message != "" || a.Victims != nil || a.Ran != 0 || a.Origins != nil || a.Turn != 0 || a.Requeue {
		s.Attempts[at].Rare = &tables.AttemptRare{Message: a.Message, Victims: a.Victims, RanBefore: a.Ran,
			Origins: a.Origins, BookingTurn: a.Turn, Requeue: a.Requeue}
	}
	if a.Share != 0 {
		s.Shares[a.Share-1].Members++
	}
	if g := &j.Gangs[a.ID.Gang]; promise && (g.Attempt != tables.None || g.Done) {
		g.Next = at
	} else {
		g.Attempt = at
	}
	if a.Host != nil {
		s.join(at, s.Live(*a.Host).Alloc)
	} else {
		alloc := s.Cluster.Take(s.Space(j.Spec.VC), j.Spec.Priority, a.Placement, promise)
		if a.Lazy && j.Spec.Priority >= cell.MinGuaranteed {
			s.Cluster.Demote(alloc)
		}
		s.setAlloc(alloc, at)
		s.Attempts[at].Alloc = alloc
	}
	s.Link(at)
	s.setIntent(&s.Attempts[at])
	s.markDraining(&s.Attempts[at], a.Drains)
	s.TimeMinRun(&s.Attempts[at])
	if a.Lazy {
		s.KeepLazy(&s.Attempts[at])
	}
	s.timeLimit(&s.Attempts[at])
}
