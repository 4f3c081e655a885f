package walk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// boxedSteps are the days of a user whose jobs bring images.
func boxedSteps() []step {
	return []step{
		{"a cluster file names a storage, and job run --image reads it", boxedStorage},
		{"a container's shared memory is as large as was asked for, else as its memory", boxedShared},
		{"a container runs in a copy of a folder with code", boxedUpload},
		{"two jobs on one machine run two systems, and neither sees the other", boxedSystems},
		{"a prod gang of containers meets by name, and preempts one that checkpoints and resumes", boxedGang},
		{"the server is killed, and the container goes on", boxedKill},
		{"the images that ran are listed", boxedImages},
	}
}

const boxedCluster = `physicalCluster:
  skuTypes:
    WALK-GPU: {gpu: 1, cpu: 1, memory: 512Mi}
  cellTypes:
    WALK-NODE: {childCellType: WALK-GPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: WALK-NODE, cellAddress: %s}
virtualClusters:
  red:
    virtualCells: [{cellType: WALK-NODE, cellNumber: 1}]
storages:
  data: {%s, readOnly: true}
`

func boxedStorage(ctx context.Context, w *walk) error {
	data := w.path("data-set")
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "words"), []byte("of the storage\n"), 0o644); err != nil {
		return err
	}
	file, err := w.write("cluster.yaml", fmt.Sprintf(boxedCluster, "walk-1", "folder: "+data))
	if err != nil {
		return err
	}
	if _, err := w.must(ctx, "config", "apply", "--yes", file); err != nil {
		return err
	}
	return readStorage(ctx, w)
}

// readStorage runs a job that reads the storage data.
func readStorage(ctx context.Context, w *walk) error {
	list, err := w.must(ctx, "storage", "list")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(list.out, model.StorageVariable("data")), "the storage is listed", "%s", list.all())
	a, err := w.comb(ctx, "job", "run", "--vc", "red", "--image", w.Images[0], "--storage", "data", "--gpus", "1", "--",
		"sh", "-c", "cat /mnt/data/words; touch /mnt/data/x || echo kept; exit 3")
	if err != nil {
		return err
	}
	w.expect(a.code == 10 && strings.Contains(a.errs, "exit 3") && strings.Contains(a.out, "of the storage") && strings.Contains(a.out, "kept"),
		"it reads the storage, cannot write it, and its exit code is told", "code %d: %s", a.code, a.all())
	no, err := w.comb(ctx, "job", "run", "--vc", "red", "--image", w.Images[0], "--storage", "etc", "--", "true")
	if err != nil {
		return err
	}
	w.expect(no.code == 1 && strings.Contains(no.errs, `VC red has no storage "etc"; it has data`), "another storage is refused, with those there are", "%s", no.all())
	return nil
}

func boxedShared(ctx context.Context, w *walk) error {
	for asked, want := range map[string]string{"--shm=100Mi": "102400", "--memory=200Mi": "204800"} {
		a, err := w.comb(ctx, "job", "run", "--vc", "red", "--image", w.Images[0], "--gpus", "1", asked, "--",
			"sh", "-c", "df -k /dev/shm | awk 'NR == 2 {print \"KiB\", $2}'")
		if err != nil {
			return err
		}
		w.expect(a.code == 0 && strings.Contains(a.out, "KiB "+want+"\n"),
			asked+" is what /dev/shm is as large as", "code %d: %s", a.code, a.all())
	}
	no, err := w.comb(ctx, "job", "run", "--vc", "red", "--image", "Not An:Image", "--gpus", "1", "--", "true")
	if err != nil {
		return err
	}
	w.expect(no.code == 1 && strings.Contains(no.errs, "Not An:Image"),
		"no image's name is refused at once", "code %d: %s", no.code, no.all())
	return nil
}

func boxedUpload(ctx context.Context, w *walk) error {
	return coded(ctx, w, "in /comb/work", "--image", w.Images[1])
}

func boxedSystems(ctx context.Context, w *walk) error {
	script := "cat /etc/os-release; ls -d /proc/[0-9]* | wc -l; while [ ! -e $COMB_CHECKPOINT_DIR/go ]; do sleep 0.1; done"
	for i, image := range w.Images {
		if _, err := w.must(ctx, "job", "run", "-d", "--vc", "red", "--name", fmt.Sprint("system-", i), "--image", image, "--gpus", "1", "--", "sh", "-c", script); err != nil {
			return err
		}
	}
	var said [2]string
	for i := range said {
		name := fmt.Sprint("system-", i)
		if _, err := w.until(ctx, name, "saying its system", func(rest.Job) bool {
			a, err := w.comb(ctx, "job", "logs", name)
			said[i] = strings.Join(strings.Fields(a.out), " ")
			return err == nil && len(strings.Fields(a.out)) > 1
		}); err != nil {
			return err
		}
	}
	w.expect(said[0] != said[1] && !strings.Contains(said[0], "No such"), "two systems at once", "%s | %s", said[0], said[1])
	for i := range said {
		few := strings.HasSuffix(said[i], " 2") || strings.HasSuffix(said[i], " 3") || strings.HasSuffix(said[i], " 4") || strings.HasSuffix(said[i], " 5")
		w.expect(few, "it sees its own processes alone", "%s", said[i])
	}
	return w.stop(ctx, "system-0", "system-1")
}

