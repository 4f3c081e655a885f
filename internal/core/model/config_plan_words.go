package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Sentences are a plan in words, a line for each effect. Like effects share a line.
func (p *ConfigPlan) Sentences() []string {
	out := append(slices.Clip(p.ConfigTexts), p.runningSentences()...)
	for i := 0; i < len(p.Starting); {
		n := i + 1
		for n < len(p.Starting) && p.Starting[n].like(&p.Starting[i]) {
			n++
		}
		out = append(out, startSentence(p.Starting[i:n], p.Reader))
		i = n
	}
	for _, w := range p.Waiting {
		switch {
		case w.Fate == CanStart:
			out = append(out, fmt.Sprintf("waiting job %s could never start, and now can", w.Name.ShownTo(p.Reader, w.User)))
		case w.Fate == Unbooked:
			out = append(out, fmt.Sprintf("waiting job %s loses the cells kept for it: %s has no backfill any more",
				w.Name.ShownTo(p.Reader, w.User), w.VC))
		case !w.Already:
			out = append(out, fmt.Sprintf("waiting job %s can never start: %s", w.Name.ShownTo(p.Reader, w.User),
				strings.TrimPrefix(w.Reason, "it can never start: ")))
		}
	}
	if len(out) == 0 {
		out = append(out, "nothing changes for jobs: only addresses or the order of cells do")
	}
	return out
}

func (p *ConfigPlan) runningSentences() []string {
	var out []string
	keep := 0
	for i := range p.Running {
		r := &p.Running[i]
		if r.Fate == Keeps && r.Promised == nil {
			keep++
		}
		if text := r.sentence(p.Reader); text != "" {
			out = append(out, fmt.Sprintf("job %s (attempt %v) %s", r.Name.ShownTo(p.Reader, r.User), r.Attempt, text))
		}
		if r.DrainEnded && r.Fate != DrainsNoMore {
			out = append(out, fmt.Sprintf("job %s (attempt %v) %s", r.Name.ShownTo(p.Reader, r.User), r.Attempt,
				drainsNoMore))
		}
	}
	said := map[JobID]bool{}
	for _, r := range p.Running {
		if r.Never != "" && !said[r.Attempt.Job] {
			said[r.Attempt.Job] = true
			out = append(out, fmt.Sprintf("running job %s could not start again: %s", r.Name.ShownTo(p.Reader, r.User),
				strings.TrimPrefix(r.Never, "it can never start: ")))
		}
	}
	if keep > 0 {
		out = append(out, Plural(int32(keep), "running attempt keeps its cells", "running attempts keep their cells"))
	}
	return out
}

const drainsNoMore = "keeps its devices: they are in the file again"

// sentence says what becomes of an attempt or a promise; "" if nothing changes.
func (r *RunningEffect) sentence(reader Subject) string {
	switch r.Fate {
	case Drains:
		switch {
		case r.Already && r.Lazy && r.Guaranteed:
			return "is guaranteed again on its devices that are in the file"
		case r.Already:
			return ""
		}
		return fmt.Sprintf("uses %s no longer in the file; it may finish there", lostText(r.Lost))
	case DrainsLazily:
		return fmt.Sprintf("uses %s no longer in the file; it may finish there, without the guarantee of %s",
			lostText(r.Lost), r.VC)
	case DrainsNoMore:
		return drainsNoMore
	case Opportunistic:
		if r.For != nil {
			return fmt.Sprintf("loses its guarantee to job %s and runs on as opportunistic", r.For.shownTo(reader))
		}
		return fmt.Sprintf("no longer fits the guarantee of %s and runs on as opportunistic", r.VC)
	case Regains:
		return "is guaranteed again"
	case IsStopped, Moves:
		return r.stopped(reader)
	case WaitsAgain:
		return "loses its reserved cells and is planned anew"
	}
	return ""
}

// stopped says why an attempt is stopped, and how much work that loses.
func (r *RunningEffect) stopped(reader Subject) string {
	text := "is stopped"
	switch {
	case r.Fate == Moves:
		text = "moves to other cells"
	case r.Demoted:
		text = fmt.Sprintf("no longer fits the guarantee of %s and is stopped", r.VC)
	}
	switch {
	case r.For != nil:
		text += " for job " + r.For.shownTo(reader)
	case r.Lender != "":
		text += fmt.Sprintf(", since virtual cluster %s lends nothing", r.Lender)
	case r.Cause == "resized":
		text += ", since its policy gives its job another size"
	case r.Fate != Moves:
		text += fmt.Sprintf(" (%s)", r.Cause)
	}
	if r.Unsaved == 0 {
		return text + ": nothing is lost" + ExitZeroText(r.ZeroEnds)
	}
	return text + ": " + LosesText(r.Unsaved, r.Devices) + ExitZeroText(r.ZeroEnds)
}

// LosesText says what a stop costs at most.
func LosesText(unsaved Duration, devices int32) string {
	return fmt.Sprintf("it loses %s of work on %s, unless it saves that in its grace period", SpanText(int64(unsaved)),
		Plural(devices, "device", "devices"))
}

// like reports whether two gangs of one job start under the same conditions.
func (e *StartEffect) like(o *StartEffect) bool {
	return e.Attempt.Job == o.Attempt.Job && e.Guaranteed == o.Guaranteed && e.Moves == o.Moves &&
		slices.Equal(e.After, o.After)
}

// startSentence says where gangs of a job start, and when.
func startSentence(gangs []StartEffect, reader Subject) string {
	e := &gangs[0]
	of := fmt.Sprintf("attempt %v", e.Attempt)
	var nodes []cell.NodeName
	for i := range gangs {
		nodes = append(nodes, gangs[i].Nodes...)
	}
	if slices.Sort(nodes); len(gangs) > 1 {
		of = Plural(int32(len(gangs)), "gang", "gangs")
	}
	text := fmt.Sprintf("job %s (%s) starts on %s", e.Name.ShownTo(reader, e.User), of, NodesText(slices.Compact(nodes)))
	if !e.Guaranteed {
		text += " as opportunistic"
	}
	if e.Moves {
		return text + " after it has stopped where it is"
	}
	var after []string
	for i := range e.After {
		after = append(after, e.After[i].shownTo(reader))
	}
	switch len(after) {
	case 0:
		return text
	case 1:
		return text + " after " + after[0] + " has stopped"
	}
	return text + " after " + JoinAnd(after) + " have stopped"
}

// shownTo is JobName.ShownTo of the job.
func (c *JobCalled) shownTo(reader Subject) string { return c.Name.ShownTo(reader, c.User) }

// lostText is a text of n lost devices. With 0 a device is only divided in other parts.
func lostText(n int32) string {
	if n == 0 {
		return "a device"
	}
	return Plural(n, "device", "devices")
}
