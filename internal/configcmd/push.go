package configcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/paiconfig"
	"github.com/combsched/comb/internal/rest"
)

func (k *Kit) push() *cobra.Command {
	dir, what, yes, printed := "", "service", false, false
	c := &cobra.Command{Use: "push -p DIR [-m service]", Short: "Apply the configuration of an OpenPAI cluster, from its folder", Args: cobra.NoArgs,
		Long: `Make a cluster file of the folder in which an OpenPAI cluster keeps its configuration, show what is left out and what it would
do, ask, and apply it: the scheduler's own configuration where services-configuration.yaml has one (hivedscheduler.config), else one
virtual cluster of all workers of layout.yaml. --print only prints the cluster file.`,
		Example: "  comb config push -p ./cluster-configuration -m service\n  comb config push -p ./cluster-configuration --print > cluster.yaml"}
	c.Flags().StringVarP(&dir, "path", "p", "", "the folder with layout.yaml and services-configuration.yaml")
	c.Flags().StringVarP(&what, "model", "m", what, "as paictl has it: service, machine or all; all do the same")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&printed, "print", false, "print the cluster file, and change nothing")
	_ = c.MarkFlagDirname("path")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if dir == "" {
			return k.Usage(c, "-p is missing: name the folder with layout.yaml and services-configuration.yaml")
		}
		if what != "service" && what != "machine" && what != "all" {
			return k.Usage(c, "-m %q: want service, machine or all", what)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is no folder that can be read", dir)
		}
		made, err := paiconfig.Convert(os.DirFS(dir))
		if err != nil {
			return k.Located(dir+": the configuration cannot be used\n"+err.Error(), err)
		}
		k.Warn("", made.Notes)
		if printed {
			_, err := k.Out.Write(made.File)
			return err
		}
		client, err := k.Client()
		if err != nil {
			return err
		}
		return k.offer(c.Context(), client, offered{name: made.From, file: made.File, yes: yes, done: "applied",
			change: rest.ConfigChange{Reason: "pushed from " + made.From}})
	}
	return c
}

func (k *Kit) id() *cobra.Command {
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
			return k.Show(info, func(line func(string, ...any)) { line("%s", info.Cluster) })
		}}
}
