// Package explain says why a gang waits, why a job is refused, when a job will start, and what
// would let it start sooner: it asks what decides, on copies, with one thing changed after the
// other. It must not change the state that is asked about.
package explain

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/decide"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Explainer says why jobs wait, when they start, and what would become of a change: on copies of
// itself that decide.
type Explainer struct {
	decide.Pass
	Ranks      ranking     // of the policies' orders
	said       said        // of shapes
	CopyMemory *CopyMemory // for copies of this copy
	Whole      bool        // reasons name all that they know of, for what is tried with them
}

// Copy is Clone of what explains.
func (s *Explainer) Copy() *Explainer { return s.CloneIn(&CopyRoom{}) }

// CopyMemory is memory for a copy and for those that are made of it to see what comes of a change.
// It is much, and taking it anew for each question is a third of what an answer costs.
type CopyMemory struct{ state, with, base, tried CopyRoom }

// copies is the memory of a copy for copies of it.
func (s *Explainer) copies() *CopyMemory {
	if s.CopyMemory == nil {
		s.CopyMemory = &CopyMemory{}
	}
	return s.CopyMemory
}

// CopyRoom is memory for one copy after the other: each is the end of the one before.
type CopyRoom struct {
	state Explainer
	tasks []tables.TaskRun
	gangs []tables.Gang
}

// CloneIn is Clone in memory that is used again.
func (s *Explainer) CloneIn(room *CopyRoom) *Explainer {
	d, was := &room.state, room.state
	*d = *s
	if s.Cluster != nil {
		d.Cluster, d.Empty = s.Cluster.Clone(), nil
	}
	d.Jobs = tables.CopyAgain(was.Jobs, s.Jobs)
	tasks, gangs := room.tasks[:0], room.gangs[:0]
	var nt, ng int
	for i := range s.Jobs {
		nt += len(s.Jobs[i].Tasks)
		ng += len(s.Jobs[i].Gangs)
	}
	for i := range s.Ended {
		nt += len(s.Ended[i].Tasks)
		ng += len(s.Ended[i].Gangs)
	}
	tasks, gangs = slices.Grow(tasks, nt), slices.Grow(gangs, ng)
	for i := range d.Jobs {
		j := &d.Jobs[i]
		j.Tasks, tasks = tables.CopyPooled(j.Tasks, tasks)
		j.Gangs, gangs = tables.CopyPooled(j.Gangs, gangs)
	}
	d.Ended = slices.Clone(s.Ended)
	for i := range d.Ended {
		j := &d.Ended[i]
		j.Tasks, tasks = tables.CopyPooled(j.Tasks, tasks)
		j.Gangs, gangs = tables.CopyPooled(j.Gangs, gangs)
	}
	room.tasks, room.gangs = tasks, gangs
	d.Spare, d.SpareAttempts = slices.Clone(s.Spare), slices.Clone(s.SpareAttempts)
	d.Slots, d.Names = s.Slots.CloneIn(&was.Slots), s.Names.CloneIn(&was.Names)
	d.Promises = slices.Clone(s.Promises)
	d.Attempts, d.ByAlloc = tables.CopyAgain(was.Attempts, s.Attempts), slices.Clone(s.ByAlloc)
	d.Holders, d.Shares = slices.Clone(s.Holders), slices.Clone(s.Shares)
	for i := range d.Holders {
		d.Holders[i] = slices.Clone(d.Holders[i])
	}
	d.Queues = slices.Clone(s.Queues)
	for i := range d.Queues {
		var had []index.Queued
		if i < len(was.Queues) {
			had = was.Queues[i]
		}
		d.Queues[i] = tables.CopyAgain(had, s.Queues[i])
	}
	d.WaitGroups = s.WaitGroups.Clone()
	d.Tallies, d.RunOrders, d.Allocs = index.CloneTallies(s.Tallies), index.CloneRunners(s.RunOrders), make([]index.Allocations,
		len(s.Allocs))
	d.Dirty.Spaces, d.Dirty.Itself = slices.Clone(s.Dirty.Spaces), slices.Clone(s.Dirty.Itself)
	d.Dirty.Changes, d.Dirty.Exhausted = slices.Clone(s.Dirty.Changes), slices.Clone(s.Dirty.Exhausted)
	d.Lazy = slices.Clone(s.Lazy)
	for i := range d.Lazy {
		d.Lazy[i] = slices.Clone(d.Lazy[i])
	}
	d.Notes, d.Debts, d.Moved = slices.Clone(s.Notes), slices.Clone(s.Debts), slices.Clone(s.Moved)
	d.Nodes, d.Leaves = slices.Clone(s.Nodes), slices.Clone(s.Leaves)
	d.Booked, d.Habits = slices.Clone(s.Booked), s.Habits.Clone()
	d.Timers, d.ToSettle = slices.Clone(s.Timers), slices.Clone(s.ToSettle)
	d.Cache, d.PartlyPlaced, d.Out, d.Mem, d.Arenas = place.Cache{}, nil, nil, decide.Memory{}, tables.Arenas{}
	d.Ranks, d.said, d.CopyMemory, d.Whole, d.Shapes, d.LookAgain = ranking{}, said{}, nil, false, nil, index.Askers{}
	d.Calls, d.UserHoldings, d.Charges, d.Claims, d.NotYet, d.Recount = index.Calls{}, index.UserHoldings{}, place.Moving{}, place.Claimed{}, nil, false
	return d
}

