package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/spec/config"
)

// doCluster applies a configuration. The first one begins the scenario, a later one replaces
// it while jobs run. The block is a cluster file, or lines of the short form. Without a block
// the line itself is the short form of one chain.
//
//	cluster file=cluster.yaml
//	cluster nodes=2 gpus=4 [switch=2] [racks=1] [parts=2] [chain=gpu]
//	    [vcs=a:1,b:2xswitch] [policy=a:drf] [backfill=easy]
func (s *Session) doCluster(c command) (string, error) {
	m := s.meta(c.args)
	cluster, out, err := s.readCluster(c)
	if err == nil {
		err = c.args.done(0)
	}
	if err != nil || cluster == nil {
		return out, err
	}
	if s.engine == nil {
		if err := s.open(); err != nil {
			return "", err
		}
	}
	r, err := s.give(engine.Input{Command: cluster.Command(m)})
	if err != nil {
		return "", err
	}
	if r.Refusal != nil {
		return out + s.refused(r.Refusal), nil
	}
	for _, e := range r.Answer.Effects {
		out += "effect: " + e + "\n"
	}
	return out, nil
}

// doPlan prints what a configuration would do, and changes nothing. It takes the same
// arguments as reconfigure.
func (s *Session) doPlan(c command) (string, error) {
	m := s.meta(c.args)
	cluster, out, err := s.readCluster(c)
	if err == nil {
		err = c.args.done(0)
	}
	if err != nil || cluster == nil {
		return out, err
	}
	var p *model.ConfigPlan
	var no *model.Refusal
	read := func(st *core.State) { p, no = st.At(s.world.Now()).PlanConfig(cluster.Command(m)) }
	if err := s.read(read); err != nil {
		return "", err
	}
	if no != nil {
		return out + "would be " + s.refused(no), nil
	}
	if !p.Changed {
		out += "it would change nothing\n"
	}
	for _, e := range p.Effects {
		out += "effect: " + e + "\n"
	}
	return out, nil
}

// refused prints why a command was not accepted.
func (s *Session) refused(r *model.Refusal) string {
	kind := string(r.Kind)
	if r.Reason != nil {
		kind += ", " + string(r.Reason.Code)
	}
	return fmt.Sprintf("refused (%s): %s\n", kind, strings.Join(strings.Fields(r.Message), " "))
}

// readCluster reads any of the three forms. Without a configuration and an error the text
// says what is wrong with a cluster file.
func (s *Session) readCluster(c command) (*config.Cluster, string, error) {
	if name, ok := c.args.get("file"); ok {
		src, err := s.readFile(name)
		if err != nil {
			return nil, "", err
		}
		cluster, out := parseClusterFile(name, src)
		return cluster, out, nil
	}
	if strings.Contains(c.block, "physicalCluster") {
		cluster, out := parseClusterFile("cluster", c.block)
		return cluster, out, nil
	}
	p := &shortForm{skus: map[cell.TypeName]bool{}}
	if c.block == "" {
		p.oneLine(c.args)
	} else {
		for i, line := range strings.Split(strings.TrimSpace(c.block), "\n") {
			if err := p.read(line); err != nil {
				return nil, "", fmt.Errorf("line %d of the block: %w", i+1, err)
			}
		}
	}
	if p.err != nil {
		return nil, "", p.err
	}
	return &config.Cluster{Config: p.config()}, "", nil
}

// shortForm is a cluster in the short form.
type shortForm struct {
	spec     cell.Spec
	skus     map[cell.TypeName]bool
	policies []model.VCConfig
	halfLife model.Duration
	speeds   []model.Throughput
	err      error
}

func (p *shortForm) fail(format string, v ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, v...)
	}
}

// readSpeeds reads throughputs of models: speeds=resnet:1:1000,resnet:2@V100:1900, each a
// model, a number of GPUs with an optional type, and a rate.
func (p *shortForm) readSpeeds(a *args) {
	for _, text := range a.list("speeds") {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			p.fail("speeds=%s: not a model, a number of GPUs and a rate, such as resnet:2:1900", text)
			return
		}
		gpus, sku, _ := strings.Cut(parts[1], "@")
		n, err1 := strconv.ParseInt(gpus, 10, 32)
		rate, err2 := strconv.ParseInt(parts[2], 10, 64)
		if err1 != nil || err2 != nil {
			p.fail("speeds=%s: the GPUs and the rate are whole numbers", text)
			return
		}
		p.speeds = append(p.speeds, model.Throughput{Model: parts[0], SKU: cell.TypeName(sku), GPUs: int32(n), Rate: rate})
	}
	slices.SortFunc(p.speeds, model.Throughput.Compare)
}

