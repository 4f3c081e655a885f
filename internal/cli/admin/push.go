package admin

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/spec/config"
)

func (k *configCommands) push() *cobra.Command {
	dir, what, yes, printed := "", "service", false, false
	c := &cobra.Command{Use: "push -p DIR [-m service]", Short: "Apply the configuration of an OpenPAI cluster, from its folder", Args: cobra.NoArgs,
		Long: `Make a cluster file of the folder in which an OpenPAI cluster keeps its configuration, show in
one table what of it is taken over, changed and left out and what is left to do, show what the file
would do, ask, and apply it: the scheduler's own configuration where services-configuration.yaml has
one (hivedscheduler.config), else one virtual cluster of all workers of layout.yaml. What it lacks is
added: access of virtual clusters, and makers of devices. --print only prints the cluster file, when
it can be used.`,
		Example: "  comb config push -p ./cluster-configuration -m service\n  comb config push -p ./cluster-configuration --print > cluster.yaml"}
	c.Flags().StringVarP(&dir, "path", "p", "", "the folder with layout.yaml and services-configuration.yaml")
	c.Flags().StringVarP(&what, "model", "m", what, "as paictl has it: service, machine or all; all do the same")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&printed, "print", false, "print the cluster file, and change nothing")
	_ = c.MarkFlagDirname("path")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if dir == "" {
			return cli.Usage(c, "-p is missing: name the folder with layout.yaml and services-configuration.yaml")
		}
		if what != "service" && what != "machine" && what != "all" {
			return cli.Usage(c, "-m %q: want service, machine or all", what)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is no folder that can be read", dir)
		}
		made, err := config.Convert(os.DirFS(dir))
		if err != nil {
			return &cli.Located{Text: dir + ": the configuration cannot be used\n" + err.Error(), Err: err}
		}
		warnings, err := k.usable(dir, &made)
		if err != nil {
			return err
		}
		k.printRows(made.Rows)
		if printed {
			k.Warn(made.From, warnings)
			_, err := k.Out.Write(made.File)
			return err
		}
		client, err := k.Client()
		if err != nil {
			return err
		}
		return k.planAndApply(c.Context(), client, plannedFile{name: made.From, file: made.File, yes: yes,
			done:   "applied",
			change: rest.ConfigChange{Reason: "pushed from " + made.From}})
	}
	return c
}

// usable checks whether a server could use the converted file, as the server would: a file
// that it would refuse is not printed. Mistakes that are already in the user's own file have
// their places there.
func (k *configCommands) usable(dir string, made *config.Converted) (warnings []string, err error) {
	policies := config.Policies{Names: policy.Names(), New: policy.New, Named: true}
	_, _, problems := config.Parse(made.Name, made.Source, policies)
	if len(problems) == 0 {
		var said document.Problems
		_, said, problems = config.Parse("", made.File, policies)
		for _, w := range said {
			warnings = append(warnings, w.String())
		}
	}
	if len(problems) > 0 {
		return nil, &cli.Located{Text: dir + ": the cluster file cannot be used\n" + problems.Error(), Err: problems}
	}
	return warnings, nil
}

// printRows prints what became of each part of the folder.
func (k *configCommands) printRows(rows []config.Row) {
	t := tabwriter.NewWriter(k.Errs, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BECAME\tWHAT\tHERE")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Fate, r.Where, r.Says)
	}
	_ = t.Flush()
}

func (k *configCommands) id() *cobra.Command {
	return &cobra.Command{Use: "get-id", Short: "Show the identity of the cluster", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			info, err := client.Info(c.Context())
			if err != nil {
				return err
			}
			return k.Show(info, func(t *cli.Table) { t.Line("%s", info.Cluster) })
		}}
}
