package jobspec

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A role is a task role while it is read, with the nodes at which its problems are reported.
type role struct {
	model.Role
	node      *document.Node
	resources *document.Node
	ask       demand
	shm       *document.Node
	chosen    map[string]*document.Node // prerequisite by script, data and output
	place     placement
	comb      combRole
	instances int32 // as in the file; in an elastic role Tasks is the most that it may have
	least     int32 // the fewest tasks with which the job starts; 0 is all
}

// readRoleNames reads the names of the task roles, to which other parts of the file refer,
// and returns the roles, which are still to be read.
func (p *parser) readRoleNames(top *document.MapReader) []document.Field {
	m := top.Map("taskRoles", "taskRoles")
	fields := m.Fields()
	if n := m.Self(); n != nil && n.Kind == document.Map && len(fields) == 0 {
		p.r.Problem(n, "a job needs at least one task role")
	}
	if len(fields) > maxRoles {
		p.r.Problem(m.Self(), "%d task roles are too many: at most %d are allowed", len(fields), maxRoles)
		fields = fields[:maxRoles]
	}
	for _, f := range fields {
		if !identPattern.MatchString(f.Key) || len(f.Key) > maxName {
			p.r.Problem(f.Value, "%s is not a name for a task role: use letters, digits and _, not a digit first, and at most %d characters", document.Quote(f.Key), maxName)
		}
		p.roleNames = append(p.roleNames, f.Key)
	}
	return fields
}

func (p *parser) readRole(f document.Field) role {
	r := role{node: f.Value, chosen: map[string]*document.Node{}}
	r.Name = f.Key
	r.place = p.extras.places[f.Key]
	r.comb = p.extras.comb[f.Key]
	m := p.r.Map(f.Value, "a task role")
	if f.Value.Kind == document.Null {
		p.r.Problem(f.Value, "a task role needs the keys \"resourcePerInstance\" and \"commands\"")
	} else {
		m.Require("resourcePerInstance")
	}
	r.Tasks = int32(m.Int("instances", document.Range{Min: 1, Max: maxTasks, Default: 1}))
	r.instances = r.Tasks
	p.readCompletion(m, &r)
	p.readTaskRetries(m, &r)
	p.readContainer(m, &r)
	p.readResources(m, &r)
	image := p.readChoices(m, &r)
	p.checkImage(m, image, &r)
	bare := checkBare(p, m, &r)
	used := p.ordered(m.List("prerequisites"))
	own := p.commandNodes(m.Node("commands"))
	if n := m.Node("commands"); n != nil && n.Kind == document.List && len(n.Items) == 0 {
		p.r.Problem(n, "at least one command is needed")
	}
	p.makeCommands(&r, used, own)
	if len(own) > 0 && len(r.Launch.Command) == 0 && p.budget >= 0 && p.r.Problems() == nil {
		p.r.Problem(m.Node("commands"), "every command is empty; at least one is needed")
	}
	if bare && len(r.Launch.Command) > 0 {
		p.r.Problem(m.Self(),
			"the role has no commands, so that its image's own program runs, which no other commands "+
				"can stand around: write its commands, "+
				"or leave out those of its prerequisites and of its deployment")
	}
	r.Launch.Pull = p.extras.pull
	r.Launch.Env, r.Launch.WorkDir, r.Launch.DiskMB = r.comb.env, r.comb.workDir, r.comb.diskMB
	r.Launch.Limits = r.comb.limits
	m.Rest()
	return r
}

// readCompletion reads FrameworkController's completion policy. OpenPAI's
// default ends the job when one task fails or all of a role succeeded.
func (p *parser) readCompletion(m *document.MapReader, r *role) {
	c := m.Map("completion", "completion")
	read := func(key string, def int32) int32 {
		n := c.Node(key)
		v := p.r.Int(n, document.Range{Min: -1, Max: maxTasks, Default: int64(def)})
		switch {
		case v == 0:
			p.r.Problem(n, "0 has no meaning here: write a number of tasks, or -1 to switch the rule off")
		case v > int64(r.Tasks):
			p.r.Warn(n, "%d is more than the role's %d instances: it is never reached, as with -1", v, r.Tasks)
		}
		return int32(v)
	}
	r.MinFailed = read("minFailedInstances", 1)
	r.MinSucceeded = read("minSucceededInstances", r.Tasks)
	c.Rest()
}

func (p *parser) readTaskRetries(m *document.MapReader, r *role) {
	n := m.Node("taskRetryCount")
	v := p.r.Int(n, document.Range{Min: -2, Max: maxRetries})
	if v != 0 && p.extras.gang {
		p.r.Warn(n, "a task is retried on its own only with extras.gangAllocation: false; here the job's jobRetryCount applies")
		v = 0
	}
	r.TaskRetries = int32(v)
}

