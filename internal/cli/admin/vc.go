package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// commands are the commands of cells, nodes, virtual clusters and data directories.
type commands struct{ *cli.App }

func (a *commands) vcCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List virtual clusters", Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, err := client.VCs(c.Context())
			if err != nil {
				return err
			}
			return a.Show(out, func(t *cli.Table) { drawVCs(t, out.VCs) })
		}}
	get := &cobra.Command{Use: "get NAME", Short: "Show one virtual cluster with its cells",
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.Complete(cli.VCNames),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, err := client.VC(c.Context(), cell.VCName(args[0]))
			if err != nil {
				return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: args[0], List: cli.VCNames})
			}
			return a.Show(out, func(t *cli.Table) { drawVC(t, &out) })
		}}
	return cli.Noun("vc", "Virtual clusters: who owns which cells", list, get)
}

func drawVCs(t *cli.Table, list []rest.VCStatus) {
	held := slices.ContainsFunc(list, func(v rest.VCStatus) bool { return v.HeldByOthers > 0 })
	t.Head(slices.Concat([]string{"NAME", "POLICY", "SKU", "GUARANTEED", "USED", "BORROWED", "LENT", "BAD"},
		onlyIf(held, heldHead), []string{"WAITING", "ACTIVE"})...)
	for i := range list {
		v := &list[i]
		row := []string{string(v.Name), vcPolicy(v), cli.Number(v.Waiting), cli.Number(v.Active)}
		if len(v.SKUs) == 0 {
			t.Row(slices.Concat([]string{row[0], row[1], "", "none", "", "", "", ""}, onlyIf(held, ""), row[2:])...)
		}
		for k := range v.SKUs {
			u := &v.SKUs[k]
			uses := []string{string(u.SKU), u.Amount(u.Guaranteed), u.Number(u.Used), u.Number(u.Opportunistic),
				u.Number(u.Lent), u.Number(u.Bad)}
			t.Row(slices.Concat(row[:2], uses, onlyIf(held, u.Number(u.HeldByOthers)), row[2:])...)
			row = []string{" ", " ", " ", " "}
		}
	}
}

// heldHead is the column of what programs that are no job's keep from new work. A table has it
// where there is some.
const heldHead = "HELD BY OTHERS"

// onlyIf is a column that a table may lack.
func onlyIf(has bool, text string) []string {
	if has {
		return []string{text}
	}
	return nil
}

// vcPolicy names the policy; a VC that left the configuration has none.
func vcPolicy(v *rest.VCStatus) string {
	if v.Gone {
		return "gone"
	}
	if v.Failed != nil {
		return v.Policy + " (" + v.Failed.Policy + " failed)"
	}
	return v.Policy
}

func drawVC(t *cli.Table, v *rest.VCStatus) {
	t.Row("name", string(v.Name))
	if v.Parent != "" {
		t.Row("parent", string(v.Parent))
	}
	if len(v.Children) > 0 {
		var names []string
		for _, c := range v.Children {
			names = append(names, string(c))
		}
		t.Row("children", strings.Join(names, ", ")+"; what follows is for its own jobs")
	}
	policy := vcPolicy(v)
	for _, p := range v.Params {
		policy += " " + p.Key + "=" + p.Value
	}
	t.Row("policy", policy)
	if v.Failed != nil {
		t.Row("failure", (*model.PolicyFailed)(v.Failed).Words())
	}
	if !v.Gone {
		t.Row("backfill", cmp.Or(v.Backfill, "none"))
	}
	if v.MinRun > 0 {
		t.Row("min run time", narrate.Span(v.MinRun)+", then its own priority may preempt")
	}
	if v.Moves > 0 {
		t.Row("defragmentation", cli.Count(v.Moves, "move", "moves")+" an hour, to make room for a job that waits")
	}
	if v.Budget != nil {
		t.Row("budget", cli.Count(*v.Budget, "preemption", "preemptions")+" of a job by its own priority")
	}
	if v.Orphaned > 0 {
		t.Row("draining", cli.Count(v.Orphaned, "device", "devices")+" that the configuration lacks")
	}
	t.Row("jobs", cli.Number(v.Active)+" active, "+cli.Number(v.Waiting)+" waiting")
	t.Line("")
	held := v.HeldByOthers > 0
	head := []string{"SKU", "EACH", "GUARANTEED", "USED", "BORROWED", "LENT", "BAD"}
	t.Head(append(head, onlyIf(held, heldHead)...)...)
	for i := range v.SKUs {
		u := &v.SKUs[i]
		row := []string{string(u.SKU), u.Full(1), u.Amount(u.Guaranteed), u.Number(u.Used), u.Number(u.Opportunistic),
			u.Number(u.Lent), u.Number(u.Bad)}
		t.Row(append(row, onlyIf(held, u.Number(u.HeldByOthers))...)...)
	}
	t.Line("")
	t.Head("CHAIN", "CELL TYPE", "LEVEL", "PINNED", "CELLS", "IN USE")
	for _, q := range v.Cells {
		t.Row(string(q.Chain), string(q.Type), cli.Number(q.Level), string(q.Pinned), cli.Number(q.Total),
			cli.Number(q.Bound))
	}
}

