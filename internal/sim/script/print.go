package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// merger joins the facts of several tasks of one attempt at one instant into
// one line: "a runs" instead of a line for each task.
type merger struct {
	attempt model.AttemptID
	at      model.Time
	verb    string
	tasks   []int32
}

// line adds one line to the reaction, with the time when it has changed.
func (s *Session) line(at model.Time, format string, v ...any) {
	s.flush()
	s.write(at, fmt.Sprintf(format, v...))
}

func (s *Session) write(at model.Time, text string) {
	text = strings.Join(strings.Fields(text), " ")
	fmt.Fprintf(&s.reaction, "%s  %s\n", s.clock(at), text)
}

// clock prints an instant as the time since the script began.
func (s *Session) clock(t model.Time) string {
	return formatDuration(model.Duration(t - epochStart))
}

// takeReaction returns what was printed since the last call, and the waits that changed.
func (s *Session) takeReaction() string {
	s.flush()
	s.printWaits()
	out := s.reaction.String()
	s.reaction.Reset()
	return out
}

// merge adds a task's fact to the line that is being built.
func (s *Session) merge(at model.Time, id model.AttemptID, task int32, verb string) {
	m := &s.merged
	if m.attempt != id || m.at != at || m.verb != verb {
		s.flush()
		*m = merger{attempt: id, at: at, verb: verb}
	}
	m.tasks = append(m.tasks, task)
}

// flush prints the merged line.
func (s *Session) flush() {
	m := s.merged
	s.merged = merger{}
	if len(m.tasks) == 0 {
		return
	}
	label := s.label(m.attempt)
	j := s.jobs[m.attempt.Job]
	if j != nil && len(m.tasks) < len(j.Gangs[m.attempt.Gang].Tasks) {
		var names []string
		for _, t := range m.tasks {
			names = append(names, taskName(j, t))
		}
		label = s.owners.called(j) + " " + strings.Join(names, " ")
	}
	s.write(m.at, label+" "+m.verb)
}

// taskName is "worker[1]" for a task's ordinal.
func taskName(j *model.Job, task int32) string {
	for i := range j.Roles {
		r := &j.Roles[i]
		if task < r.Tasks {
			return fmt.Sprintf("%s[%d]", r.Name, task)
		}
		task -= r.Tasks
	}
	return fmt.Sprintf("task %d", task)
}

// label names an attempt by its job, and its gang when the job has several.
func (s *Session) label(id model.AttemptID) string {
	j := s.jobs[id.Job]
	if j == nil {
		return id.String()
	}
	return s.owners.gang(j, id.Gang)
}

func (o owners) gang(j *model.Job, gang int32) string {
	if len(j.Gangs) < 2 || int(gang) >= len(j.Gangs) {
		return o.called(j)
	}
	g := &j.Gangs[gang]
	if len(g.Tasks) == 1 {
		return o.called(j) + " " + taskName(j, g.Tasks[0])
	}
	return o.called(j) + " " + g.Name
}

func (s *Session) labels(ids []model.AttemptID) string {
	var out []string
	for _, id := range ids {
		out = append(out, s.label(id))
	}
	return strings.Join(out, ", ")
}

// forAttempt names the attempt for which something was done; "" for nil.
func (s *Session) forAttempt(id *model.AttemptID) string {
	if id == nil {
		return ""
	}
	return " for " + s.label(*id)
}

// formatPlacement prints where a gang's tasks run: "n1:0-3 n2:0,2".
func formatPlacement(p cell.Placement) string {
	var out []string
	for i := range p.Tasks {
		t := &p.Tasks[i]
		out = append(out, formatPlace(t.Node, t.Devices, t.Parts))
	}
	return strings.Join(out, " ")
}

func formatPlace(n cell.NodeName, devices, parts []int32) string {
	if len(parts) > 0 {
		var out []string
		for i, p := range parts {
			out = append(out, fmt.Sprintf("%d:%d", devices[i], p))
		}
		return string(n) + ":" + strings.Join(out, ",")
	}
	return string(n) + ":" + formatDevices(devices)
}

