package admin

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/spec/config"
)

// configCommands are the commands of the configuration.
type configCommands struct{ *cli.App }

// FileFormat is the output format of config show for the cluster file itself, as named in the
// annotation MoreFormats.
const FileFormat = "file"

// all are the commands.
func (k *configCommands) all() []*cobra.Command {
	return []*cobra.Command{k.validate(), k.plan(), k.apply(), k.keep(), k.show(), k.history(), k.diff(),
		k.rollback(), k.push(), k.id()}
}

func (k *configCommands) show() *cobra.Command {
	return &cobra.Command{Use: "show [VERSION]", Short: "Show the present configuration, or the cluster file of a version", Args: cobra.MaximumNArgs(1),
		Long: `Show the present configuration: the cluster file that was applied, byte for byte, to
be edited and applied again. With -o json or yaml it is what the server made of it,
with its tag. With the number of a version, the cluster file of that version.`,
		Example:     "  comb config show > cluster.yaml",
		Annotations: map[string]string{cli.MoreFormats: FileFormat},
		RunE: func(c *cobra.Command, args []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				file, err := k.version(c.Context(), client, args[0])
				if err == nil {
					_, err = k.Out.Write(file)
				}
				return err
			}
			if k.Format == FileFormat || k.Format == "table" {
				file, err := client.ConfigFile(c.Context())
				if err == nil {
					_, err = k.Out.Write(file)
				}
				if err == nil || k.Format == FileFormat || rest.CodeOf(err) != rest.CodeNotFound {
					return err
				}
			}
			out, err := client.Config(c.Context())
			if err != nil {
				return err
			}
			if k.Format == "table" {
				return k.ShowYAML(out)
			}
			return k.Show(out, nil)
		}}
}

func (k *configCommands) validate() *cobra.Command {
	offline := false
	c := &cobra.Command{Use: "validate FILE",
		Short: "Check a cluster file and say what it would do to the server's jobs",
		Long: `Check a cluster file. A running server says what the file would do to its jobs, and
refuses one that this installation cannot carry, such as a node with more GPUs than the
machine has. Without a server, or with --offline, the file alone is checked, and what it
describes is shown: so a file for other machines can be checked anywhere.`,
		Example: "  comb config validate cluster.yaml --offline",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := k.ReadFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			if offline {
				return k.validateAlone(args[0], file, "no server was asked")
			}
			client, err := k.Client()
			var out rest.ConfigChecked
			if err == nil {
				out, err = client.ValidateConfig(c.Context(), file)
			}
			var gone *rest.Unreachable
			if errors.As(err, &gone) && !k.ServerNamed() {
				return k.validateAlone(args[0], file, "no server runs here that it could change")
			}
			if p := (*rest.Problem)(nil); errors.As(err, &p) && p.Code == rest.CodeForbidden {
				p.Detail += "; --offline checks the file alone"
			}
			if err != nil {
				return k.refusedFile(args[0], err)
			}
			k.Warn(args[0], out.Warnings)
			return k.Show(out, func(t *cli.Table) {
				switch {
				case !out.Changed:
					t.Line("%s is valid, and in force already", args[0])
				case len(out.Effects) == 0:
					t.Line("%s is valid. Applying it would change no job", args[0])
				default:
					t.Line("%s is valid. Applying it would:", args[0])
				}
				effects(t, out.Effects)
			})
		}}
	c.Flags().BoolVar(&offline, "offline", false,
		"check the file alone: ask no server, and do not compare it with a machine")
	return c
}

// refusedFile shows the warnings of a file that a server refuses, and returns its mistakes.
func (k *configCommands) refusedFile(name string, err error) error {
	var p *rest.Problem
	if errors.As(err, &p) {
		k.Warn(name, p.Warnings)
	}
	return cli.InFile(name, err)
}

// validateAlone checks a cluster file without a server.
func (k *configCommands) validateAlone(name string, src []byte, why string) error {
	c, warnings, problems := config.Parse(name, src, config.Policies{Names: policy.Names(), New: policy.New,
		Named: true})
	out := rest.ConfigChecked{Changed: true}
	for _, w := range warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	k.Warn("", out.Warnings)
	if len(problems) > 0 {
		lines := []string{name + ": the cluster file cannot be used"}
		for _, p := range problems.Sorted() {
			lines = append(lines, "  "+p.String())
		}
		return &cli.Located{Text: strings.Join(lines, "\n"), Err: problems}
	}
	out.Config = c.Config
	return k.Show(out, func(t *cli.Table) {
		t.Line("%s is valid; %s", name, why)
		for text := range strings.Lines(config.Summary(c)) {
			t.Line("  %s", strings.TrimSuffix(text, "\n"))
		}
	})
}