func (a *commands) nodeCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List nodes", Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, err := client.Nodes(c.Context())
			if err != nil {
				return err
			}
			return a.Show(out, func(t *cli.Table) {
				a.drawNodes(t, out.Nodes)
				if list := Pretended(out.Nodes); len(list) > 0 && !a.NoHeaders {
					t.Line("")
					t.Line("the GPUs of %s are pretended: tasks get their numbers, and no device",
						strings.Join(list, ", "))
				}
				if out.Runtime != "" && !a.NoHeaders {
					t.Line("")
					t.Line("tasks run as %s", out.Runtime)
				}
			})
		}}
	reason := ""
	cordon := a.nodeWrite("cordon NODE", "Take a node out of placement; what runs there goes on",
		func(ctx context.Context, c *rest.Client, n cell.NodeName) (rest.Done, string, error) {
			was, _ := c.Node(ctx, n)
			out, err := c.Cordon(ctx, n, reason)
			said := "cordoned; what runs there goes on"
			if was.Cordoned && out.Repeated {
				said = fmt.Sprintf("nothing was changed: it is cordoned by %s since %s", was.By, a.When(was.Since))
			}
			return out, said, err
		})
	cordon.Flags().StringVar(&reason, "reason", "", "shown to users")
	uncordon := a.nodeWrite("uncordon NODE", "Take a node back into placement, also one that is suspect",
		func(ctx context.Context, c *rest.Client, n cell.NodeName) (rest.Done, string, error) {
			was, err := c.Node(ctx, n)
			before := err == nil && !was.Cordoned
			said := "uncordoned"
			out, err := c.Uncordon(ctx, n)
			switch {
			case before && was.Suspect > 0:
				said = fmt.Sprintf("suspect no more (%s): jobs may start there again", was.Reason)
			case before && out.Repeated:
				said = "nothing was changed: it was not cordoned"
			case err == nil && out.Repeated && was.By == "":
				said = "nothing was changed: " + was.Reason
			case err == nil:
				if now, err := c.Node(ctx, n); err == nil && now.Cordoned && now.By == "" && now.Reason != "" {
					said = "uncordoned in Comb; " + now.Reason
				}
			}
			return out, said, err
		})
	more := (&nodeCommands{a}).all()
	return cli.Noun("node", "Nodes: the machines", append([]*cobra.Command{list, cordon, uncordon}, more...)...)
}

// on makes a command about the node that its argument names.
func (a *commands) on(c *cobra.Command, run func(context.Context, *rest.Client, cell.NodeName) error) *cobra.Command {
	c.Args, c.ValidArgsFunction = cli.Args(cobra.ExactArgs(1)), a.Complete(cli.NodeNames)
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := a.Client()
		if err != nil {
			return err
		}
		if err := run(c.Context(), client, cell.NodeName(args[0])); err != nil {
			return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: args[0], List: cli.NodeNames})
		}
		return nil
	}
	return c
}

// nodeWrite makes a command that changes one node, and prints what became of it.
func (a *commands) nodeWrite(use, short string,
	do func(context.Context, *rest.Client, cell.NodeName) (rest.Done, string, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.Complete(cli.NodeNames),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, said, err := do(c.Context(), client, cell.NodeName(args[0]))
			if err != nil {
				return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: args[0], List: cli.NodeNames})
			}
			return a.Show(out, func(t *cli.Table) {
				t.Line("node %s: %s", args[0], strings.Join(append([]string{said}, out.Effects...), "; "))
			})
		}}
}