func (p *parser) readContainer(m *document.MapReader, r *role) {
	c := m.Map("extraContainerOptions", "extraContainerOptions")
	r.shm = c.Node("shmMB")
	r.Launch.ShmMB = p.r.Int(r.shm, document.Range{Max: maxMemoryMB})
	n := c.Node("infiniband")
	if r.Launch.InfiniBand = p.r.Bool(n, false); r.Launch.InfiniBand {
		p.r.Warn(n, "InfiniBand devices are given to pods of Kubernetes alone, where the cluster file lets the virtual cluster have them; elsewhere a process sees those of its machine")
	}
	c.Rest()
}

func (p *parser) readResources(m *document.MapReader, r *role) {
	c := m.Map("resourcePerInstance", "resourcePerInstance")
	r.resources = c.Self()
	if r.resources == nil {
		r.resources = r.node
	}
	r.ask = demand{
		gpu:      c.Int("gpu", document.Range{Max: maxGPU}),
		milliCPU: p.milli(c.Node("cpu")),
		memoryMB: c.Int("memoryMB", document.Range{Max: maxMemoryMB}),
	}
	r.Launch.GPU, r.Launch.MilliCPU, r.Launch.MemoryMB = r.ask.gpu, r.ask.milliCPU, r.ask.memoryMB
	total := int64(0)
	ports := c.Map("ports", "ports")
	for _, f := range ports.Fields() {
		if !identPattern.MatchString(f.Key) || len(f.Key) > maxName {
			p.r.Problem(f.Value, "%s is not a name for a port: use letters, digits and _, not a digit first", document.Quote(f.Key))
		}
		if f.Value.Kind == document.Null {
			p.r.Problem(f.Value, "how many ports of this name does a task need?")
		}
		n := p.r.Int(f.Value, document.Range{Max: maxPorts, Default: 1})
		if n == 0 { // as OpenPAI's marketplace items have it
			p.r.Warn(f.Value, "0 ports have no effect; write how many ports a task gets, or leave the name out")
			continue
		}
		total += n
		r.Launch.Ports = append(r.Launch.Ports, model.Port{Label: f.Key, Count: int32(n)})
	}
	if total > maxPorts {
		p.r.Problem(ports.Self(), "%d ports for one task are too many: at most %d are allowed", total, maxPorts)
	}
	c.Rest()
}

// milli reads a number with at most three decimals as thousandths.
func (p *parser) milli(n *document.Node) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	v, ok := parseMilli(n)
	if !ok || v > maxCPU*1000 {
		p.r.Problem(n, "expected a number of CPUs from 0 to %d, with at most three decimals", maxCPU)
		return 0
	}
	return v
}

func parseMilli(n *document.Node) (int64, bool) {
	if n.Kind != document.Scalar || (n.Type != document.Int && n.Type != document.Float) || len(n.Text) > 20 {
		return 0, false
	}
	v, dot, fraction := int64(0), false, 0
	for _, c := range []byte(n.Text) {
		switch {
		case c == '.' && !dot:
			dot = true
			continue
		case c < '0' || c > '9':
			return 0, false
		case dot && fraction == 3:
			if c != '0' {
				return 0, false
			}
			continue
		case dot:
			fraction++
		}
		if v = v*10 + int64(c-'0'); v > maxCPU*1000 {
			return 0, false
		}
	}
	for ; fraction < 3; fraction++ {
		v *= 10
	}
	return v, true
}

// readChoices resolves the prerequisites that a role names by type, and returns
// its image, nil if it has none.
func (p *parser) readChoices(m *document.MapReader, r *role) *prerequisite {
	var image *prerequisite
	for _, key := range []string{"dockerImage", "script", "data", "output"} {
		n := m.Node(key)
		name := p.r.String(n, document.Text{})
		if name == "" {
			if n != nil && n.Kind == document.Scalar {
				p.r.Problem(n, "the name of a prerequisite is needed here; leave the key out for none")
			}
			continue
		}
		kind := key
		if key == "dockerImage" {
			kind = "dockerimage"
		}
		found := p.prerequisite(kind, name)
		switch {
		case found == nil:
			names := p.prerequisiteNames(kind)
			p.r.Problem(n, "there is no prerequisite %s of type %s%s", document.Quote(name), kind, p.hint(name, names))
		case key == "dockerImage":
			image = found
		default:
			r.chosen[kind] = found.node
		}
	}
	return image
}

