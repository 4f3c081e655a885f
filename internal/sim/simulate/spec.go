package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/spec/trace"
)

// Spec says in words what is simulated: the flags of comb sim run, and one cell of a
// sweep. Empty fields have the defaults that docs/simulate.md names.
type Spec struct {
	Cluster     string            `json:"cluster"`                // NODESxGPUS[:TYPE],..., or a cluster file
	Racks       int32             `json:"racks,omitempty"`        // of each kind of node
	Policy      string            `json:"policy"`                 // NAME[:key=value,...]
	VCs         string            `json:"vcs,omitempty"`          // "", from-trace, or a cluster file
	VCPolicies  map[string]string `json:"vc_policies,omitempty"`  // by VC, over Policy
	Placement   string            `json:"placement,omitempty"`    // cells (default) or count
	Quota       string            `json:"quota,omitempty"`        // cells (default) or count
	Shape       Shape             `json:"shape,omitempty"`        // node (default) or gpu
	RestartCost string            `json:"restart_cost,omitempty"` // SECONDS or log2:SECONDS
	Noise       string            `json:"noise,omitempty"`        // survey or uniform:PERCENT, on what policies think of run times
	Faults      string            `json:"faults,omitempty"`       // MTBF,REPAIR in seconds of each node, leaf:MTBF,REPAIR of each device
	Failures    string            `json:"failures,omitempty"`     // PERCENT,SECONDS[,RETRIES]: so many jobs fail, after so long in the mean
	Throughputs string            `json:"throughputs,omitempty"`  // file of speeds, ours or Gavel's
	GPU         string            `json:"gpu,omitempty"`          // type that run times are for
	Spreads     string            `json:"spreads,omitempty"`      // file of speeds by nodes used
	Without     string            `json:"without,omitempty"`      // effects on speed that are switched off
	Load        float64           `json:"load,omitempty"`         // arrivals come so many times as fast; 0 is 1
	Seed        uint64            `json:"seed"`
}

// The bounds of Load.
const (
	minLoad = 0.001
	maxLoad = 1000.0
)

// onlyVC is the virtual cluster of a run without any.
const onlyVC = "default"

// plan is a Spec that was read and found valid.
type plan struct {
	config       *model.Config
	nodeGPUs     int32
	oneVC        bool        // all jobs go to onlyVC
	untypedNodes bool        // some nodes name no type of GPU
	model        *perf.Model // nil runs every job at full speed
	costs        perf.Costs
	noise        func(i uint64) int64 // estimate of job i, in thousandths of its run time; nil is no noise
	faults       *faults
	failures     *failures
	packing      packing
	policies     func(*model.Config) *model.Config // puts the flags' policies into a configuration
}

// read makes a plan, and reports all problems at once. It reads the trace where something
// depends on what the trace asks for.
func (s *Spec) read(t *Trace) (*plan, error) {
	p := &plan{}
	if err := s.readFlags(p).all(); err != nil {
		return nil, err
	}
	if err := s.readCluster(p, t); err != nil {
		return nil, err
	}
	if isFile(s.Cluster) || isFile(s.VCs) {
		if err := p.missingVCs(t); err != nil {
			return nil, err
		}
	}
	p.addThroughputs(p.config)
	p.enablePacking()
	return p, nil
}

// readFlags reads the flags that need neither the cluster nor the trace.
func (s *Spec) readFlags(p *plan) mistakes {
	var wrong mistakes
	wrong.add("--placement", oneOf(s.Placement, "cells", "count"))
	wrong.add("--quota", oneOf(s.Quota, "cells", "count"))
	wrong.add("--shape", oneOf(string(s.Shape), string(NodeShape), string(GPUShape)))
	s.speeds(p, &wrong)
	var err error
	p.noise, err = parseNoise(s.Noise, s.Seed)
	wrong.add("--noise", err)
	p.faults, err = parseFaults(s.Faults, s.Seed)
	wrong.add("--faults", err)
	p.failures, err = parseFailures(s.Failures, s.Seed)
	wrong.add("--failures", err)
	if s.Load != 0 && !(s.Load >= minLoad && s.Load <= maxLoad) {
		wrong.add("--load", fmt.Errorf("want a number from %g to %g, found %g", minLoad, maxLoad, s.Load))
	}
	return wrong
}

