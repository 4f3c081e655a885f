package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/executor/kube/podinit"
	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/executor/task"
)

// taskCommand is a command of a process that looks after tasks.
type taskCommand struct {
	use, short string
	run        func(args []string) int
}

// taskCommands are the commands by which the server and its supervisors start the processes that
// look after tasks: one for each task, process 1 of each container, and the child that
// unpacks a job's code. They are hidden since they are of no use by hand: a task's script
// comes from the server on standard input.
func taskCommands() []taskCommand {
	return []taskCommand{
		{"supervise DIR", "Look after one task (started by the server)", local.Supervise},
		{"inside UID", "Look after one task in its container (started by the server)", local.ContainerInit},
		{"lay FOLDER", "Put this program where a pod's task finds it (started by Kubernetes)", podinit.Install},
		{"attend ORDER COMMAND...", "Look after one task in its pod (started by Kubernetes)", podinit.Main},
		{"unpack ARCHIVE DIR DIGEST", "Unpack the code of a job (started by a supervisor)", task.UnpackMain},
	}
}

func ownCommands() (list []*cobra.Command) {
	for _, w := range taskCommands() {
		list = append(list, &cobra.Command{Use: w.use, Short: w.short, Hidden: true, DisableFlagParsing: true,
			Run: func(_ *cobra.Command, args []string) { os.Exit(w.run(args)) }})
	}
	return list
}

// taskCommandOf is the work that the arguments of this process name, or nil. There is one such
// process for each task, so it must not build all other commands first.
func taskCommandOf(args []string) func() int {
	for _, w := range taskCommands() {
		if name, _, _ := strings.Cut(w.use, " "); len(args) > 0 && args[0] == name {
			return func() int { return w.run(args[1:]) }
		}
	}
	return nil
}
