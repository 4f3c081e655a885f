package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/executor/kube/attend"
	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/executor/local/code"
)

// ownCommands are how the server and its supervisors start the processes that look after tasks: one for each task, process 1
// of each container, and the child that unpacks a job's code. They are hidden because they are of no use by
// hand: a task's script comes from the server on standard input.
func ownCommands() []*cobra.Command {
	hidden := func(use, short string, run func([]string) int) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Hidden: true, DisableFlagParsing: true, Run: func(_ *cobra.Command, args []string) { os.Exit(run(args)) }}
	}
	return []*cobra.Command{
		hidden("supervise DIR", "Look after one task (started by the server)", local.Supervise),
		hidden("inside UID", "Look after one task in its container (started by the server)", local.Inside),
		hidden("lay FOLDER", "Put this program where a pod's task finds it (started by Kubernetes)", attend.Lay),
		hidden("attend ORDER COMMAND...", "Look after one task in its pod (started by Kubernetes)", attend.Attend),
		hidden("unpack ARCHIVE DIR DIGEST", "Unpack the code of a job (started by a supervisor)", code.Main),
	}
}
