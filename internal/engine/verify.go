package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

const (
	// verifyEvery is the least number of decisions between checks of all invariants.
	verifyEvery = 64
	// verifyJobs bounds, on average, how many jobs are checked for each decision. Each check
	// looks at all jobs, so with many jobs checks must be rarer, or the time is quadratic.
	verifyJobs = 16
)

// History is a journal that still has everything from its first event.
type History interface {
	// Replay calls f for every record after seq, in order.
	Replay(ctx context.Context, after uint64, f func(model.Record) error) error
	// Snapshots calls f for every snapshot that is kept, oldest first.
	Snapshots(ctx context.Context, f func(KeptSnapshot) error) error
}

// Tables is a History that keeps more than events and snapshots. Check reads all of that, and the
// store of the events, and reports what is not as it was written. It returns how many of each it
// checked.
type Tables interface {
	Check(ctx context.Context, problem func(message string)) (Checked, error)
}

// Checked counts what Tables checked.
type Checked struct {
	Finished int `json:"finished"` // jobs that ended
	Secrets  int `json:"secrets"`  // jobs with secrets
	Tokens   int `json:"tokens"`
	Objects  int `json:"objects"` // users and groups
	Audit    int `json:"audit"`   // lines of the audit log
	Answers  int `json:"answers"` // to idempotency keys
	Removed  int `json:"removed"` // jobs whose files were removed
	Configs  int `json:"configs"` // versions of the cluster file
	Tags     int `json:"tags"`    // of jobs
}

// Report is what Verify found.
type Report struct {
	Events    uint64 `json:"events"`
	Decisions int    `json:"decisions"` // decided again, and equal
	// Other counts decisions of another Version: they are replayed, but not taken again.
	Other     int `json:"other"`
	Snapshots int `json:"snapshots"` // compared, and equal
	Checked
	Invariants int    `json:"invariants"` // how often all invariants were checked
	Digest     string `json:"digest"`     // of the state after the last event
	// Problems are what is wrong, in order; none for a sound journal. After a problem nothing
	// later is compared.
	Problems []Problem `json:"problems,omitempty"`
}

// Problem is one error in a journal.
type Problem struct {
	Seq     uint64 `json:"seq"` // the event at which it shows; 0: it shows elsewhere
	Message string `json:"message"`
}

// Verify replays a journal from its first event. First it checks what else is kept (Tables). Each
// decision of this program's model.Version is taken again on the state as of its inputs and must
// agree bit for bit. Invariants and kept snapshots are checked on the way. An error means that
// the journal could not be read to its end; the report has the problems up to there.
func Verify(ctx context.Context, h History, policies model.Policies) (Report, error) {
	v := &verifier{policies: policies, state: core.New(policies), kept: map[uint64][]byte{}}
	var err error
	if t, ok := h.(Tables); ok {
		v.report.Checked, err = t.Check(ctx, func(message string) { _ = v.problem(0, "%s", message) })
	}
	if err != nil {
		return v.report, err
	}
	v.tables = len(v.report.Problems)
	err = h.Snapshots(ctx, func(k KeptSnapshot) error {
		v.kept[k.Seq] = k.State
		return nil
	})
	if err != nil {
		return v.report, fmt.Errorf("cannot read the snapshots: %w", err)
	}
	err = h.Replay(ctx, 0, v.add)
	if err == nil {
		err = v.flush()
	}
	if err == nil {
		v.invariants()
		v.report.Digest = v.state.Digest()
	}
	if err != nil && !errors.Is(err, errUnsound) {
		return v.report, fmt.Errorf("cannot read the journal: %w", err)
	}
	return v.report, nil
}

// errUnsound ends a replay after a problem.
var errUnsound = errors.New("the journal is not sound")

// verifier folds a journal. It holds back records until their Decided marker: only that tells
// inputs from decisions.
type verifier struct {
	policies model.Policies
	state    *core.State
	open     []model.Record // read, not applied
	read     uint64         // the number of the last record read
	kept     map[uint64][]byte
	report   Report
	tables   int // problems of Tables; they do not end the replay
	since    int // decisions since the last check of invariants
}

