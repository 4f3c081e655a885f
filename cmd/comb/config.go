package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/config"
	"github.com/combsched/comb/internal/policy"
	"github.com/combsched/comb/internal/rest"
)

func (a *app) configCommand() *cobra.Command {
	show := &cobra.Command{Use: "show", Short: "Show the present configuration", Args: args(cobra.NoArgs),
		Long: `Show the present configuration: the cluster file that was applied, byte for byte, to
be edited and applied again. With -o json or yaml it is what the server made of it,
with its tag.`,
		Example:     "  comb config show > cluster.yaml",
		Annotations: map[string]string{moreFormats: fileFormat},
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if a.format == fileFormat || a.format == "table" {
				file, err := client.ConfigFile(c.Context())
				if err == nil {
					_, err = a.out.Write(file)
				}
				if err == nil || a.format == fileFormat || rest.CodeOf(err) != rest.CodeNotFound {
					return err
				}
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
	return noun("config", "The configuration: cells, nodes and virtual clusters", a.configValidate(), a.configPlan(), a.configApply(), show)
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
				return a.refusedFile(args[0], err)
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

// refusedFile shows the warnings of a file that a server refuses, and returns its mistakes.
func (a *app) refusedFile(name string, err error) error {
	var p *rest.Problem
	if errors.As(err, &p) {
		a.warn(name, p.Warnings)
	}
	return inFile(name, err)
}

// validateAlone checks a cluster file when there is no server to hold it against.
func (a *app) validateAlone(name string, src []byte) error {
	c, warnings, problems := config.Parse(name, src, config.Policies{Names: policy.Names(), New: policy.New})
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
			return a.refusedFile(args[0], err)
		}
		a.warn(args[0], out.Warnings)
		return a.show(out, func(t *table) {
			if len(out.Effects) == 0 {
				t.line("%s: no change", args[0])
				return
			}
			t.line("%s applied", args[0])
			for _, e := range out.Effects {
				t.line("  %s", e)
			}
		})
	}
	return c
}

func (a *app) configPlan() *cobra.Command {
	return &cobra.Command{Use: "plan FILE", Short: "Show every effect that a cluster file would have on the running cluster",
		Long: `Show every effect that a cluster file would have: virtual clusters, cells and
nodes that come, go, change or get another name, running jobs that lose their
guarantee or drain, and waiting jobs that can never start or now can. Nothing is
changed; comb config apply does it.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.readFile(args[0], rest.MaxConfigBody)
			if err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			out, err := client.PlanConfig(c.Context(), file)
			if err != nil {
				return a.refusedFile(args[0], err)
			}
			a.warn(args[0], out.Warnings)
			return a.show(out, func(t *table) {
				if !out.Changed {
					t.line("%s: no change", args[0])
					return
				}
				t.line("%s would do this:", args[0])
				for _, e := range out.Effects {
					t.line("  %s", e)
				}
			})
		}}
}
