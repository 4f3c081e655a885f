package script

import (
	"fmt"
	"maps"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// showExplain prints all that is known about why a job waits: show explain NAME.
func (s *Session) showExplain(name string) (string, error) {
	id, j, err := s.job(name)
	if err != nil {
		return "", err
	}
	var e model.Explanation
	live := false
	err = s.read(func(st *core.State) {
		now := st.At(s.world.Now())
		if e, live = now.Explain(id); !live {
			return
		}
		if est, ok := now.Estimate(id, model.MeasuredRuns{}); ok {
			e.Estimate = &est
		}
	})
	if err != nil {
		return "", err
	}
	if !live {
		return fmt.Sprintf("%s has ended: %s\n", s.owners.called(j), s.finished[id].Phase), nil
	}
	return s.formatExplanation(e), nil
}

// doDryRun prints what would become of a job, without submitting it. It takes submit's
// arguments of the short form.
func (s *Session) doDryRun(c command) (string, error) {
	kept := maps.Clone(s.behaviors) // a running job of the same name stays as it is
	j, err := s.readJob(c.args, s.meta(c.args))
	s.behaviors = kept
	if err != nil {
		return "", err
	}
	var e model.Explanation
	var no *model.Refusal
	err = s.read(func(st *core.State) { e, no = st.At(s.world.Now()).DryRun(j, model.MeasuredRuns{}) })
	if err != nil {
		return "", err
	}
	if no != nil {
		return "would be " + s.refused(no), nil
	}
	var out strings.Builder
	for _, g := range e.Places {
		var tasks []string
		for _, t := range g.Tasks {
			tasks = append(tasks, formatPlace(t.Node, t.Devices, t.Parts))
		}
		fmt.Fprintf(&out, "%s would start on %s\n", s.owners.gang(j, g.Gang), strings.Join(tasks, " "))
	}
	for _, d := range e.Preempts {
		what := "would be told to stop"
		if d.Lazily {
			what = "would become opportunistic"
		}
		fmt.Fprintf(&out, "  %s %s\n", s.jobName(d.Job), what)
	}
	if len(e.Gangs) > 0 {
		s.jobs[e.Job] = j // its name is needed, and no other job has the id
		out.WriteString(s.formatExplanation(e))
		delete(s.jobs, e.Job)
	}
	return out.String(), nil
}

// formatExplanation prints an explanation in full.
func (s *Session) formatExplanation(e model.Explanation) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s is %s", s.jobName(e.Job), e.Phase)
	if e.Position > 0 {
		fmt.Fprintf(&out, ", %d of %d waiting in VC %s", e.Position, e.Waiting, e.VC)
	}
	if e.Most > 0 {
		fmt.Fprintf(&out, ", may have %d of its %d members", e.Size, e.Most)
	}
	out.WriteString("\n")
	if e.Note != "" {
		fmt.Fprintf(&out, "  noted: %s\n", e.Note)
	}
	out.WriteString(s.formatWait(e))
	for i := range e.Shares {
		s.explainShare(&out, &e.Shares[i])
	}
	for i := range e.Gangs {
		s.explainGang(&out, &e.Gangs[i])
	}
	for _, b := range e.Blockers {
		fmt.Fprintf(&out, "  in the way: %s, %s", s.jobName(b.Job), b.Takes)
		switch {
		case b.Likely:
			fmt.Fprintf(&out, ", likely ends at %s", s.clock(b.Ends))
		case b.Ends != 0:
			fmt.Fprintf(&out, ", ends by %s", s.clock(b.Ends))
		}
		out.WriteString("\n")
	}
	if e.BlockersMore > 0 {
		fmt.Fprintf(&out, "  in the way: %d more\n", e.BlockersMore)
	}
	if e.Estimate != nil {
		fmt.Fprintf(&out, "  starts %s\n", s.formatEstimate(e.Estimate))
	}
	return out.String()
}

// explainShare prints the gangs with which a gang shares its GPUs.
func (s *Session) explainShare(out *strings.Builder, g *model.GangShare) {
	fmt.Fprintf(out, "  %s shares its GPUs with", g.Name)
	for i := range g.With {
		fmt.Fprintf(out, " %s", s.jobName(g.With[i].Job))
	}
	switch {
	case g.Quantum == 0:
		out.WriteString(": they run at once\n")
	case g.Runs:
		fmt.Fprintf(out, ": turn %d of %d, it runs until %s\n", g.Turn, g.Turns, s.clock(g.Next))
	default:
		fmt.Fprintf(out, ": turn %d of %d, it is suspended until %s\n", g.Turn, g.Turns, s.clock(g.Next))
	}
}

// explainGang prints the free cells of every level for a gang, and what would let it start.
func (s *Session) explainGang(out *strings.Builder, g *model.GangReason) {
	fmt.Fprintf(out, "  needs %s, free %s\n", g.Reason.Asks, model.FreeText(g.Reason.Rooms))
	if g.Cut != "" {
		fmt.Fprintf(out, "  %s\n", g.Cut)
	}
	if g.Bound != "" {
		fmt.Fprintf(out, "  %s", g.Bound)
		if g.ReservedAt != 0 {
			fmt.Fprintf(out, ": %s at the latest", s.clock(g.ReservedAt))
		}
		out.WriteString("\n")
	}
	for _, l := range g.Levels {
		fmt.Fprintf(out, "  %s: %d wanted of %d", l.Type, l.Wanted, l.Cells)
		for _, part := range []struct {
			n    int32
			what string
		}{{l.Owned, "guaranteed"}, {l.Unused, "of these unused"}, {l.Free, "free"}, {l.Lent, "lent"}, {l.Bad, "bad"},
			{l.HeldByOthers, "held by others"}, {l.Cordoned, "cordoned"}, {l.Avoided, "avoided"}} {
			if part.n > 0 {
				fmt.Fprintf(out, ", %d %s", part.n, part.what)
			}
		}
		for _, h := range l.Held {
			fmt.Fprintf(out, ", %d held for %s", h.Cells, h.VC)
		}
		if l.Until != 0 {
			fmt.Fprintf(out, ", one until %s", s.clock(l.Until))
		}
		out.WriteString("\n")
	}
	for _, change := range g.Suggestions {
		fmt.Fprintf(out, "  %s", change.Message)
		if change.At != 0 {
			fmt.Fprintf(out, " (%s)", s.clock(change.At))
		}
		out.WriteString("\n")
	}
}

func (s *Session) formatEstimate(e *model.Estimate) string {
	out := ""
	switch {
	case e.Earliest != 0 && e.Latest != 0 && e.Earliest != e.Latest:
		out = fmt.Sprintf("between %s and %s", s.clock(e.Earliest), s.clock(e.Latest))
	case e.Latest != 0 && e.Earliest == 0:
		out = "by " + s.clock(e.Latest)
	case e.Latest != 0:
		out = "at " + s.clock(e.Latest)
	case e.Earliest != 0:
		out = "not before " + s.clock(e.Earliest)
	default:
		out = "at a time that is not known"
	}
	if e.Basis != "" {
		out += "; " + e.Basis
	}
	if e.AtLatest > e.Latest {
		out += "; at " + s.clock(e.AtLatest) + " if all run for as long as they declare"
	}
	if e.Order != "" {
		out += "; starts " + e.Order
	}
	if e.Unknown != "" {
		out += ": " + e.Unknown
	}
	return out
}