// checkImage takes the role's image. A runtime of plain processes cannot use it.
func (p *parser) checkImage(m *document.MapReader, image *prerequisite, r *role) {
	if image == nil {
		if r.comb.diskMB > 0 {
			p.r.Problem(r.comb.disk, "disk bounds what a container writes to its own disk, and the role names no image: leave it out, or give it a dockerImage")
		}
		if p.env.Images >= ImagesNeeded {
			p.r.Problem(m.Self(), "the role names no image, and every task runs in a container here: give it a dockerImage, which names a prerequisite of type dockerimage")
		}
		return
	}
	r.Launch.Image = image.uri
	at := m.Node("dockerImage")
	switch p.env.Images {
	case ImagesIgnored:
		if r.comb.diskMB > 0 {
			p.r.Warn(r.comb.disk, "disk is ignored: tasks run as plain processes of the machine here, and nothing bounds what they write")
		}
		p.r.Warn(at, "the image %s is ignored: tasks run as plain processes of the machine here",
			document.Quote(image.uri))
	case ImagesRefused:
		p.r.Problem(at, "the image %s cannot be used: tasks run as plain processes of the machine here; leave it out, "+
			"or have the server started where a container engine answers (comb serve --runtime container)", document.Quote(image.uri))
	}
}

// checkBare reports whether a role has no commands and leaves them to its image. It refuses
// that where it cannot be done.
func checkBare(p *parser, m *document.MapReader, r *role) bool {
	n := m.Node("commands")
	if n != nil && n.Kind != document.Null || m.Self() == nil || m.Self().Kind != document.Map {
		return false
	}
	switch {
	case r.Launch.Image == "":
		m.Require("commands")
	case p.env.Images == ImagesIgnored:
		p.r.Problem(m.Self(), "the role has no commands, and tasks run as plain processes of the machine here, for "+
			"which no image says what they run: write its commands")
	case p.env.Images == ImagesWrapped:
		p.r.Problem(m.Self(), "the role has no commands, and what an image runs by itself is not known where Comb's "+
			"own "+
			"program starts the tasks of pods (--pod-image): write its commands")
	}
	return true
}

// sizeRole finds the role's SKU, and how many leaves a task needs.
func (p *parser) sizeRole(r *role, opportunistic bool) {
	sku, ok := p.placeRole(r, opportunistic)
	if !ok {
		return
	}
	least, err := leavesFor(r.ask, sku)
	if err != nil {
		p.r.Problem(r.resources, "the role %s", err)
		return
	}
	leaves := max(least, r.place.number)
	if number := r.place.numberNode; number != nil && number.Kind != document.Null && r.place.number < least {
		// OpenPAI's portal writes a number beside any resources, and its server reads none of it.
		why := ""
		if lacks := shortfall(r.ask, sku, r.place.number); lacks != "" {
			why = ": that is " + lacks
		}
		p.r.Warn(number, "%s of SKU %s cannot hold a task%s; skuNum is passed over, "+
			"and a task takes %s, as its resources need",
			plural(r.place.number, "leaf", "leaves"), sku.Name, why, plural(least, "leaf", "leaves"))
	}
	if r.place.number < least {
		defer p.warnOfCost(r)
	}
	r.Leaves = int32(leaves)
	checkLimits(p, r)
	// A task that uses more shared memory than its memory is killed as out of memory.
	if mib := cmp.Or(r.ask.memoryMB, leaves*sku.MemoryMB); mib > 0 && r.Launch.ShmMB > mib {
		p.r.Problem(r.shm, "%d MiB of shared memory are more than the %d MiB of memory of a task, "+
			"of which they are a part: ask for less, or for more memoryMB", r.Launch.ShmMB, mib)
	}
}

// checkLimits refuses limits of processes that none of a role's SKUs allows.
func checkLimits(p *parser, r *role) {
	if r.Launch.Limits != (cell.TaskLimits{}) && p.env.Images >= ImagesNeeded {
		p.r.Warn(r.comb.limitsNode, "limits are not set in pods, which have those of their node's container runtime")
	}
	above, by := "", cell.TypeName("")
	for _, name := range r.SKUs {
		why := r.Launch.Limits.Above(p.catalogue.sku(name).Limits)
		if why == "" {
			return // a start with another SKU is refused at the node
		}
		above, by = why, name
	}
	if above != "" {
		p.r.Problem(r.comb.limitsNode, "%s, which SKU %s allows: ask for less, or for another SKU", above, by)
	}
}