func (a *commands) drawNodes(t *cli.Table, list []rest.NodeStatus) {
	held := slices.ContainsFunc(list, func(n rest.NodeStatus) bool { return hasHeld(&n) })
	head := []string{"NAME", "STATE", "SKU", "CHAIN", "EACH", "TOTAL", "USED", "BAD"}
	t.Head(slices.Concat(head, onlyIf(held, heldHead), []string{"REASON"})...)
	for _, n := range list {
		state := a.nodeState(&n)
		if len(n.SKUs) == 0 {
			row := []string{string(n.Name), state, "", "", "", "", "", ""}
			t.Row(slices.Concat(row, onlyIf(held, ""), []string{n.Reason})...)
		}
		for i, s := range n.SKUs {
			name, reason := string(n.Name), n.Reason
			if i > 0 {
				name, state, reason = " ", " ", " "
			}
			for _, why := range []string{s.Fault, s.Holders} {
				if why != "" {
					reason = strings.TrimPrefix(strings.TrimSpace(reason)+"; "+why, "; ")
				}
			}
			row := []string{name, state, string(s.SKU), string(s.Chain), s.Full(1), s.Amount(s.Total), s.Number(s.Used),
				s.Number(s.Bad)}
			t.Row(slices.Concat(row, onlyIf(held, s.Number(s.HeldByOthers)), []string{reason})...)
		}
	}
}

// hasHeld reports whether a program that is no job's has devices of a node.
func hasHeld(n *rest.NodeStatus) bool {
	return slices.ContainsFunc(n.SKUs, func(s rest.NodeSKU) bool { return s.HeldByOthers > 0 })
}

// Pretended are the SKUs whose GPUs do not exist.
func Pretended(nodes []rest.NodeStatus) []string {
	set := map[string]bool{}
	for i := range nodes {
		for _, s := range nodes[i].SKUs {
			if s.Pretended {
				set[string(s.SKU)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (a *commands) nodeState(n *rest.NodeStatus) string {
	var parts []string
	if n.Up {
		parts = append(parts, "up")
	} else {
		parts = append(parts, "down")
	}
	switch {
	case n.Dead:
		parts = append(parts, "declared dead")
	case n.Drain > 0 && n.Orphaned == 0 && !slices.ContainsFunc(n.SKUs,
		func(s rest.NodeSKU) bool { return s.Used > 0 }):
		parts = append(parts, "drained")
	case n.Drain > 0:
		parts = append(parts, "draining")
	case n.Cordoned:
		parts = append(parts, "cordoned")
	}
	if hasHeld(n) {
		parts = append(parts, "held by others")
	}
	if n.Gone {
		parts = append(parts, "gone from the configuration")
	}
	if n.Orphaned > 0 {
		parts = append(parts, fmt.Sprintf("%d draining", n.Orphaned))
	}
	if n.Suspect != 0 {
		parts = append(parts, "suspect until "+a.When(n.Suspect))
	}
	return strings.Join(parts, ",")
}

func (a *commands) storageCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the storages that jobs may name",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.Client()
			if err != nil {
				return err
			}
			out, err := client.Storages(c.Context())
			if err != nil {
				return err
			}
			return a.Show(out, func(t *cli.Table) { drawStorages(t, out.Storages) })
		}}
	return cli.Noun("storage", "Storages: folders with data that jobs name", list)
}

func drawStorages(t *cli.Table, list []rest.StorageStatus) {
	t.Head("NAME", "ACCESS", "FOLDER OF", "VCS", "VARIABLE")
	for _, s := range list {
		access, of, vcs := "read and write", "all", "all"
		if s.ReadOnly {
			access = "read-only"
		}
		if s.PerUser {
			of = "each user"
		}
		if len(s.VCs) > 0 {
			vcs = ""
			for i, vc := range s.VCs {
				vcs += []string{"", ", "}[min(i, 1)] + string(vc)
			}
		}
		t.Row(s.Name, access, of, vcs, s.Variable)
	}
}
