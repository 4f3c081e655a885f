package sim

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/sim/script"
)

func (a *commands) scriptCommand() *cobra.Command {
	return &cobra.Command{Use: "script FILE", Short: "Run a scenario on a simulated cluster; no server is needed",
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := a.ReadFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			err = script.Run(c.Context(), a.Out, args[0], src)
			if stopped := c.Context().Err(); stopped != nil {
				return stopped
			}
			if err != nil && !errors.Is(err, script.ErrAssert) {
				return cli.Hint{Err: cli.UsageError{Command: c, Err: err}, Next: "the commands are in docs/script.md"}
			}
			return err
		}}
}
