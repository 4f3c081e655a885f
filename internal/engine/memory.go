package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/combsched/comb/internal/core/model"
)

// Memory is a Journal in memory, for simulations and scripts: the history is needed, but need not
// survive a crash of the process. It keeps the whole log as well as its snapshots.
type Memory struct {
	mu        sync.Mutex
	records   []model.Record
	snapshots []KeptSnapshot
	secrets   map[model.JobID]map[string]string
	ended     []model.JobStatus
	answers   map[model.Meta]Answered
	epoch     uint64
	fault     func(Batch) error
}

// KeptSnapshot is a kept snapshot: the canonical state as of event Seq.
type KeptSnapshot struct {
	Seq   uint64
	State []byte
}

// NewMemory returns an empty journal.
func NewMemory() *Memory {
	return &Memory{secrets: map[model.JobID]map[string]string{}, answers: map[model.Meta]Answered{}}
}

// Fail makes every later Append call f first and fail with its error, keeping nothing of the
// batch, as a failing disk would. nil ends that.
func (m *Memory) Fail(f func(Batch) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// Append implements Journal.
func (m *Memory) Append(_ context.Context, b Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		if err := m.fault(b); err != nil {
			return err
		}
	}
	if last := uint64(len(m.records)); b.First != last+1 || b.Epoch < m.epoch {
		return fmt.Errorf("%w: it ends at event %d in epoch %d; the batch begins at %d in epoch %d",
			ErrFenced, last, m.epoch, b.First, b.Epoch)
	}
	m.epoch = b.Epoch
	m.records = append(m.records, b.Records...)
	for _, s := range b.Secrets {
		m.secrets[s.Job] = s.Values
	}
	for i := range b.Ended {
		delete(m.secrets, b.Ended[i].ID)
	}
	m.ended = append(m.ended, b.Ended...)
	for _, a := range b.Answers {
		m.answers[a.Meta] = a
	}
	return nil
}

// Recall implements AnswerJournal.
func (m *Memory) Recall(_ context.Context, of model.Meta) (*Answered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[of]
	if !ok {
		return nil, nil
	}
	return &a, nil
}

// Replay implements Journal.
func (m *Memory) Replay(ctx context.Context, after uint64, f func(model.Record) error) error {
	m.mu.Lock()
	records := m.records
	m.mu.Unlock()
	for i := min(after, uint64(len(records))); i < uint64(len(records)); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(records[i]); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot implements Journal.
func (m *Memory) Snapshot(context.Context) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.snapshots) == 0 {
		return nil, 0, nil
	}
	k := m.snapshots[len(m.snapshots)-1]
	return k.State, k.Seq, nil
}

// SaveSnapshot implements Journal.
func (m *Memory) SaveSnapshot(_ context.Context, seq uint64, state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshots = append(m.snapshots, KeptSnapshot{Seq: seq, State: state})
	return nil
}

// Snapshots implements History.
func (m *Memory) Snapshots(_ context.Context, f func(KeptSnapshot) error) error {
	m.mu.Lock()
	kept := m.snapshots
	m.mu.Unlock()
	for _, k := range kept {
		if err := f(k); err != nil {
			return err
		}
	}
	return nil
}

// Ended returns the final statuses of all jobs that ended, in order.
func (m *Memory) Ended() []model.JobStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended[:len(m.ended):len(m.ended)]
}

// Secrets returns the secret values of a job that has not ended.
func (m *Memory) Secrets(id model.JobID) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secrets[id]
}
