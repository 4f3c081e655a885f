package containers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// looks is what a task of root finds of its storages: it reads, writes, follows a link that leads
// out, and looks where it was given nothing.
const looks = `
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo $what may; else echo $what may not; fi; }
put() { echo "$2" > $1; }
cat $COMB_STORAGE_DATA/words
echo mounts $(ls /mnt | tr '\n' ' ')
echo own $(ls $COMB_STORAGE_HOMES | tr '\n' ' ')
try write-data put /mnt/data/x x
try remount mount -o remount,rw /mnt/data
try write-home put /mnt/homes/mine x
try other-user ls /mnt/homes/../bob
try link cat /mnt/data/out
try host ls $FOLDER
try setuid chmod u+s $FILE
try setgid chmod g+s $FILE
try sticky chmod 1777 $FILE
try device mknod $FILE.device b 8 0
`

// A working directory is looked at as the task's user: one that process 1 may not enter can be
// used, and one that only process 1 may enter cannot.
func TestWorkingDirectories(t *testing.T) {
	dir := t.TempDir()
	for name, user := range map[string]int{"own": 1000, "other": 64789} {
		if err := os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{name, name + "/deep"} {
			if err := os.Chown(filepath.Join(dir, path), user, user); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plain+fmt.Sprintf("\nstorages:\n  data: {folder: %s}\n", dir))
	w.engine.Import("local.test/user:1", nil, "USER 1000")
	for name, want := range map[string]string{
		"own": "", "own/deep": "", "other": "cannot be entered by user 1000: allow", "other/deep": "cannot be entered by user 1000: allow",
		"none": "does not exist or is no directory", "file": "does not exist or is no directory",
	} {
		ref := w.submit(with(strings.ReplaceAll("in-"+name, "/", "-"), "local.test/user:1", "pwd") +
			"extras: {comb: {storages: [data], taskRoles: {worker: {workDir: /mnt/data/" + name + "}}}}\n")
		j := w.ends(ref)
		out, said, _ := w.cli("job", "logs", ref)
		if want == "" && (j.Phase != model.Succeeded || strings.TrimSpace(out) != "/mnt/data/"+name) {
			t.Errorf("%s: %s: %+v, it printed %q", name, j.Phase, j.Tasks[0].Exit, out)
		}
		why := "comb: the task did not start: the working directory /mnt/data/" + name + " " + want
		if want != "" && !strings.Contains(said, why) {
			t.Errorf("%s: its log says %q", name, said)
		}
		if x := j.Tasks[0].Exit; want != "" && (j.Phase != model.Failed || x == nil || !strings.Contains(x.Message, "the working directory /mnt/data/"+name+" "+want)) {
			t.Errorf("%s: %s: %+v", name, j.Phase, x)
		}
	}
}

// Jobs see the storages that they name and nothing of others, at one path; what is read-only they
// cannot write.
func TestStorages(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"data/words": "of the storage\n", "homes/bob/secret": "bob's\n", "more/x": "", "outside": "outside\n"} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "data/out")); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plain+fmt.Sprintf(`
storages:
  data: {folder: %[1]s/data, readOnly: true}
  homes: {folder: %[1]s/homes, perUser: true}
  more: {folder: %[1]s/more}
  gone: {folder: %[1]s/gone}
`, dir))
	w.engine.Import("local.test/looks:1", map[string]string{"looks.sh": looks})
	file := "/mnt/homes/mine"
	asks := func(name, storages string) string {
		return with(name, "local.test/looks:1", "FOLDER="+dir+" FILE="+file+" sh /looks.sh") +
			"extras: {comb: {storages: [" + storages + "]}}\n"
	}
	ref := w.submit(asks("looks", "data, homes"))
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	out, _, _ := w.cli("job", "logs", ref)
	const want = `of the storage
mounts data homes
own
write-data may not
remount may not
write-home may
other-user may not
link may not
host may not
setuid may not
setgid may not
sticky may
device may not
`
	if got := strings.ReplaceAll(out, " \n", "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "homes/admin/mine")); err != nil || string(data) != "x\n" {
		t.Errorf("the user's folder has %q, %v", data, err)
	}
	// What only reads storages keeps its files to itself: there the bits are its own matter.
	file = "/looks.sh"
	ref = w.submit(asks("own", "data"))
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if out, _, _ = w.cli("job", "logs", ref); !strings.Contains(out, "setuid may\nsetgid may\n") {
		t.Errorf("of its own file it says\n%s", out)
	}
	// Folders are looked up when the image is here, however long that took.
	h := newHub(t)
	slow := h.ref("team/slow:1")
	w.engine.Import(slow, map[string]string{"big": strings.Repeat("x", 1<<20)})
	w.engine.Push(slow, "", "")
	h.set(func() { h.rate = 300_000 })
	ref = w.submit(with("late", slow, "true") + "extras: {comb: {storages: [more]}}\n")
	w.until(ref, "its image is being fetched", func(j *rest.Job) bool { return noticed(j, "is being fetched") })
	if err := os.RemoveAll(filepath.Join(dir, "more")); err != nil {
		t.Fatal(err)
	}
	w.until(ref, "it is refused", func(*rest.Job) bool {
		out, _, _ := w.cli("job", "get", ref)
		return strings.Contains(out, "the storage more cannot be used here: its folder cannot be opened: no such file or directory; an administrator must look at it")
	})
	// One whose folder is gone waits, and says what an administrator must do; no path of the
	// machine is told.
	ref = w.submit(asks("gone", "gone"))
	w.until(ref, "it is refused", func(*rest.Job) bool {
		out, _, _ := w.cli("job", "get", ref)
		return strings.Contains(out, "the storage gone cannot be used here: its folder cannot be opened: no such file or directory; an administrator must look at it") &&
			!strings.Contains(out, dir+"/gone")
	})
}
