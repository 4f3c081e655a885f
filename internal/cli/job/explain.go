package job

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func (a *commands) jobExplain() *cobra.Command {
	return a.withJob(&cobra.Command{Use: "explain JOB", Short: "Say why a job waits, which jobs are ahead, what would let it start, and when it will; or how it runs, stops or ended",
		Long: `Say why a job waits: the reason, the cells of every level that it could use, which
jobs are ahead of it and which hold what it wants. Below stand changes that would let
it start now, each tried by the code that decides, and an estimate of when it starts if
nothing is changed. Of a job that runs it says how far it is and when it likely ends; of one that is being stopped why,
and which tasks still live; of one that has ended how, which tasks failed, and where their logs are. docs/explain.md describes it all; comb job submit --dry-run tells the same
of a job that is not submitted.`},
		func(ctx context.Context, client *rest.Client, ref string) error {
			ex, err := client.Explain(ctx, ref)
			if err != nil {
				return err
			}
			return a.Show(ex, func(t *cli.Table) { a.drawExplanation(t, &ex) })
		})
}

// explainedState is the state of a job as in lists.
func explainedState(ex *rest.Explanation) string {
	onHold := func(g model.GangReason) bool { return g.Reason.Code == model.OnHold }
	if ex.Phase == model.Waiting && slices.ContainsFunc(ex.Gangs, onHold) {
		return "Held"
	}
	return string(ex.Phase)
}

func (a *commands) drawExplanation(t *cli.Table, ex *rest.Explanation) {
	head := fmt.Sprintf("job %s (%d) in virtual cluster %s: %s", ex.Ref, ex.Job, ex.VC, explainedState(ex))
	if ex.Position > 0 {
		head += fmt.Sprintf(", number %d of %s there", ex.Position, waiting(ex))
	}
	t.Line("%s", head)
	if ex.Order != "" {
		t.Line("  %s", ex.Order)
	}
	if ex.Most > 0 {
		t.Line("  the policy lets it have %d of its %d members", ex.Size, ex.Most)
	}
	if ex.PolicyFailed != "" {
		t.Line("  %s", ex.PolicyFailed)
	}
	if note := a.noteText(ex.Note); note != "" {
		t.Line("  its policy notes: %s", note)
	}
	names := namesOf(ex)
	for i := range ex.Shares {
		a.drawShare(t, &ex.Shares[i], names)
	}
	switch {
	case ex.Demoted:
		t.Line("  it runs as opportunistic, without its guarantee, until room for that returns")
	case len(ex.Gangs)+len(ex.Shares) == 0 && ex.Status == nil:
		t.Line("  nothing of it waits")
	}
	if ex.Status != nil {
		printState(t, ex.Status)
	}
	a.drawReasons(t, ex)
}

// printState prints the state of a job that runs, is being stopped, or has ended.
func printState(t *cli.Table, j *rest.JobStatus) {
	if j.Phase.Ended() {
		ended(t, j)
		return
	}
	for i := range j.Attempts {
		k := &j.Attempts[i]
		switch k.State {
		case model.AttemptStarting:
			t.Line("  attempt %s was given its GPUs and CPUs %s, and starts", k.ID, t.App.When(k.Placed))
		case model.AttemptRunning:
			t.Line("  attempt %s runs since %s on %s", k.ID, t.App.When(k.Started), nodesOf(j, k.ID))
		case model.AttemptSuspended:
			t.Line("  attempt %s takes turns since %s on %s, and is suspended now", k.ID, t.App.When(k.Started),
				nodesOf(j, k.ID))
		case model.AttemptStopping:
			t.Line("  attempt %s was told to stop %s: %s; %s", k.ID, t.App.When(k.Told), narrate.Cause(k.Cause),
				liveTasks(j, k.ID))
		}
	}
	if o := j.Outlook; o != nil {
		if o.At != 0 {
			t.Line("  %s of its steps are done, as reported %s", doneText(o), t.App.When(o.At))
		}
		switch {
		case o.Ends == 0 && o.Basis != "":
			t.Line("  when it ends is not known: %s", o.Basis)
		case o.Ends != 0 && o.Last:
			t.Line("  it ends at the latest %s, by %s", t.App.When(o.Ends), o.Basis)
		case o.Ends != 0:
			t.Line("  it likely ends %s, by %s", t.App.When(o.Ends), o.Basis)
		}
	}
	printComing(t, j)
	printRetries(t, j)
}

// printComing prints announced events of a running job.
func printComing(t *cli.Table, j *rest.JobStatus) {
	for i := range j.Coming {
		t.Line("  %s", comesText(&j.Coming[i], t.App.When))
	}
}

