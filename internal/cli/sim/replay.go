package sim

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/sim/simulate"
)

func (a *commands) simReplay() *cobra.Command {
	s := simFlags{version: a.Version}
	c := &cobra.Command{Use: "replay JOURNAL -o DIR", Short: "Replay a journal, perhaps under another policy",
		Long: `Let what a journal tells happen again: the same submissions, stops by users, changes
of the configuration and faults of nodes and devices at their times, on the cluster
and the virtual clusters that the journal has. Each task works as long as it did
then. With --policy it tells what would have happened under another policy.

The journal is the data directory of a server, which may run meanwhile, or a file
that "comb sim run --journal" wrote. Jobs that had not ended count as done with what
they had done by then; how many is told (docs/simulate.md).`,
		Example: "  comb sim replay ~/.local/share/comb --policy las -o out/las",
		Args:    cli.Args(cobra.ExactArgs(1))}
	s.shared(c)
	c.Flags().StringVar(&s.spec.Policy, "policy", "", "NAME[:key=value,...] for all virtual clusters (default: their own)")
	c.Flags().StringVar(&s.spec.Throughputs, "throughputs", "", speedsUsage)
	c.Flags().StringVar(&s.spec.GPU, "gpu", "", "GPU type of the table of throughputs that has full speed, such as v100")
	c.RunE = func(c *cobra.Command, args []string) error {
		var missing error
		if s.dir == "" {
			missing = errors.New("give -o, the folder for the results")
		}
		if err := errors.Join(missing, s.readVCPolicies(), s.spec.CheckReplay(policy.New)); err != nil {
			return cli.UsageError{Command: c, Err: err}
		}
		if err := a.KeepApart(c, append(s.spec.Files(), args[0]), s.writes()...); err != nil {
			return err
		}
		h, err := openJournal(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer h.Close()
		j := &simulate.Journal{Path: args[0], Replay: h.Replay}
		r, err := s.run(func(out simulate.Folder, o simulate.Options) (*simulate.Result, error) {
			return simulate.ReplayInto(c.Context(), out, s.spec, j, o)
		})
		if err != nil {
			return err
		}
		return a.Show(r.Summary, func(t *cli.Table) { drawRun(t, s.dir, r) })
	}
	return c
}
