package script

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// shape is "2x4@v100": tasks, leaves per task, and an optional SKU. With "1..2x4" at least
// one task must start.
var shape = regexp.MustCompile(`^(?:([0-9]{1,6})\.\.)?([0-9]{1,6})x([0-9]{1,6})(?:@([^@ ]+))?$`)

// doSubmit submits a job: a job file in the block, or the short form.
//
//	submit NAME [vc=default] [worker=2x4 ps=1x1@cpu] [prio=test] [lazy] [incremental] ...
func (s *Session) doSubmit(c command) (string, error) {
	a := c.args
	m := s.meta(a)
	if name, ok := a.get("file"); ok || c.block != "" {
		if err := a.done(0); err != nil {
			return "", err
		}
		src := c.block
		if !ok {
			name = "job"
		} else {
			text, err := s.readFile(name)
			if err != nil {
				return "", err
			}
			src = text
		}
		return s.submitFile(name, src, m)
	}
	j, err := s.readJob(a, m)
	if err != nil {
		return "", err
	}
	return s.submit(engine.Input{Command: model.Submit{Meta: m, Job: j}})
}

// submit gives the command and prints a refusal.
func (s *Session) submit(in engine.Input) (string, error) {
	r, err := s.give(in)
	if err != nil {
		return "", err
	}
	if r.Refusal == nil {
		if r.Answer.Repeated {
			return fmt.Sprintf("%s was accepted before\n", s.jobName(r.Answer.Job)), nil
		}
		return "", nil
	}
	return s.refused(r.Refusal), nil
}

// readJob makes a job from the short form.
func (s *Session) readJob(a *args, m model.Meta) (*model.Job, error) {
	lazy, incremental, checkpoint, dedicated := a.flag("lazy"), a.flag("incremental"), a.flag("checkpoint"), a.flag("dedicated")
	packable, suspendable, releases := a.flag("packable"), a.flag("suspendable"), a.flag("releases")
	j := &model.Job{
		Name: model.JobName(a.word(0)), User: m.Subject,
		VC:          cell.VCName(a.text("vc", "default")),
		Priority:    priority(a),
		Retries:     a.number("retries", 0),
		LazyPreempt: lazy,
		Grace:       a.duration("grace", 30*model.Second),
		TimeLimit:   a.duration("limit", 0),
		Size:        a.number("size", 0),
	}
	j.Hints.Queue, j.Hints.App, j.Hints.Model = a.text("queue", ""), a.text("app", ""), a.text("model", "")
	j.Hints.Duration, j.Hints.Checkpoint, j.Hints.Dedicated = a.duration("duration", 0), checkpoint, dedicated
	j.Hints.Deadlines = deadlines(a)
	j.Hints.Packable, j.Hints.Suspendable, j.Hints.GPUMemoryMB = packable, suspendable || releases, int64(a.number("memory", 0))
	if releases {
		j.Hints.Suspend = &model.SuspendContract{}
	}
	j.AllowedNodes, j.AvoidedNodes, j.PreferredNodes = nodeNames(a, "nodes"), nodeNames(a, "avoid"), nodeNames(a, "prefer")
	if j.Name == "" {
		return nil, fmt.Errorf("submit: a job needs a name")
	}
	s.readBehavior(a, j)
	usual := model.Role{
		SKUs: skuSet(a.text("sku", "")), Pinned: cell.PinnedID(a.text("pinned", "")),
		MinFailed: a.number("minFailed", 1), MinSucceeded: a.number("minSucceeded", -1),
		TaskRetries: a.number("taskRetries", 0),
	}
	gpus := a.number("gpus", 1)
	var least []int32
	for _, p := range a.unknown() {
		r, few, ok := role(p, usual)
		if !ok {
			return nil, fmt.Errorf("submit: %s=%s is neither a key of submit nor a role such as worker=2x4", p.key, p.value)
		}
		a.used[p.key] = true
		j.Roles = append(j.Roles, r)
		least = append(least, few)
	}
	if len(j.Roles) == 0 {
		usual.Name, usual.Tasks, usual.Leaves = "worker", 1, gpus
		j.Roles, least = []model.Role{usual}, []int32{1}
	}
	gangs(j, least, incremental)
	return j, a.done(1)
}

// deadlines reads deadline=10m, or deadline=10m,1h where the job's value falls in steps.
func deadlines(a *args) []model.Deadline {
	var out []model.Deadline
	all := a.list("deadline")
	for i, text := range all {
		d, err := parseDuration(text)
		if err != nil || d <= 0 || i > 0 && d <= out[i-1].After {
			a.fail("deadline=%s: not times after the submission, each later than the one before it", strings.Join(all, ","))
			return nil
		}
		out = append(out, model.Deadline{After: d, Value: int64(len(all) - i)})
	}
	return out
}

func nodeNames(a *args, key string) []cell.NodeName {
	var out []cell.NodeName
	for _, n := range a.list(key) {
		out = append(out, cell.NodeName(n))
	}
	return out
}

