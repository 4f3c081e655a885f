package server

import (
	"context"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
)

// Store is what the server needs of where everything is kept. internal/test/storetest says what
// each part promises.
type Store interface {
	History
	Answers
	Witness
	Secrets
	ClusterFiles
}

// History is what happened: jobs that have ended, and events.
type History interface {
	// Finished lists jobs that ended, latest submission first; next is the cursor of the next page,
	// 0 at the end.
	Finished(ctx context.Context, f engine.Past) (jobs []model.JobStatus, next model.JobID, err error)
	// Job returns a job that has ended, LastNamed the latest of a user's name; false is none.
	Job(ctx context.Context, id model.JobID) (model.JobStatus, bool, error)
	LastNamed(ctx context.Context, user model.Subject, name model.JobName) (model.JobStatus, bool, error)
	// Spec returns what was submitted for a job, live or ended.
	Spec(ctx context.Context, id model.JobID) (*model.Job, bool, error)
	// Events returns the next events after one, about so many bytes of them, one at least; none at
	// the end.
	Events(ctx context.Context, after uint64, size int) ([]model.Record, error)
	// JobEvents returns at most limit events about one job after one; limit 0 is 1,000.
	JobEvents(ctx context.Context, id model.JobID, after uint64, limit int) ([]model.Record, error)
	// Removed says when the files of a job that has ended were removed, and why; false is that they
	// were not.
	Removed(ctx context.Context, id model.JobID) (engine.Removed, bool, error)
}

// Answers remembers what was answered to requests with an idempotency key.
type Answers interface {
	// Recall returns what was answered; nil if nothing was.
	Recall(ctx context.Context, m model.Meta) (*engine.Answered, error)
	// KeysFull says why one more key of a subject is not remembered; nil when it is.
	KeysFull(subject model.Subject, submission bool, now model.Time) error
}

// Witness says whether what is acknowledged is kept.
type Witness interface {
	// Room says what is full; nil is that there is room for new submissions.
	Room() error
	// Sealed says why what is durable has one witness alone; nil is that it has both.
	Sealed() error
}

// Secrets returns a job's secret values; nil if it has none, or has ended.
type Secrets interface {
	Secrets(ctx context.Context, id model.JobID) (map[string]string, error)
}

// Meter measures tasks.
type Meter interface {
	// Usage returns the samples of a running task, the oldest first; none where it is not measured.
	Usage(executor.TaskRef) []executor.Usage
}

// Tags are words that users give to jobs, also to those that have ended.
type Tags interface {
	// Tag gives a job a tag, or takes it off; engine.ErrTooMany says that it has most.
	Tag(ctx context.Context, job model.JobID, tag string, on bool, most int) error
	// Of returns the tags of up to 1,000 jobs.
	Of(ctx context.Context, jobs []model.JobID) (map[model.JobID][]string, error)
	// With returns the latest jobs that have a tag.
	With(ctx context.Context, tag string) (map[model.JobID]bool, error)
}

// ClusterFiles keeps the cluster files that were applied, as versions.
type ClusterFiles interface {
	// BeginConfig notes what is about to be applied, and until when; EndConfig makes a version of
	// it, or forgets it for the tag "".
	BeginConfig(ctx context.Context, v engine.ConfigVersion, file []byte) error
	EndConfig(ctx context.Context, tag string) error
	// Configs returns up to limit versions before one, the latest first; 0 is from the latest.
	Configs(ctx context.Context, before int64, limit int) ([]engine.ConfigVersion, error)
	// ConfigFile returns a version with its file; false is that it is not kept.
	ConfigFile(ctx context.Context, version int64) (engine.ConfigVersion, []byte, bool, error)
}

// Ends lets a version of the cluster file that is in force until some time have no end any more.
type Ends interface {
	Drop(ctx context.Context, version int64) error
}