func (k *configCommands) apply() *cobra.Command {
	var change rest.ConfigChange
	seen, yes := "", false
	c := &cobra.Command{Use: "apply FILE", Short: "Replace the configuration; what still fits runs on",
		Long: `Replace the configuration; what still fits runs on. Where that stops running work
or takes its guarantee, the command shows what it would do and asks, unless --yes or
--plan says that this is wanted. With --plan it is refused where jobs that came or
went since would make something else of it. With --until the server goes back by itself:
to the version that is in force now or, where that has an end too, to the last one that
has none. A further apply drops such an end, and says so; comb config keep does, too.`,
		Example: `  comb config plan cluster.yaml -o json > seen.json
  comb config apply cluster.yaml --plan seen.json
  comb config apply cluster.yaml --until 7d --reason 'two nodes for speech'`,
		Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&seen, "plan", "", "apply only if it does what this plan says: a file that comb config plan -o json wrote")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().StringVar(&change.IfMatch, "if-match", "*", "apply only if the present configuration has this tag (see comb config show)")
	c.Flags().Int64Var(&change.On, "on", 0, "the version that comb config plan planned on: a change of someone else since then is refused (default: any)")
	c.Flags().StringVar(&change.Reason, "reason", "", "why; comb config history shows it")
	c.Flags().StringVar(&change.Until, "until", "", "go back by itself then: a time such as 2026-03-06T18:00:00Z, or a duration such as 7d")
	c.RunE = func(c *cobra.Command, args []string) error {
		file, err := k.ReadFile(args[0], rest.MaxConfigBody)
		if err != nil {
			return err
		}
		client, err := k.Client()
		if err != nil {
			return err
		}
		warned, err := k.confirmEffect(c.Context(), client, confirmedFile{args[0], file, seen, yes}, &change)
		if err != nil {
			return err
		}
		out, err := client.ApplyConfigAs(c.Context(), file, change)
		if err != nil {
			return k.refusedFile(args[0], err)
		}
		shown := func(text string) bool { return slices.Contains(warned, text) }
		k.Warn(args[0], slices.DeleteFunc(slices.Clone(out.Warnings), shown))
		return k.Show(out, func(t *cli.Table) {
			if len(out.Effects) == 0 {
				t.Line("%s: no change", args[0])
				return
			}
			t.Line("%s applied", args[0])
			effects(t, out.Effects)
		})
	}
	return c
}

func (k *configCommands) keep() *cobra.Command {
	return &cobra.Command{Use: "keep", Short: "Keep the present configuration, which has an end (apply --until)",
		Args: cobra.NoArgs,
		Long: `Keep the present configuration: the server does not go back at the end that it was given
with comb config apply --until. It is the same as to apply its file again.`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			now, err := client.Config(c.Context())
			if err != nil {
				return err
			}
			if now.Until == 0 {
				return k.Show(rest.Done{}, func(t *cli.Table) {
					t.Line("the present configuration has no end")
				})
			}
			file, err := client.ConfigFile(c.Context())
			if err != nil {
				return err
			}
			out, err := client.ApplyConfigAs(c.Context(), file, rest.ConfigChange{IfMatch: now.ETag})
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				for _, text := range out.Effects {
					t.Line("%s", text)
				}
			})
		}}
}

func (k *configCommands) plan() *cobra.Command {
	coded, until := false, ""
	c := &cobra.Command{Use: "plan FILE", Short: "Show every effect that a cluster file would have on the running cluster",
		Long: `Show every effect that a cluster file would have: virtual clusters, cells and
nodes that come, go, change or get another name, running jobs that lose their
guarantee or drain, and waiting jobs that can never start or now can. Nothing is
changed; comb config apply does it. With --exit-code the exit code is 0 where it changes
nothing, 8 where no running work loses by it, and 9 where some is stopped or loses its guarantee.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := k.ReadFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			client, err := k.Client()
			if err != nil {
				return err
			}
			out, err := client.PlanConfigUntil(c.Context(), file, until)
			if err != nil {
				return k.refusedFile(args[0], err)
			}
			k.Warn(args[0], out.Warnings)
			err = k.Show(out, func(t *cli.Table) {
				if !out.Changed {
					t.Line("%s: no change", args[0])
					effects(t, out.Ends)
					return
				}
				drawPlan(t, args[0], &out)
			})
			switch {
			case err != nil || !coded || !out.Changed:
				return err
			case out.Loses():
				return cli.Outcome(exitLoses)
			}
			return cli.Outcome(exitChanges)
		}}
	c.Flags().StringVar(&until, "until", "", "as for comb config apply: what becomes of that end, and of the present one, is said")
	c.Flags().BoolVar(&coded, "exit-code", false, "tell by the exit code what the file would do: 0 nothing, 8 a change, 9 one that stops running work or takes its guarantee")
	return c
}

// The exit codes of a plan, besides those of every command.
const (
	exitChanges = 8
	exitLoses   = 9
)