// oneLine reads the form without a block: one chain, and VCs by number of cells.
func (p *shortForm) oneLine(a *args) {
	name := a.text("chain", "gpu")
	p.chain(name, a)
	vcs := a.list("vcs")
	if len(vcs) == 0 {
		vcs = []string{"default:" + a.text("nodes", "1")}
	}
	for _, v := range vcs {
		vc, quota, _ := strings.Cut(v, ":")
		p.vc(vc)
		p.quota(vc, name, quota)
	}
	p.policyList(a.list("policy"))
	for i := range p.policies {
		p.limits(&p.policies[i], a)
	}
	p.halfLife = a.duration("halfLife", 0)
	p.readSpeeds(a)
}

// policyList reads VC:POLICY of several VCs. What follows a comma and names no VC is a
// further parameter of the policy before it.
func (p *shortForm) policyList(list []string) {
	var whole []string
	for _, v := range list {
		head, _, _ := strings.Cut(v, "=")
		switch {
		case strings.Contains(head, ":"):
			whole = append(whole, v)
		case len(whole) > 0 && head != v:
			whole[len(whole)-1] += "," + v
		default:
			p.fail("policy=%s: want VC:POLICY, such as a:drf", v)
		}
	}
	for _, v := range whole {
		vc, policy, _ := strings.Cut(v, ":")
		if !slices.ContainsFunc(p.policies, func(c model.VCConfig) bool { return c.Name == cell.VCName(vc) }) {
			p.fail("policy=%s: vcs names no VC %s", v, vc)
			return
		}
		p.policy(vc, policy)
	}
}

// read reads one line of the block: chain, pin or vc.
func (p *shortForm) read(line string) error {
	if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	a, err := parseArgs(line)
	if err != nil {
		return err
	}
	name := a.word(0)
	switch a.name {
	case "chain":
		p.chain(name, a)
	case "pin":
		p.pin(cell.PinnedID(name), a)
	case "vc":
		p.vc(name)
		if v, ok := a.get("policy"); ok {
			p.policy(name, v)
		}
		p.limits(p.vcConfig(name), a)
		p.halfLife = a.duration("halfLife", p.halfLife) // of all VCs
		p.readSpeeds(a)
		p.vc(name).Parent = cell.VCName(a.text("parent", ""))
		for _, pinned := range a.list("pinned") {
			v := p.vc(name)
			v.Pinned = append(v.Pinned, cell.PinnedID(pinned))
		}
		for _, q := range a.unknown() {
			a.used[q.key] = true
			p.quota(name, q.key, q.value)
		}
	default:
		return fmt.Errorf("%q is none of chain, pin, vc", a.name)
	}
	if err := a.done(1); err != nil {
		return err
	}
	return p.err
}

// chain adds a chain: racks of nodes of switches of devices, and of parts of devices where
// parts=N is given. Levels that are not asked for do not exist. The top level names the
// chain.
func (p *shortForm) chain(name string, a *args) {
	gpus, per, parts := a.number("gpus", 1), a.number("switch", 0), a.number("parts", 0)
	racks := a.number("racks", 0)
	leaf := sku(name, a.text("device", "nvidia"), parts > 0)
	leaf.GPUMemoryMB = int64(a.number("gpuMemory", 0))
	names := a.list("names")
	if len(names) == 0 {
		prefix := a.text("prefix", "n")
		for i := range min(a.number("nodes", 1), maxLeaves+1) {
			names = append(names, prefix+strconv.Itoa(int(i)+1))
		}
	}
	nodes := int32(len(names))
	each := int64(gpus) * int64(max(parts, 1)) // leaves of a node
	switch {
	case gpus < 1 || gpus > 64 || parts < 0 || parts > 64 || nodes < 1 || int64(nodes)*each > maxLeaves,
		per < 0 || (per > 0 && gpus%per != 0) || racks < 0 || (racks > 0 && nodes%racks != 0):
		p.fail("chain %s: %d nodes in %d racks with %d gpus, %d a switch, do not divide, or are more than %d leaves",
			name, nodes, racks, gpus, per, maxLeaves)
		return
	case parts > 0 && leaf.Device == cell.CPU:
		p.fail("chain %s: CPUs have no parts; remove parts=%d", name, parts)
		return
	}
	levels := []cell.LevelSpec{{Type: cell.TypeName(name)}}
	above := func(suffix string, fanout int32) {
		if fanout > 0 {
			levels = append(levels, cell.LevelSpec{Type: cell.TypeName(name + suffix), Fanout: fanout, IsNode: suffix == "-node"})
		}
	}
	above("-gpu", parts)
	above("-switch", per)
	above("-node", gpus/max(per, 1))
	if racks > 0 {
		above("-rack", nodes/racks)
	}
	p.spec.Chains = append(p.spec.Chains, cell.ChainSpec{Name: cell.ChainName(levels[len(levels)-1].Type), Levels: levels})
	if !p.skus[leaf.Name] {
		p.skus[leaf.Name] = true
		p.spec.SKUs = append(p.spec.SKUs, leaf)
	}
	tops := int(max(racks, 0))
	if tops == 0 {
		tops = len(names)
	}
	inRack := len(names) / tops
	missing := a.list("missing")
	for i := range tops {
		p.spec.Cells = append(p.spec.Cells, buildCell(levels, names[i*inRack:(i+1)*inRack], strconv.Itoa(i)))
	}
	p.takeOut(name, missing, racks > 0)
}

