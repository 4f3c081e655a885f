// Command comb is the one binary of Comb: the server, the command line that talks to it, and
// the supervisor of tasks. It is the only place that wires the parts together. It must not
// hold their logic.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/admin"
	"github.com/combsched/comb/internal/cli/job"
	"github.com/combsched/comb/internal/cli/sim"
)

func main() {
	if work := taskCommandOf(os.Args[1:]); work != nil {
		os.Exit(work())
	}
	os.Exit(run())
}

// run is main; it returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Errs: os.Stderr, Env: os.Getenv, Now: time.Now, Version: versionText(),
		TTY: cli.IsTerminal(os.Stdout), Interrupted: ctx.Done()}
	root := tree(a)
	root.SetArgs(os.Args[1:])
	c, err := root.ExecuteContextC(ctx)
	return a.Exit(cli.NamedFlag(c, err))
}

// tree makes the tree of commands. Nouns first, then verbs.
func tree(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "comb",
		Short: "Share a GPU cluster between teams with guarantees",
		Long: `Comb shares a GPU cluster between teams with guarantees: a team's virtual
cluster is a set of cells (racks, nodes, switches, GPUs), and whatever others do
the team can always get its cells.

Start a server on this machine with "comb serve"; the other commands then find
it by themselves. COMB_SERVER and COMB_TOKEN_FILE, or --server and --token-file,
name another one.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed,
5 conflict, 6 server unreachable, 7 timed out, 130 interrupted. The commands
that wait for a job: 0 it succeeded, 10 it failed, 11 it was stopped.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Version:           versionText(),
		Args:              cobra.ArbitraryArgs,
		RunE:              cli.NounHelp,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.Server, "server", "", "address of the server, such as http://127.0.0.1:8420 (default: $COMB_SERVER, else the server started last on this machine)")
	f.StringVar(&a.TokenFile, "token-file", "", "file with the token (default: $COMB_TOKEN_FILE, else that server's)")
	f.StringVar(&a.TLSCA, "tls-ca", "", "file with the certificate of the authority that signed the server's, PEM (default: $COMB_TLS_CA, else those of this machine)")
	f.StringVarP(&a.Format, "output", "o", "table", "output format: table, json or yaml")
	f.BoolVar(&a.NoHeaders, "no-headers", false, "tables without the line of column names")
	f.Var((*cli.DurationFlag)(&a.Timeout), "timeout", "give up after this time, such as 30s (default: none)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"},
		cobra.ShellCompDirectiveNoFileComp))
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Errs)
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(serveCommand(a), job.Command(a), versionCommand(a))
	root.AddCommand(admin.Commands(a)...)
	root.AddCommand(sim.Commands(a)...)
	root.AddCommand(ownCommands()...)
	cli.HelpOfKnown(root)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.CheckFlags(c) }
	return root
}