// role reads worker=2x4@v100, or worker=1..2x4, and the least number of tasks.
func role(p pair, usual model.Role) (model.Role, int32, bool) {
	m := shape.FindStringSubmatch(p.value)
	if m == nil {
		return usual, 0, false
	}
	tasks, _ := strconv.Atoi(m[2])
	leaves, _ := strconv.Atoi(m[3])
	least := tasks
	if m[1] != "" {
		least, _ = strconv.Atoi(m[1])
	}
	usual.Name, usual.Tasks, usual.Leaves = p.key, int32(min(tasks, maxTasks)), int32(leaves)
	if m[4] != "" {
		usual.SKUs = skuSet(m[4])
	}
	return usual, int32(min(least, maxTasks)), least <= tasks
}

// skuSet reads A100|V100.
func skuSet(text string) []cell.TypeName {
	var out []cell.TypeName
	for _, n := range strings.Split(text, "|") {
		if n != "" {
			out = append(out, cell.TypeName(n))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// gangs puts the least number of tasks of every role into one gang and each task
// above it into an extra one; of an incremental job, each task into its own.
func gangs(j *model.Job, least []int32, incremental bool) {
	if !incremental {
		j.Gangs = []model.Gang{{Name: "all"}}
	}
	task := int32(0)
	for i := range j.Roles {
		for n := range j.Roles[i].Tasks {
			if incremental || n >= least[i] {
				name := fmt.Sprintf("%s-%d", j.Roles[i].Name, n)
				j.Gangs = append(j.Gangs, model.Gang{Name: name, Tasks: []int32{task}, Extra: !incremental})
			} else {
				j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, task)
			}
			task++
		}
	}
}

// readBehavior notes how the tasks of a job behave: exit=1, stop=5s or stop=never, and
// runs=5m where that is not what the job declares.
func (s *Session) readBehavior(a *args, j *model.Job) {
	b := behavior{code: a.number("exit", 0)}
	if v, _ := a.get("stop"); v == "never" {
		b.stubborn = true
	} else if v != "" {
		d := a.duration("stop", 0)
		b.stop = &d
	}
	b.runs, b.packed = a.duration("runs", 0), int64(a.number("packed", 0))
	if _, ok := a.get("start"); ok {
		d := a.duration("start", 0)
		b.start = &d
	}
	s.behaviors[jobKey(j)] = b
}

// jobKey is a job's user and name, which tell it from another user's job of that name.
func jobKey(j *model.Job) [2]string { return [2]string{string(j.User), string(j.Name)} }

// owners are the users who had a name first in a script.
type owners map[model.JobName]model.Subject

// called is what a script calls a job: its name, or USER~NAME where another user had that first.
func (o owners) called(j *model.Job) string {
	if owner, ok := o[j.Name]; ok {
		return j.Name.ShownTo(owner, j.User)
	}
	return string(j.Name)
}

func priority(a *args) cell.Priority {
	text := a.text("prio", "test")
	if p, ok := model.PriorityNamed(text); ok {
		return p
	}
	n, err := strconv.ParseInt(text, 10, 16)
	if err != nil {
		a.fail("prio=%s: not crit, prod, test, oppo or a number", text)
	}
	return cell.Priority(n)
}

// job finds the job that a name, or USER~NAME, means now: the last one submitted under it.
func (s *Session) job(name string) (model.JobID, *model.Job, error) {
	if user, bare, cut := strings.Cut(name, "~"); cut && s.owners[model.JobName(bare)] == model.Subject(user) {
		name = bare
	}
	id, ok := s.latest[name]
	if !ok {
		return 0, nil, fmt.Errorf("there is no job %q", name)
	}
	return id, s.jobs[id], nil
}

// tasks reads the tasks that a command means: task=worker[1], or all of the job.
func tasks(a *args, j *model.Job) []int32 {
	var all []int32
	total := int32(0)
	for i := range j.Roles {
		total += j.Roles[i].Tasks
	}
	for t := range total {
		all = append(all, t)
	}
	name, ok := a.get("task")
	if !ok {
		return all
	}
	i := slices.IndexFunc(all, func(t int32) bool { return taskName(j, t) == name })
	if i < 0 {
		a.fail("task=%s: job %s has no such task; they are named like %s", name, j.Name, taskName(j, 0))
		return nil
	}
	return all[i : i+1]
}

// doStop asks to end a job: stop NAME [reason="..."].
func (s *Session) doStop(c command) (string, error) {
	id, _, err := s.job(c.args.word(0))
	if err != nil {
		return "", err
	}
	stop := model.Stop{Meta: s.meta(c.args), Job: id, Reason: c.args.text("reason", "")}
	if err := c.args.done(1); err != nil {
		return "", err
	}
	r, err := s.give(engine.Input{Command: stop})
	if err != nil || r.Refusal == nil {
		return "", err
	}
	return s.refused(r.Refusal), nil
}
