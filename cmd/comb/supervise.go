package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/executor/local"
)

// insideCommand is how the server starts process 1 of a task's container. It is hidden
// because it is of no use by hand.
func insideCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "inside UID",
		Short:              "Look after one task in its container (started by the server)",
		Hidden:             true,
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { os.Exit(local.Inside(args)) },
	}
}

// superviseCommand is how the server starts the process that looks after one
// task. It is hidden because it is of no use by hand: the task's script comes
// from the server on standard input.
func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "supervise DIR",
		Short:              "Look after one task (started by the server)",
		Hidden:             true,
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { os.Exit(local.Supervise(args)) },
	}
}
