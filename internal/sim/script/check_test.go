package script_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/script"
)

// checker folds the journal a second time and checks after every event what must
// always hold. It keeps its own small books, so that it does not believe the core.
type checker struct {
	s         *script.Session
	state     *core.State
	bytes     hash.Hash
	cleared   map[model.AttemptID]model.AttemptID // who lost its guarantee in this decision, and for whom
	turns     int                                 // decisions in a row that asked for another one
	err       error
	jobs      map[model.JobID]*model.Job
	submitted map[model.JobID]model.Time
	over      map[model.JobID]bool
	live      map[model.AttemptID]*attempt
	yielded   map[model.JobID]int32      // stops by its own priority
	ran       map[gangKey]model.Duration // how long a gang's attempts ran that are over
	ended     map[gangKey]model.Time     // when the last of them was
	victims   map[model.AttemptID][]model.AttemptID
	rounds    map[cell.VCName]taking
	takes     takes
	sizes     map[model.JobID]int32
	resizedAt map[model.JobID]model.Time
	grows     []growth // since the last decision
	room      map[cell.VCName]*resizing
	started   map[model.AttemptID]uint64 // the last event of the batch that placed it
	decided   model.Time                 // the last decision
	nextLook  model.Time                 // before then nothing happens by itself
	filters   map[model.JobID]model.Time // until when who declined under offers is asked no more
	last      map[gangKey]int32
	alone     map[gangKey]bool // gangs that never share again
	memory    map[cell.TypeName]int64
	promises  map[model.JobID]promise // of chronus
	promoted  map[model.JobID]promotion
	profiled  map[cell.VCName][3]int64
	losses    map[model.JobID]*falling
	lastLoss  map[model.AttemptID]*falling // that an attempt told, under whatever policy
	reports   []model.Record               // that came since the last decision
	lent      map[lentKey]*lent
	owed      bool       // what was borrowed is known
	calm      bool       // promises are kept as long as nothing happens
	blind     bool       // nothing is checked: the bytes are noted, and the state is followed
	upset     model.Time // when something happened last
	met       met
	world     hardware
	owners    owners
	batches   int
	quietly   int
	launched  int
	probes    int
	waitsFor  map[gangKey]model.Time     // the next try of a gang whose attempt the platform ended
	causes    map[gangKey]model.EndCause // of a gang's last attempt
}

type gangKey struct {
	job  model.JobID
	gang int32
}

// attempt is an attempt or a reservation as the checker sees it.
type attempt struct {
	placed   bool // false while it only reserves
	lazy     bool
	gaveUp   *model.AttemptID // for whom it became opportunistic
	stop     bool
	migrates bool // it was told to stop so that it runs elsewhere
	returns  bool // the platform stops it, and its gang waits again then
	place    cell.Placement
	started  model.Time // when the first of its tasks ran
	turns    *model.Rotation
	since    model.Time     // when these began
	had      model.Duration // how long it ran before
}

type placedTask = cell.Task

// device is one leaf by its place in the world.
type device struct {
	node  cell.NodeName
	sku   cell.TypeName
	index int32
	part  int32
}

// devices calls f for every device of an attempt that runs.
func (a *attempt) devices(f func(device)) {
	if !a.placed {
		return
	}
	for _, t := range a.place.Tasks {
		for n, i := range t.Devices {
			d := device{node: t.Node, sku: t.SKU, index: i}
			if n < len(t.Parts) {
				d.part = t.Parts[n]
			}
			f(d)
		}
	}
}

func newChecker(s *script.Session) *checker {
	return &checker{
		s: s, state: core.New(policy.New), bytes: sha256.New(),
		jobs: map[model.JobID]*model.Job{}, submitted: map[model.JobID]model.Time{}, over: map[model.JobID]bool{},
		live: map[model.AttemptID]*attempt{}, yielded: map[model.JobID]int32{}, ran: map[gangKey]model.Duration{}, ended: map[gangKey]model.Time{},
		victims: map[model.AttemptID][]model.AttemptID{}, rounds: map[cell.VCName]taking{}, room: map[cell.VCName]*resizing{}, started: map[model.AttemptID]uint64{}, filters: map[model.JobID]model.Time{}, last: map[gangKey]int32{},
		sizes: map[model.JobID]int32{}, resizedAt: map[model.JobID]model.Time{}, alone: map[gangKey]bool{}, memory: map[cell.TypeName]int64{}, world: newHardware(), owners: newOwners(),
		promises: map[model.JobID]promise{}, cleared: map[model.AttemptID]model.AttemptID{}, promoted: map[model.JobID]promotion{}, profiled: map[cell.VCName][3]int64{}, losses: map[model.JobID]*falling{}, lastLoss: map[model.AttemptID]*falling{},
		waitsFor: map[gangKey]model.Time{}, causes: map[gangKey]model.EndCause{},
		lent: map[lentKey]*lent{}, met: met{policies: map[string]*tries{}},
	}
}

