package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

// plannedFile is a cluster file that is planned, and applied after a yes.
type plannedFile struct {
	name   string // for messages
	file   []byte
	yes    bool // apply without a question
	done   string
	change rest.ConfigChange
}

// planAndApply prints what a cluster file would do, asks, and applies it to the version for which
// the plan was made.
func (k *configCommands) planAndApply(ctx context.Context, client *rest.Client, o plannedFile) error {
	plan, err := client.PlanConfig(ctx, o.file)
	if err != nil {
		return k.refusedFile(o.name, err)
	}
	k.Warn(o.name, plan.Warnings)
	if !plan.Changed {
		return k.Show(plan, func(t *cli.Table) { t.Line("%s: no change", o.name) })
	}
	if !o.yes {
		if err := k.Show(plan, func(t *cli.Table) { drawPlan(t, o.name, &plan) }); err != nil {
			return err
		}
		if err := k.Confirm("Apply it?", "to apply it as it is shown, repeat the command with --yes"); err != nil {
			return err
		}
	}
	o.change.IfMatch, o.change.On = plan.ETag, plan.Version
	out, err := client.ApplyConfigAs(ctx, o.file, o.change)
	if err != nil {
		return k.refusedFile(o.name, err)
	}
	return k.Show(out, func(t *cli.Table) {
		t.Line("%s %s", o.name, o.done)
		effects(t, out.Effects)
	})
}

// confirmedFile is a cluster file that is applied, and what its user has seen of its effect.
type confirmedFile struct {
	name string
	file []byte
	seen string // file with a plan; "" is none
	yes  bool
}

// confirmEffect asks before a cluster file harms running work, or compares its present effect with
// a plan. It returns the warnings that it has printed.
func (k *configCommands) confirmEffect(ctx context.Context, client *rest.Client, a confirmedFile,
	change *rest.ConfigChange) (
	warned []string, err error) {
	if a.yes && a.seen == "" {
		return nil, nil
	}
	plan, err := client.PlanConfigUntil(ctx, a.file, change.Until)
	if err != nil {
		return nil, k.refusedFile(a.name, err)
	}
	if a.seen != "" {
		err = k.checkSeenPlan(a, &plan)
	} else if plan.Changed && (plan.Loses() || plan.Drops || len(plan.LikelyRenames()) > 0) {
		warned = plan.Warnings
		k.Warn(a.name, warned)
		for _, text := range append(plan.Effects, plan.Ends...) {
			fmt.Fprintln(k.Errs, "  "+text)
		}
		err = k.Confirm(a.name+" would do this. Apply it?", "to apply it as it is shown, repeat the command with --yes")
	} else {
		return nil, nil
	}
	if err == nil && change.IfMatch == "*" {
		change.IfMatch = plan.ETag
	}
	return warned, err
}

// checkSeenPlan refuses a plan that differs from the one that the user has seen.
func (k *configCommands) checkSeenPlan(a confirmedFile, now *rest.ConfigPlanned) error {
	data, err := k.ReadFile(a.seen, rest.MaxConfigBody)
	if err != nil {
		return err
	}
	var seen rest.ConfigPlanned
	if err := json.Unmarshal(data, &seen); err != nil {
		return fmt.Errorf("%s is no plan: comb config plan -o json writes one: %w", a.seen, err)
	}
	if seen.ETag == "" || seen.Effects == nil {
		return fmt.Errorf("%s is no plan: comb config plan -o json writes one", a.seen)
	}
	if seen.ETag != now.ETag {
		return fmt.Errorf("%s was made for another configuration: it has changed since; nothing was applied: look at comb config plan again", a.seen)
	}
	if sameEffect(&seen, now) {
		return nil
	}
	lines := []string{fmt.Sprintf("%s would do something else now than %s says; nothing was applied:", a.name, a.seen)}
	return fmt.Errorf("%s", strings.Join(append(lines, differences(&seen, now)...), "\n"))
}

// differences describes how a plan's effect changed since it was seen.
func differences(seen, now *rest.ConfigPlanned) (lines []string) {
	switch {
	case now.Until > 0 && seen.Until == 0:
		lines = append(lines, "  it was planned without --until: plan it with --until, too")
	case now.Until == 0 && seen.Until > 0:
		lines = append(lines, "  it was planned with --until: give that to apply, too")
	}
	was, is := slices.Concat(seen.Effects, withoutTimes(seen.Ends)), slices.Concat(now.Effects, withoutTimes(now.Ends))
	for _, t := range is {
		if !slices.Contains(was, t) {
			lines = append(lines, "  now: "+t)
		}
	}
	for _, t := range was {
		if !slices.Contains(is, t) {
			lines = append(lines, "  no more: "+t)
		}
	}
	return lines
}

var instant = regexp.MustCompile(` at \d{4}-\d\d-\d\dT[0-9:]+Z`)

// withoutTimes removes the times from sentences about ends, since the end of a duration depends
// on when it is computed.
func withoutTimes(ends []string) (out []string) {
	for _, t := range ends {
		out = append(out, instant.ReplaceAllString(t, ""))
	}
	return out
}

// sameEffect reports whether two plans do the same to the cluster, to jobs, and to ends, whose
// times do not count. The work that a stop loses does not count either, since it grows, nor
// do jobs that keep what they have.
func sameEffect(a, b *rest.ConfigPlanned) bool {
	var said [2][]byte
	for i, p := range []rest.ConfigPlanned{*a, *b} {
		p.Running = slices.DeleteFunc(slices.Clone(p.Running),
			func(r model.RunningEffect) bool { return r.Fate == model.Keeps && !r.Demoted })
		for k := range p.Running {
			p.Running[k].Unsaved = 0
		}
		p.Effects, p.Version, p.Warnings, p.Until, p.Ends = nil, 0, nil, 0, withoutTimes(p.Ends)
		said[i], _ = json.Marshal(p) // it was decoded from JSON
	}
	return bytes.Equal(said[0], said[1])
}

// drawPlan prints every effect of a plan.
func drawPlan(t *cli.Table, name string, plan *rest.ConfigPlanned) {
	t.Line("%s would do this, on version %d:", name, plan.Version)
	effects(t, plan.Effects)
	effects(t, plan.Ends)
}

func effects(t *cli.Table, texts []string) {
	for _, text := range texts {
		t.Line("  %s", text)
	}
}