// formatDevices prints device indices with runs joined: "0-3,6".
func formatDevices(devices []int32) string {
	d := slices.Clone(devices)
	slices.Sort(d)
	var out []string
	for i := 0; i < len(d); {
		j := i
		for j+1 < len(d) && d[j+1] == d[j]+1 {
			j++
		}
		switch {
		case i == j:
			out = append(out, fmt.Sprint(d[i]))
		default:
			out = append(out, fmt.Sprintf("%d-%d", d[i], d[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

// record prints one record of the stream.
func (s *Session) record(r model.Record) {
	switch e := r.Event.(type) {
	case model.JobSubmitted:
		s.jobs[e.ID] = e.Job
		if _, taken := s.owners[e.Job.Name]; !taken {
			s.owners[e.Job.Name] = e.Job.User
		}
		s.latest[s.owners.called(e.Job)] = e.ID
		s.line(r.Time, "%s is accepted: %s", s.owners.called(e.Job), formatJob(e.Job))
	case model.StopRequested:
		s.line(r.Time, "%s is to stop", s.jobName(e.Job))
	case model.JobHeld:
		s.line(r.Time, "%s is %s%s", s.jobName(e.Job), map[bool]string{true: "held", false: "released"}[e.On], because(e.Reason))
	case model.JobRequeued:
		s.line(r.Time, "%s is to wait again%s%s", s.jobName(e.Job), map[bool]string{true: ", and is held", false: ""}[e.Hold], because(e.Reason))
	case model.JobUpdated:
		if s.jobs[e.Job] != nil {
			s.jobs[e.Job] = e.On(s.jobs[e.Job])
		}
		s.line(r.Time, "%s has %s", s.jobName(e.Job), strings.Join(updates(e), " and "))
	case model.Configured:
		s.cluster, s.forest = &e.Config.Cluster, nil
		s.configured(r.Time, e)
	case model.NodeCordoned:
		s.line(r.Time, "%s is %s", e.Node, cordoned(r.Time, e))
	case model.NodeHealth:
		s.line(r.Time, "%s is %s%s", e.Node, map[bool]string{true: "up", false: "down"}[e.Up], because(e.Reason))
	case model.LeafHealth:
		part := ""
		if s.inParts(e.SKU) {
			part = fmt.Sprintf(":%d", e.Part)
		}
		is := map[bool]string{true: "good", false: "bad"}[e.Good]
		if e.HeldByOthers {
			is = "held by others"
		} else if e.Cordoned {
			is = "cordoned elsewhere"
		}
		s.line(r.Time, "%s:%d%s (%s) is %s%s", e.Node, e.Device, part, e.SKU, is, because(e.Reason))
	case model.NodeAvoided:
		s.line(r.Time, "%s avoids %s until %s", s.owners.gang(s.jobs[e.Job], e.Gang), e.Node, s.clock(e.Until))
	case model.NodeSuspected:
		s.suspected(r.Time, e)
	case model.Quarantined:
		s.line(r.Time, "%s is quarantined", s.jobName(e.Job))
	case model.PolicyFailed:
		s.line(r.Time, "policy %s of %s failed", e.Policy, e.VC)
	case model.Foretold:
		when := ""
		if e.At > 0 {
			when = " what comes at " + s.clock(e.At)
		}
		s.line(r.Time, "%s is told%s: %s", s.jobName(e.Job), when, e.Message)
	case model.Notice:
		s.line(r.Time, "%s notice: %s", s.jobName(e.Job), e.Message)
	default:
		if !s.taskFact(r) {
			s.decision(r)
		}
	}
}

// taskFact prints a fact about a task. It is false when the record is no such fact.
func (s *Session) taskFact(r model.Record) bool {
	switch e := r.Event.(type) {
	case model.TaskStarted:
		s.merge(r.Time, e.Attempt, e.Task, "runs")
	case model.TaskExited:
		s.merge(r.Time, e.Attempt, e.Task, formatExit(e.Exit))
	case model.TaskRefused:
		own := ""
		if e.Job {
			own = " (the job's own fault)"
		}
		s.merge(r.Time, e.Attempt, e.Task, "is refused: "+e.Reason+own)
	case model.TaskUnknown:
		s.merge(r.Time, e.Attempt, e.Task, "is unknown: "+e.Reason)
	case model.Progress:
		s.merge(r.Time, e.Attempt, e.Task, formatProgress(e))
	default:
		return false
	}
	return true
}

// decision prints a decision about an attempt or a job.
func (s *Session) decision(r model.Record) {
	switch e := r.Event.(type) {
	case model.Placed:
		n := ""
		if e.Attempt.N > 1 {
			n = fmt.Sprintf(" (attempt %d)", e.Attempt.N)
		}
		s.line(r.Time, "%s starts on %s%s", s.label(e.Attempt), formatPlacement(e.Placement), n)
	case model.Reserved:
		if len(e.Victims) == 0 && s.lastEnded[model.GangRef{Job: e.Attempt.Job, Gang: e.Attempt.Gang}] == e.Attempt.N-1 {
			s.line(r.Time, "%s reserves %s for its next try", s.label(e.Attempt), formatPlacement(e.Placement))
		} else if len(e.Victims) == 0 {
			s.line(r.Time, "%s is to move to %s", s.label(e.Attempt), formatPlacement(e.Placement))
		} else {
			s.line(r.Time, "%s reserves %s after %s", s.label(e.Attempt), formatPlacement(e.Placement), s.labels(e.Victims))
		}
	case model.Unreserved:
		s.line(r.Time, "%s gives its reservation back%s", s.label(e.Attempt), because(e.Reason))
	case model.Booked:
		s.line(r.Time, "%s %s", s.owners.gang(s.jobs[e.Job], e.Gang), s.booked(e))
	case model.Sized:
		s.line(r.Time, "%s is to have %s", s.jobName(e.Job), count(e.Size, "member", "members"))
	case model.StopSent:
		why := s.forAttempt(e.By)
		if e.For != "" {
			why = fmt.Sprintf(": %s lends nothing", e.For)
		}
		s.line(r.Time, "%s is told to stop (%s%s), grace %s", s.label(e.Attempt), e.Cause, why, formatDuration(e.Grace))
	case model.Joined:
		s.line(r.Time, "%s joins %s on %s", s.label(e.Attempt), s.label(e.Host), formatPlacement(e.Placement))
	case model.Rotated:
		s.line(r.Time, "%s", s.rotationText(&e.Rotation))
	case model.LazilyPreempted:
		s.line(r.Time, "%s becomes opportunistic%s", s.label(e.Attempt), s.forAttempt(e.By))
	case model.Upgraded:
		s.line(r.Time, "%s is guaranteed again", s.label(e.Attempt))
	case model.Doomed:
		s.line(r.Time, "what is out of service is charged to %s: its cell %s/%d is %s", e.VC, e.VC, e.Root, s.cellName(e.Cell))
	case model.Spared:
		s.line(r.Time, "what is out of service is no longer charged to %s (its cell %s/%d)", e.VC, e.VC, e.Root)
	case model.AttemptEnded:
		s.lastEnded[model.GangRef{Job: e.Attempt.Job, Gang: e.Attempt.Gang}] = e.Attempt.N
		s.line(r.Time, "%s is over (%s)%s", s.label(e.Attempt), e.Cause, because(e.Message))
	case model.TaskRetried:
		s.line(r.Time, "%s waits again%s", s.owners.gang(s.jobs[e.Job], e.Gang), s.retryText(e.Counted, e.After))
	case model.JobRetried:
		s.line(r.Time, "%s is retried%s%s", s.jobName(e.Job), s.retryText(e.Counted, e.After), because(e.Message))
	case model.JobEnded:
		s.line(r.Time, "%s %s", s.jobName(e.Job), formatEnd(e))
		delete(s.waits, e.Job)
	}
}

// rotationText prints which gangs run in which turn.
func (s *Session) rotationText(r *model.Rotation) string {
	var turns []string
	for _, turn := range r.Turns {
		turns = append(turns, strings.Join(strings.Split(s.labels(turn), ", "), " + "))
	}
	if len(turns) == 1 && len(r.Turns[0]) == 1 {
		return turns[0] + " runs alone"
	}
	if len(turns) == 1 {
		return turns[0] + " run together"
	}
	return fmt.Sprintf("turns of %s: %s", formatDuration(r.Quantum), strings.Join(turns, ", "))
}

// booked prints what is promised to a waiting gang.
func (s *Session) booked(e model.Booked) string {
	switch {
	case e.Over != "":
		return "gives its booking back: " + e.Over
	case e.Start != 0:
		return "is booked for " + s.clock(e.Start)
	}
	var after []string
	for _, id := range e.After {
		after = append(after, s.jobName(id))
	}
	return "is booked after " + strings.Join(after, ", ")
}

// formatEnd prints how a job ended, and why where its phase does not tell.
func formatEnd(e model.JobEnded) string {
	switch e.Phase {
	case model.Succeeded:
		return "has succeeded"
	case model.Stopped:
		return "has stopped" + because(e.Message)
	}
	cause := ""
	if e.Cause != model.EndFailed {
		cause = fmt.Sprintf(" (%s)", e.Cause)
	}
	return "has failed" + cause + because(e.Message)
}

func (s *Session) suspected(at model.Time, e model.NodeSuspected) {
	if e.Until == 0 {
		s.line(at, "%s is no longer suspect", e.Node)
		return
	}
	s.line(at, "%s is suspect until %s%s", e.Node, s.clock(e.Until), because(e.Reason))
}

func (s *Session) retryText(counted bool, after model.Time) string {
	out := ""
	if counted {
		out = ", which counts"
	}
	if after != 0 {
		out += ", not before " + s.clock(after)
	}
	return out
}

// configured prints a configuration and its effect on attempts.
func (s *Session) configured(at model.Time, e model.Configured) {
	var vcs []string
	for _, v := range e.Config.VCs {
		name := v.Policy
		if name == "" {
			name = "fifo"
		}
		vcs = append(vcs, fmt.Sprintf("%s (%s)", v.Name, name))
	}
	s.line(at, "configured: %s; VCs %s", formatChains(&e.Config.Cluster), strings.Join(vcs, ", "))
	for _, m := range e.Moves {
		if m.Orphaned {
			s.line(at, "%s has lost leaves%s", s.label(m.Attempt), formatKept(m.Placement))
		}
		if m.Lazy {
			s.line(at, "%s becomes opportunistic", s.label(m.Attempt))
		}
		if m.Regained {
			s.line(at, "%s is guaranteed again", s.label(m.Attempt))
		}
	}
}

// formatKept prints what remains of a placement after a change of the configuration.
func formatKept(p cell.Placement) string {
	p.Tasks = slices.DeleteFunc(slices.Clone(p.Tasks), func(t cell.Task) bool { return len(t.Devices) == 0 })
	if len(p.Tasks) == 0 {
		return ": none stays"
	}
	return ": " + formatPlacement(p) + " stays"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func formatExit(e model.Exit) string {
	out := fmt.Sprintf("exits %d", e.Code)
	if e.Cause != "" {
		out += fmt.Sprintf(" (%s)", e.Cause)
	}
	return out + because(e.Message)
}

func formatProgress(e model.Progress) string {
	out := "reports"
	if e.Step > 0 {
		out += fmt.Sprintf(" step %d", e.Step)
	}
	if e.Checkpoint {
		out += " a checkpoint"
	}
	if e.Use != nil {
		out += fmt.Sprintf(" %d MiB in use", e.Use.MemoryMB)
	}
	return out
}

func (s *Session) jobName(id model.JobID) string {
	if j := s.jobs[id]; j != nil {
		return s.owners.called(j)
	}
	return fmt.Sprintf("job %d", id)
}

// formatJob prints what a job asks for.
func formatJob(j *model.Job) string {
	var roles []string
	for i := range j.Roles {
		r := &j.Roles[i]
		text := fmt.Sprintf("%s %dx%d", r.Name, r.Tasks, r.Leaves)
		for i, sku := range r.SKUs {
			text += []string{" ", "|"}[min(i, 1)] + string(sku)
		}
		if r.Pinned != "" {
			text += " in " + string(r.Pinned)
		}
		roles = append(roles, text)
	}
	out := fmt.Sprintf("%s, VC %s, %s", strings.Join(roles, ", "), j.VC, formatPriority(j.Priority))
	if len(j.Gangs) > 1 && j.Gangs[1].Extra {
		out += fmt.Sprintf(", %d of %d tasks at least", len(j.Gangs[0].Tasks), len(j.Gangs[0].Tasks)+len(j.Gangs)-1)
		if j.Size > 0 {
			out += fmt.Sprintf(", %d at first", j.Size)
		}
	} else if len(j.Gangs) > 1 {
		out += fmt.Sprintf(", %d gangs", len(j.Gangs))
	}
	if j.LazyPreempt {
		out += ", lazy"
	}
	return out
}

// formatPriority prints OpenPAI's class where there is one.
func formatPriority(p cell.Priority) string {
	if name := model.PriorityName(p); name != "" {
		return name
	}
	return fmt.Sprintf("priority %d", p)
}

// formatChains prints the chains of a cluster: "2 v100-node, 8 v100".
func formatChains(c *cell.Spec) string {
	var names []cell.TypeName
	count := map[cell.TypeName]int{}
	var walk func(cells []cell.CellSpec)
	walk = func(cells []cell.CellSpec) {
		for i := range cells {
			if count[cells[i].Type] == 0 {
				names = append(names, cells[i].Type)
			}
			count[cells[i].Type]++
			walk(cells[i].Children)
		}
	}
	walk(c.Cells)
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%d %s", count[n], n))
	}
	return strings.Join(out, ", ")
}

// printWaits prints the reason of every waiting job when it has changed.
func (s *Session) printWaits() {
	if s.engine == nil || s.seq == 0 || s.Quiet {
		return
	}
	err := s.read(func(st *core.State) {
		var ids []model.JobID // by which jobs are found, without their status
		for range st.Newest(func(id model.JobID, _ *model.Job, _ model.Phase) bool {
			ids = append(ids, id)
			return false
		}) {
			continue
		}
		for _, id := range slices.Backward(ids) {
			e, ok := st.Why(id)
			if s.ctx.Err() != nil {
				return
			}
			if !ok {
				continue
			}
			text := s.formatWait(e)
			if text != s.waits[id] && text != "" {
				s.reaction.WriteString(text)
			}
			s.waits[id] = text
		}
	})
	if err != nil {
		s.reaction.WriteString("reading the state failed: " + err.Error() + "\n")
	}
}

// formatWait prints why the gangs of a job wait, equal reasons once.
func (s *Session) formatWait(e model.Explanation) string {
	var out strings.Builder
	j := s.jobs[e.Job]
	for i := 0; i < len(e.Gangs); {
		n := i + 1
		text := s.formatReason(e.Gangs[i].Reason)
		for n < len(e.Gangs) && s.formatReason(e.Gangs[n].Reason) == text {
			n++
		}
		label := s.jobName(e.Job)
		switch {
		case j != nil && n-i == 1:
			label = s.owners.gang(j, e.Gangs[i].Gang)
		case n-i > 1:
			label = fmt.Sprintf("%s (%d gangs)", s.jobName(e.Job), n-i)
		}
		fmt.Fprintf(&out, "  %s waits: %s\n", label, text)
		i = n
	}
	return out.String()
}

func (s *Session) formatReason(r model.Reason) string {
	out := fmt.Sprintf("%s: %s", r.Code, strings.Join(strings.Fields(r.Message), " "))
	var names []string
	for _, id := range r.Jobs {
		names = append(names, s.jobName(id))
	}
	if len(names) > 0 {
		out += fmt.Sprintf(" [%s]", strings.Join(names, ", "))
	}
	if r.Until != 0 {
		out += fmt.Sprintf(" [until %s]", s.clock(r.Until))
	}
	return out
}