func (c *checker) fail(format string, v ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, v...)
	}
}

// sum is what two runs of one seed must agree on: every byte of the journal.
func (c *checker) sum() string { return hex.EncodeToString(c.bytes.Sum(nil)) }

// verifyEach says in how many batches one is verified after each of its events,
// and not only at its end.
const verifyEach = 4

// batch checks one durable batch, event by event.
func (c *checker) batch(b engine.Batch) {
	c.batches++
	for _, r := range b.Records {
		if c.err != nil {
			return
		}
		kind, version, data, err := model.EncodeEvent(r.Event)
		if err != nil {
			c.fail("event %d: %v", r.Seq, err)
			return
		}
		fmt.Fprintf(c.bytes, "%d %d %s %d %s\n", r.Seq, r.Time, kind, version, data)
		before := c.beforePlace(r)
		c.state.Apply(r)
		c.keptPlaces(r, before)
		if c.blind {
			continue
		}
		c.books(r)
		c.borrow(r)
		if c.batches%verifyEach == 0 {
			if err := c.state.Verify(); err != nil {
				c.fail("Verify inside a batch, after event %d %T: %v", r.Seq, r.Event, err)
			}
		}
	}
	if !c.blind {
		c.heard() // a decision that changed nothing writes nothing
	}
	c.state.TakeEnded()
	if c.blind {
		return
	}
	if err := errors.Join(c.state.VerifyWake(), c.state.Verify()); err != nil {
		c.fail("Verify after event %d: %v", c.state.Seq(), err)
	}
	c.state.Wake() // as the loop does: what it notes must hold until something happens
	c.changes(b)
	if len(b.Records) > 0 {
		c.leased(b.Records[len(b.Records)-1].Time)
	}
}

// books checks one record against the checker's own books.
func (c *checker) books(r model.Record) {
	switch r.Event.(type) {
	case model.Fact, model.JobSubmitted, model.StopRequested, model.JobHeld, model.JobRequeued, model.JobUpdated, model.Configured, model.NodeCordoned:
	default:
		c.heard() // it is decided
	}
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		if c.jobs[e.ID] != nil {
			c.fail("I16: job %d is accepted twice", e.ID)
		}
		c.jobs[e.ID], c.submitted[e.ID] = e.Job, r.Time
	case model.JobUpdated:
		if c.jobs[e.Job] != nil {
			c.jobs[e.Job] = e.On(c.jobs[e.Job])
		}
	case model.Reserved:
		c.fresh(r, e.Attempt)
		c.moves(r, e)
		c.reserved(r, e)
		c.undisturbed(r, e.Attempt, e.Placement)
		c.live[e.Attempt] = &attempt{place: e.Placement}
	case model.Unreserved:
		if a := c.live[e.Attempt]; a == nil || a.placed {
			c.fail("event %d gives back a reservation that attempt %v does not have", r.Seq, e.Attempt)
		}
		delete(c.live, e.Attempt)
	case model.Placed:
		c.placed(r, e)
		c.owns(r, e.Attempt, e.Attempt, e.Placement)
	case model.StopSent:
		c.stopSent(r, e)
	case model.Noted:
		c.noted(r, e)
	case model.Sized:
		c.sized(r, e)
	case model.Decided:
		c.grows, c.takes = c.grows[:0], takes{}
		c.clear()
		if c.turns++; !e.Again {
			c.turns = 0
		}
		if c.turns > 500 {
			c.fail("I6: event %d: %d decisions in a row asked for another one", r.Seq, c.turns)
		}
	case model.Progress:
		c.reports = append(c.reports, r)
	case model.JobCompleting:
		c.stoppedEarly(r, e)
	case model.Joined:
		c.joined(r, e)
	case model.Rotated:
		c.rotated(r, e)
	case model.LazilyPreempted:
		if e.By != nil {
			c.within(r, *e.By, e.Attempt)
			c.gaveUp(r, e)
		}
		c.demoted(e)
	case model.Upgraded:
		for _, id := range append(e.With, e.Attempt) {
			a := c.attempt(r, id)
			if !a.lazy || a.stop {
				c.fail("event %d upgrades attempt %v: lazy %v, stopping %v", r.Seq, id, a.lazy, a.stop)
			}
			a.lazy = false
		}
	case model.TaskRetried:
		c.tryAt(e)
	case model.TaskStarted:
		if a := c.attempt(r, e.Attempt); a.started == 0 {
			a.started = r.Time
		}
	case model.AttemptEnded:
		if a := c.attempt(r, e.Attempt); a.started > 0 {
			c.ran[gangKey{e.Attempt.Job, e.Attempt.Gang}] += c.had(e.Attempt, a, r.Time)
		}
		c.ended[gangKey{e.Attempt.Job, e.Attempt.Gang}] = r.Time
		c.ends(e)
		delete(c.live, e.Attempt)
		delete(c.owners.began, e.Attempt)
	case model.JobEnded:
		c.jobEnded(r, e)
	case model.Configured:
		c.upset = r.Time
		c.reordered()
		c.forgetPromotions()
		for _, f := range c.losses {
			f.unheard = true // a shorter patience counts with the next report
		}
		c.owners.configured(e)
		for _, k := range e.Config.Cluster.SKUs {
			c.memory[k.Name] = k.GPUMemoryMB
		}
		clear(c.rounds)
		for _, m := range e.Moves {
			a := c.attempt(r, m.Attempt)
			a.place = m.Placement
			if m.Regained && !a.lazy {
				c.fail("I1: event %d gives attempt %v its guarantee back, which it has", r.Seq, m.Attempt)
			}
			a.lazy = m.Lazy || a.lazy && !m.Regained
		}
	case model.Quarantined:
		c.fail("job %d is quarantined: the core panicked", e.Job)
	case model.PolicyFailed:
		c.fail("the policy %s of %s panicked", e.Policy, e.VC)
	default:
		if c.world.note(r.Event) {
			c.upset = r.Time
		}
	}
}

