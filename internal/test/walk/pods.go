package walk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// podSteps are the days of a user whose jobs become pods: those of containers, and what a cluster
// adds.
func podSteps() []step {
	return []step{
		{"the cluster file names a claim as a storage, and job run reads it in a pod", readStorage},
		{"a pod runs in a copy of a folder with code, and tells its progress", podUpload},
		{"a prod gang of pods meets by name, and preempts one that checkpoints and resumes", boxedGang},
		{"an administrator looks at what the cluster has of what Comb needs", checked},
		{"a tenant with kubectl gets no GPU, and reads why", tenantRefused},
		{"a pod of others takes the GPUs of a node: what shows nodes says so, and a job waits for it", heldByOthers},
		{"kubectl finds a job's pod by the job's name, and its log and events say what happens", seenByKubectl},
		{"the server is killed, and the pod goes on", boxedKill},
		{"the API server of Kubernetes goes away and comes back, and what is shown says so", apiServerAway},
		{"the day is replayed, and every decision is taken again", podsVerified},
	}
}

// podCluster is the name of the cluster file in the user's folder, in which the server starts.
const podCluster = "cluster.yaml"

// writePods writes the cluster file and the data of its storage.
func (w *walk) writePods() error {
	file, err := w.write(podCluster, fmt.Sprintf(podsClusterFile, w.Pods.Node, w.Pods.Others, w.Pods.Claim))
	if err != nil {
		return err
	}
	for i, a := range w.server.Args {
		if a == podCluster {
			w.server.Args[i] = file
		}
	}
	data := filepath.Join(w.Pods.Folder, "data-set")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "words"), []byte("of the storage\n"), 0o644)
}

func podUpload(ctx context.Context, w *walk) error {
	if err := coded(ctx, w, "in /comb/work", "--image", w.Images[0]); err != nil {
		return err
	}
	if _, err := w.must(ctx, "job", "run", "--vc", "red", "--name", "teller", "--image", w.Images[0], "--gpus", "1", "--",
		"sh", "-c", `echo '{"step": 3, "total": 3}' >> $COMB_PROGRESS_FILE`); err != nil {
		return err
	}
	j, err := w.job(ctx, "teller")
	if err != nil {
		return err
	}
	p := j.Tasks[0].Progress
	w.expect(p != nil && p.Step == 3, "its progress is told", "%+v", p)
	return nil
}

func podsVerified(ctx context.Context, w *walk) error {
	if err := w.server.Stop(); err != nil {
		return err
	}
	verified, err := w.comb(ctx, "journal", "verify", "--data", w.server.Data)
	if err != nil {
		return err
	}
	w.expect(verified.code == 0 && strings.Contains(verified.out, "sound"), "the journal is sound", "exit code %d: %s", verified.code, verified.all())
	stopped := []string{"boxed-survivor", "eight", "through"}
	for name, j := range w.jobs {
		w.expect(j.Phase == model.Succeeded || slices.Contains(stopped, name), "job "+name+" ended well", "%s", j.Phase)
	}
	return nil
}
