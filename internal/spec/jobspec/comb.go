package jobspec

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/upload"
)

// combRole is what extras.comb says about one task role.
type combRole struct {
	limits     cell.TaskLimits // of each process
	limitsNode *document.Node
	hints      model.RoleHints
	node       *document.Node
	env        []model.EnvVar
	workDir    string
	diskMB     int64
	disk       *document.Node // where the disk is in the file
}

// readComb reads extras.comb, the keys of Comb's own. They have types, and an unknown one is
// an error.
func (p *parser) readComb(m *document.MapReader) {
	p.extras.node = m.Self()
	p.readPriority(m.Node("priority"))
	h := &p.job.Hints
	p.job.TimeLimit = p.duration(m.Node("timeLimit"), model.Second, maxDuration)
	if p.job.TimeLimit%model.Second != 0 {
		p.r.Problem(m.Node("timeLimit"), "the time limit %s is not a whole number of seconds: write one", formatDuration(p.job.TimeLimit))
	}
	p.job.Grace = defaultGrace
	if n := m.Node("grace"); n != nil && n.Kind != document.Null {
		p.job.Grace = p.duration(n, 0, maxGrace)
	}
	h.Checkpoint = m.Bool("checkpoint", false)
	h.ExitZeroMeansDone = m.Bool("exitZeroMeansDone", false)
	h.Backfill = m.Bool("backfillable", false)
	h.Packable = m.Bool("packable", false)
	h.Suspendable = m.Bool("suspendable", m.Has("suspend"))
	p.readSuspend(m)
	h.MembersSignal = p.signal(m.Node("membersSignal"), "")
	h.Dedicated = m.Bool("dedicated", false)
	h.Queue, h.App, h.Model = p.label(m.Node("queue")), p.label(m.Node("app")), p.label(m.Node("model"))
	h.Class = m.String("class", document.Text{OneOf: []string{"strict", "soft", "besteffort"}})
	h.Duration = p.duration(m.Node("duration"), model.Millisecond, maxDuration)
	h.Iterations = p.positive(m.Node("iterations"), math.MaxInt64)
	h.GPUMemoryMB = p.memory(m.Node("gpuMemory"))
	p.readDeadlines(m)
	p.readNodes(m)
	p.extras.pull = m.String("pull", document.Text{OneOf: []string{"missing", "always"}})
	for _, item := range m.List("storages") {
		p.addStorage(item)
	}
	readUpload(p, m.Node("upload"))
	p.extras.comb = map[string]combRole{}
	for _, f := range m.Map("taskRoles", "the task roles of extras.comb").Fields() {
		p.checkRoleName(f)
		p.extras.comb[f.Key] = p.readCombRole(f)
	}
	for _, key := range roleKeys() {
		if m.Has(key) {
			p.r.Problem(m.Node(key), "%s is of a task role: write it as extras.comb.taskRoles.NAME.%s", key, key)
		}
	}
	m.Rest()
}

// roleKeys are the keys of a task role of extras.comb.
func roleKeys() []string {
	return []string{"elastic", "minInstances", "workDir", "env", "disk", "limits"}
}

// readSuspend reads how tasks are told that they will be suspended.
func (p *parser) readSuspend(m *document.MapReader) {
	n := m.Node("suspend")
	if n == nil || n.Kind == document.Null {
		return
	}
	s := m.Map("suspend", "suspend")
	c := &model.SuspendContract{Signal: p.signal(s.Node("signal"), "USR1"), Timeout: defaultSuspendTimeout}
	if t := s.Node("timeout"); t != nil && t.Kind != document.Null {
		c.Timeout = p.duration(t, 100*model.Millisecond, maxSuspendTimeout)
	}
	s.Rest()
	if !p.job.Hints.Suspendable {
		p.r.Problem(n, "suspendable is false: leave it out, or leave out suspend")
	}
	p.job.Hints.Suspend = c
}

// signals are those by which a job may be notified. None has a meaning to a program that does
// not handle it, except that it may end the program.
func signals() []string { return []string{"USR1", "USR2", "HUP", "WINCH", "URG"} }

// signal reads the name of a signal.
func (p *parser) signal(n *document.Node, absent string) string {
	if n == nil || n.Kind == document.Null {
		return absent
	}
	return p.r.String(n, document.Text{OneOf: signals()})
}

// readPriority reads the priority as a number, the alternative to a class.
func (p *parser) readPriority(n *document.Node) {
	if n == nil || n.Kind == document.Null {
		return
	}
	low, high := int64(cell.Opportunistic), int64(cell.MaxGuaranteed)
	v := cell.Priority(p.r.Int(n, document.Range{Min: low, Max: high, Default: int64(p.job.Priority)}))
	if p.extras.priority != nil && v != p.job.Priority {
		p.r.Problem(n, "%d contradicts jobPriorityClass %s, which is %d; leave one out", v, p.extras.priority.Text, p.job.Priority)
		return
	}
	p.job.Priority = v
}

