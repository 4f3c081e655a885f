package configcmd

import (
	"context"

	"github.com/combsched/comb/internal/rest"
)

// offered is a cluster file that is planned first, and applied when the answer is yes.
type offered struct {
	name   string // in what is printed
	file   []byte
	yes    bool // without asking
	done   string
	change rest.ConfigChange
}

// offer shows what a cluster file would do, asks, and applies it on what the plan was made for.
func (k *Kit) offer(ctx context.Context, client *rest.Client, o offered) error {
	plan, err := client.PlanConfig(ctx, o.file)
	if err != nil {
		return k.refusedFile(o.name, err)
	}
	k.Warn(o.name, plan.Warnings)
	if !plan.Changed {
		return k.Show(plan, func(line func(string, ...any)) { line("%s: no change", o.name) })
	}
	if !o.yes {
		if err := k.Show(plan, func(line func(string, ...any)) { drawPlan(line, o.name, &plan) }); err != nil {
			return err
		}
		if err := k.Confirm("Apply it?"); err != nil {
			return err
		}
	}
	o.change.IfMatch, o.change.On = plan.ETag, plan.Version
	out, err := client.ApplyConfigAs(ctx, o.file, o.change)
	if err != nil {
		return k.refusedFile(o.name, err)
	}
	return k.Show(out, func(line func(string, ...any)) {
		line("%s %s", o.name, o.done)
		effects(line, out.Effects)
	})
}

// drawPlan shows every effect of a plan.
func drawPlan(line func(string, ...any), name string, plan *rest.ConfigPlanned) {
	line("%s would do this, on version %d:", name, plan.Version)
	effects(line, plan.Effects)
}

func effects(line func(string, ...any), texts []string) {
	for _, t := range texts {
		line("  %s", t)
	}
}