// Files are the files that a Spec names.
func (s *Spec) Files() []string {
	var out []string
	for _, name := range []string{s.Cluster, s.VCs, s.Throughputs, s.Spreads} {
		if isFile(name) {
			out = append(out, name)
		}
	}
	for _, policy := range append(slices.Sorted(maps.Values(s.VCPolicies)), s.Policy) {
		vc, _ := ParsePolicy(policy) // problems are reported elsewhere
		for _, p := range vc.Params {
			if file, named := strings.CutPrefix(p.Value, "@"); named {
				out = append(out, file)
			}
		}
	}
	return out
}

// oneOf checks that a flag is one of some words; "" is the default.
func oneOf(got string, words ...string) error {
	if got == "" || slices.Contains(words, got) {
		return nil
	}
	return fmt.Errorf("want %s, found %q", strings.Join(words, " or "), got)
}

// readCluster makes the configuration.
func (s *Spec) readCluster(p *plan, t *Trace) error {
	if isFile(s.Cluster) {
		return s.readClusterFile(p, t)
	}
	shapes, err := trace.ParseNodeGroups(s.Cluster)
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	l := Layout{Racks: s.Racks, Count: s.Placement == "count", CountQuota: s.Quota == "count"}
	p.nodeGPUs = l.NodeGPUs(shapes)
	p.untypedNodes = slices.ContainsFunc(shapes, func(sh trace.NodeGroup) bool { return sh.Type == "" })
	vc, err := readPolicy(s.Policy, t.medianService)
	if err != nil {
		return err
	}
	var shares []Share
	if !isFile(s.VCs) {
		if shares, err = s.shares(p, &l, shapes, t); err != nil {
			return err
		}
	}
	if p.config, err = l.Cluster(shapes, shares, vc); err != nil {
		return err
	}
	if isFile(s.VCs) {
		if err := vcsOf(p.config, s.VCs, l.Count || l.CountQuota, s.Policy, vc); err != nil {
			return err
		}
	}
	return s.setPolicies(p, t)
}

// isFile reports whether a cluster is named by a file.
func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// readClusterFile takes cells, virtual clusters and their policies from a file. VCs that name
// no policy get that of the flag.
func (s *Spec) readClusterFile(p *plan, t *Trace) error {
	if err := s.contradictions().all(); err != nil {
		return err
	}
	vc, err := readPolicy(s.Policy, t.medianService)
	if err != nil {
		return err
	}
	if p.config, err = readClusterConfig(s.Cluster, nil); err != nil {
		return err
	}
	if s.VCs != "" {
		err = vcsOf(p.config, s.VCs, false, s.Policy, vc)
	} else {
		for i := range p.config.VCs {
			p.config.VCs[i] = orGiven(p.config.VCs[i], s.Policy, vc)
		}
	}
	if err != nil {
		return err
	}
	for _, ch := range p.config.Cluster.Chains {
		leaves := int32(1)
		for _, l := range ch.Levels[1:] {
			if leaves *= l.Fanout; l.IsNode {
				break
			}
		}
		p.nodeGPUs = max(p.nodeGPUs, leaves)
	}
	return s.setPolicies(p, t)
}

// shares is what each VC owns.
func (s *Spec) shares(p *plan, l *Layout, shapes []trace.NodeGroup, t *Trace) ([]Share, error) {
	perNode := func(sh trace.NodeGroup) int32 {
		if l.Count || l.CountQuota {
			return sh.GPUs
		}
		return 1
	}
	switch s.VCs {
	case "":
		p.oneVC = true
		one := Share{Name: onlyVC}
		for _, sh := range shapes {
			own := sh.Nodes * perNode(sh)
			one.Own = append(one.Own, own)
		}
		return []Share{one}, nil
	case "from-trace":
	default:
		return nil, fmt.Errorf("--vcs %q is neither from-trace nor a file", s.VCs)
	}
	if err := s.contradictions().all(); err != nil {
		return nil, err
	}
	demands, err := Demands(t.each())
	if err != nil {
		return nil, err
	}
	shares, err := Divide(demands, shapes[0].Nodes, shapes[0].GPUs)
	for i := range shares {
		shares[i].Own[0] *= perNode(shapes[0])
	}
	return shares, err
}