// comesText is an announced event in a line: when, and what.
func comesText(c *rest.Coming, when func(model.Time) string) string {
	if c.At == 0 {
		return c.Message
	}
	return "by " + when(c.At) + ": " + c.Message
}

// ended prints how a job ended, and where to look.
func ended(t *cli.Table, j *rest.JobStatus) {
	text := fmt.Sprintf("  it ended %s", t.App.When(j.Ended))
	if j.Started == 0 {
		text += ", and never ran"
	} else if j.Ran > 0 {
		text += fmt.Sprintf(", after it had run for %s", narrate.Span(j.Ran))
	}
	t.Line("%s: %s", text, j.Cause)
	if j.Message != "" {
		t.Line("  %s", j.Message)
	}
	printRetries(t, j)
	failed := 0
	for i := range j.Tasks {
		k := &j.Tasks[i]
		if k.State != model.TaskFailed {
			continue
		}
		if failed++; failed > maxFailed {
			t.Line("  and more: see comb job get %d", j.ID)
			return
		}
		t.Line("  task %s-%d on %s: %s; its log: comb job logs --task %s-%d %d", k.Role, k.Index, k.Node,
			narrate.Exit(k.Exit), k.Role, k.Index, j.ID)
	}
}

// maxFailed is how many failed tasks an explanation names.
const maxFailed = 5

// printRetries prints how often a job was retried or preempted.
func printRetries(t *cli.Table, j *rest.JobStatus) {
	for _, text := range [][2]string{{"tried again: ", retries(j)}, {"preempted: ", preempted(j)}} {
		if text[1] != "" {
			t.Line("  %s%s", text[0], text[1])
		}
	}
}

