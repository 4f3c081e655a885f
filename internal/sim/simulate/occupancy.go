package simulate

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// occupancy knows which gangs run on which machines, and so how fast each gang works. When a gang
// comes or goes only the gangs on its machines are looked at again.
type occupancy struct {
	model        *perf.Model
	costs        perf.Costs
	forest       *cell.Forest
	machines     map[cell.NodeName]*machine
	live         map[model.AttemptID]*tenant
	elasticGangs map[model.JobID][]*tenant // gangs of elastic jobs: their speeds depend on each other
	lastMachines map[gangKey][]*machine    // the last machines of gangs without an attempt
	gangs        map[model.JobID]int32     // a gang number above all of that job in lastMachines
	round        uint64                    // counts the calls of updateAffected
	// changed is called for each attempt that gets another speed, but not for one that
	// enters.
	changed func(model.AttemptID, perf.Speed)
}

// machine is a machine with the gangs on it.
type machine struct {
	tenants []*tenant
	spread  int32 // how many of tenants are on several machines
}

// tenant is a gang that holds its GPUs.
type tenant struct {
	id       model.AttemptID
	machines []*machine
	gpus     int32
	elastic  bool   // its job is elastic: it has members above a minimum
	moved    bool   // it is on a machine on which its last attempt was not
	round    uint64 // in which its speed was last computed
	standing perf.SpeedInput
	// sharing are the other attempts on the same GPUs. Only those with the same turn are in
	// standing.Beside.
	sharing []model.AttemptID
	speed   perf.Speed
}

// gangKey is one gang of one job.
type gangKey struct {
	job  model.JobID
	gang int32
}

// follow follows the core's events: attempts that end, turns, new cells.
func (c *occupancy) follow(records []model.Record) {
	if c.model == nil {
		return
	}
	for i := range records {
		switch e := records[i].Event.(type) {
		case model.AttemptEnded:
			c.leave(e.Attempt)
		case model.Rotated:
			c.rotate(&e.Rotation)
		case model.JobEnded:
			c.forget(e.Job)
		case model.Configured:
			c.configure(&e.Config.Cluster)
		}
	}
}

// configure takes the cells of a configuration, which must be valid. Gangs that run keep the
// locality that they had.
func (c *occupancy) configure(spec *cell.Spec) {
	if c.model == nil {
		return
	}
	if cl, err := cell.New(spec); err == nil {
		c.forest = cl.Forest()
	}
}

// forget drops the last machines of an ended job's gangs. Where migrations cost nothing none
// are kept.
func (c *occupancy) forget(id model.JobID) {
	for g := range c.gangs[id] {
		delete(c.lastMachines, gangKey{id, g})
	}
	delete(c.gangs, id)
}

// startUp is what the start of an attempt costs, which must have entered; gpus is the size of
// its job.
func (c *occupancy) startUp(id model.AttemptID, gpus int32) model.Duration {
	if id.N <= 1 {
		return 0
	}
	cost := c.costs.Restart.Of(gpus)
	if l := c.live[id]; l != nil && l.moved {
		cost += c.costs.Migrate.Of(gpus)
	}
	return cost
}

// enter adds a gang and returns its speed. A gang that is there already stays as it is.
func (c *occupancy) enter(id model.AttemptID, j *model.Job, tasks []cell.Task) perf.Speed {
	if c.model == nil {
		return perf.FullSpeed
	}
	if l := c.live[id]; l != nil {
		return l.speed
	}
	l := &tenant{id: id, speed: perf.FullSpeed, standing: perf.SpeedInput{Model: j.Hints.Model}}
	c.occupy(l, tasks)
	l.standing.Wants = l.gpus
	if l.elastic = slices.ContainsFunc(j.Gangs, func(g model.Gang) bool { return g.Extra }); l.elastic {
		c.elasticGangs[id.Job] = append(c.elasticGangs[id.Job], l)
		l.standing.Wants = leavesOf(j)
	}
	was, ok := c.lastMachines[gangKey{id.Job, id.Gang}]
	if o := c.live[model.AttemptID{Job: id.Job, Gang: id.Gang, N: id.N - 1}]; o != nil {
		was, ok = o.machines, true // the last attempt leaves at this instant
	}
	if ok {
		l.moved = slices.ContainsFunc(l.machines, func(r *machine) bool { return !slices.Contains(was, r) })
		delete(c.lastMachines, gangKey{id.Job, id.Gang})
	}
	c.live[id] = l
	c.updateSpeed(l)
	c.updateAffected(l)
	return l.speed
}

// leavesOf is how many GPUs a job has while all of its tasks run. For an elastic job it is
// that of its usual size, for which its run time is given.
func leavesOf(j *model.Job) int32 {
	n, left := int32(0), j.Size
	for i := range j.Roles {
		tasks := j.Roles[i].Tasks
		if j.Size > 0 {
			tasks = min(tasks, left)
			left -= tasks
		}
		n += tasks * j.Roles[i].Leaves
	}
	return n
}

