package jobspec

import (
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// defaultGang is the gang of all roles without an affinityGroupName.
const defaultGang = "default"

// checkTotals checks the limits of the whole job.
func (p *parser) checkTotals() {
	tasks, leaves := int64(0), int64(0)
	for i := range p.roles {
		r := &p.roles[i]
		tasks += int64(r.Tasks)
		leaves += int64(r.Tasks) * int64(r.Leaves)
	}
	at := p.root.Get("taskRoles")
	if tasks > maxTasks {
		p.r.Problem(at, "%d tasks in all roles together are too many: at most %d are allowed", tasks, maxTasks)
	}
	if leaves > maxLeaves {
		p.r.Problem(at, "the job needs %d leaves: at most %d are allowed", leaves, maxLeaves)
	}
	if tasks > maxTasks {
		return
	}
	if size := environmentSize(p.job.Roles); size > maxEnvironment {
		p.r.Problem(at, "the PAI_* variables that tell each task where all others are would take %d bytes: "+
			"at most %d are allowed; use shorter role names, fewer ports or fewer tasks", size, maxEnvironment)
	} else if older := size + legacySize(p.job.Roles); older > maxLegacyEnv {
		p.r.Warn(at, "the job has none of OpenPAI's older variables for each task (PAI_ROLE_INDEX_LABEL_PORT, "+
			"the lists of hosts and instances) and no ports for ssh and http: with them the variables of each task "+
			"would take %d bytes, and at most %d are allowed for that", older, maxLegacyEnv)
	}
}

// setElastic gives the elastic role of a job as many tasks as it may ever have. The job needs
// its least number and begins with its instances. Only one role can be elastic, in a job of
// one gang in which no other role has a minimum: else it is unclear whose tasks a size
// counts.
func (p *parser) setElastic() {
	one, tasks := -1, int32(0)
	for i := range p.roles {
		r := &p.roles[i]
		r.least = r.comb.hints.MinInstances
		tasks += r.Tasks
		if r.comb.hints.ElasticMax > 0 && one < 0 {
			one = i
		}
	}
	if one < 0 {
		return
	}
	r := &p.roles[one]
	h := &r.comb.hints
	for i := range p.roles {
		o := &p.roles[i]
		if !p.extras.gang || o.place.affinity != r.place.affinity || i != one && (o.comb.hints.ElasticMax > 0 || o.least > 0 && o.least < o.Tasks) {
			p.r.Warn(r.comb.node.Get("elastic"), "only one role of a job of one gang is elastic, where no other has minInstances: elastic has no effect")
			return
		}
	}
	if r.Tasks < h.ElasticMin || r.Tasks > h.ElasticMax || h.MinInstances > h.ElasticMin {
		return // reported elsewhere
	}
	if r.least == 0 {
		r.least = h.ElasticMin
	}
	if r.MinSucceeded == r.Tasks { // all of them
		r.MinSucceeded = h.ElasticMax
	}
	r.Tasks = h.ElasticMax
	if r.least < r.Tasks && r.instances < r.Tasks {
		p.job.Size = tasks
	}
}

// makeGangs groups the tasks. Task ordinals count through the roles in order.
func (p *parser) makeGangs() {
	if !p.extras.gang {
		p.makeTaskGangs()
		return
	}
	first := int32(0)
	for i := range p.roles {
		r := &p.roles[i]
		name := r.place.affinity
		if name == "" {
			name = defaultGang
		} else {
			p.checkGroup(i)
		}
		at := slices.IndexFunc(p.job.Gangs, func(g model.Gang) bool { return g.Name == name })
		if at < 0 {
			at = len(p.job.Gangs)
			p.job.Gangs = append(p.job.Gangs, model.Gang{Name: name})
		}
		p.job.Gangs[at].Tasks = appendRange(p.job.Gangs[at].Tasks, first, r.Tasks)
		first += r.Tasks
	}
	p.makeExtraGangs()
}

// makeExtraGangs takes the tasks above every role's minInstances out of the gang and makes each a
// gang of its own. The job starts with its minimum, and grows and shrinks with the free
// leaves.
func (p *parser) makeExtraGangs() {
	var least []int32
	var extras []model.Gang
	first := int32(0)
	for i := range p.roles {
		r := &p.roles[i]
		n := r.Tasks
		if few := r.least; few > 0 && few < n {
			if len(p.job.Gangs) > 1 {
				p.r.Warn(r.comb.node.Get("minInstances"), "a job with several affinity groups starts with all its instances: minInstances has no effect")
				return
			}
			n = few
		}
		least = appendRange(least, first, n)
		for k := n; k < r.Tasks; k++ {
			extras = append(extras, model.Gang{Name: r.Name + "-" + decimal(k), Tasks: []int32{first + k}, Extra: true})
		}
		first += r.Tasks
	}
	if len(extras) > 0 {
		p.job.Gangs[0].Tasks = least
		p.job.Gangs = append(p.job.Gangs, extras...)
	}
}

// makeTaskGangs makes one gang of each task of an incremental job.
func (p *parser) makeTaskGangs() {
	next := int32(0)
	for i := range p.roles {
		r := &p.roles[i]
		if r.place.affinity != "" {
			p.r.Warn(r.place.groupNode, "with extras.gangAllocation: false every task starts on its own; this group has no effect")
		}
		for k := range min(r.Tasks, maxTasks-next) {
			p.job.Gangs = append(p.job.Gangs, model.Gang{Name: r.Name + "-" + decimal(k), Tasks: []int32{next + k}})
		}
		next += min(r.Tasks, maxTasks-next)
	}
}

func appendRange(tasks []int32, first, n int32) []int32 {
	for k := range n {
		tasks = append(tasks, first+k)
	}
	return tasks
}

// checkGroup keeps the name of the default gang for roles without an affinityGroupName.
func (p *parser) checkGroup(i int) {
	r := &p.roles[i]
	if r.place.affinity == defaultGang && slices.ContainsFunc(p.roles, func(o role) bool { return o.place.affinity == "" }) {
		p.r.Problem(r.place.groupNode, "%q is the group of the task roles without affinityGroupName; use another name", defaultGang)
	}
}

// checkHints finds contradictions between what different keys say.
func (p *parser) checkHints() {
	h := &p.job.Hints
	at := func(key string) *document.Node { return p.extras.node.Get(key) }
	if h.Duration > 0 && h.Iterations > 0 {
		p.r.Problem(at("iterations"), "duration and iterations both say how long the job is; leave one out")
	}
	if h.Packable && h.Dedicated {
		p.r.Problem(at("dedicated"), "a dedicated job has its nodes to itself, so it cannot be packable too; leave one out")
	}
	if p.job.TimeLimit > 0 && h.Duration > p.job.TimeLimit {
		p.r.Warn(at("timeLimit"), "the job says that it takes longer than its time limit: it will be stopped before its end")
	}
	p.checkClass(h, at)
	for i := range p.roles {
		p.checkRoleHints(&p.roles[i])
	}
}

func (p *parser) checkClass(h *model.Hints, at func(string) *document.Node) {
	n := len(h.Deadlines)
	switch {
	case h.Class == "strict" && n != 1:
		p.r.Problem(at("class"), "a strict job has exactly one deadline, found %d", n)
	case h.Class == "soft" && n == 0:
		p.r.Problem(at("class"), "a soft job needs at least one deadline: add deadlines: [{after: 2h, value: 10}]")
	case h.Class == "besteffort" && n > 0:
		p.r.Problem(at("deadlines"), "a besteffort job has no deadlines; make its class strict or soft, or leave them out")
	case h.Class == "" && n > 0 && at("class") == nil:
		p.r.Problem(at("deadlines"), "a job with deadlines needs a class: strict or soft")
	case h.Class == "strict" && p.job.Priority == cell.Opportunistic:
		p.r.Problem(at("class"), "an opportunistic job is promised nothing, so it cannot be strict")
	}
	if n > 0 && h.Duration > h.Deadlines[n-1].After {
		p.r.Warn(at("deadlines"), "the job says that it takes longer than its last deadline allows")
	}
}

func (p *parser) checkRoleHints(r *role) {
	h := r.comb.hints
	at := func(key string) *document.Node { return r.comb.node.Get(key) }
	if h.MinInstances > r.instances {
		p.r.Problem(at("minInstances"), "%d is more than the role's %d instances", h.MinInstances, r.instances)
	}
	switch {
	case h.ElasticMax > 0 && h.ElasticMin > h.ElasticMax:
		p.r.Problem(at("elastic"), "min %d is more than max %d", h.ElasticMin, h.ElasticMax)
	case h.ElasticMax > 0 && (r.instances < h.ElasticMin || r.instances > h.ElasticMax):
		p.r.Problem(at("elastic"), "the role's %d instances are not between min %d and max %d", r.instances, h.ElasticMin, h.ElasticMax)
	case h.ElasticMax > 0 && h.MinInstances > h.ElasticMin:
		p.r.Problem(at("elastic"), "min %d is less than the role's minInstances %d", h.ElasticMin, h.MinInstances)
	}
	if h.MinInstances > 0 || h.ElasticMax > 0 {
		p.job.Hints.Roles = append(p.job.Hints.Roles, h)
	}
}