// takeOut removes nodes from the racks of the chain that was added last.
func (p *shortForm) takeOut(name string, missing []string, racked bool) {
	rack, found := cell.TypeName(name+"-rack"), 0
	for i := range p.spec.Cells {
		c := &p.spec.Cells[i]
		if had := len(c.Children); racked && c.Type == rack && !allIn(missing, c.Children) {
			c.Children = slices.DeleteFunc(c.Children, func(n cell.CellSpec) bool { return slices.Contains(missing, n.Address) })
			found += had - len(c.Children)
		}
	}
	if found != len(missing) {
		p.fail("chain %s: missing=%s: each must be a node of a rack that has others", name, strings.Join(missing, ","))
	}
}

func allIn(names []string, cells []cell.CellSpec) bool {
	return !slices.ContainsFunc(cells, func(c cell.CellSpec) bool { return !slices.Contains(names, c.Address) })
}

func sku(name, device string, inParts bool) cell.SKU {
	s := cell.SKU{Name: cell.TypeName(name), GPU: 1, MilliCPU: 4000, MemoryMB: 16384, Device: cell.DeviceKind(device)}
	if s.Device == cell.CPU {
		s.GPU = 0
	}
	if inParts {
		s.Part = cell.Share
	}
	return s
}

// inParts reports whether the leaves of a chain of the short form are parts.
func inParts(levels []cell.LevelSpec) bool {
	return len(levels) > 1 && levels[1].Type == levels[0].Type+"-gpu"
}

// buildCell builds one cell of the topmost of the levels. Its nodes get the given names.
func buildCell(levels []cell.LevelSpec, names []string, address string) cell.CellSpec {
	top := levels[len(levels)-1]
	c := cell.CellSpec{Type: top.Type, Address: address}
	if top.IsNode {
		c.Address = names[0]
		next := 0
		c.Children = buildChildren(levels[:len(levels)-1], top.Fanout, &next)
		return c
	}
	for i, n := range names {
		c.Children = append(c.Children, buildCell(levels[:len(levels)-1], []string{n}, strconv.Itoa(i)))
	}
	return c
}

// buildChildren builds the cells below a node. Devices are numbered within the node, parts within
// their device.
func buildChildren(levels []cell.LevelSpec, n int32, next *int) []cell.CellSpec {
	var out []cell.CellSpec
	top := levels[len(levels)-1]
	for i := range n {
		c := cell.CellSpec{Type: top.Type, Address: strconv.Itoa(int(i))}
		switch {
		case len(levels) == 2 && inParts(levels):
			c.Address = strconv.Itoa(*next)
			for part := range top.Fanout {
				c.Children = append(c.Children, cell.CellSpec{Type: levels[0].Type, Address: fmt.Sprintf("%d:%d", *next, part)})
			}
			*next++
		case len(levels) == 1:
			c.Address = strconv.Itoa(*next)
			*next++
		default:
			c.Children = buildChildren(levels[:len(levels)-1], top.Fanout, next)
		}
		out = append(out, c)
	}
	return out
}

// vc finds or adds a VC.
func (p *shortForm) vc(name string) *cell.VCSpec {
	for i := range p.spec.VCs {
		if p.spec.VCs[i].Name == cell.VCName(name) {
			return &p.spec.VCs[i]
		}
	}
	p.spec.VCs = append(p.spec.VCs, cell.VCSpec{Name: cell.VCName(name)})
	p.policies = append(p.policies, model.VCConfig{Name: cell.VCName(name)})
	return &p.spec.VCs[len(p.spec.VCs)-1]
}

// policy reads "drf", or with parameters "las:limits=3250/7200,preempt"; a parameter without
// a value is true.
func (p *shortForm) policy(vc, text string) {
	p.vc(vc)
	name, params, _ := strings.Cut(text, ":")
	v := p.vcConfig(vc)
	v.Policy = name
	for _, p := range strings.FieldsFunc(params, func(r rune) bool { return r == ',' }) {
		key, value, given := strings.Cut(p, "=")
		if !given {
			value = "true"
		}
		v.Params = append(v.Params, model.Param{Key: key, Value: value})
	}
	slices.SortFunc(v.Params, func(a, b model.Param) int { return strings.Compare(a.Key, b.Key) })
}

