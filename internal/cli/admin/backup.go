package admin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine/upkeep"
)

func backupCommand(a *commands) *cobra.Command {
	var data string
	var o upkeep.BackupOptions
	create := &cobra.Command{Use: "create FILE", Short: "Make one file of a data directory, while its server runs",
		Long: `Make one file of a data directory, while its server runs on it: all that the server knows, as of one
event, uploads, and the key of secrets, which stay encrypted. Keep it as safe as the directory itself.
Work and checkpoints of jobs are not in it; logs are with --logs.`,
		Example: "  comb backup create /backup/comb-$(date +%F).tar.gz\n  comb backup verify /backup/comb-2026-03-02.tar.gz",
		Args:    cli.Args(cobra.ExactArgs(1))}
	create.Flags().StringVar(&data, "data", "", cli.DefaultDir)
	create.Flags().BoolVar(&o.Logs, "logs", false, "with the logs of jobs")
	_ = create.MarkFlagDirname("data")
	create.RunE = func(c *cobra.Command, args []string) error {
		o.Program, o.Now = a.Version, time.Now()
		dir := a.DataDir(data)
		r, err := upkeep.CreateBackup(c.Context(), dir.Path, args[0], o)
		if err != nil {
			return cli.Unfound(err, dir.Path)
		}
		return a.Show(r, func(t *cli.Table) {
			t.Row("of directory", dir.String())
			drawBackup(t, &r, "made")
		})
	}
	verify := &cobra.Command{Use: "verify FILE", Short: "Check that a backup is whole and that its journal replays",
		Args: cli.Args(cobra.ExactArgs(1)),
		Long: `Check a backup: each file in it against its sum, then all that comb journal verify checks. It is
unpacked beside the file for that, and removed again.`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			work, err := os.MkdirTemp(filepath.Dir(args[0]), ".comb-verify-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
			r, err := upkeep.ExtractBackup(c.Context(), args[0], work)
			if err == nil {
				err = upkeep.CheckDirectory(c.Context(), work, policy.New)
			}
			if err != nil {
				return err
			}
			return a.Show(r, func(t *cli.Table) { drawBackup(t, &r, "sound") })
		}}
	into := ""
	restore := &cobra.Command{Use: "restore FILE --data DIR", Short: "Make a data directory of a backup",
		Args: cli.Args(cobra.ExactArgs(1)),
		Long: `Make a data directory of a backup, in a folder that is not there or empty. It is checked as by
comb backup verify first. The server that the backup is of must not run any more: two would own the same GPUs.`,
		Example: "  comb backup restore /backup/comb-2026-03-02.tar.gz --data ./comb-data\n  comb serve --data ./comb-data",
		RunE: func(c *cobra.Command, args []string) error {
			if into == "" {
				return cli.Usage(c, "--data is missing: say where the data directory is to be made")
			}
			r, err := upkeep.RestoreBackup(c.Context(), args[0], into,
				func(dir string) error { return upkeep.CheckDirectory(c.Context(), dir, policy.New) })
			if err != nil {
				return err
			}
			return a.Show(r, func(t *cli.Table) {
				drawBackup(t, &r,
					"restored in "+into+"; start it: comb serve --data "+into)
			})
		}}
	restore.Flags().StringVar(&into, "data", "", "the data directory to make")
	_ = restore.MarkFlagDirname("data")
	return cli.Noun("backup", "Backups of a server's data directory", create, verify, restore)
}

func drawBackup(t *cli.Table, r *upkeep.BackupReport, state string) {
	t.Row("backup", r.Path)
	t.Row("made", r.Created)
	t.Row("of cluster", r.Cluster)
	t.Row("up to", fmt.Sprintf("event %d, job %d", r.Event, r.Job))
	logs := "without logs"
	if r.Logs {
		logs = "with logs"
	}
	t.Row("files", fmt.Sprintf("%d, %s, %s", r.Files, model.MemoryText((r.Bytes+1<<20-1)>>20), logs))
	t.Row("state", state)
}
