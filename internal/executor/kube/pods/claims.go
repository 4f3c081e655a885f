package pods

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
)

// checkpointDir is where a task saves its work.
const checkpointDir = "/comb/checkpoint"

// mountClaims gives a pod the storages of its job, and the folder of its checkpoints. Each claim
// is one volume, of which the task sees only its own folder. Kubernetes makes missing folders,
// with the rights of the claim's root, and follows no link out of the claim.
func (m *Maker) mountClaims(pod *corev1.Pod, t Task) error {
	volumes := map[string]string{}
	mount := func(claim, folder, at string, readOnly bool) {
		name := volumes[claim]
		if name == "" {
			name = fmt.Sprintf("claim-%d", len(volumes))
			volumes[claim] = name
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name,
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
		first := &pod.Spec.Containers[0]
		first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, SubPath: folder, ReadOnly: readOnly})
	}
	for i := range t.Storages {
		s := &t.Storages[i]
		folder := s.Folder
		if s.PerUser {
			own, err := model.UserFolder(string(t.Start.Job.User))
			if err != nil {
				return &CannotError{"the storage " + s.Name + " cannot be used: " + err.Error()}
			}
			folder = path.Join(folder, own)
		}
		mount(s.Claim, folder, model.StorageTop+"/"+s.Name, s.ReadOnly)
	}
	if t.keepsWork() {
		mount(t.Work, m.WorkFolder(t.Start.ID), checkpointDir, false)
	}
	return nil
}

// WorkFolder is the folder of a job's checkpoints in the claim that holds all of them.
func (m *Maker) WorkFolder(id model.JobID) string {
	return fmt.Sprintf("comb-%s/%d", m.Short(), int64(id))
}

func (t *Task) keepsWork() bool { return t.Work != "" && t.Start.Job.Hints.Checkpoint }

// claimVariables say where a task finds its storages and its checkpoints.
func claimVariables(t Task) (env []model.EnvVar) {
	for i := range t.Storages {
		name := t.Storages[i].Name
		env = append(env, model.EnvVar{Name: model.StorageVariable(name), Value: model.StorageTop + "/" + name})
	}
	if t.keepsWork() {
		env = append(env, model.EnvVar{Name: "COMB_CHECKPOINT_DIR", Value: checkpointDir})
	}
	return env
}