func (v *verifier) add(r model.Record) error {
	if r.Seq != v.read+1 {
		return v.problem(v.read+1, "event %d follows event %d", r.Seq, v.read)
	}
	v.read = r.Seq
	v.report.Events++
	v.open = append(v.open, r)
	_, snapshot := v.kept[r.Seq]
	if mark, ok := r.Event.(model.Decided); ok {
		if err := v.decide(mark); err != nil {
			return err
		}
	} else if snapshot { // it was cut after a batch that decided nothing
		if err := v.flush(); err != nil {
			return err
		}
	}
	if snapshot {
		return v.compare(r.Seq)
	}
	return nil
}

// decide checks the decision that ends with mark, the last record of v.open.
func (v *verifier) decide(mark model.Decided) error {
	n := 0
	for n < len(v.open) && v.open[n].Seq <= mark.Through {
		n++
	}
	journalled := v.open[n:]
	v.open = v.open[:n]
	if err := v.flush(); err != nil {
		return err
	}
	if mark.Version != model.Version {
		v.report.Other++
		v.open = journalled
		return v.flush()
	}
	for _, p := range v.state.FailedToMake() {
		return v.problem(mark.Through, "what was decided after event %d cannot be decided again: %s", mark.Through, p.Words())
	}
	again, err := decideAgain(v.state, mark.Now)
	if err != nil {
		return v.problem(mark.Through, "deciding again after event %d fails: %v", mark.Through, err)
	}
	if err := v.same(mark, journalled, again); err != nil {
		return err
	}
	v.report.Decisions++
	if v.since++; v.since >= max(verifyEvery, v.state.Size()/verifyJobs) {
		v.invariants()
	}
	if len(v.report.Problems) > v.tables {
		return errUnsound
	}
	v.state.DropEnded()
	return nil
}

// decideAgain turns a panic into an error.
func decideAgain(s *core.State, now model.Time) (r []model.Record, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	return s.Decide(now), nil
}

// same compares a journalled decision with the repeated one, encoded.
func (v *verifier) same(mark model.Decided, journalled, again []model.Record) error {
	for i := range max(len(journalled), len(again)) {
		if i >= len(journalled) || i >= len(again) {
			return v.problem(mark.Through, "the decision after event %d has %d events in the journal and %d when taken again",
				mark.Through, len(journalled), len(again))
		}
		was, err := line(journalled[i])
		if err != nil {
			return err
		}
		is, err := line(again[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(was, is) {
			return v.problem(journalled[i].Seq, "journalled: %s; taken again: %s", was, is)
		}
	}
	return nil
}

// line is a record in the form that is compared and shown.
func line(r model.Record) ([]byte, error) {
	kind, version, data, err := model.EncodeEvent(r.Event)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", r.Seq, err)
	}
	return fmt.Appendf(nil, "%d %d %s/%d %s", r.Seq, r.Time, kind, version, data), nil
}

// flush applies the records held back as they are.
func (v *verifier) flush() error {
	for _, r := range v.open {
		if err := applyStored(v.state, r); err != nil {
			return v.problem(r.Seq, "%v", err)
		}
	}
	v.open = v.open[:0:0]
	v.state.DropEnded()
	return nil
}

// compare checks the kept snapshot of event seq, if this program can read it: a start skips one
// of another version as well.
func (v *verifier) compare(seq uint64) error {
	if _, err := core.Load(v.kept[seq], v.policies); err != nil || len(v.state.FailedToMake()) > 0 {
		return nil
	}
	if !bytes.Equal(v.kept[seq], v.state.Save()) {
		return v.problem(seq, "the snapshot of event %d differs from the events up to it: %s", seq,
			difference(v.kept[seq], v.state.Save()))
	}
	v.report.Snapshots++
	return nil
}

// difference shows where two texts begin to differ, with some context.
func difference(a, b []byte) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	around := func(t []byte) []byte { return t[max(0, at-60):min(len(t), at+60)] }
	return fmt.Sprintf("at byte %d, %q against %q", at, around(a), around(b))
}

func (v *verifier) invariants() {
	v.report.Invariants++
	v.since = 0
	if err := v.state.Verify(); err != nil {
		_ = v.problem(v.state.Seq(), "an invariant is broken: %v", err)
	}
}

// problem notes what is wrong and returns errUnsound.
func (v *verifier) problem(seq uint64, format string, args ...any) error {
	v.report.Problems = append(v.report.Problems, Problem{Seq: seq, Message: fmt.Sprintf(format, args...)})
	return errUnsound
}