// vcConfig finds the policy of a VC.
func (p *shortForm) vcConfig(vc string) *model.VCConfig {
	i := slices.IndexFunc(p.policies, func(v model.VCConfig) bool { return v.Name == cell.VCName(vc) })
	return &p.policies[i]
}

// limits reads what restricts preemption between jobs of one priority.
func (p *shortForm) limits(v *model.VCConfig, a *args) {
	v.MinRun = a.duration("minRun", v.MinRun)
	if n := a.number("budget", -1); n >= 0 {
		v.Budget = &n
	}
	v.Backfill = a.oneOf("backfill", v.Backfill, model.Backfills())
	v.Placement = a.oneOf("placement", v.Placement, []string{"pack", "spread"})
	v.Moves = a.number("defragmentation", v.Moves)
	v.Weight = int64(a.number("weight", int32(v.Weight)))
	v.Lending = a.oneOf("lending", v.Lending, []string{model.LendIdle, model.LendNothing})
	var highest *cell.Priority
	if n := a.number("userPriority", -2); n >= -1 {
		p := cell.Priority(n)
		highest = &p
	}
	if l := (model.UserLimits{GPUs: int64(a.number("userGPUs", 0)), Running: int64(a.number("userRunning", 0)), Waiting: int64(a.number("userWaiting", 0)), Priority: highest}); l != (model.UserLimits{}) {
		v.Users = &l
	}
}

// quota adds to a VC's quota. "2" is two nodes; "3xswitch", "1xrack", "4xgpu" and, in a chain
// whose devices have parts, "5xpart" are cells of that level. "+" joins several.
func (p *shortForm) quota(vc, chain, text string) {
	i := slices.IndexFunc(p.spec.Chains, func(c cell.ChainSpec) bool { return c.Levels[0].Type == cell.TypeName(chain) })
	if i < 0 {
		p.fail("VC %s: there is no chain %q", vc, chain)
		return
	}
	c := p.spec.Chains[i]
	leaf := "gpu"
	if inParts(c.Levels) {
		leaf = "part"
	}
	for _, part := range strings.Split(text, "+") {
		number, level, ok := strings.Cut(part, "x")
		if !ok {
			level = "node"
		}
		n, err := strconv.ParseInt(number, 10, 32)
		at := slices.IndexFunc(c.Levels, func(l cell.LevelSpec) bool {
			return string(l.Type) == chain+"-"+level || (level == leaf && string(l.Type) == chain)
		})
		if err != nil || n < 0 || at < 0 {
			p.fail("VC %s: %q is not a number of cells such as 1, 2xswitch, 1xrack, 4xgpu or, of a device in parts, 5xpart", vc, part)
			return
		}
		v := p.vc(vc)
		v.Quota = append(v.Quota, cell.QuotaSpec{Chain: c.Name, Level: cell.Level(at + 1), Number: int32(n)})
	}
}

// pin names a node as a pinned cell: pin NAME node=n2 [chain=gpu].
func (p *shortForm) pin(id cell.PinnedID, a *args) {
	node, chain := a.text("node", ""), a.text("chain", "")
	var walk func(cells []cell.CellSpec) bool
	walk = func(cells []cell.CellSpec) bool {
		for i := range cells {
			c := &cells[i]
			if c.Address == node && strings.HasSuffix(string(c.Type), "-node") && strings.HasPrefix(string(c.Type), chain) {
				c.Pinned = id
				return true
			}
			if walk(c.Children) {
				return true
			}
		}
		return false
	}
	if !walk(p.spec.Cells) {
		p.fail("pin %s: there is no node %q", id, node)
	}
}

// config sorts what a cluster file would sort.
func (p *shortForm) config() *model.Config {
	slices.SortFunc(p.spec.SKUs, func(a, b cell.SKU) int { return strings.Compare(string(a.Name), string(b.Name)) })
	slices.SortFunc(p.spec.Chains, func(a, b cell.ChainSpec) int { return strings.Compare(string(a.Name), string(b.Name)) })
	slices.SortFunc(p.spec.VCs, func(a, b cell.VCSpec) int { return strings.Compare(string(a.Name), string(b.Name)) })
	slices.SortFunc(p.policies, func(a, b model.VCConfig) int {
		return strings.Compare(string(a.Name),
			string(b.Name))
	})
	return &model.Config{Cluster: p.spec, VCs: p.policies, HalfLife: p.halfLife, Throughputs: p.speeds}
}
