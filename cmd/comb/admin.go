package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/config"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/script"
	"github.com/combsched/comb/internal/store"
)

func (a *app) configCommand() *cobra.Command {
	show := &cobra.Command{Use: "show", Short: "Show the present configuration", Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			out, err := client.Config(c.Context())
			if err != nil {
				return err
			}
			if a.format == "table" {
				return a.showYAML(out)
			}
			return a.show(out, nil)
		}}
	return noun("config", "The configuration: cells, nodes and virtual clusters", a.configValidate(), a.configApply(), show)
}

func (a *app) configValidate() *cobra.Command {
	return &cobra.Command{Use: "validate FILE", Short: "Check a cluster file and say what it would do to the server's jobs",
		Long: `Check a cluster file. A running server says what the file would do to its jobs;
without one the file alone is checked, and what it describes is shown.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.readFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			client, err := a.client()
			var out rest.ConfigChecked
			if err == nil {
				out, err = client.ValidateConfig(c.Context(), file)
			}
			var gone *rest.Unreachable
			if errors.As(err, &gone) && !a.serverNamed() {
				return a.validateAlone(args[0], file)
			}
			if err != nil {
				return inFile(args[0], err)
			}
			a.warn(args[0], out.Warnings)
			return a.show(out, func(t *table) {
				text := "is the present configuration"
				if out.Changed {
					text = "is sound and changes the configuration"
				}
				t.line("%s: %s", args[0], text)
				for _, e := range out.Effects {
					t.line("  %s", e)
				}
			})
		}}
}

// validateAlone checks a cluster file when there is no server to hold it against.
func (a *app) validateAlone(name string, src []byte) error {
	c, warnings, problems := config.Parse(name, src, policy.Names()...)
	out := rest.ConfigChecked{Changed: true}
	for _, w := range warnings {
		fmt.Fprintf(a.errs, "warning: %s\n", clean(w.String(), false))
		out.Warnings = append(out.Warnings, w.String())
	}
	if len(problems) > 0 {
		lines := []string{name + ": the cluster file cannot be used"}
		for _, p := range problems.Sorted() {
			lines = append(lines, "  "+p.String())
		}
		return &located{strings.Join(lines, "\n"), problems}
	}
	out.Config = c.Config
	return a.show(out, func(t *table) {
		t.line("%s: is sound; no server runs here that it could change", name)
		for line := range strings.Lines(config.Summary(c)) {
			t.line("  %s", strings.TrimSuffix(line, "\n"))
		}
	})
}

func (a *app) configApply() *cobra.Command {
	etag := ""
	c := &cobra.Command{Use: "apply FILE", Short: "Replace the configuration; what still fits runs on",
		Args: args(cobra.ExactArgs(1))}
	c.Flags().StringVar(&etag, "if-match", "*", "apply only if the present configuration has this tag (see comb config show)")
	c.RunE = func(c *cobra.Command, args []string) error {
		file, err := a.readFile(args[0], rest.MaxConfigBody)
		if err != nil {
			return err
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		out, err := client.ApplyConfig(c.Context(), file, etag)
		if err != nil {
			return inFile(args[0], err)
		}
		return a.show(out, func(t *table) {
			t.line("%s applied", args[0])
			for _, e := range out.Effects {
				t.line("  %s", e)
			}
		})
	}
	return c
}

func (a *app) journalCommand() *cobra.Command {
	data := ""
	verify := &cobra.Command{Use: "verify", Short: "Replay a data directory's journal and take every decision again",
		Long: `Replay a data directory's journal from its first event: every decision of this
version is taken again and must agree bit for bit, and every invariant is checked.
The server may run meanwhile. Nothing is written.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := store.Open(c.Context(), first(data, a.defaultData()), store.Options{ReadOnly: true})
			if err != nil {
				return err
			}
			defer s.Close()
			report, err := engine.Verify(c.Context(), s, policy.New)
			if err != nil {
				return err
			}
			err = a.show(report, func(t *table) { drawReport(t, &report) })
			if err == nil && len(report.Problems) > 0 {
				return outcome(exitFailure)
			}
			return err
		}}
	verify.Flags().StringVar(&data, "data", "", "data directory (default: that of comb serve)")
	_ = verify.MarkFlagDirname("data")
	return noun("journal", "The journal: the stream of events that is the database", verify)
}

func drawReport(t *table, r *engine.Report) {
	t.row("events", number(r.Events))
	t.row("decisions", number(r.Decisions)+" taken again, and equal")
	t.row("other versions", number(r.Other)+" replayed only")
	t.row("snapshots", number(r.Snapshots)+" compared, and equal")
	t.row("invariants", number(r.Invariants)+" times checked")
	t.row("digest", r.Digest)
	for _, p := range r.Problems {
		t.row("problem", fmt.Sprintf("event %d: %s", p.Seq, p.Message))
	}
	if len(r.Problems) == 0 {
		t.row("journal", "sound")
	}
}

func (a *app) scriptCommand() *cobra.Command {
	return &cobra.Command{Use: "script FILE", Short: "Run a scenario on a simulated cluster; no server is needed",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := a.readFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			err = script.Run(a.out, args[0], src)
			if err != nil && !errors.Is(err, script.ErrAssert) {
				return hint{usageError{c, err}, "the commands are in docs/script.md"}
			}
			return err
		}}
}
