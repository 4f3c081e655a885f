package admin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

func (k *imageCommands) build() *cobra.Command {
	var b rest.ImageBuild
	var vars []string
	c := &cobra.Command{Use: "build DIR", Short: "Build an image from a Dockerfile", Args: cobra.ExactArgs(1),
		Long: `Build an image from a Dockerfile and the files of a folder, on the machine that runs
tasks. What .dockerignore leaves out is not sent. Steps that an earlier build has done
are taken from it, and shown as cached. The build ends when this command is interrupted.
Administrators of the cluster may build: a Dockerfile runs anything.`,
		Example: "  comb image build -t team/train:3 .\n  comb image build -t team/train:3-gpu -f docker/gpu.Dockerfile --build-arg CUDA=12.4 ."}
	f := c.Flags()
	f.StringVarP(&b.Name, "tag", "t", "", "name of the image, such as team/train:3 (needed)")
	f.StringVarP(&b.Dockerfile, "file", "f", "Dockerfile", "the Dockerfile, as it is called in the folder")
	f.StringVar(&b.Target, "target", "", "build this stage (default: the last one)")
	f.StringArrayVar(&vars, "build-arg", nil, "NAME=VALUE of an ARG line, may repeat; the image's history shows it: no secrets")
	f.BoolVar(&b.NoCache, "no-cache", false, "do all steps again")
	f.BoolVar(&b.Pull, "pull", false, "look base images up in their registries, though they are on the machine")
	memory := new(cli.BudgetFlag)
	f.Var(memory, "memory", "memory of a step, such as 8Gi (default 4Gi)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if b.Name == "" {
			return cli.Usage(c, "the image has no name: give it one with --tag, such as team/train:3")
		}
		b.MemoryMB = memory.Bytes() >> 20
		for _, v := range vars {
			name, value, ok := strings.Cut(v, "=")
			if !ok || name == "" {
				return cli.Usage(c, "--build-arg %q: want NAME=VALUE", v)
			}
			if b.Args == nil {
				b.Args = map[string]string{}
			}
			b.Args[name] = value
		}
		return k.runBuild(c, args[0], &b)
	}
	return c
}

func (k *imageCommands) runBuild(c *cobra.Command, dir string, b *rest.ImageBuild) error {
	client, err := k.Client()
	if err != nil {
		return err
	}
	if b.Upload, err = rest.SendContext(c.Context(), client, dir, b.Dockerfile,
		func(text string) { k.Say("upload: " + text) }); err != nil {
		return err
	}
	id, err := client.BuildImage(c.Context(), *b, func(l rest.BuildLine) { k.Say(lineOf(&l)) })
	if err != nil {
		return err
	}
	return k.Show(rest.BuildLine{ID: id}, func(t *cli.Table) { t.Line("built %s: %s", b.Name, id) })
}

// lineOf writes a line of a build for people.
func lineOf(l *rest.BuildLine) string {
	switch {
	case l.Step == 0:
		return l.Text
	case l.Cached:
		return fmt.Sprintf("step %d/%d (cached): %s", l.Step, l.Steps, l.Text)
	}
	return fmt.Sprintf("step %d/%d: %s", l.Step, l.Steps, l.Text)
}
