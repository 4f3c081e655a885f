package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

func (k *commands) top() *cobra.Command {
	once := false
	c := &cobra.Command{Use: "top [JOB...]", Short: "Show what running jobs take: CPU, memory, disks, GPUs of the last minutes",
		Long: `Show what the tasks of running jobs take of their machines, again and again until it is interrupted: the CPUs of the last ten
minutes as a line, the present CPUs, memory, bytes a second from and to disks, and how busy its GPUs are. Without names these are
all running jobs that can be read. --once shows it once, as do -o json and an output that is no terminal.`,
		Example: "  comb job top\n  comb job top train --once"}
	c.Flags().BoolVar(&once, "once", false, "show it once")
	c = k.withJob(c, nil) // to complete names
	c.Args = nil
	c.RunE = func(c *cobra.Command, refs []string) error {
		if slices.Contains(refs, "") {
			return cli.Usage(c, "an argument of %s is empty; it wants JOB", c.CommandPath())
		}
		client, err := k.Client()
		if err != nil {
			return err
		}
		show := func() error {
			all, err := usages(c.Context(), client, refs)
			if err != nil {
				return err
			}
			return k.Show(all, func(t *cli.Table) { drawTop(t, all) })
		}
		if once || (!k.TTY || k.Format != "table") {
			return show()
		}
		return k.redraw(c.Context(), show)
	}
	return c
}

// mostTop bounds the jobs that are shown where none is named.
const mostTop = 100

// usages asks for the usage of jobs: the named ones, else all that run and can be read.
func usages(ctx context.Context, client *rest.Client, refs []string) ([]rest.JobUsage, error) {
	all := []rest.JobUsage{}
	named := len(refs) > 0
	if !named {
		list, err := client.Jobs(ctx, rest.JobQuery{States: []model.Phase{model.Active}, Limit: mostTop})
		if err != nil {
			return nil, err
		}
		for i := range list.Jobs {
			refs = append(refs, rest.JobRef(list.Jobs[i].ID))
		}
	}
	for _, ref := range refs {
		u, err := client.JobUsage(ctx, ref)
		if code := rest.CodeOf(err); !named && (code == rest.CodeNotFound || code == rest.CodeForbidden) {
			continue // it is another team's, or has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func drawTop(t *cli.Table, all []rest.JobUsage) {
	if !slices.ContainsFunc(all, func(u rest.JobUsage) bool { return len(u.Tasks) > 0 }) {
		t.Line("no task runs")
		return
	}
	t.Head("JOB", "TASK", "NODE", "LAST MINUTES", "CPUS", "MEMORY", "READ/S", "WRITTEN/S", "GPUS", "GPU BUSY",
		"GPU MEMORY")
	for i := range all {
		for j := range all[i].Tasks {
			u := &all[i].Tasks[j]
			row := []string{all[i].Ref, fmt.Sprintf("%s-%d", u.Role, u.Index), string(u.Node), "", "", "", "", "",
				fmt.Sprint(u.GPUs), "", ""}
			if n := len(u.Samples); n > 0 {
				s := u.Samples[n-1]
				row[3], row[4], row[5] = sparkline(u), of(fmt.Sprintf("%.2f", float64(s.MilliCPU)/1000),
					u.Limits.MilliCPU,
					model.CPUText), of(model.MemoryText(s.MemoryMB), u.Limits.MemoryMB, model.MemoryText)
				row[6], row[7] = bytesText(s.Read), bytesText(s.Written)
			}
			if d := u.Devices; d != nil {
				row[9], row[10] = fmt.Sprintf("%d%%", d.Util/10), model.MemoryText(d.MemoryMB)
			}
			t.Row(row...)
		}
	}
}

// of writes an amount, and its limit where there is one.
func of(now string, limit int64, text func(int64) string) string {
	if limit == 0 {
		return now
	}
	return now + " of " + text(limit)
}

// sparkline draws the CPUs of the last samples, at most 30, relative to the limit, or without one
// to their maximum.
func sparkline(u *rest.TaskUsage) string {
	const bars, most = "▁▂▃▄▅▆▇█", 30
	samples := u.Samples[max(0, len(u.Samples)-most):]
	top := u.Limits.MilliCPU
	for _, s := range samples {
		top = max(top, s.MilliCPU, 1)
	}
	out := []rune{}
	for _, s := range samples {
		out = append(out, []rune(bars)[s.MilliCPU*7/top])
	}
	return string(out)
}

func bytesText(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return model.MemoryText(n >> 20)
}