// fresh checks that attempt numbers only grow (I8).
func (c *checker) fresh(r model.Record, id model.AttemptID) {
	key := gangKey{id.Job, id.Gang}
	if id.N <= c.last[key] {
		c.fail("I8: event %d uses attempt %v after number %d", r.Seq, id, c.last[key])
	}
	if c.over[id.Job] {
		c.fail("I8: event %d starts attempt %v of a job that is over", r.Seq, id)
	}
	for other, a := range c.live {
		if other.Job == id.Job && other.Gang == id.Gang && !a.migrates && !a.returns {
			c.fail("I10: event %d starts attempt %v while %v lives", r.Seq, id, other)
		}
	}
}

// moves checks that a reservation waits for something: for victims, for its own gang, which leaves
// to run there or is being stopped and comes back, or for its next try. Its cells are nobody's
// until then.
func (c *checker) moves(r model.Record, e model.Reserved) {
	for other, a := range c.live {
		if other.Job == e.Attempt.Job && other.Gang == e.Attempt.Gang {
			if len(e.Victims) > 0 && !a.returns || other.N+1 != e.Attempt.N {
				c.fail("I10: event %d: attempt %v moves to %v, after %v", r.Seq, other, e.Attempt, e.Victims)
			}
			return
		}
	}
	if len(e.Victims) == 0 && !c.waitsOut(r.Time, e.Attempt) {
		c.fail("I6: event %d: attempt %v is promised cells and waits for nobody", r.Seq, e.Attempt)
	}
}

func (c *checker) placed(r model.Record, e model.Placed) {
	if a := c.live[e.Attempt]; a != nil && !a.placed {
		for other := range c.live {
			if other.Job == e.Attempt.Job && other.Gang == e.Attempt.Gang && other != e.Attempt {
				c.fail("I10: event %d starts attempt %v while %v lives", r.Seq, e.Attempt, other)
			}
		}
		a.placed = true
	} else {
		c.fresh(r, e.Attempt)
		c.undisturbed(r, e.Attempt, e.Placement)
		c.live[e.Attempt] = &attempt{placed: true}
	}
	c.met.places(c.jobs[e.Attempt.Job].VC, c.state.Config())
	c.live[e.Attempt].place = e.Placement
	c.withMinimum(r, e.Attempt)
	c.besideIts(r, e.Attempt, e.Placement)
	c.last[gangKey{e.Attempt.Job, e.Attempt.Gang}] = e.Attempt.N
	j := c.jobs[e.Attempt.Job]
	if want := len(j.Gangs[e.Attempt.Gang].Tasks); len(e.Placement.Tasks) != want {
		c.fail("I3: event %d places %d of %d tasks of attempt %v", r.Seq, len(e.Placement.Tasks), want, e.Attempt)
		return
	}
	if err := c.world.fits(r.Time, e.Attempt, j, e.Placement); err != nil {
		c.fail("event %d places attempt %v wrongly: %v", r.Seq, e.Attempt, err)
	}
}

