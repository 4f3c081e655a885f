package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// nodeCommands are the commands of single nodes.
type nodeCommands struct{ *commands }

// all are the commands.
func (k *nodeCommands) all() []*cobra.Command { return []*cobra.Command{k.get(), k.drain(), k.dead()} }

func (k *nodeCommands) get() *cobra.Command {
	return k.on(&cobra.Command{Use: "get NODE", Short: "Show a node: its state, which user took it out and why, what runs there"},
		func(ctx context.Context, client *rest.Client, node cell.NodeName) error {
			n, err := client.Node(ctx, node)
			if err != nil {
				return err
			}
			return k.Show(n, func(t *cli.Table) { k.draw(t, &n) })
		})
}

func (k *nodeCommands) draw(t *cli.Table, n *rest.Node) {
	t.Row("node", string(n.Name))
	t.Row("state", k.nodeState(&n.NodeStatus))
	if n.By != "" {
		t.Row("cordoned", "by "+string(n.By)+" since "+k.When(n.Since))
	}
	if n.Drain > 0 {
		t.Row("drains", "by "+k.When(n.Drain)+": jobs left there then are stopped and queued again")
	}
	if n.Reason != "" {
		t.Row("reason", n.Reason)
	}
	for i := range n.SKUs {
		s := &n.SKUs[i]
		text, each := fmt.Sprintf("%d x %s", s.Total, s.SKU), s.Full(1)
		if s.GPU == 1 {
			_, each, _ = strings.Cut(each, ", ")
		}
		if each != "" {
			text += " (each with " + each + ")"
		}
		text += fmt.Sprintf("; %d in use", s.Used)
		if s.Bad > 0 {
			text += ", " + s.Number(s.Bad) + " bad"
			if s.Fault != "" {
				text += ": " + s.Fault
			}
		}
		if s.HeldByOthers > 0 {
			text += ", " + s.Number(s.HeldByOthers) + " get no new work: " +
				cmp.Or(s.Holders, "others hold devices of the node")
		}
		if s.Pretended {
			text += "; pretended: tasks get their numbers, and no device"
		}
		t.Row("cells", string(s.Chain)+": "+text)
	}
	jobs(t, n)
}

// jobs prints what runs on a node.
func jobs(t *cli.Table, n *rest.Node) {
	if len(n.Jobs) > 0 {
		t.Line("")
		t.Head("JOB", "ID", "VC", "ATTEMPT", "STATE", "USES")
	}
	for i := range n.Jobs {
		j := &n.Jobs[i]
		t.Row(string(j.Ref), strconv.FormatInt(int64(j.ID), 10), string(j.VC), j.Attempt.String(), j.State.String(),
			strconv.Itoa(int(j.Leaves)))
	}
	if n.Hidden > 0 {
		t.Line("and %d of jobs that you may not see", n.Hidden)
	}
}

func (k *nodeCommands) drain() *cobra.Command {
	var in rest.DrainRequest
	within, try := "", false
	c := &cobra.Command{Use: "drain NODE", Short: "Take a node out of placement, and have what runs there leave it by a deadline",
		Long: `Take a node out of placement. What runs there may end by itself until the deadline; then it is stopped with
its grace for a checkpoint, as by a preemption, and starts elsewhere: no retry is counted. Without --deadline it is
stopped at once. What becomes of each job there is shown, as the code that decides sees it now: where it
starts again, or what it waits for. --dry-run shows that alone. comb node uncordon takes it back.`,
		Example: "  comb node drain n7 --deadline 2h --reason 'new memory'\n  comb node drain n7 --dry-run"}
	c.Flags().StringVar(&within, "deadline", "0", "how long it may go on, such as 90m")
	c.Flags().StringVar(&in.Reason, "reason", "", "shown to users")
	c.Flags().BoolVar(&try, "dry-run", false, "only show what would become of each job")
	return k.on(c, func(ctx context.Context, client *rest.Client, node cell.NodeName) error {
		if err := document.Unitless(within); err != nil {
			return cli.Usage(c, "--deadline %s: %w", within, err)
		}
		micros, ok := document.ParseDuration(within)
		if !ok || micros < 0 || micros > 365*24*3600*1_000_000 {
			return cli.Usage(c, "--deadline %q: want a time such as 90m or 1d12h, up to 365d", within)
		}
		in.Within = model.Duration(micros)
		p, err := client.PlanDrain(ctx, node, in)
		if err != nil {
			return err
		}
		what := "would have"
		if !try {
			what = "have"
			if _, err := client.Drain(ctx, node, in); err != nil {
				return err
			}
		}
		return k.Show(p, func(t *cli.Table) {
			text := "are stopped at once (with their grace period) and queued again"
			if try {
				text = "would be" + strings.TrimPrefix(text, "are")
			}
			if micros > 0 {
				text = what + " " + document.FormatDuration(micros) + " to end. " +
					"Then they are stopped (with their grace period) and queued again"
			}
			if len(p.Jobs) == 0 {
				t.Line("node %s: nothing runs there", node)
				return
			}
			t.Line("node %s: jobs there %s. As of now:", node, text)
			printFates(t, p.Jobs)
			if len(p.Others) > 0 {
				t.Line("for that, on other nodes:")
				printFates(t, p.Others)
			}
		})
	})
}

