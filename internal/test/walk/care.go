package walk

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
)

// versions: what was applied stays as versions, and an earlier one comes back.
func versions(ctx context.Context, w *walk) error {
	var before, after rest.ConfigVersions
	if err := w.read(ctx, &before, "config", "history"); err != nil {
		return err
	}
	w.expect(len(before.Versions) >= 3 && before.Versions[0].Present, "each file that was applied is a version, the latest in force", "%d versions", len(before.Versions))
	if len(before.Versions) < 3 {
		return nil
	}
	earlier := strconv.FormatInt(before.Versions[1].Version, 10)
	diff, err := w.must(ctx, "config", "diff", earlier)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(diff.out, "\n-") && strings.Contains(diff.out, "\n+"), "what differs is told line by line", "%s", diff.all())
	if _, err := w.must(ctx, "config", "rollback", earlier, "--yes", "--reason", "as it was in the morning"); err != nil {
		return err
	}
	if err := w.read(ctx, &after, "config", "history"); err != nil {
		return err
	}
	v := after.Versions[0]
	w.expect(v.Restores == before.Versions[1].Version && v.Present && v.Reason == "as it was in the morning",
		"a rollback is a new version with its reason", "version %d restores %d: %s", v.Version, v.Restores, v.Reason)
	_, err = w.must(ctx, "config", "apply", "--yes", w.path("cluster.yaml"))
	return err
}

// backedUp: a backup is made of the running server, is sound, and becomes a data directory with the
// day's jobs.
func backedUp(ctx context.Context, w *walk) error {
	file, dir := w.path("backup.tar.gz"), w.path("restored")
	for _, args := range [][]string{{"create", file, "--data", w.server.Data, "--logs"}, {"verify", file}, {"restore", file, "--data", dir}} {
		a, err := w.comb(ctx, append([]string{"backup"}, args...)...)
		if err != nil {
			return err
		}
		w.expect(a.code == 0, "comb backup "+args[0]+" succeeds while the server runs", "exit code %d: %s", a.code, a.all())
	}
	was, err := w.must(ctx, "journal", "verify", "--data", dir)
	if err != nil {
		return err
	}
	w.expect(strings.Contains(was.out, "sound"), "the restored journal is sound", "%s", was.all())
	logs, err := filepath.Glob(filepath.Join(dir, "jobs", "*", "*", "*", "stdout*"))
	w.expect(len(logs) > 0, "the logs are there", "%d files", len(logs))
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