// warnOfCost warns when CPUs or memory make a task take more GPUs than it asks for.
func (p *parser) warnOfCost(r *role) {
	for _, name := range r.SKUs {
		sku := p.catalogue.sku(name)
		least, err := leavesFor(r.ask, sku)
		enough := max(1, ceilDiv(r.ask.gpu, sku.GPU))
		unasked := r.ask.gpu == 0 && r.place.pinned == "" && len(r.place.skus) == 0
		if err != nil || sku.GPU == 0 || least <= enough && !unasked {
			continue
		}
		c := model.CarryOf(sku)
		if least <= enough {
			owner := "the cluster"
			if slices.ContainsFunc(p.catalogue.cluster(), func(n cell.TypeName) bool { return p.catalogue.sku(n).GPU == 0 }) {
				owner = "VC " + string(p.job.VC)
			}
			p.r.Warn(r.resources, "a task of role %s asks for no GPU but occupies %s: %s has no CPU-only nodes for it",
				r.Name, c.Amount(r.Leaves), owner)
			return
		}
		p.r.Warn(r.resources, "a task of role %s asks for %s and occupies %s: %s; without its CPUs and memory it would get %s", r.Name,
			r.Launch.Asks(), c.Amount(r.Leaves), c.PerUnitText(), c.Full(int32(enough)))
		return
	}
}

// placeRole decides which SKU counts, and sets Role.SKUs and Role.Pinned.
func (p *parser) placeRole(r *role, opportunistic bool) (cell.SKU, bool) {
	if r.place.pinned != "" {
		return p.placePinned(r, opportunistic)
	}
	if len(r.place.skus) > 0 {
		return p.placeSKU(r, opportunistic)
	}
	if _, ok := p.catalogue.vc(p.job.VC); !ok {
		return cell.SKU{}, false // reported where the VC is named
	}
	usable, err := p.catalogue.usable(p.job.VC, opportunistic, r.ask)
	if err != nil {
		p.r.Problem(r.resources, "the role %s", err)
		return cell.SKU{}, false
	}
	r.SKUs = skuNames(usable)
	r.OneSKU = len(usable) > 1
	return smallest(usable), true
}

func (p *parser) placePinned(r *role, opportunistic bool) (cell.SKU, bool) {
	at := r.place.pinnedNode
	if opportunistic {
		p.r.Problem(at, "an opportunistic job has no pinned cells: they belong to the guarantee of a VC; leave pinnedCellId out or use another priority")
		return cell.SKU{}, false
	}
	vc, ok := p.catalogue.vc(p.job.VC)
	if !ok {
		return cell.SKU{}, false
	}
	for _, id := range vc.Pinned {
		if id == r.place.pinned {
			sku := p.catalogue.pinned(id)
			r.Pinned, r.SKUs = id, []cell.TypeName{sku}
			return p.catalogue.sku(sku), true
		}
	}
	p.r.Problem(at, "VC %s has no pinned cell %s; it has %s", p.job.VC, document.Quote(string(r.place.pinned)), list(vc.Pinned))
	return cell.SKU{}, false
}

func (p *parser) placeSKU(r *role, opportunistic bool) (cell.SKU, bool) {
	names, owner := p.catalogue.quota(p.job.VC), "VC "+string(p.job.VC)
	if _, ok := p.catalogue.vc(p.job.VC); opportunistic || !ok {
		names, owner = p.catalogue.cluster(), "the cluster"
	}
	var chosen []cell.SKU
	for i, name := range r.place.skus {
		at, sku := r.place.skuNodes[i], p.catalogue.sku(name)
		switch {
		case !slices.Contains(names, name) && p.catalogue.pinnedWith(p.job.VC, name) != "" && !opportunistic:
			pin := p.catalogue.pinnedWith(p.job.VC, name)
			p.r.Problem(at, "%s has SKU %s in its pinned cell %s alone: "+
				"ask for that cell, with --pin %s or pinnedCellId in the file",
				owner, document.Quote(string(name)), pin, pin)
		case !slices.Contains(names, name):
			p.r.Problem(at, "%s has no SKU %s; it has %s", owner, document.Quote(string(name)), list(names))
		case len(r.place.skus) > 1 && r.ask.gpu > 0 && sku.GPU == 0:
			p.r.Problem(at, "the role asks for %s, but SKU %s has none; leave it out", plural(r.ask.gpu, "GPU", "GPUs"), name)
		default:
			chosen = append(chosen, sku)
		}
	}
	if len(chosen) < len(r.place.skus) {
		return cell.SKU{}, false
	}
	r.SKUs = sortedSet(skuNames(chosen))
	return smallest(chosen), true
}