// AsOf is the same as of a later time, to be read at once: it shares everything.
func (s *Explainer) AsOf(now model.Time) *Explainer {
	c := *s
	c.Now, c.Mem = max(s.Now, now), decide.Memory{}
	c.Calls, c.UserHoldings, c.Charges, c.Claims = index.Calls{}, index.UserHoldings{}, place.Moving{}, place.Claimed{}
	c.CopyMemory, c.Whole = nil, false
	return &c
}

// said is what was said of shapes since the last configuration.
type said struct {
	configs uint64
	never   map[tables.FitKey]*model.Reason // why one never fits
	most    map[tables.FitKey]int32         // how many tasks of its size would
}

// ranking is the order in which the jobs of each VC are served, as of one
// moment: a cache that lists and explanations share.
type ranking struct {
	seq    uint64
	now    model.Time
	spaces [][]model.JobID
	at     map[model.JobID]int32 // place in its VC's order, from 1
	Common *reasons              // what the reasons of a list share, as of a moment of its own
}

// reasons is what those of a list have in common, as of one moment: they read the leaves of a
// virtual cluster once, and count rooms and holders once for each shape. What follows from it is
// only read.
type reasons struct {
	cl      *cell.Cluster
	seq     uint64
	now     model.Time
	used    map[int32][]int32 // leaves in use of the preassigned cells, by space
	rooms   map[tables.FitKey][]model.Room
	holders map[tables.FitKey]holdersOf
	lies    map[int32][]freeOnNode   // where of the preassigned cells leaves are free, by space
	apart   map[tables.FitKey]string // how what is free lies on nodes
	ills    map[tables.FitKey]*illness
	bad     map[cell.NodeName]string // nodes with leaves that were declared bad, with why
	Read    int                      // leaves, in all, and what was said of them
}

// illness is what a list tells of what is out of order among the cells that gangs of one shape
// could use.
type illness struct {
	ills
	names []cell.NodeName // of its nodes, the drained ones behind
	rooms []model.Room    // with what is in service alone
	until model.Time      // of nodes that are all only suspects: when the first takes jobs again
	away  outages
	why   string        // why a leaf of the nodes that are named is bad, in brackets
	crowd []model.JobID // that hold what they could use and do not drain, by id; nil before it is asked for
}

// outages are nodes that are out of service, or leaves of them.
type outages struct {
	bad  string   // hardware declared bad, on nodes with which nothing else is wrong; "" for none
	away []string // other nodes, with what is wrong with them, such as "n1, n2 (cordoned)"
}

// ills is what is out of order among the cells that a gang could use.
type ills struct {
	nodes    []int32       // something there is bad or suspect, or they are down or cordoned
	drained  []int32       // nodes that are well, but for what jobs drain from
	drainers []model.JobID // those jobs, by id
}

// freeOnNode is how many leaves of a preassigned cell are free on a node.
type freeOnNode struct{ Root, Node, Free int32 }

// holdersOf are the jobs that hold what a shape could use, and how many of each there are besides.
type holdersOf struct {
	Own, Others         []model.JobID
	MoreOwn, MoreOthers int
}