// boxedSaver counts to 60 and goes on where its last attempt was asked to stop; the first attempt
// counts no further than to 30, so that it is there to be asked.
const boxedSaver = `n=$(cat $COMB_CHECKPOINT_DIR/n 2>/dev/null || echo 0); echo from $n
trap 'echo $n > $COMB_CHECKPOINT_DIR/n; echo saved $n; exit 0' TERM
while [ $n -lt 60 ]; do
  if [ $n -lt 30 ] || [ -e $COMB_CHECKPOINT_DIR/n ]; then n=$((n+1)); fi; sleep 0.1
done; echo counted $n`

const boxedGangFile = `protocolVersion: 2
name: boxed-gang
type: job
prerequisites:
- {type: dockerimage, name: box, uri: %q}
taskRoles:
  worker:
    instances: 2
    dockerImage: box
    completion: {minSucceededInstances: 2}
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 1}
    commands:
    - if [ $RANK = 0 ]; then echo "heard $(nc -l -p $MASTER_PORT)"; exit 0; fi
    - echo hello >hello # from a file: nc ends when the other side says no more, even before a pipe is written
    - until nc $MASTER_ADDR $MASTER_PORT <hello; do sleep 0.1; done
defaults: {virtualCluster: red}
extras:
  hivedScheduler: {jobPriorityClass: prod}
`

func boxedGang(ctx context.Context, w *walk) error {
	if _, err := w.must(ctx, "job", "run", "-d", "--vc", "red", "--name", "saver", "--checkpoint", "--grace", "10s", "--image", w.Images[0],
		"--gpus", "1", "--", "sh", "-c", boxedSaver); err != nil {
		return err
	}
	if _, err := w.until(ctx, "saver", "counting", func(rest.Job) bool {
		a, err := w.comb(ctx, "job", "logs", "saver")
		return err == nil && strings.Contains(a.out, "from 0")
	}); err != nil {
		return err
	}
	file, err := w.write("boxed-gang.yaml", fmt.Sprintf(boxedGangFile, w.Images[1]))
	if err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "submit", file); err != nil {
		return err
	}
	gang, err := w.ended(ctx, "boxed-gang")
	if err != nil {
		return err
	}
	heard, err := w.must(ctx, "job", "logs", "boxed-gang", "--task", "worker-0")
	if err != nil {
		return err
	}
	w.expect(gang.Phase == model.Succeeded && strings.Contains(heard.out, "heard hello"), "its tasks find each other by name", "%s: %s", gang.Phase, heard.all())
	saver, err := w.ended(ctx, "saver")
	if err != nil {
		return err
	}
	first, err := w.must(ctx, "job", "logs", "saver", "--attempt", "1")
	if err != nil {
		return err
	}
	last, err := w.must(ctx, "job", "logs", "saver")
	if err != nil {
		return err
	}
	w.expect(strings.Contains(first.out, "saved "), "the preempted container saves when it is asked", "%s", first.all())
	w.expect(saver.Phase == model.Succeeded && !strings.Contains(last.out, "from 0") && strings.Contains(last.out, "counted 60"),
		"and goes on from there", "%s: %s", saver.Phase, last.all())
	return nil
}

func boxedKill(ctx context.Context, w *walk) error {
	if _, err := w.must(ctx, "job", "run", "-d", "--vc", "red", "--name", "boxed-survivor", "--image", w.Images[0], "--gpus", "1", "--",
		"sh", "-c", "until [ -s go ]; do sleep 0.1; done; while kill -0 $(cat go) 2>/dev/null; do sleep 0.1; done; "+
			"echo survived; exit 7"); err != nil {
		return err
	}
	before, err := w.until(ctx, "boxed-survivor", "running", running)
	if err != nil {
		return err
	}
	w.server.Kill()
	if err := w.server.Start(ctx); err != nil {
		return err
	}
	after, err := w.until(ctx, "boxed-survivor", "running", running)
	if err != nil {
		return err
	}
	w.expect(before.Tasks[0].PID == after.Tasks[0].PID && after.Tasks[0].Attempt == 1, "the same process runs",
		"process %d, then %d, attempt %d", before.Tasks[0].PID, after.Tasks[0].PID, after.Tasks[0].Attempt)
	// It waits for the command's end: a command beside a task ends with it.
	if _, err := w.must(ctx, "job", "exec", "boxed-survivor", "--", "sh", "-c", "echo $$ > go"); err != nil {
		return err
	}
	j, err := w.ended(ctx, "boxed-survivor")
	if err != nil {
		return err
	}
	out, err := w.must(ctx, "job", "logs", "boxed-survivor")
	if err != nil {
		return err
	}
	w.expect(j.Tasks[0].Exit != nil && j.Tasks[0].Exit.Code == 7 && strings.Contains(out.out, "survived"), "its exit code and output are there", "%+v: %s", j.Tasks[0].Exit, out.all())
	return nil
}

func boxedImages(ctx context.Context, w *walk) error {
	a, err := w.must(ctx, "image", "list")
	if err != nil {
		return err
	}
	ok := true
	for _, image := range w.Images {
		ok = ok && strings.Contains(a.out, image)
	}
	w.expect(ok, "both images are listed", "%s", a.all())
	return nil
}
