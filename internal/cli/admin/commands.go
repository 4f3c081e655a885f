package admin

import (
	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
)

// Commands are all commands for administrators, of the first level.
func Commands(of *cli.App) []*cobra.Command {
	a := &commands{of}
	list := []*cobra.Command{a.vcCommand(), a.nodeCommand(), a.cellCommand(), a.storageCommand(), backupCommand(a),
		a.journalCommand(),
		cli.Noun("report", "Reports about what Comb runs on", (&reportCommands{of}).all()...),
		checked(cli.Noun("image", "Images: what containers are made of", (&imageCommands{of}).all()...)),
		checked(cli.Noun("cluster", "Kubernetes clusters that jobs may run on", (&clusterCommands{of}).all()...)),
		checked(cli.Noun("config", "The configuration: cells, nodes and virtual clusters",
			(&configCommands{of}).all()...))}
	for _, c := range (&peopleCommands{of}).all() {
		list = append(list, checked(c))
	}
	return list
}

// checked makes errors about the numbers of arguments of a command and its verbs use this
// program's words.
func checked(c *cobra.Command) *cobra.Command {
	for _, v := range append(c.Commands(), c) {
		if v.Args != nil && !v.HasSubCommands() {
			v.Args = cli.Args(v.Args)
		}
	}
	return c
}
