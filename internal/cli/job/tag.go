package job

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

func (k *commands) tag() *cobra.Command {
	remove := false
	c := &cobra.Command{Use: "tag JOB TAG...", Short: "Give a job tags, or take them off; job list --tag finds it by them",
		Long: `Give a job tags, or take them off with --remove. A tag is up to 64 letters, digits and . _ : = @ + -;
a job has 32 at most, also when it has ended. job list --tag lists the jobs that have one.`,
		Example: "  comb job tag train baseline lr=0.1\n  comb job tag train baseline --remove\n  comb job list --tag baseline"}
	c.Flags().BoolVar(&remove, "remove", false, "take the tags off")
	var tags []string
	c = k.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		var out rest.Tagged
		for _, tag := range tags {
			var err error
			if out, err = client.Tag(ctx, ref, tag, !remove); err != nil {
				return err
			}
		}
		return k.Show(out, func(t *cli.Table) {
			if len(out.Tags) == 0 {
				t.Line("job %s has no tags", ref)
				return
			}
			t.Line("job %s: %s", ref, strings.Join(out.Tags, " "))
		})
	})
	one := c.RunE
	c.Args = nil
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.Usage(c, "want a job and its tags: comb job tag JOB TAG...")
		}
		tags = args[1:]
		var wrong []string
		for _, tag := range tags {
			if why := rest.CheckTag(tag); why != "" {
				wrong = append(wrong, why)
			}
		}
		if len(wrong) > 0 { // either all are set or none
			return cli.Usage(c, "%s", strings.Join(wrong, "\n"))
		}
		return one(c, args[:1])
	}
	return c
}
