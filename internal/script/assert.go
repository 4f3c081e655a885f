package script

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// doAssert checks what must hold and prints what does not.
//
//	assert NAME phase=Active on="n1:0-3 n2:0-3" reason=VCBusy retries=0 preempted=0 opportunistic=no
//	assert NAME task=worker[0] state=Running on=n1:0
//	assert waiting=1 active=2 ended=0 free=4
func (s *Session) doAssert(c command) (string, error) {
	a := c.args
	if len(a.pairs) == 0 {
		return "", fmt.Errorf("assert: say what must hold, as in: assert NAME phase=Active")
	}
	var found []string
	var err error
	if a.word(0) == "" {
		found, err = s.assertCounts(a)
	} else {
		found, err = s.assertJob(a)
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

// status is a job as it is now, ended or not.
func (s *Session) status(id sched.JobID) (sched.JobStatus, error) {
	if j, ok := s.finished[id]; ok {
		return j, nil
	}
	var j sched.JobStatus
	err := s.read(func(st *sched.State) { j, _ = st.Job(id) })
	return j, err
}

// fact is one thing that an assert may be about.
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
	codes, err := s.reasonCodes(id)
	if err != nil {
		return nil, err
	}
	var places, nodes []string
	for _, t := range j.Tasks {
		if holds(t.State) {
			places = append(places, formatPlace(t.Node, t.Devices))
			if len(nodes) == 0 || nodes[len(nodes)-1] != string(t.Node) {
				nodes = append(nodes, string(t.Node))
			}
		}
	}
	opportunistic := "no"
	for _, at := range j.Attempts {
		if at.Opportunistic && at.State != sched.AttemptOver {
			opportunistic = "yes"
		}
	}
	exit := ""
	if j.Exit != nil {
		exit = fmt.Sprint(j.Exit.Code)
	}
	return compare(a, []fact{
		{"phase", string(j.Phase)}, {"on", strings.Join(places, " ")}, {"nodes", strings.Join(nodes, ",")},
		{"reason", strings.Join(codes, ",")}, {"retries", fmt.Sprint(j.Retry)}, {"counted", fmt.Sprint(j.Counted)},
		{"preempted", fmt.Sprint(j.Preempted)}, {"opportunistic", opportunistic},
		{"cause", string(j.Cause)}, {"exit", exit},
	}), nil
}

func assertTask(a *args, j sched.JobStatus, name string) []string {
	for _, t := range j.Tasks {
		if fmt.Sprintf("%s[%d]", t.Role, t.Index) == name {
			return compare(a, []fact{{"state", string(t.State)}, {"on", formatPlace(t.Node, t.Devices)}, {"attempt", fmt.Sprint(t.Attempt)}})
		}
	}
	return []string{fmt.Sprintf("%s has no task %s", j.Name, name)}
}

// reasonCodes returns the codes of a job's waiting gangs, equal ones once.
func (s *Session) reasonCodes(id sched.JobID) ([]string, error) {
	var codes []string
	err := s.read(func(st *sched.State) {
		e, ok := st.Why(id)
		for i := 0; ok && i < len(e.Gangs); i++ {
			code := string(e.Gangs[i].Reason.Code)
			if len(codes) == 0 || codes[len(codes)-1] != code {
				codes = append(codes, code)
			}
		}
	})
	return codes, err
}

func (s *Session) assertCounts(a *args) ([]string, error) {
	var waiting, active, free int32
	err := s.read(func(st *sched.State) {
		for _, j := range st.Jobs() {
			switch j.Phase {
			case sched.Waiting:
				waiting++
			case sched.Active:
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

func freeLeaves(c sched.CellStatus) int32 {
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
func holds(t sched.TaskState) bool {
	switch t {
	case sched.TaskStarting, sched.TaskRunning, sched.TaskStopping, sched.TaskIsUnknown:
		return true
	}
	return false
}
