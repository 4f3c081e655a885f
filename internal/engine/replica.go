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
	// replicaLag bounds the batches the replica may be behind before the loop
	// waits for it.
	replicaLag = 1024
	// recentEvents is how many events their readers find in memory, at least, and at most
	// twice as many; older ones are read from the journal.
	recentEvents = 2048
)

// Replica is a second fold of the same batches, for reads: lists, explanations
// and dry runs never run in the loop.
type Replica struct {
	journal  Journal
	in       chan message
	finished chan struct{} // closed when the last batch is folded in
	once     sync.Once
	fed      atomic.Uint64 // the last event on its way here: nothing later was acknowledged

	turn    chan struct{} // holds a token while the fields below are in use
	state   *core.State
	broken  error
	recent  []model.Record // the newest events, contiguous, ending at state.Seq
	changed chan struct{}  // closed and replaced when state advances
}

// message is one durable batch on its way to the replica.
type message struct {
	records []model.Record
	// then, when set, gets a copy of the replica as of the batch, and may return
	// a state that replaces it.
	then func(replica *core.State) *core.State
}

func newReplica(s *core.State, j Journal) *Replica {
	r := &Replica{journal: j, state: s, in: make(chan message, replicaLag), turn: make(chan struct{}, 1),
		finished: make(chan struct{}), changed: make(chan struct{})}
	r.fed.Store(s.Seq())
	return r
}

// run folds batches until finish is called.
func (r *Replica) run() {
	defer close(r.finished)
	for m := range r.in {
		r.fold(m)
	}
}

// feed hands a durable batch over, before anybody is told of it.
func (r *Replica) feed(m message) {
	r.fed.Store(m.records[len(m.records)-1].Seq)
	r.in <- m
}

// lock waits for its turn, as long as ctx lasts; unlock ends it.
func (r *Replica) lock(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Replica) unlock() { <-r.turn }

// Acknowledged is the last event that anybody may have been told of.
func (r *Replica) Acknowledged() uint64 { return r.fed.Load() }

// finish ends the replica after what it was fed; reads go on working.
func (r *Replica) finish() {
	r.once.Do(func() { close(r.in) })
	<-r.finished
}

func (r *Replica) fold(m message) {
	_ = r.lock(context.Background()) // which never ends
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
	r.state.DropEnded() // the loop has passed them on
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

// cloneAt returns a copy of the replica's state as of event seq, which it waits
// for; nil if the replica is broken. Only the loop may call it: seq is the last
// event that it fed.
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

// Read waits until the replica has applied event seq and all that was acknowledged
// before the call, then calls f with the state, which f must neither change nor keep.
// Reads run one at a time. When ctx ends first it returns ctx's error.
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

// try calls f if the state is at seq; else it returns what to wait for.
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

// Tail is what the replica holds of the events behind a place.
type Tail struct {
	// Records are the next events: a copy, since an array of recent ones must not live as
	// long as somebody reads slowly. They are none where Older is true, or nothing came yet.
	Records []model.Record
	End     uint64 // the last event that the replica has folded
	Older   bool   // the next event is only in the journal
	// Changed is closed when the replica moves on, Ended when it never will again.
	Changed, Ended <-chan struct{}
}

// Tail returns at most limit of the events after seq. An event in it is in the replica
// already. ErrAhead says that seq does not exist yet: its reader must read everything anew.
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

// snapshotter compares the core with the replica and saves snapshots, beside
// the loop and one at a time.
type snapshotter struct {
	journal  Journal
	log      *slog.Logger
	busy     atomic.Bool
	diverged atomic.Bool
	running  sync.WaitGroup
}

// start takes copies of the core and of the replica as of the same event. Equal,
// they are saved. Else the core's, whose decisions are durable, replaces the
// replica: it returns it.
func (s *snapshotter) start(core, replica *core.State) *core.State {
	if s.diverged.Load() {
		return core
	}
	if !s.busy.CompareAndSwap(false, true) {
		return nil // the one before is still being written
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