// nodesOf are the nodes of an attempt, each once.
func nodesOf(j *rest.JobStatus, id model.AttemptID) string {
	var out []string
	for i := range j.Tasks {
		if k := &j.Tasks[i]; k.Gang == id.Gang && k.Attempt == id.N && !slices.Contains(out, string(k.Node)) {
			out = append(out, string(k.Node))
		}
	}
	if n := len(out) - 8; n > 0 {
		out = append(out[:8], fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// liveTasks says which tasks of an attempt that was told to stop still live.
func liveTasks(j *rest.JobStatus, id model.AttemptID) string {
	var names []string
	all := 0
	for i := range j.Tasks {
		if k := &j.Tasks[i]; k.Gang == id.Gang && k.Attempt == id.N {
			if all++; k.State == model.TaskStopping || k.State == model.TaskIsUnknown {
				names = append(names, fmt.Sprintf("%s-%d", k.Role, k.Index))
			}
		}
	}
	text := fmt.Sprintf("%d of its %s still live", len(names), cli.Count(all, "task", "tasks"))
	if len(names) == 0 {
		return text
	}
	return text + ": " + strings.Join(names[:min(len(names), 8)], ", ")
}

// micros matches instants in the notes of policies.
var micros = regexp.MustCompile(`[0-9]+us\b`)

// noteText is a policy's note about a job in words. The numbers of its leases, and records
// that only the policy reads, are left to -o json.
func (a *commands) noteText(note string) string {
	var out []string
	for part := range strings.SplitSeq(note, "; ") {
		if part == "" || strings.ContainsAny(part[:1], "{[") || strings.HasPrefix(part, "holds ") ||
			strings.HasPrefix(part, "promised ") {
			continue
		}
		out = append(out, micros.ReplaceAllStringFunc(part, func(at string) string {
			n, err := strconv.ParseInt(strings.TrimSuffix(at, "us"), 10, 64)
			if err != nil {
				return at
			}
			return a.When(model.Time(n))
		}))
	}
	return strings.Join(out, "; ")
}

// drawShare prints with which gangs a gang shares its GPUs, and which gangs have their turn.
func (a *commands) drawShare(t *cli.Table, g *model.GangShare, names map[model.JobID]rest.NamedJob) {
	var with []string
	for i := range g.With {
		with = append(with, called(names[g.With[i].Job].Ref, g.With[i].Job))
	}
	others := strings.Join(with, ", ")
	switch {
	case g.Quantum == 0:
		t.Line("  %s shares its GPUs with %s; they run at once", g.Name, others)
	case g.Runs:
		t.Line("  %s takes turns of %s with %s: it runs until %s", g.Name, narrate.Span(g.Quantum), others,
			a.When(g.Next))
	default:
		t.Line("  %s takes turns of %s with %s: it is suspended until %s", g.Name, narrate.Span(g.Quantum), others,
			a.When(g.Next))
	}
}

// namesOf are the jobs that an explanation names, in its reader's form.
func namesOf(ex *rest.Explanation) map[model.JobID]rest.NamedJob {
	names := map[model.JobID]rest.NamedJob{}
	for _, n := range ex.Names {
		names[n.ID] = n
	}
	return names
}

// drawReasons prints why gangs wait, what would help, and when they start.
func (a *commands) drawReasons(t *cli.Table, ex *rest.Explanation) {
	names := namesOf(ex)
	for i := range ex.Gangs {
		a.drawGang(t, &ex.Gangs[i], len(ex.Gangs) == 1, names)
	}
	for _, text := range ex.Notices {
		t.Line("  notice: %s", text)
	}
	for _, n := range ex.Nodes {
		if n.Cordoned && n.By != "" {
			t.Line("  node %s is cordoned by %s since %s: %s", n.Name, n.By, a.When(n.Since), n.Reason)
		} else {
			t.Line("  node %s: %s", n.Name, n.Reason)
		}
	}
	a.drawStanding(t, "ahead of it", ex.Ahead, ex.AheadMore)
	a.drawStanding(t, "in the way", ex.Blockers, ex.BlockersMore)
	if ex.Estimate != nil {
		a.drawEstimate(t, ex.Estimate, names)
	}
}

// onlyGang is the name of the gang of a job that names none.
const onlyGang = "default"

// drawGang prints why a gang waits. An only gang without a name of its own is not named.
func (a *commands) drawGang(t *cli.Table, g *model.GangReason, alone bool, names map[model.JobID]rest.NamedJob) {
	name := g.Name + ": "
	if alone && g.Name == onlyGang {
		name = ""
	}
	t.Line("  %s%s: %s", name, g.Reason.Code, g.Reason.Message)
	if len(g.Reason.Rooms) > 0 {
		t.Line("    asks for %s; free to it now: %s that it may use", g.Reason.Asks, model.FreeText(g.Reason.Rooms))
	}
	if g.Reason.Until != 0 {
		t.Line("    until: %s", a.When(g.Reason.Until))
	}
	if len(g.Reason.Jobs) > 0 {
		t.Line("    jobs: %s%s", blockers(g.Reason.Jobs, names), andMore(g.Reason.More))
	}
	if len(g.Reason.Nodes) > 0 {
		t.Line("    nodes: %s%s", nodeList(g.Reason.Nodes), andMore(g.Reason.MoreNodes))
	}
	if g.Cut != "" {
		t.Line("    %s", g.Cut)
	}
	switch {
	case g.ReservedAt != 0:
		t.Line("    starts at the latest %s: %s", a.When(g.ReservedAt), g.Bound)
	case g.Bound != "":
		t.Line("    %s", g.Bound)
	}
	a.drawLevels(t, g.Levels)
	for i, change := range g.Suggestions {
		if i == 0 {
			t.Line("    what would let it start:")
		}
		t.Line("      - %s", a.suggestion(&change))
	}
	if g.Untried {
		t.Line("    (not every change was tried)")
	}
}

func (a *commands) suggestion(g *model.Suggestion) string {
	if g.At != 0 && a.When(g.At) != "" {
		return g.Message + " (" + a.When(g.At) + ")"
	}
	return g.Message
}

// drawLevels prints the table of cells that a gang could use.
func (a *commands) drawLevels(t *cli.Table, levels []model.LevelUse) {
	if len(levels) == 0 {
		return
	}
	head := []string{"    CHAIN", "CELL", "WANTED", "OF", "GUARANTEED", "UNUSED", "FREE", "HELD", "LENT", "BAD",
		"CORDONED", "AVOIDED", "NEXT LEFT"}
	others := slices.ContainsFunc(levels, func(l model.LevelUse) bool { return l.HeldByOthers > 0 })
	if others {
		head = slices.Insert(head, 10, "HELD BY OTHERS")
	}
	t.Head(head...)
	for i := range levels {
		l := &levels[i]
		var held []string
		for _, h := range l.Held {
			held = append(held, fmt.Sprintf("%s:%d", h.VC, h.Cells))
		}
		chain := string(l.Chain)
		if l.Pinned != "" {
			chain += " (pinned " + string(l.Pinned) + ")"
		}
		row := []string{"    " + chain, string(l.Type), cli.Number(l.Wanted), cli.Number(l.Cells), cli.Number(l.Owned),
			cli.Number(l.Unused), cli.Number(l.Free),
			strings.Join(held, ","), cli.Number(l.Lent), cli.Number(l.Bad), cli.Number(l.Cordoned),
			cli.Number(l.Avoided), a.When(l.Until)}
		if others {
			row = slices.Insert(row, 10, cli.Number(l.HeldByOthers))
		}
		t.Row(row...)
	}
}

// andMore says how many entries a list leaves out.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// drawStanding lists jobs that are in the way, and says how many more there are.
func (a *commands) drawStanding(t *cli.Table, what string, jobs []model.JobBrief, more int) {
	if len(jobs) == 0 {
		return
	}
	t.Line("  %s:", what)
	for i := range jobs {
		t.Line("    %s", a.brief(&jobs[i]))
	}
	if more > 0 {
		t.Line("    and %d more", more)
	}
}

func (a *commands) brief(j *model.JobBrief) string {
	text := called(string(j.Name), j.Job)
	if j.User != "" { // else the reader may not see the job
		text += " of " + string(j.User)
	}
	text += fmt.Sprintf(" in %s, %s, %s", j.VC, narrate.Priority(j.Priority), j.Takes)
	switch {
	case j.Ends != 0 && j.Likely:
		text += fmt.Sprintf(", likely ends %s (%s)", a.When(j.Ends), j.Basis)
	case j.Ends != 0:
		text += fmt.Sprintf(", ends at the latest %s (%s)", a.When(j.Ends), j.Basis)
	case j.Basis != "":
		text += ", " + j.Basis
	}
	return text
}

// called is a job by name and number; one that its reader may not see by number only.
func called(name string, id model.JobID) string {
	if name == "" || name == fmt.Sprint("job ", id) {
		return fmt.Sprint("job ", id)
	}
	return fmt.Sprintf("%s (%d)", name, id)
}

func (a *commands) drawEstimate(t *cli.Table, e *model.Estimate, names map[model.JobID]rest.NamedJob) {
	switch {
	case e.Earliest != 0 && e.Latest != 0 && e.Earliest != e.Latest:
		t.Line("  estimated start: %s to %s", a.When(e.Earliest), a.When(e.Latest))
	case e.Latest != 0 && e.Earliest == 0:
		t.Line("  estimated start: at the latest %s", a.When(e.Latest))
	case e.Latest != 0:
		t.Line("  estimated start: %s", a.When(e.Latest))
	case e.Earliest != 0:
		t.Line("  estimated start: not before %s", a.When(e.Earliest))
	default:
		t.Line("  estimated start: unknown: %s", e.Unknown)
		return
	}
	if e.Basis != "" {
		t.Line("    %s", e.Basis)
	}
	if e.AtLatest > e.Latest {
		t.Line("    if all run for as long as they declare: %s", a.When(e.AtLatest))
	}
	if e.Order != "" {
		t.Line("    starts %s", e.Order)
	}
	if e.Unknown != "" {
		t.Line("    the other end of the range is unknown: %s", e.Unknown)
	}
	for i, end := range e.Ends {
		if i == 0 && e.Latest != 0 {
			t.Line("    after these ends:")
		}
		if e.Latest != 0 {
			t.Line("      %s %s, by %s", called(names[end.Job].Ref, end.Job), a.When(end.At), end.Basis)
		}
	}
}

// drawDryRun prints what would become of a job that is not submitted.
func (a *commands) drawDryRun(t *cli.Table, ex *rest.Explanation) {
	for _, g := range ex.Places {
		for _, p := range g.Tasks {
			t.Line("  %s-%d on %s, %s %s: %s", p.Role, p.Index, p.Node, p.SKU, narrate.Devices(p.Devices, p.Parts),
				p.Limits)
		}
	}
	for i := range ex.Preempts {
		p := &ex.Preempts[i]
		how := "stopped for it"
		if p.Lazily {
			how = "made opportunistic for it"
		}
		t.Line("  %s: %s", how, a.brief(&p.JobBrief))
	}
	if ex.Position > 0 {
		t.Line("  number %d of %s in %s", ex.Position, waiting(ex), ex.VC)
	}
	a.drawReasons(t, ex)
}

// waiting says how many jobs wait for the same.
func waiting(ex *rest.Explanation) string {
	return cli.Count(int(ex.Waiting), "waiting job", "waiting jobs")
}

func blockers(ids []model.JobID, names map[model.JobID]rest.NamedJob) string {
	var out []string
	for i, id := range ids {
		if i == 10 {
			out = append(out, fmt.Sprintf("and %d more", len(ids)-i))
			break
		}
		switch n, ok := names[id]; {
		case !ok:
			out = append(out, cli.Number(id))
		case called(n.Ref, id) == n.Ref:
			out = append(out, fmt.Sprintf("%s (%s)", n.Ref, n.VC))
		default:
			out = append(out, fmt.Sprintf("%s (%d, %s)", n.Ref, id, n.VC))
		}
	}
	return strings.Join(out, ", ")
}

func nodeList(nodes []cell.NodeName) string {
	var out []string
	for _, n := range nodes {
		out = append(out, string(n))
	}
	return strings.Join(out, ", ")
}
