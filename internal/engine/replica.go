package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

const (
	// replicaLag bounds how many batches the replica may be behind before the loop waits for it.
	replicaLag = 1024
	// recentEvents is how many of the newest events are in memory for readers: at least that
	// many, and at most twice as many. Older ones are read from the journal.
	recentEvents = 2048
)

// Replica is a second copy of the state, made from the same batches, for reads: lists,
// explanations and dry runs never run in the loop.
type Replica struct {
	journal  Journal
	in       chan message
	finished chan struct{} // closed when the last batch is applied
	once     sync.Once
	fed      atomic.Uint64 // the last event that was sent here: nothing later was acknowledged

	turn    chan struct{} // holds a token while the fields below are used
	state   *core.State
	broken  error
	recent  []model.Record // the newest events, contiguous, ending at state.Seq
	changed chan struct{}  // closed and replaced when state advances
}

// message is one durable batch on its way to the replica.
type message struct {
	records []model.Record
	// then, when set, gets a copy of the replica as of the batch, and may return a state to
	// replace it.
	then func(replica *core.State) *core.State
}

func newReplica(s *core.State, j Journal) *Replica {
	r := &Replica{journal: j, state: s, in: make(chan message, replicaLag), turn: make(chan struct{}, 1),
		finished: make(chan struct{}), changed: make(chan struct{})}
	r.fed.Store(s.Seq())
	return r
}

// run applies batches until finish is called.
func (r *Replica) run() {
	defer close(r.finished)
	for m := range r.in {
		r.fold(m)
	}
}

// feed sends a durable batch, before it is acknowledged.
func (r *Replica) feed(m message) {
	r.fed.Store(m.records[len(m.records)-1].Seq)
	r.in <- m
}

// lock waits for the token, as long as ctx lasts; unlock returns it.
func (r *Replica) lock(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Replica) unlock() { <-r.turn }

// Acknowledged is the last event that may have been acknowledged.
func (r *Replica) Acknowledged() uint64 { return r.fed.Load() }

// finish ends the replica after the batches that were fed; reads still work.
func (r *Replica) finish() {
	r.once.Do(func() { close(r.in) })
	<-r.finished
}

func (r *Replica) fold(m message) {
	_ = r.lock(context.Background()) // this context never ends
	defer r.unlock()
	if r.broken != nil {
		return
	}
	for _, rec := range m.records {
		if err := applyStored(r.state, rec); err != nil {
			r.broken = fmt.Errorf("the read replica is broken: %w; restart the server", err)
			break
		}
	}
	r.state.DropEnded() // the loop has passed them on already
	r.remember(m.records)
	if m.then != nil && r.broken == nil {
		if s := m.then(r.state.Clone()); s != nil {
			r.state = s
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// remember keeps the newest events; the array is cut in large steps.
func (r *Replica) remember(records []model.Record) {
	r.recent = append(r.recent, records...)
	if len(r.recent) > 2*recentEvents {
		r.recent = slices.Clone(r.recent[len(r.recent)-recentEvents:])
	}
}

// cloneAt waits until the replica has event seq, and returns a copy of its state; nil if the
// replica is broken. Only the loop may call it: seq is the last event that it fed.
func (r *Replica) cloneAt(seq uint64) *core.State {
	var s *core.State
	err := r.Read(context.Background(), seq, func(state *core.State) {
		if state.Seq() == seq {
			s = state.Clone()
		}
	})
	if err != nil {
		return nil
	}
	return s
}

// Read waits until the replica has applied event seq and all that was acknowledged before the
// call. Then it calls f with the state, which f must neither change nor keep. Reads run one at a
// time. When ctx ends first it returns ctx's error.
func (r *Replica) Read(ctx context.Context, seq uint64, f func(*core.State)) error {
	seq = max(seq, r.Acknowledged())
	for {
		changed, err := r.try(ctx, seq, f)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-r.finished:
			if changed, err := r.try(ctx, seq, f); changed == nil {
				return err
			}
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try calls f if the state has reached seq; else it returns what to wait for.
func (r *Replica) try(ctx context.Context, seq uint64, f func(*core.State)) (<-chan struct{}, error) {
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	defer r.unlock()
	if r.broken != nil {
		return nil, r.broken
	}
	if r.state.Seq() < seq {
		return r.changed, nil
	}
	f(r.state)
	return nil, nil
}

// Tail is what the replica has of the events after a position.
type Tail struct {
	// Records are the next events, copied so that a slow reader does not keep the array of recent
	// ones alive. There are none where Older is true, or nothing came yet.
	Records []model.Record
	End     uint64 // the last event that the replica has applied
	Older   bool   // the next event is only in the journal
	// Changed is closed when the replica advances, Ended when it never will again.
	Changed, Ended <-chan struct{}
}

// Tail returns at most limit of the events after seq. The replica has applied them already.
// ErrAhead says that seq does not exist yet: its reader must read everything anew.
func (r *Replica) Tail(ctx context.Context, seq uint64, limit int) (Tail, error) {
	if err := r.lock(ctx); err != nil {
		return Tail{}, err
	}
	defer r.unlock()
	t := Tail{End: r.state.Seq(), Changed: r.changed, Ended: r.finished}
	switch {
	case r.broken != nil:
		return t, r.broken
	case seq > t.End:
		return t, fmt.Errorf("%w: it ends at event %d, not %d", ErrAhead, t.End, seq)
	case seq == t.End:
		return t, nil
	case len(r.recent) == 0 || seq+1 < r.recent[0].Seq:
		t.Older = true
		return t, nil
	}
	from := int(seq + 1 - r.recent[0].Seq)
	t.Records = slices.Clone(r.recent[from:min(from+limit, len(r.recent))])
	return t, nil
}

// snapshotter compares the core with the replica and saves snapshots, concurrently with the loop
// and one at a time.
type snapshotter struct {
	journal  Journal
	log      *slog.Logger
	busy     atomic.Bool
	diverged atomic.Bool
	running  sync.WaitGroup
}

// start takes copies of the core and of the replica as of the same event. If they are equal, they
// are saved. Else it returns the core's copy to replace the replica, since the core's decisions
// are durable.
func (s *snapshotter) start(core, replica *core.State) *core.State {
	if s.diverged.Load() {
		return core
	}
	if !s.busy.CompareAndSwap(false, true) {
		return nil // the previous one is still being written
	}
	s.running.Go(func() {
		defer s.busy.Store(false)
		s.save(core, replica)
	})
	return nil
}

func (s *snapshotter) save(core, replica *core.State) {
	state := replica.Save()
	if !bytes.Equal(state, core.Save()) {
		s.diverged.Store(true)
		s.log.Error("the read replica differs from the core: reads may be wrong until the next comparison; "+
			"please report this with the output of journal verify",
			"seq", core.Seq(), "core", core.Digest(), "replica", replica.Digest())
		return
	}
	if err := s.journal.SaveSnapshot(context.Background(), core.Seq(), state); err != nil {
		s.log.Warn("a snapshot could not be saved; the next one is tried later", "error", err)
	}
}

func (s *snapshotter) wait() { s.running.Wait() }