// NoVC is the error of a policy for a virtual cluster that does not exist. It is a mistake in
// the flags that shows late.
type NoVC struct{ text string }

// Error implements error.
func (n *NoVC) Error() string { return n.text }

// checkVCNames checks that each virtual cluster that is given a policy exists.
func (s *Spec) checkVCNames(c *model.Config) error {
	var wrong problems
	for _, name := range slices.Sorted(maps.Keys(s.VCPolicies)) {
		if !slices.ContainsFunc(c.VCs, func(v model.VCConfig) bool { return string(v.Name) == name }) {
			wrong.add(fmt.Errorf("--vc-policy: there is no virtual cluster %q; there are: %s", name, vcNames(c)))
		}
	}
	if err := wrong.all(); err != nil {
		return &NoVC{err.Error()}
	}
	return nil
}

// setPolicies gives single VCs policies of their own.
func (s *Spec) setPolicies(p *plan, t *Trace) error {
	if err := s.checkVCNames(p.config); err != nil {
		return err
	}
	var wrong problems
	for _, name := range slices.Sorted(maps.Keys(s.VCPolicies)) {
		i := slices.IndexFunc(p.config.VCs, func(v model.VCConfig) bool { return string(v.Name) == name })
		vc, err := readPolicy(s.VCPolicies[name], t.medianService)
		vc.Name = cell.VCName(name)
		wrong.add(err)
		p.config.VCs[i] = vc
	}
	return wrong.all()
}

func vcNames(c *model.Config) string {
	var names []string
	for _, v := range c.VCs {
		names = append(names, string(v.Name))
	}
	return strings.Join(names, ", ")
}

// ParsePolicy reads NAME[:key=value,...]. A key alone is true. The keys backfill, minRun (seconds),
// defragmentation (moves per hour) and budget (a number or none) are the VC's, all others the
// policy's. In a simulation the budget is none unless it is given: the published policies know of
// none.
func ParsePolicy(text string) (model.VCConfig, error) {
	name, rest, colon := strings.Cut(text, ":")
	budget := int32(1<<31 - 1)
	vc := model.VCConfig{Policy: name, Budget: &budget}
	var wrong problems
	for _, kv := range strings.Split(rest, ",") {
		key, value, given := strings.Cut(kv, "=")
		if !given {
			value = "true"
		}
		switch key {
		case "":
			if colon {
				wrong.add(fmt.Errorf("policy %q: want NAME:key=value,... and found %q", text, kv))
			}
		case "backfill":
			vc.Backfill = value
		case "minRun":
			n, err := number("minRun", value, 1<<32)
			wrong.add(err)
			vc.MinRun = model.Duration(n) * model.Second
		case "defragmentation":
			n, err := number(key, value, 1000)
			wrong.add(err)
			vc.Moves = int32(n)
		case "budget":
			if value != "none" {
				n, err := number("budget", value, 1<<31-1)
				wrong.add(err)
				budget = int32(n)
			}
		default:
			vc.Params = append(vc.Params, model.Param{Key: key, Value: value})
		}
	}
	if vc.Moves > 0 && vc.Backfill != "" && vc.Backfill != "none" {
		wrong.add(fmt.Errorf("policy %q: backfill and defragmentation do not go together; leave out one of the two", text))
	}
	slices.SortFunc(vc.Params, func(a, b model.Param) int { return cmp.Compare(a.Key, b.Key) })
	return vc, wrong.all()
}

func number(what, text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s is a number from 0 to %d, not %q", what, most, text)
	}
	return n, nil
}

// problems collects errors.
type problems []string

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err.Error())
	}
}

func (p problems) all() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(p, "\n"))
}

// newOccupancy is an empty cluster. Without a model every gang has full speed and nothing is
// kept.
func newOccupancy(p *plan, changed func(model.AttemptID, perf.Speed)) *occupancy {
	return &occupancy{model: p.model, costs: p.costs, machines: map[cell.NodeName]*machine{}, live: map[model.AttemptID]*tenant{},
		elasticGangs: map[model.JobID][]*tenant{}, lastMachines: map[gangKey][]*machine{}, gangs: map[model.JobID]int32{}, changed: changed}
}
