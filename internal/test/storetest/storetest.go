// Package storetest is the one suite that every store passes: what the engine, the server and the
// command may rely on wherever things are kept. It must not know which store it tests.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Store is the whole contract: what internal/engine asks of a journal, and what the server and the
// command need beside that, as internal/api/server says it.
type Store interface {
	engine.Journal
	engine.Roomy
	Epoch() uint64
	Close() error
	Sealed() error

	Finished(ctx context.Context, f engine.FinishedFilter) (jobs []model.JobStatus, next model.JobID, err error)
	Job(ctx context.Context, id model.JobID) (model.JobStatus, bool, error)
	LastNamed(ctx context.Context, user model.Subject, name model.JobName) (model.JobStatus, bool, error)
	Spec(ctx context.Context, id model.JobID) (*model.Job, bool, error)
	Events(ctx context.Context, after uint64, size int) ([]model.Record, error)
	JobEvents(ctx context.Context, id model.JobID, after uint64, limit int) ([]model.Record, error)

	Recall(ctx context.Context, m model.Meta) (*engine.Answered, error)
	KeysFull(subject model.Subject, submission bool, now model.Time) error
	Secrets(ctx context.Context, id model.JobID) (map[string]string, error)
	RevokeToken(ctx context.Context, id string) (bool, error)
	BeginConfig(ctx context.Context, v engine.ConfigVersion, file []byte) error
	EndConfig(ctx context.Context, tag string) error
	Configs(ctx context.Context, before int64, limit int) ([]engine.ConfigVersion, error)
	ConfigFile(ctx context.Context, version int64) (engine.ConfigVersion, []byte, bool, error)
	EndedOf(ctx context.Context, ids []model.JobID) (map[model.JobID]model.Time, error)
	MarkRemoved(ctx context.Context, list []engine.Removed) error
	Removed(ctx context.Context, id model.JobID) (engine.Removed, bool, error)
}

// Token is a token as the suite sees it.
type Token struct {
	ID, Name string
	Subject  model.Subject
	Used     model.Time
}

// Harness is one place where a store keeps things, empty at first.
type Harness struct {
	// Open opens the store there, again after it was closed, as a new process would: with a later
	// epoch. It remembers so many idempotency keys of one subject; 0 is as many as usual.
	Open func(keys int) Store
	// CreateToken makes a token and returns its text; CheckToken says whose a text is, and notes
	// the use; Tokens lists them, the oldest first.
	CreateToken func(ctx context.Context, s Store, name string, subject model.Subject, now model.Time) (string, Token, error)
	CheckToken  func(ctx context.Context, s Store, text string, now model.Time) (model.Subject, bool)
	Tokens      func(s Store) []Token
	// Lies reports whether a text lies in the clear in anything that is kept there.
	Lies func(text string) bool
	// Forget is how long an answer is remembered at least.
	Forget model.Duration
}

// Run runs the suite; each test gets a harness of its own.
func Run(t *testing.T, fresh func(t *testing.T) *Harness) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"An empty store has nothing", (*suite).empty},
		{"Events outlive snapshots and restarts", (*suite).eventsOutlive},
		{"A batch that does not fit is fenced off", (*suite).fencing},
		{"A writer of before is fenced off", (*suite).olderEpoch},
		{"A batch is kept whole or not at all", (*suite).allOrNothing},
		{"Pages of events", (*suite).pages},
		{"Events of a job", (*suite).eventsOfAJob},
		{"Finished jobs", (*suite).finished},
		{"Names are their users'", (*suite).names},
		{"Secrets lie nowhere in the clear, and end with their job", (*suite).secrets},
		{"Answers are remembered with their batch", (*suite).answers},
		{"Keys of a subject have a limit", (*suite).keys},
		{"Tokens", (*suite).tokens},
		{"Callers that hang up", (*suite).hangUp},
		{"Versions of the cluster file", (*suite).clusterFiles},
		{"What was removed of ended jobs", (*suite).removed},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := &suite{T: t, Harness: fresh(t), ctx: context.Background()}
			u.s = u.Open(0)
			t.Cleanup(func() { _ = u.s.Close() })
			test.run(u)
		})
	}
}

// suite is one test with its store.
type suite struct {
	*testing.T
	*Harness
	ctx context.Context
	s   Store
}

// again closes the store and opens it anew.
func (u *suite) again() {
	u.Helper()
	u.must(u.s.Close())
	u.s = u.Open(0)
}

func (u *suite) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// same compares what is there with what is wanted.
func (u *suite) same(what string, has, want any) {
	u.Helper()
	if !reflect.DeepEqual(has, want) {
		u.Errorf("%s: has %+v, want %+v", what, has, want)
	}
}

// batch is one of the present epoch.
func (u *suite) batch(first uint64, events ...model.Event) engine.Batch {
	b := engine.Batch{First: first, Epoch: u.s.Epoch()}
	for i, e := range events {
		b.Records = append(b.Records, model.Record{Seq: first + uint64(i), Time: model.Time(first), Event: e})
	}
	return b
}

// submission is a batch of one accepted job and its decision.
func (u *suite) submission(first uint64, id model.JobID) engine.Batch {
	job := &model.Job{Name: model.JobName(fmt.Sprintf("job-%d", id)), User: "ann", VC: "default", Source: "source"}
	return u.batch(first, model.JobSubmitted{ID: id, Job: job}, model.Decided{Through: first, Now: model.Time(first), Version: model.Version})
}

func (u *suite) append(b engine.Batch) {
	u.Helper()
	u.must(u.s.Append(u.ctx, b))
}

// fill appends n submissions; each is two events.
func (u *suite) fill(first uint64, n int) {
	u.Helper()
	for i := range n {
		at := first + 2*uint64(i)
		u.append(u.submission(at, model.JobID(at/2+1)))
	}
}

// replayed returns all events after one; none may be missing.
func (u *suite) replayed(after uint64) []model.Record {
	u.Helper()
	var records []model.Record
	u.must(u.s.Replay(u.ctx, after, func(r model.Record) error {
		if want := after + uint64(len(records)) + 1; r.Seq != want {
			return fmt.Errorf("event %d instead of %d", r.Seq, want)
		}
		records = append(records, r)
		return nil
	}))
	return records
}

// sameEvents compares records by what they say.
func (u *suite) sameEvents(what string, has, want []model.Record) {
	u.Helper()
	for i := range max(len(has), len(want)) {
		if i >= len(has) || i >= len(want) || u.text(has[i]) != u.text(want[i]) {
			u.Errorf("%s: %d events, want %d; they differ from number %d on", what, len(has), len(want), i+1)
			return
		}
	}
}

func (u *suite) text(r model.Record) string {
	kind, version, data, err := model.EncodeEvent(r.Event)
	u.must(err)
	return fmt.Sprint(r.Seq, r.Time, kind, version, string(data))
}

// all reads every page of finished jobs and checks their order.
func (u *suite) all(f engine.FinishedFilter) (jobs []model.JobStatus) {
	u.Helper()
	for {
		page, next, err := u.s.Finished(u.ctx, f)
		u.must(err)
		jobs = append(jobs, page...)
		if most := min(cmp.Or(max(f.Limit, 0), 100), 1000); len(page) > most {
			u.Fatalf("a page of %d jobs, want at most %d", len(page), most)
		}
		if next == 0 {
			break
		}
		f.Before = next
	}
	for i := 1; i < len(jobs); i++ {
		if jobs[i].ID >= jobs[i-1].ID {
			u.Fatalf("job %d follows %d", jobs[i].ID, jobs[i-1].ID)
		}
	}
	return jobs
}
