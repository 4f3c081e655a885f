package server

import (
	"context"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
)

// Store is what the server needs from its storage. internal/test/storetest says what each
// part promises.
type Store interface {
	History
	Answers
	Durability
	Secrets
	ClusterFiles
}

// History is ended jobs, and events.
type History interface {
	// Finished lists ended jobs, latest submission first. next is the cursor of the next
	// page, 0 at the end.
	Finished(ctx context.Context, f engine.FinishedFilter) (jobs []model.JobStatus, next model.JobID, err error)
	// Job returns an ended job, LastNamed the latest one of a user's name; false is none.
	Job(ctx context.Context, id model.JobID) (model.JobStatus, bool, error)
	LastNamed(ctx context.Context, user model.Subject, name model.JobName) (model.JobStatus, bool, error)
	// Spec returns the specification of a job, live or ended.
	Spec(ctx context.Context, id model.JobID) (*model.Job, bool, error)
	// Events returns the next events after a number, about size bytes of them, at least one;
	// none at the end.
	Events(ctx context.Context, after uint64, size int) ([]model.Record, error)
	// JobEvents returns at most limit events of one job after a number; limit 0 is 1,000.
	JobEvents(ctx context.Context, id model.JobID, after uint64, limit int) ([]model.Record, error)
	// Removed returns when and why the files of an ended job were removed; false is that they
	// were not.
	Removed(ctx context.Context, id model.JobID) (engine.Removed, bool, error)
}

// Answers stores the answers to requests with an idempotency key.
type Answers interface {
	// Recall returns the answer to a request; nil if there is none.
	Recall(ctx context.Context, m model.Meta) (*engine.Answered, error)
	// KeysFull says why no further key of a subject is stored; nil when it is.
	KeysFull(subject model.Subject, submission bool, now model.Time) error
}

// Durability says whether what is acknowledged is safe.
type Durability interface {
	// Room says what is full; nil is that new submissions have room.
	Room() error
	// Sealed says why what is durable is in the database alone and not sealed; nil is that it
	// is in both.
	Sealed() error
}

// Secrets returns a job's secret values; nil if it has none, or has ended.
type Secrets interface {
	Secrets(ctx context.Context, id model.JobID) (map[string]string, error)
}

// Meter measures tasks.
type Meter interface {
	// Usage returns the samples of a running task, the oldest first; none where it is not
	// measured.
	Usage(executor.TaskRef) []executor.Usage
}

// Tags are words that users attach to jobs, also to ended ones.
type Tags interface {
	// Tag adds a tag to a job, or removes it. engine.ErrTooMany says that it has most tags.
	Tag(ctx context.Context, job model.JobID, tag string, on bool, most int) error
	// Of returns the tags of up to 1,000 jobs.
	Of(ctx context.Context, jobs []model.JobID) (map[model.JobID][]string, error)
	// With returns the latest jobs that have a tag.
	With(ctx context.Context, tag string) (map[model.JobID]bool, error)
}

// ClusterFiles stores the applied cluster files, as versions.
type ClusterFiles interface {
	// BeginConfig notes a file that will be applied, and its end. EndConfig makes a version
	// of it, or with the tag "" drops it.
	BeginConfig(ctx context.Context, v engine.ConfigVersion, file []byte) error
	EndConfig(ctx context.Context, tag string) error
	// Configs returns up to limit versions before one, the latest first; 0 starts at the
	// latest.
	Configs(ctx context.Context, before int64, limit int) ([]engine.ConfigVersion, error)
	// ConfigFile returns a version with its file; false is that it is not kept.
	ConfigFile(ctx context.Context, version int64) (engine.ConfigVersion, []byte, bool, error)
}

// Ends removes the end of a version of the cluster file.
type Ends interface {
	Drop(ctx context.Context, version int64) error
}