// occupy puts a gang on its machines and sets its locality.
func (c *occupancy) occupy(l *tenant, tasks []cell.Task) {
	least, most := cell.LeafID(cell.None), cell.LeafID(cell.None)
	for i := range tasks {
		t := &tasks[i]
		l.gpus += int32(len(t.Leaves))
		l.standing.Type = string(t.SKU)
		if r := c.machine(t.Node); !slices.Contains(l.machines, r) {
			l.machines = append(l.machines, r)
		}
		for _, leaf := range t.Leaves {
			if least == cell.None || leaf < least {
				least = leaf
			}
			most = max(most, leaf)
		}
	}
	l.standing.Nodes = int32(len(l.machines))
	l.standing.Locality = c.locality(least, most)
	for _, r := range l.machines {
		r.tenants = append(r.tenants, l)
		if len(l.machines) > 1 {
			r.spread++
		}
	}
}

// locality is that of the lowest cell that contains leaves a and b, and so all between them.
func (c *occupancy) locality(a, b cell.LeafID) perf.Locality {
	if a == b || c.forest == nil || int(b) >= len(c.forest.Leaves) {
		return perf.OneGPU
	}
	ch := c.forest.ChainOf(a)
	for level := cell.Level(2); level <= ch.Top && ch == c.forest.ChainOf(b); level++ {
		if !c.forest.Contains(c.forest.Ancestor(c.forest.Leaves[a], level), c.forest.Leaves[b]) {
			continue
		}
		switch above := level - ch.NodeLevel; {
		case above > 1:
			return perf.CrossRack
		case above == 1:
			return perf.SameRack
		case above == 0:
			return perf.SameNode
		case level == 2:
			return perf.SameSwitch
		}
		return perf.SameSocket
	}
	if ch.Top == ch.NodeLevel {
		return perf.SameRack // there are no racks
	}
	return perf.CrossRack
}

// leave removes a gang.
func (c *occupancy) leave(id model.AttemptID) {
	l := c.live[id]
	if l == nil {
		return
	}
	delete(c.live, id)
	if c.costs.Migrate != (perf.Cost{}) {
		c.lastMachines[gangKey{id.Job, id.Gang}] = l.machines
		c.gangs[id.Job] = max(c.gangs[id.Job], id.Gang+1)
	}
	isIt := func(o *tenant) bool { return o == l }
	for _, r := range l.machines {
		r.tenants = slices.DeleteFunc(r.tenants, isIt)
		if len(l.machines) > 1 {
			r.spread--
		}
	}
	if l.elastic {
		if c.elasticGangs[id.Job] = slices.DeleteFunc(c.elasticGangs[id.Job], isIt); len(c.elasticGangs[id.Job]) == 0 {
			delete(c.elasticGangs, id.Job)
		}
	}
	c.updateAffected(l)
}

// rotate sets the turns of attempts that share GPUs from now on.
func (c *occupancy) rotate(r *model.Rotation) {
	if c.model == nil {
		return
	}
	all := slices.Concat(r.Turns...)
	for _, turn := range r.Turns {
		for _, id := range turn {
			l := c.live[id]
			if l == nil {
				continue
			}
			l.sharing = slices.DeleteFunc(slices.Clone(all), func(o model.AttemptID) bool { return o == id })
			l.standing.Beside = nil
			for _, o := range turn {
				if m := c.live[o]; m != nil && o != id {
					l.standing.Beside = append(l.standing.Beside, perf.Work{Model: m.standing.Model, Scale: m.standing.Wants})
				}
			}
			l.standing.TurnsEvery = 0
			if len(r.Turns) > 1 {
				l.standing.TurnsEvery = int64(r.Quantum)
			}
			if c.updateSpeed(l) {
				c.changed(l.id, l.speed)
			}
		}
	}
}

// updateAffected computes the speeds of the gangs that are affected as l comes or goes, once each:
// those on its machines, and the other gangs of its job if that is elastic.
func (c *occupancy) updateAffected(l *tenant) {
	c.round++
	l.round = c.round
	once := func(list []*tenant) {
		for _, o := range list {
			if o.round != c.round {
				o.round = c.round
				if c.updateSpeed(o) {
					c.changed(o.id, o.speed)
				}
			}
		}
	}
	for _, r := range l.machines {
		once(r.tenants)
	}
	once(c.elasticGangs[l.id.Job])
}

// updateSpeed computes the present speed of a gang, and reports whether it changed.
func (c *occupancy) updateSpeed(l *tenant) bool {
	s := &l.standing
	s.Has, s.HostMates, s.NICMates = l.gpus, 0, 0
	if l.elastic {
		s.Has = 0
		for _, o := range c.elasticGangs[l.id.Job] {
			s.Has += o.gpus
		}
	}
	for _, r := range l.machines {
		s.HostMates = max(s.HostMates, int32(len(r.tenants)-1-len(l.sharing)))
		if len(l.machines) > 1 {
			s.NICMates = max(s.NICMates, r.spread-1-int32(len(l.sharing)))
		}
	}
	s.SuspendCost = int64(c.costs.Suspend.Of(l.gpus))
	was := l.speed
	l.speed = c.model.Speed(s)
	return l.speed != was
}

func (c *occupancy) machine(n cell.NodeName) *machine {
	r := c.machines[n]
	if r == nil {
		r = &machine{}
		c.machines[n] = r
	}
	return r
}
