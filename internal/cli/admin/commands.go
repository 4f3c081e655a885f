package admin

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/contexts"
)

func imageCommand(a *commands) *cobra.Command {
	amount := func() (pflag.Value, func() int64) {
		m := new(cli.BudgetFlag)
		return m, m.Bytes
	}
	verbs := ImageCommands(&ImageKit{Client: a.Client, When: a.When, Amount: amount, Usage: cli.Usage,
		Say: func(text string) {
			fmt.Fprintln(a.Errs, cli.Clean(text,
				false))
		}, Plain: func() bool { return a.NoHeaders },
		Show: a.Drawn})
	for _, v := range verbs {
		v.Args = cli.Args(v.Args)
	}
	return cli.Noun("image", "Images: what containers are made of", verbs...)
}

func clusterCommand(a *commands) *cobra.Command {
	verbs := ClusterCommands(&ClusterKit{Out: a.Out, Errs: a.Errs, Show: a.Drawn,
		Clean: func(s string) string { return cli.Clean(s, false) }})
	for _, v := range verbs {
		v.Args = cli.Args(v.Args)
	}
	return cli.Noun("cluster", "Kubernetes clusters that jobs may run on", verbs...)
}

func reportCommand(a *commands) *cobra.Command {
	return cli.Noun("report", "Reports about what Comb runs on",
		ReportCommands(&ReportKit{Version: a.Version, Engine: a.Env("DOCKER_HOST"), Rows: a.Rows})...)
}

func configCommand(a *commands) *cobra.Command {
	verbs := ConfigCommands(&ConfigKit{Client: a.Client, Named: a.ServerNamed, ShowYAML: a.ShowYAML,
		Format: func() string { return a.Format }, Out: a.Out, More: cli.MoreFormats,
		When: a.When, Usage: cli.Usage, Confirm: a.Confirm, Rows: a.Rows, Errs: a.Errs, Exit: func(code int) error { return cli.Outcome(code) },
		ReadFile: a.ReadFile, InFile: cli.InFile, Located: func(text string,
			err error) error {
			return &cli.Located{Text: text, Err: err}
		}, Warn: a.Warn,
		Show: func(v any, draw func(func(string, ...any))) error {
			return a.Show(v, func(t *cli.Table) { draw(t.Line) })
		}})
	for _, v := range verbs {
		v.Args = cli.Args(v.Args)
	}
	return cli.Noun("config", "The configuration: cells, nodes and virtual clusters", verbs...)
}

// peopleCommands are those about users, groups, tokens and sessions.
func peopleCommands(a *commands) []*cobra.Command {
	list := PeopleCommands(&PeopleKit{Client: a.Client, When: a.When, In: os.Stdin, Prompt: a.Errs,
		ReadFile: a.ReadFile, Confirm: a.Confirm,
		Usage: cli.Usage, Noun: cli.Noun,
		Contexts: contexts.Dir(a.Env), User: a.Env("USER"), Say: func(text string) {
			fmt.Fprintln(a.Errs,
				cli.Clean(text, false))
		},
		Target: a.Target, Dial: cli.Dial,
		Hint: func(err error, next string) error { return cli.Hint{Err: err, Next: next} },
		Guess: func(c *cobra.Command, err error, word string, of Names) error {
			client, _ := a.Client()
			return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: word, List: cli.Names(of)})
		},
		Complete: func(of Names) Completion { return a.Complete(cli.Names(of)) },
		Show:     a.Drawn})
	for _, c := range list {
		for _, v := range append(c.Commands(), c) {
			if v.Args != nil && !v.HasSubCommands() {
				v.Args = cli.Args(v.Args)
			}
		}
	}
	return list
}

// adminCommands are the commands with which a cluster is run.
type commands struct{ *cli.App }

// clusterCommands are all of them.
func Commands(of *cli.App) []*cobra.Command {
	a := &commands{of}
	return append([]*cobra.Command{a.vcCommand(), a.nodeCommand(), a.cellCommand(), a.storageCommand(),
		imageCommand(a), clusterCommand(a),
		configCommand(a), backupCommand(a), reportCommand(a), a.journalCommand()}, peopleCommands(a)...)
}