// withMinimum checks that a member above a minimum starts only beside that.
func (c *checker) withMinimum(r model.Record, id model.AttemptID) {
	if !c.jobs[id.Job].Gangs[id.Gang].Extra {
		return
	}
	for other, a := range c.live {
		if other.Job == id.Job && other.Gang == 0 && a.placed && !a.stop && !a.lazy {
			return
		}
	}
	c.fail("I3: event %d starts attempt %v, but the minimum of its job does not run", r.Seq, id)
}

// attempt finds a live attempt.
func (c *checker) attempt(r model.Record, id model.AttemptID) *attempt {
	a := c.live[id]
	if a == nil {
		c.fail("I8: event %d %T is about attempt %v, which does not live", r.Seq, r.Event, id)
		return &attempt{}
	}
	return a
}

// stopSent checks who preempts whom (I6).
func (c *checker) stopSent(r model.Record, e model.StopSent) {
	victim := c.attempt(r, e.Attempt)
	if victim.stop {
		c.fail("event %d stops attempt %v a second time", r.Seq, e.Attempt)
	}
	victim.stop, victim.migrates, victim.returns = true, e.Cause == model.EndMigrated, returning(e.Cause)
	if e.Cause == model.EndMigrated && e.By != nil {
		c.met.moves++
		if p := c.promises[e.Attempt.Job]; p.word == "holds" || p.word == "profiles" {
			c.fail("C5: event %d: attempt %v, which %s, moves for %v", r.Seq, e.Attempt, p.word, *e.By)
		}
		if a := c.live[*e.By]; a == nil || a.placed || !slices.Contains(c.victims[*e.By], e.Attempt) || c.jobs[e.By.Job].VC != c.jobs[e.Attempt.Job].VC {
			c.fail("I6: event %d: attempt %v moves for %v, which was not promised its cells", r.Seq, e.Attempt, *e.By)
		}
	}
	if e.Cause == model.EndResized {
		c.resized(r, e, victim)
	}
	if e.Cause != model.EndPreempted {
		return
	}
	if e.By == nil {
		c.fail("I14: event %d preempts attempt %v for nobody", r.Seq, e.Attempt)
		return
	}
	c.needed(r, e)
	by, of := c.jobs[e.By.Job], c.jobs[e.Attempt.Job]
	cleared := victim.lazy && victim.gaveUp != nil && *victim.gaveUp == *e.By
	if by.VC == of.VC && by.Priority == of.Priority && (!victim.lazy || cleared) && !of.Gangs[e.Attempt.Gang].Extra {
		c.yielded[e.Attempt.Job]++
		c.met.of(of.VC, c.state.Config()).yields++
	}
	if of.Priority == cell.Opportunistic || victim.lazy {
		if by.Priority == cell.Opportunistic {
			c.fail("I6: event %d: an opportunistic job preempts attempt %v", r.Seq, e.Attempt)
		}
		return
	}
	if by.VC != of.VC {
		c.fail("I1: event %d: %s of VC %s preempts guaranteed %s of VC %s", r.Seq, by.Name, by.VC, of.Name, of.VC)
	}
	if by.Gangs[e.By.Gang].Extra && c.promises[e.By.Job].word != "holds" { // whose members are part of its lease
		c.fail("I6: event %d: %v, above its job's minimum, preempts guaranteed attempt %v", r.Seq, *e.By, e.Attempt)
	}
	if by.Priority < of.Priority || by.Priority == of.Priority && !c.yields(r, e) {
		c.fail("I6: event %d: priority %d preempts %d", r.Seq, by.Priority, of.Priority)
	}
	c.within(r, *e.By, e.Attempt)
}

