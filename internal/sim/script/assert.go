package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// doAssert checks conditions and prints those that do not hold.
//
//	assert NAME phase=Active on="n1:0-3 n2:0-3" reason=VCBusy retries=0 preempted=0
//	assert NAME opportunistic=no
//	assert NAME task=worker[0] state=Running on=n1:0
//	assert waiting=1 active=2 ended=0 free=4
//	assert cell=n1/0 state=Used, assert vc=a used=4, assert chain=rack listed="n1 n2"
func (s *Session) doAssert(c command) (string, error) {
	a := c.args
	if len(a.pairs) == 0 {
		return "", fmt.Errorf("assert: say what must hold, as in: assert NAME phase=Active")
	}
	var found []string
	var err error
	switch {
	case a.word(0) != "":
		found, err = s.assertJob(a)
	case a.has("cell"):
		found, err = s.assertCell(a)
	case a.has("vc"):
		found, err = s.assertVC(a)
	case a.has("chain"):
		found, err = s.assertFreeCells(a)
	default:
		found, err = s.assertCounts(a)
	}
	if err != nil {
		return "", err
	}
	if err := a.done(1); err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", nil
	}
	s.failed++
	return "FAILED: " + strings.Join(found, "; ") + "\n", nil
}

// status is a job's present status, whether it has ended or not.
func (s *Session) status(id model.JobID) (model.JobStatus, error) {
	if j, ok := s.finished[id]; ok {
		return j, nil
	}
	var j model.JobStatus
	err := s.read(func(st *core.State) { j, _ = st.AsOf(s.world.Now()).Job(id) })
	return j, err
}

// fact is a value that an assert may be about.
type fact struct{ key, is string }

func compare(a *args, facts []fact) []string {
	var out []string
	for _, f := range facts {
		if want, ok := a.get(f.key); ok && want != f.is {
			out = append(out, fmt.Sprintf("%s is %q, not %q", f.key, f.is, want))
		}
	}
	return out
}

func (s *Session) assertJob(a *args) ([]string, error) {
	id, _, err := s.job(a.word(0))
	if err != nil {
		return nil, fmt.Errorf("assert: %w", err)
	}
	j, err := s.status(id)
	if err != nil {
		return nil, err
	}
	if name, ok := a.get("task"); ok {
		return assertTask(a, j, name), nil
	}
	why, err := s.reasons(id)
	if err != nil {
		return nil, err
	}
	var places, nodes []string
	for _, t := range j.Tasks {
		if holds(t.State) {
			places = append(places, formatPlace(t.Node, t.Devices, t.Parts))
			if len(nodes) == 0 || nodes[len(nodes)-1] != string(t.Node) {
				nodes = append(nodes, string(t.Node))
			}
		}
	}
	opportunistic := "no"
	var states, victims, by []string
	for _, at := range j.Attempts {
		if at.State == model.AttemptOver {
			continue
		}
		if at.Opportunistic {
			opportunistic = "yes"
		}
		states = append(states, at.State.String())
		for _, v := range at.Victims {
			victims = append(victims, s.label(v))
		}
		if at.By != nil {
			by = append(by, s.label(*at.By))
		}
	}
	exit := ""
	if j.Exit != nil {
		exit = fmt.Sprint(j.Exit.Code)
	}
	return compare(a, []fact{
		{"phase", string(j.Phase)}, {"on", strings.Join(places, " ")}, {"nodes", strings.Join(nodes, ",")},
		{"reason", why.codes}, {"ahead", why.jobs}, {"blames", why.nodes}, {"position", why.position},
		{"attempt", join(states)}, {"victims", join(victims)}, {"by", join(by)}, {"retries", fmt.Sprint(j.Retry)}, {"counted", fmt.Sprint(j.Counted)},
		{"preempted", fmt.Sprint(j.Preempted)}, {"yielded", fmt.Sprint(j.Yielded)}, {"opportunistic", opportunistic},
		{"cause", j.Cause.String()}, {"exit", exit},
	}), nil
}

func assertTask(a *args, j model.JobStatus, name string) []string {
	for _, t := range j.Tasks {
		if fmt.Sprintf("%s[%d]", t.Role, t.Index) == name {
			return compare(a, []fact{{"state", t.State.String()}, {"on", formatPlace(t.Node, t.Devices, t.Parts)}, {"attempt", fmt.Sprint(t.Attempt)}})
		}
	}
	return []string{fmt.Sprintf("%s has no task %s", j.Name, name)}
}

// join lists texts, and equal neighbours once.
func join(texts []string) string { return strings.Join(slices.Compact(texts), ",") }

// reasons is why the waiting gangs of a job wait; each field lists them in one text.
type reasons struct{ codes, jobs, nodes, position string }

func (s *Session) reasons(id model.JobID) (reasons, error) {
	var codes, jobs, nodes []string
	position := int32(0)
	err := s.read(func(st *core.State) {
		e, ok := st.Why(id)
		if !ok {
			return
		}
		position = e.Position
		for _, g := range e.Gangs {
			codes = append(codes, string(g.Reason.Code))
			for _, ahead := range g.Reason.Jobs {
				jobs = append(jobs, s.jobName(ahead))
			}
			for _, n := range g.Reason.Nodes {
				nodes = append(nodes, string(n))
			}
		}
	})
	return reasons{join(codes), join(jobs), join(nodes), fmt.Sprint(position)}, err
}

func (s *Session) assertCounts(a *args) ([]string, error) {
	var waiting, active, free int32
	err := s.read(func(st *core.State) {
		for _, j := range st.AsOf(s.world.Now()).Jobs() {
			switch j.Phase {
			case model.Waiting:
				waiting++
			case model.Active:
				active++
			}
		}
		for _, c := range st.Cells() {
			free += freeLeaves(c)
		}
	})
	return compare(a, []fact{
		{"waiting", fmt.Sprint(waiting)}, {"active", fmt.Sprint(active)},
		{"ended", fmt.Sprint(len(s.finished))}, {"free", fmt.Sprint(free)},
		{"living", fmt.Sprint(s.world.Living())},
	}), err
}

func freeLeaves(c model.CellStatus) int32 {
	if len(c.Children) == 0 && c.Level == cell.Level(1) {
		if c.State == "Free" {
			return 1
		}
		return 0
	}
	n := int32(0)
	for _, child := range c.Children {
		n += freeLeaves(child)
	}
	return n
}

// holds reports whether a task in that state has leaves.
func holds(t model.TaskState) bool {
	switch t {
	case model.TaskStarting, model.TaskRunning, model.TaskStopping, model.TaskIsUnknown:
		return true
	}
	return false
}