// printFates prints what becomes of each job.
func printFates(t *cli.Table, list []model.DrainEffect) {
	for i := range list {
		e := &list[i]
		t.Line("  job %s (%d) in virtual cluster %s, attempt %s: %s", e.Ref, e.Attempt.Job, e.VC, e.Attempt, e.Says)
	}
}

func (k *nodeCommands) dead() *cobra.Command {
	var in rest.DeadRequest
	yes := false
	c := &cobra.Command{Use: "declare-dead NODE", Short: "Say that a node is dead, so that what is unknown there counts as ended",
		Long: `Say that a node is dead. What is not known to have ended there then counts as ended by the loss of its node: it starts
elsewhere, and its cells are free once the node is back. No retry is counted. Be sure of it: if the node lives and is only cut off, its
tasks run twice, on the same data. It stays out of placement until comb node uncordon: before that, end what may still
run there, or start the machine anew.`,
		Example: "  comb node declare-dead n7 --reason 'its power supply burnt'"}
	c.Flags().StringVar(&in.Reason, "reason", "", "why you are sure; shown to users and kept in the journal")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return k.on(c, func(ctx context.Context, client *rest.Client, node cell.NodeName) error {
		if strings.TrimSpace(in.Reason) == "" {
			return cli.Usage(c, "--reason is missing: say why you are sure that %s is dead", node)
		}
		n, err := client.Node(ctx, node)
		if err != nil {
			return err
		}
		if !yes {
			if me, err := client.People().Me(ctx); err != nil {
				return err
			} else if !slices.Contains(me.May, string(access.ChangeCluster)) { // before asking about it
				return rest.NewProblem(http.StatusForbidden, rest.CodeForbidden,
					"only an administrator of the cluster may declare a node dead")
			}
			question, err := deadQuestion(&n)
			if err != nil {
				return err
			}
			if err := k.Confirm(question, "when it is dead, repeat the command with --yes"); err != nil {
				return err
			}
		}
		out, err := client.DeclareDead(ctx, node, in)
		if err != nil {
			return err
		}
		return k.Show(out, func(t *cli.Table) {
			t.Line("node %s: declared dead; comb node uncordon takes it back when it is well", node)
			jobs(t, &n)
		})
	})
}

// deadQuestion returns the question whether a node is dead, or the reason for which the server
// would refuse, before the user is asked. Tasks of an attempt that is being stopped may be unknown,
// too.
func deadQuestion(n *rest.Node) (question string, err error) {
	ends := len(n.Jobs) + n.Hidden
	if n.Up {
		ends = n.Hidden
		for i := range n.Jobs {
			if s := n.Jobs[i].State; s == model.AttemptUnknown || s == model.AttemptStopping {
				ends++
			}
		}
		if ends == 0 {
			return "", rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf(
				"node %s is up, and nothing there is unknown: comb node drain has what runs there leave", n.Name))
		}
	}
	switch ends {
	case 0:
		return fmt.Sprintf("Nothing is on %s that would count as ended. Is it dead?", n.Name), nil
	case 1:
		return fmt.Sprintf("1 attempt on %s counts as ended then; if it lives, its tasks run twice. Is it dead?",
			n.Name), nil
	}
	return fmt.Sprintf("%d attempts on %s count as ended then; if it lives, their tasks run twice. Is it dead?",
		ends, n.Name), nil
}