func (c *checker) jobEnded(r model.Record, e model.JobEnded) {
	if c.over[e.Job] {
		c.fail("I8: event %d ends job %d a second time", r.Seq, e.Job)
	}
	c.over[e.Job] = true
	c.punctual(r, e.Job)
	for id := range c.live {
		if id.Job == e.Job {
			c.fail("I8: job %d ends while attempt %v lives", e.Job, id)
		}
	}
}

// changes checks that a configuration by itself stops nobody (I14). A job of which
// something else is told in the same batch may lose attempts because of that.
func (c *checker) changes(b engine.Batch) {
	configured, told := false, map[model.JobID]bool{}
	c.regretted(b)
	clear(c.room)
	for _, r := range b.Records {
		switch e := r.Event.(type) {
		case model.Configured:
			configured = true
		case model.TaskExited:
			told[e.Attempt.Job] = true
		case model.TaskRefused:
			told[e.Attempt.Job] = true
		case model.StopSent:
			if configured && e.By == nil && e.Cause == model.EndPlatform && !told[e.Attempt.Job] {
				c.fail("I14: the configuration of this batch stops attempt %v", e.Attempt)
			}
		}
	}
}

// regretted checks that nobody is started, or promised cells, and preempted at the
// next look although nothing happened in between: no input, and no time but that after
// which a decision asked for another look. A microsecond later by itself a back-off may
// have ended, or a lease, or the time for which somebody declined under offers; and a time limit,
// which is as good as an input.
func (c *checker) regretted(b engine.Batch) {
	inputs := false
	for _, r := range b.Records {
		switch e := r.Event.(type) {
		case model.Placed:
			c.started[e.Attempt] = b.Records[len(b.Records)-1].Seq
		case model.StopSent:
			if at := c.started[e.Attempt]; e.Cause == model.EndPreempted && !inputs && at > 0 && at+1 == b.Records[0].Seq && r.Time <= c.nextLook && !c.asks(r.Time) {
				c.fail("I15: attempt %v is started and preempted at the next look", e.Attempt)
			}
			inputs = inputs || e.Cause == model.EndTimeLimit
		case model.Fact, model.JobSubmitted, model.StopRequested, model.JobHeld, model.JobRequeued, model.JobUpdated, model.Configured, model.NodeCordoned:
			inputs = true
		case model.Decided:
			c.decided = e.Now
			if c.nextLook = r.Time; e.Again {
				c.nextLook++
			}
		}
	}
}

// asks reports whether somebody who declined under offers is asked again from a time on.
func (c *checker) asks(at model.Time) bool {
	for _, until := range c.filters {
		if until == at {
			return true
		}
	}
	return false
}

// quiet checks what must hold when nothing is left to decide.
func (c *checker) quiet() error {
	c.quietly++
	if c.blind || c.state.Config() == nil {
		return c.err
	}
	if w := c.s.World(); w.Launches() < c.launched {
		c.fail("I12: the number of launches fell from %d to %d", c.launched, w.Launches())
	}
	c.launched = c.s.World().Launches()
	c.conserved()
	c.extras()
	c.patient()
	c.overdue()
	for _, j := range c.state.Jobs() {
		c.explained(j)
	}
	c.loans()
	if c.quietly%4 == 0 {
		c.recovered()
	}
	if c.quietly%3 == 0 {
		c.guaranteed()
	}
	if c.quietly%thoughtEach == 0 {
		c.thought()
	}
	return c.err
}

// loans checks what VCs use and lend, by SKU: no more than they are guaranteed (I1), nothing that
// is not borrowed, and what neither counts is idle, out of service, or borrowed by the VC itself.
func (c *checker) loans() {
	borrowed, idle := map[cell.TypeName]int32{}, map[cell.TypeName]int32{}
	for _, n := range c.state.Nodes() {
		for _, u := range n.SKUs {
			idle[u.SKU] += u.Total - u.Used
		}
	}
	vcs := c.state.VCs()
	for _, v := range vcs {
		for _, u := range v.SKUs {
			borrowed[u.SKU] += u.Opportunistic
		}
	}
	for _, v := range vcs {
		for _, u := range v.SKUs {
			if u.Lent < 0 || u.Used+u.Lent > u.Guaranteed {
				c.fail("I1: VC %s uses %d and lends %d of %d leaves of %s", v.Name, u.Used, u.Lent, u.Guaranteed, u.SKU)
			}
			borrowed[u.SKU] -= u.Lent
			idle[u.SKU] -= max(0, u.Guaranteed-u.Used-u.Lent-u.Opportunistic)
		}
		for sku, n := range borrowed {
			if n < 0 || idle[sku] < 0 {
				c.fail("VCs up to %s lend %d leaves of %s too many, or have %d free that are not idle", v.Name, -n, sku, -idle[sku])
			}
		}
		c.met.loans += int(v.Lent)
	}
}

