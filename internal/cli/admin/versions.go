package admin

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

// number reads the number of a version.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("version %q: want a number as comb config history shows it", text)
	}
	return n, nil
}

// version returns the cluster file of a version.
func (k *configCommands) version(ctx context.Context, client *rest.Client, text string) ([]byte, error) {
	n, err := number(text)
	if err != nil {
		return nil, err
	}
	return client.ConfigVersionFile(ctx, n)
}

func (k *configCommands) history() *cobra.Command {
	before, limit := int64(0), 20
	c := &cobra.Command{Use: "history", Short: "Show the versions of the cluster file: by which user each was applied, when and why", Args: cobra.NoArgs,
		Long: `Show the versions of the cluster file, the latest first: by which user each was applied, when
and why, and until when it is in force where it has an end. The
server keeps the last 1,000, and 64 MiB of them.`,
		Example: "  comb config history\n  comb config diff 3 5\n  comb config rollback 3 --reason 'the new rack is not there yet'"}
	c.Flags().Int64Var(&before, "before", 0, "the versions before this one (default: from the latest)")
	c.Flags().IntVar(&limit, "limit", limit, "so many, up to 1000")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 || before < 0 {
			return cli.Usage(c, "--limit %d, --before %d: want 1 to 1000, and no negative version", limit, before)
		}
		client, err := k.Client()
		if err != nil {
			return err
		}
		out, err := client.ConfigVersions(c.Context(), before, limit)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, v := range out.Versions {
			state, restores := "", ""
			if v.Present {
				state = "in force"
			}
			if v.Until > 0 {
				state += " until " + k.When(v.Until)
			}
			if v.Restores > 0 {
				restores = strconv.FormatInt(v.Restores, 10)
			}
			rows = append(rows, []string{strconv.FormatInt(v.Version, 10), state, k.When(v.Time), v.Author,
				strconv.Itoa(v.Bytes), restores, v.Reason})
		}
		return k.Rows(out, []string{"VERSION", "STATE", "APPLIED", "BY", "BYTES", "RESTORES", "REASON"}, rows)
	}
	return c
}

func (k *configCommands) diff() *cobra.Command {
	return &cobra.Command{Use: "diff VERSION [VERSION]", Short: "Compare the cluster file of a version with another, or with the present one", Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			was, err := k.version(c.Context(), client, args[0])
			if err != nil {
				return err
			}
			var is []byte
			to := "the present one"
			if len(args) == 2 {
				to = "version " + args[1]
				is, err = k.version(c.Context(), client, args[1])
			} else {
				is, err = client.ConfigFile(c.Context())
			}
			if err != nil {
				return err
			}
			lines := Diff(string(was), string(is))
			return k.Show(lines, func(t *cli.Table) {
				if len(lines) == 0 {
					t.Line("version %s and %s are the same file", args[0], to)
					return
				}
				t.Line("--- version %s", args[0])
				t.Line("+++ %s", to)
				for _, l := range lines {
					t.Line("%s", l)
				}
			})
		}}
}

func (k *configCommands) rollback() *cobra.Command {
	yes := false
	var change rest.ConfigChange
	c := &cobra.Command{Use: "rollback VERSION", Short: "Apply the cluster file of an earlier version again",
		Args: cobra.ExactArgs(1),
		Long: `Apply the cluster file of an earlier version again, as a new version. Every effect is shown
first, as comb config plan does, and it asks. A change of someone else between the plan and the
answer is refused.`}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().StringVar(&change.Reason, "reason", "", "why; comb config history shows it")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := k.Client()
		if err != nil {
			return err
		}
		file, err := k.version(c.Context(), client, args[0])
		if err != nil {
			return err
		}
		change.Restores, _ = number(args[0])
		return k.planAndApply(c.Context(), client, plannedFile{name: "version " + args[0], file: file, yes: yes,
			done: "applied again", change: change})
	}
	return c
}
