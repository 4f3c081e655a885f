// Package explain says why a gang waits, why a job is refused, when a job will start, and what
// would let it start sooner. It runs the deciding code on copies of the state, each with something
// changed. It must not change the state that is asked about.
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

// Explainer is a state that can say why jobs wait, when they start, and what a change would do, by
// deciding on copies of itself.
type Explainer struct {
	decide.Pass
	Orders     ranking       // a cache of the run orders of VCs
	neverFit   neverFitCache // a cache of what shapes never fit
	CopyMemory *CopyMemory   // memory for copies of this Explainer; nil is none yet
	NameAll    bool          // reasons name all jobs and nodes, and not only maxNamed, to be tried
}

// Copy returns a copy of the state in memory of its own.
func (s *Explainer) Copy() *Explainer { return s.CloneIn(&CopyBuffer{}) }

// CopyMemory is memory for a copy of the state and for the copies on which changes are tried. To
// allocate it anew for each question takes a third of the time of an answer.
type CopyMemory struct{ state, with, base, tried CopyBuffer }

// memoryForCopies returns the memory for copies of s.
func (s *Explainer) memoryForCopies() *CopyMemory {
	if s.CopyMemory == nil {
		s.CopyMemory = &CopyMemory{}
	}
	return s.CopyMemory
}

// CopyBuffer is memory for one copy at a time: the next copy in it overwrites the one before.
type CopyBuffer struct {
	state Explainer
	tasks []tables.TaskRun
	gangs []tables.Gang
}

// CloneIn is Copy in memory that is used again: the copy is valid until the next one in it.
func (s *Explainer) CloneIn(room *CopyBuffer) *Explainer {
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
	d.FreedJobs, d.FreedAttempts = slices.Clone(s.FreedJobs), slices.Clone(s.FreedAttempts)
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
	d.Dirty.Guaranteed, d.Dirty.OrderChanged = slices.Clone(s.Dirty.Guaranteed), slices.Clone(s.Dirty.OrderChanged)
	d.Dirty.NextChanges, d.Dirty.Exhausted = slices.Clone(s.Dirty.NextChanges), slices.Clone(s.Dirty.Exhausted)
	d.Lazy = slices.Clone(s.Lazy)
	for i := range d.Lazy {
		d.Lazy[i] = slices.Clone(d.Lazy[i])
	}
	d.Notes, d.Debts, d.Moved = slices.Clone(s.Notes), slices.Clone(s.Debts), slices.Clone(s.Moved)
	d.Nodes, d.Leaves = slices.Clone(s.Nodes), slices.Clone(s.Leaves)
	d.Booked, d.RunTimes = slices.Clone(s.Booked), s.RunTimes.Clone()
	d.Timers, d.ToSettle = slices.Clone(s.Timers), slices.Clone(s.ToSettle)
	d.Cache, d.PartlyPlaced, d.Out, d.Mem, d.Arenas = place.Cache{}, nil, nil, decide.Memory{}, tables.Arenas{}
	d.Orders, d.neverFit, d.CopyMemory = ranking{}, neverFitCache{}, nil
	d.NameAll, d.Shapes, d.LookAgain = false, nil, index.Askers{}
	d.Calls, d.UserHoldings, d.Charges = index.Calls{}, index.UserHoldings{}, place.ChargeMoves{}
	d.Claims, d.NoFreeCells, d.Recount = place.Claims{}, nil, false
	return d
}

// AsOf returns s as of a later time. It shares all memory with s, so it must only be read, and
// before s changes.
func (s *Explainer) AsOf(now model.Time) *Explainer {
	c := *s
	c.Now, c.Mem = max(s.Now, now), decide.Memory{}
	c.Calls, c.UserHoldings = index.Calls{}, index.UserHoldings{}
	c.Charges, c.Claims = place.ChargeMoves{}, place.Claims{}
	c.CopyMemory, c.NameAll = nil, false
	return &c
}

// neverFitCache caches, since the last configuration, what never fits.
type neverFitCache struct {
	configs uint64
	never   map[tables.FitKey]*model.Reason // why a shape never fits; nil where it does
	most    map[tables.FitKey]int32         // the most tasks of a shape's size that would fit
}

// ranking is the order in which the jobs of each VC are served, as of one
// moment: a cache that lists and explanations share.
type ranking struct {
	seq      uint64
	now      model.Time
	spaces   [][]model.JobID
	position map[model.JobID]int32 // place in its VC's order, from 1
	Reasons  *reasonCache          // what the reasons of a list share, as of a moment of its own
}

// reasonCache caches what the reasons of a list share, as of one moment: the leaves of a virtual
// cluster are read once, and rooms and holders counted once for each shape. Its values must only
// be read.
type reasonCache struct {
	cl          *cell.Cluster
	seq         uint64
	now         model.Time
	used        map[int32][]int32 // by space: leaves in use of each preassigned cell
	rooms       map[tables.FitKey][]model.Room
	holders     map[tables.FitKey]shapeHolders
	freeOnNodes map[int32][]freeOnNode   // by space: free leaves of the preassigned cells, by node
	spreadTexts map[tables.FitKey]string // texts of how free leaves lie on nodes
	badHardware map[tables.FitKey]*shapeBadNodes
	bad         map[cell.NodeName]badNode
	Read        int // leaves and attempts read so far: the work that was done
}

// shapeBadNodes is what a list tells of outages among the cells that gangs of one shape could use.
type shapeBadNodes struct {
	badNodes
	names   []cell.NodeName // of nodes, then of drained
	rooms   []model.Room    // free are only leaves in service
	until   model.Time      // if all nodes are only suspects, when the first takes jobs again; else 0
	outages outages
	why     string        // why a leaf of one of the first nodes is bad, in brackets
	inWay   []model.JobID // jobs that hold usable cells and do not drain, by id; nil is not known yet
}

// badNode is a node with leaves that get no new work.
type badNode struct {
	why      string // the first reason given
	held     bool   // others hold all of these leaves
	cordoned bool   // the node was cordoned elsewhere, which is all that these leaves have
}

// outages is a text of nodes that are out of service, or of which leaves are.
type outages struct {
	bad    string   // hardware declared bad, on nodes with no other fault; "" for none
	held   string   // nodes on which others hold devices, and that have no other fault; "" for none
	others []string // other nodes with their fault, such as "n1, n2 (cordoned)"
	// cordoned says that cordons are all that keeps these nodes out of service.
	cordoned bool
}

// badNodes is what is out of service among the cells that a gang could use.
type badNodes struct {
	nodes    []int32       // nodes that are down, cordoned or suspect, or have bad leaves
	drained  []int32       // healthy nodes, of which leaves only drain
	drainers []model.JobID // the jobs that drain from them, by id
}

// freeOnNode is how many leaves of a preassigned cell are free on a node.
type freeOnNode struct{ Root, Node, Free int32 }

// shapeHolders are the jobs that hold what a shape could use, of its own VC and of others, and how
// many more there are.
type shapeHolders struct {
	Own, Others         []model.JobID
	MoreOwn, MoreOthers int
}