// duration reads "90s", "2h30m", "1d12h" or a number of seconds; 0 when absent.
func (p *parser) duration(n *document.Node, low, high model.Duration) model.Duration {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	d, ok := model.Duration(0), false
	if n.Kind == document.Scalar {
		micros, sound := document.ParseDuration(n.Text)
		d, ok = model.Duration(micros), sound
	}
	switch {
	case !ok:
		p.r.Problem(n, "expected a duration such as 90s, 2h30m or 1d12h, or a number of seconds")
		return 0
	case d < low || d > high:
		p.r.Problem(n, "the duration %s is out of range: it must be %s to %s", document.Quote(n.Text), formatDuration(low), formatDuration(high))
		return 0
	}
	return d
}

func formatDuration(d model.Duration) string { return document.FormatDuration(int64(d)) }

// positive reads an integer from 1; 0 when absent.
func (p *parser) positive(n *document.Node, high int64) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	return p.r.Int(n, document.Range{Min: 1, Max: high})
}

// memory reads an amount such as 16Gi, or a number of MiB; 0 when absent.
func (p *parser) memory(n *document.Node) int64 {
	if n == nil || n.Kind == document.Null {
		return 0
	}
	if _, err := strconv.ParseInt(n.Text, 10, 64); n.Kind == document.Scalar && err == nil {
		return p.positive(n, maxMemoryMB)
	}
	mib, ok := document.ParseMemory(n.Text)
	switch {
	case n.Kind != document.Scalar || !ok:
		p.r.Problem(n, "expected an amount of memory with its unit, such as 16Gi, or a number of MiB")
	case mib < 1 || mib > maxMemoryMB:
		p.r.Problem(n, "%s is out of range: it must be 1Mi to %dMi", document.Quote(n.Text), int64(maxMemoryMB))
		return 0
	}
	return mib
}

// label reads a short name that is shown to users.
func (p *parser) label(n *document.Node) string { return p.line(n, maxName) }

// line reads one line of at most this many characters.
func (p *parser) line(n *document.Node, most int) string {
	s := p.r.String(n, document.Text{Max: most})
	if strings.ContainsFunc(s, unicode.IsControl) {
		p.r.Problem(n, "%s holds a control character", document.Quote(s))
		return ""
	}
	return s
}

// readDeadlines reads deadlines that rise, with values that do not rise.
func (p *parser) readDeadlines(m *document.MapReader) {
	items := m.List("deadlines")
	if len(items) > maxDeadlines {
		p.r.Problem(m.Node("deadlines"), "%d deadlines are too many: at most %d are allowed", len(items), maxDeadlines)
		return
	}
	var last model.Deadline
	for i, item := range items {
		d := p.r.Map(item, "a deadline")
		d.Require("after", "value")
		after := d.Node("after")
		step := model.Deadline{
			After: p.duration(after, model.Millisecond, maxDuration),
			Value: d.Int("value", document.Range{Min: 1, Max: 1_000_000, Default: 1}),
		}
		d.Rest()
		if i > 0 && step.After > 0 && step.After <= last.After {
			p.r.Problem(after, "each deadline must be later than the one before it")
		}
		if i > 0 && step.Value > last.Value {
			p.r.Problem(d.Node("value"), "the value may not rise: it was %d at the deadline before", last.Value)
		}
		last = step
		p.job.Hints.Deadlines = append(p.job.Hints.Deadlines, step)
	}
}

// readNodes reads the nodes on which the job may run, never runs, and runs by preference.
func (p *parser) readNodes(m *document.MapReader) {
	allowed, avoided, preferred := m.Node("allowedNodes"), m.Node("avoidedNodes"), m.Node("preferredNodes")
	p.job.AllowedNodes = p.nodeList(allowed)
	p.job.AvoidedNodes = p.nodeList(avoided)
	p.job.PreferredNodes = p.nodeList(preferred)
	if allowed != nil && allowed.Kind == document.List && len(allowed.Items) == 0 {
		p.r.Problem(allowed, "an empty list would allow no node; leave the key out to allow all")
	}
	for _, n := range p.job.AvoidedNodes {
		if slices.Contains(p.job.AllowedNodes, n) || slices.Contains(p.job.PreferredNodes, n) {
			p.r.Problem(avoided, "the node %s is avoided here, and allowed or preferred too; leave one out", document.Quote(string(n)))
		}
	}
	for _, n := range p.job.PreferredNodes {
		if len(p.job.AllowedNodes) > 0 && !slices.Contains(p.job.AllowedNodes, n) {
			p.r.Problem(preferred, "the node %s is preferred, but allowedNodes leaves it out; add it there, or remove it here", document.Quote(string(n)))
		}
	}
}