// extras checks that no member above a minimum is guaranteed beside a minimum that
// is not.
func (c *checker) extras() {
	for id, a := range c.live {
		if !c.jobs[id.Job].Gangs[id.Gang].Extra || !a.placed || a.lazy || a.stop {
			continue
		}
		for other, m := range c.live {
			if other.Job == id.Job && other.Gang == 0 && m.lazy && !m.stop {
				c.fail("I3: attempt %v is guaranteed beside its minimum %v, which is not", id, other)
			}
		}
	}
}

// conserved counts what every node has in use from the checker's own books (I2, I9).
func (c *checker) conserved() {
	owner := map[device]model.AttemptID{}
	used := map[device]int32{} // by node and SKU
	for id, a := range c.live {
		a.devices(func(d device) {
			if other, taken := owner[d]; taken {
				c.shares(id, other)
				return
			}
			owner[d] = id
			used[device{node: d.node, sku: d.sku}]++
		})
	}
	for _, n := range c.state.Nodes() {
		for _, k := range n.SKUs {
			if own := used[device{node: n.Name, sku: k.SKU}]; own != k.Used {
				c.fail("I9: node %s has %d %s in use, the attempts say %d", n.Name, k.Used, k.SKU, own)
			}
		}
	}
}

// explained checks that whoever waits has a reason, and that it is a true one.
func (c *checker) explained(j model.JobStatus) {
	e, ok := c.state.Why(j.ID)
	if !ok {
		c.fail("job %s cannot be explained", j.Name)
		return
	}
	if j.Phase == model.Waiting && len(e.Gangs) == 0 {
		c.fail("job %s waits without a reason", j.Name)
	}
	for _, g := range e.Gangs {
		r := g.Reason
		if wake := c.state.Wake(); r.Code == model.NotYetDecided && (wake == 0 || wake > c.s.World().Now()+1) && !c.overtakes(j) { // else a look is due
			c.fail("L1: job %s fits and waits: %s", j.Name, r.Message)
		}
		if strings.Contains(r.Message, "of nobody") || strings.Contains(r.Message, "no node refused") || r.Code == model.BackOff && r.Until <= c.state.Now() {
			c.fail("job %s waits for nobody: %s: %s", j.Name, r.Code, r.Message)
		}
		if r.Code == "" || r.Message == "" {
			c.fail("job %s waits for %q: %q", j.Name, r.Code, r.Message)
		}
		for _, ahead := range r.Jobs {
			if a := c.jobs[ahead]; r.Code == model.PriorityAhead && (a == nil || a.VC == j.VC && a.Priority < j.Priority) {
				c.fail("I4: job %s waits behind job %d of lower priority", j.Name, ahead)
			}
		}
	}
}

// recovered checks that a state read back equals the present one (I12).
func (c *checker) recovered() {
	image := c.state.Save()
	s, err := core.Load(image, policy.New)
	if err != nil {
		c.fail("I12: %v", err)
		return
	}
	c.debts(image)
	if a, b := s.Digest(), c.state.Digest(); a != b {
		c.fail("I12: read back, the state has digest %s instead of %s", a, b)
	}
	if err := s.Verify(); err != nil {
		c.fail("I12: read back: %v", err)
	}
}

// sound reports whether all hardware works and every attempt is known.
func (c *checker) sound() bool {
	for _, n := range c.state.Nodes() {
		if !n.Up || n.Cordoned || n.Suspect != 0 {
			return false
		}
		for _, k := range n.SKUs {
			if k.Bad > 0 {
				return false
			}
		}
	}
	for _, j := range c.state.Jobs() {
		for _, a := range j.Attempts {
			if a.State == model.AttemptUnknown || a.Orphaned && a.State != model.AttemptOver {
				return false
			}
		}
	}
	return true
}

// hopeless names the jobs that can never fit the present configuration.
func (c *checker) hopeless() []string {
	var out []string
	for _, j := range c.state.Jobs() {
		e, _ := c.state.Why(j.ID)
		for _, g := range e.Gangs {
			if g.Reason.Code == model.NeverFits || g.Reason.Code == model.QuotaExceeded {
				out = append(out, string(j.Name))
				break
			}
		}
	}
	return out
}
