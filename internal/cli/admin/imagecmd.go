package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/docker"
)

// imageCommands are the commands of images.
type imageCommands struct{ *cli.App }

// all are the commands.
func (k *imageCommands) all() []*cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the images of the machine, and those that come",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			out, err := client.Images(c.Context())
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) { k.draw(t, &out) })
		}}
	history := &cobra.Command{Use: "history IMAGE", Short: "Show the steps that made an image, with their sizes",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			out, err := client.ImageHistory(c.Context(), args[0])
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("CREATED", "SIZE", "CREATED BY")
				for _, l := range out.Layers {
					t.Row(k.When(l.Created), docker.SizeText(l.Size), strings.Join(strings.Fields(l.CreatedBy), " "))
				}
			})
		}}
	pull := &cobra.Command{Use: "pull IMAGE", Short: "Fetch an image that its registry gives without credentials",
		Args: cobra.ExactArgs(1),
		Long: `Fetch an image that its registry gives without credentials, so that jobs start at
once. It goes on when this command is interrupted. Jobs fetch what they need by
themselves, with credentials of their own.`,
		RunE: func(c *cobra.Command, args []string) error { return k.pull(c, args[0]) }}
	return []*cobra.Command{list, history, pull, k.push(), k.build(), k.prune()}
}

func (k *imageCommands) pull(c *cobra.Command, name string) error {
	client, err := k.Client()
	if err != nil {
		return err
	}
	for {
		out, err := client.PullImage(c.Context(), name)
		if err != nil {
			return err
		}
		if out.Done {
			return k.Show(out, func(t *cli.Table) { t.Line("%s", out.Text) })
		}
		k.Say(out.Text)
	}
}

func (k *imageCommands) prune() *cobra.Command {
	c := &cobra.Command{Use: "prune", Short: "Remove images that nothing uses, the least recently used first",
		Args: cobra.NoArgs,
		Long: `Remove images until at most --keep is left on the engine's disk, the least recently
used first. Only what Comb fetched is removed, since it can be fetched again: what a
container uses, what was used in the last 10 minutes and what others put there stays.`,
		Example: "  comb image prune --keep 200Gi\n  comb image prune --keep 0"}
	kept := new(cli.BudgetFlag)
	c.Flags().Var(kept, "keep", "what may stay, such as 200Gi (default: comb serve --image-budget)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := k.Client()
		if err != nil {
			return err
		}
		var most *int64
		if c.Flags().Changed("keep") {
			n := kept.Bytes()
			most = &n
		}
		out, err := client.PruneImages(c.Context(), most)
		if err != nil {
			return err
		}
		return k.Show(out, func(t *cli.Table) {
			for i := range out.Images {
				t.Line("removed %s (%s)", nameOf(&out.Images[i]), docker.SizeText(out.Images[i].Size))
			}
			if len(out.Images) == 0 {
				t.Line("nothing is removed: comb image list says what stays, and why")
			}
		})
	}
	return c
}

func (k *imageCommands) draw(t *cli.Table, l *rest.ImageList) {
	t.Head("NAME", "ID", "SIZE", "SHARED", "LAST USED", "JOBS", "FOR", "STAYS")
	for i := range l.Images {
		m := &l.Images[i]
		used := "unknown"
		if m.Used != 0 {
			used = k.When(m.Used)
		}
		t.Row(nameOf(m), shortID(m.ID), docker.SizeText(m.Size), docker.SizeText(m.Shared), used, numbers(m.Jobs),
			forWhich(m), m.Stays)
	}
	if k.NoHeaders {
		return
	}
	t.Line("")
	text := fmt.Sprintf("%s of layers, each once, stored by %s", docker.SizeText(l.Bytes), l.Driver)
	if l.Budget > 0 {
		text += fmt.Sprintf("; the budget is %s", docker.SizeText(l.Budget))
	}
	t.Line("%s", text)
	for _, f := range l.Fetching {
		t.Line("%s is being fetched: %s", f.Name, f.Text)
	}
}

// forWhich says which VCs may run an image without a check at its registry.
func forWhich(m *rest.Image) string {
	if m.Public || len(m.VCs) == 0 {
		return "all"
	}
	var names []string
	for _, vc := range m.VCs {
		names = append(names, string(vc))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func nameOf(m *rest.Image) string {
	switch {
	case len(m.Names) > 0:
		return strings.Join(m.Names, ",")
	case len(m.Digests) > 0:
		return m.Digests[0]
	}
	return m.ID
}

// shortID shortens an ID as container engines do.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}

func numbers(list []model.JobID) string {
	text := make([]string, len(list))
	for i, id := range list {
		text[i] = fmt.Sprint(int64(id))
	}
	return strings.Join(text, ",")
}