// nodeList reads names of existing nodes, each once.
func (p *parser) nodeList(at *document.Node) []cell.NodeName {
	var out []cell.NodeName
	seen := map[string]bool{}
	for _, item := range p.r.List(at) {
		name := p.r.String(item, document.Text{Max: maxName})
		switch {
		case !p.hasNode(cell.NodeName(name)):
			p.r.Problem(item, "the cluster has no node %s; it has %s", document.Quote(name), list(p.catalogue.nodes()))
		case seen[name]:
			p.r.Problem(item, "the node %s stands here twice", document.Quote(name))
		default:
			out = append(out, cell.NodeName(name))
		}
		seen[name] = true
	}
	return out
}

// readCombRole reads the keys of one task role.
func (p *parser) readCombRole(f document.Field) combRole {
	m := p.r.Map(f.Value, "a task role of extras.comb")
	c := combRole{node: f.Value, hints: model.RoleHints{Role: f.Key}}
	c.hints.MinInstances = int32(p.positive(m.Node("minInstances"), maxTasks))
	if m.Has("elastic") {
		e := m.Map("elastic", "elastic")
		e.Require("min", "max")
		c.hints.ElasticMin = int32(p.positive(e.Node("min"), maxTasks))
		c.hints.ElasticMax = int32(p.positive(e.Node("max"), maxTasks))
		e.Rest()
	} else {
		m.Node("elastic")
	}
	c.disk = m.Node("disk")
	c.diskMB = p.memory(c.disk)
	if c.limitsNode = m.Node("limits"); c.limitsNode != nil {
		l := p.r.Map(c.limitsNode, "limits")
		c.limits.NoFile = p.r.Int(l.Node("nofile"), document.Range{Min: cell.LeastFiles, Max: cell.MostFiles})
		c.limits.StackMB, c.limits.MemLockMB = p.r.Size(l.Node("stack")), p.r.Size(l.Node("memlock"))
		l.Rest()
	}
	c.workDir = p.line(m.Node("workDir"), maxPathName)
	switch {
	case c.workDir == "" || strings.HasPrefix(c.workDir, "/"):
	case p.job.Upload == "":
		p.r.Problem(m.Node("workDir"), "a working directory begins with /, found %s; in a job with an upload it may be a folder of that", document.Quote(c.workDir))
	case !upload.Within(c.workDir):
		p.r.Problem(m.Node("workDir"), "%s is no folder of the upload: write it as src or src/train, without . and ..", document.Quote(c.workDir))
	}
	for _, v := range m.Map("env", "env").Fields() {
		c.env = append(c.env, model.EnvVar{Name: v.Key, Value: p.envValue(v)})
	}
	m.Rest()
	return c
}

// deviceVariables are the variables that name the devices of a task.
var deviceVariables = map[string]bool{"CUDA_VISIBLE_DEVICES": true, "NVIDIA_VISIBLE_DEVICES": true, "HIP_VISIBLE_DEVICES": true, "ROCR_VISIBLE_DEVICES": true,
	"TPU_VISIBLE_CHIPS": true, "TPU_VISIBLE_DEVICES": true}

func (p *parser) envValue(v document.Field) string {
	value := p.r.String(v.Value, document.Text{})
	switch {
	case !identPattern.MatchString(v.Key):
		p.r.Problem(v.Value, "%s is not a name for a variable: use letters, digits and _, not a digit first", document.Quote(v.Key))
	case strings.HasPrefix(v.Key, "PAI_") || strings.HasPrefix(v.Key, "COMB_"):
		p.r.Problem(v.Value, "names that begin with PAI_ or COMB_ are set by the system")
	case strings.Contains(value, "<%") && strings.Contains(value, "%>"):
		p.r.Problem(v.Value, "<%% %%> tags are filled in in commands only: write export %s=... there", v.Key)
	case strings.ContainsRune(value, 0):
		p.r.Problem(v.Value, "the value of a variable cannot hold a zero byte")
	case deviceVariables[v.Key]:
		p.r.Warn(v.Value, "the system chooses the devices of each task and sets %s itself: this value does not count, leave it out", v.Key)
	}
	return value
}

func (p *parser) hasNode(name cell.NodeName) bool {
	_, found := slices.BinarySearch(p.catalogue.nodes(), name)
	return found
}
