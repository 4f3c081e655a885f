// Command comb is the one binary of Comb: the server, the command line that
// speaks to it, and the supervisor of tasks. It is the only place that wires the
// parts together; it must not hold logic of theirs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/admin"
	"github.com/combsched/comb/internal/cli/contexts"
)

func main() {
	if work := ownWorkOf(os.Args[1:]); work != nil {
		os.Exit(work())
	}
	os.Exit(run())
}

// run is main with the exit code as its value.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.Getenv, now: time.Now,
		tty: isTerminal(os.Stdout), interrupted: ctx.Done()}
	root := a.root()
	root.SetArgs(os.Args[1:])
	c, err := root.ExecuteContextC(ctx)
	return a.exit(cli.NamedFlag(c, err))
}

// app is one run of the command line: its streams, its environment and the
// flags that every command has.
type app struct {
	in   io.Reader
	out  io.Writer
	errs io.Writer
	env  func(string) string
	now  func() time.Time
	tty  bool // out is a terminal
	// interrupted is closed by SIGINT and SIGTERM.
	interrupted <-chan struct{}

	server    string
	tokenFile string
	tlsCA     string
	format    string
	noHeaders bool
	timeout   time.Duration
}

// root makes the tree of commands. Nouns first, then verbs.
func (a *app) root() *cobra.Command {
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
		RunE:              nounHelp,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.server, "server", "", "address of the server, such as http://127.0.0.1:8420 (default: $COMB_SERVER, else the server started last on this machine)")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the token (default: $COMB_TOKEN_FILE, else that server's)")
	f.StringVar(&a.tlsCA, "tls-ca", "", "file with the certificate of the authority that signed the server's, PEM (default: $COMB_TLS_CA, else those of this machine)")
	f.StringVarP(&a.format, "output", "o", "table", "output format: table, json or yaml")
	f.BoolVar(&a.noHeaders, "no-headers", false, "tables without the line of column names")
	f.Var((*durationFlag)(&a.timeout), "timeout", "give up after this time, such as 30s (default: none)")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.serveCommand(), a.jobCommand(), a.vcCommand(), a.nodeCommand(), a.cellCommand(), a.storageCommand(), imageCommand(a), clusterCommand(a),
		configCommand(a), backupCommand(a), reportCommand(a), a.journalCommand(), a.scriptCommand(), a.traceCommand(), a.simCommand(), a.versionCommand())
	root.AddCommand(ownCommands()...)
	root.AddCommand(peopleCommands(a)...)
	helpOfKnown(root)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.checkFlags(c) }
	return root
}

func imageCommand(a *app) *cobra.Command {
	amount := func() (pflag.Value, func() int64) {
		m := new(budgetFlag)
		return m, m.bytes
	}
	verbs := admin.ImageCommands(&admin.ImageKit{Client: a.client, When: a.when, Amount: amount, Usage: usage,
		Say: func(text string) { fmt.Fprintln(a.errs, clean(text, false)) }, Plain: func() bool { return a.noHeaders },
		Show: a.drawn})
	for _, v := range verbs {
		v.Args = args(v.Args)
	}
	return noun("image", "Images: what containers are made of", verbs...)
}

func clusterCommand(a *app) *cobra.Command {
	verbs := admin.ClusterCommands(&admin.ClusterKit{Out: a.out, Errs: a.errs, Show: a.drawn, Clean: func(s string) string { return clean(s, false) }})
	for _, v := range verbs {
		v.Args = args(v.Args)
	}
	return noun("cluster", "Kubernetes clusters that jobs may run on", verbs...)
}

func reportCommand(a *app) *cobra.Command {
	return noun("report", "Reports about what Comb runs on", admin.ReportCommands(&admin.ReportKit{Version: versionText(), Engine: a.env("DOCKER_HOST"), Rows: a.rows})...)
}

// rows shows a table.
func (a *app) rows(v any, head []string, rows [][]string) error {
	return a.show(v, func(t *table) {
		t.head(head...)
		for _, r := range rows {
			t.row(r...)
		}
	})
}

func configCommand(a *app) *cobra.Command {
	verbs := admin.ConfigCommands(&admin.ConfigKit{Client: a.client, Named: a.serverNamed, ShowYAML: a.showYAML, Format: func() string { return a.format }, Out: a.out, More: moreFormats,
		When: a.when, Usage: usage, Confirm: a.confirm, Rows: a.rows, Errs: a.errs, Exit: func(code int) error { return outcome(code) },
		ReadFile: a.readFile, InFile: inFile, Located: func(text string, err error) error { return &located{text, err} }, Warn: a.warn,
		Show: func(v any, draw func(func(string, ...any))) error {
			return a.show(v, func(t *table) { draw(t.line) })
		}})
	for _, v := range verbs {
		v.Args = args(v.Args)
	}
	return noun("config", "The configuration: cells, nodes and virtual clusters", verbs...)
}

// peopleCommands are those about users, groups, tokens and sessions.
func peopleCommands(a *app) []*cobra.Command {
	list := admin.Commands(&admin.PeopleKit{Client: a.client, When: a.when, In: os.Stdin, Prompt: a.errs, ReadFile: a.readFile, Confirm: a.confirm,
		Usage: usage, Noun: noun,
		Contexts: contexts.Dir(a.env), User: a.env("USER"), Say: func(text string) { fmt.Fprintln(a.errs, clean(text, false)) },
		Target: a.target, Dial: dial,
		Hint: func(err error, next string) error { return hint{err, next} },
		Guess: func(c *cobra.Command, err error, word string, of admin.Names) error {
			client, _ := a.client()
			return a.didYouMean(c.Context(), client, err, guess{word, names(of)})
		},
		Complete: func(of admin.Names) admin.Completion { return a.complete(names(of)) },
		Show:     a.drawn})
	for _, c := range list {
		for _, v := range append(c.Commands(), c) {
			if v.Args != nil && !v.HasSubCommands() {
				v.Args = args(v.Args)
			}
		}
	}
	return list
}

// noun makes a command that only holds verbs.
func noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: nounHelp}
	c.AddCommand(verbs...)
	return c
}

// nounHelp answers a noun without a verb, or with one that does not exist.
func nounHelp(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	return unknownVerb(c, args[0])
}
