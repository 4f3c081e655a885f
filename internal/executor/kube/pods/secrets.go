package pods

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// First is the task of a gang to whose pod the gang's secrets belong.
func First(s *model.Start) int32 {
	return slices.MinFunc(s.Tasks, func(a, b model.TaskStart) int { return int(a.Task - b.Task) }).Task
}

// script is what the tasks of a role run. hidden says that it must not stand in their pods: it has
// secrets, or is too long.
func (t *Task) script(role *model.Role) (text string, hidden bool, err error) {
	lines := strings.Join(role.Launch.Command, "\n")
	if text, err = jobspec.RenderSecrets(lines, t.Secrets); err != nil {
		return "", false, &CannotError{err.Error()}
	}
	hidden = text != lines || len(text) > longest
	if t.beginsIn(role) == "" && t.ServerLink == nil {
		text = inOwnFolder + text
	}
	if len(role.Launch.Command) > 0 {
		text = setVariables + text
	}
	return text, hidden, nil
}

// roles are the roles of a gang that have tasks in it.
func (t *Task) roles() (list []int32) {
	for i := range t.Start.Tasks {
		list = append(list, t.Start.Tasks[i].Role)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// secrets are those of a gang, however many tasks it has: one for its hidden scripts, and one for
// the login to the registry of each role that has one.
func (m *Maker) secrets(t Task) (list []*corev1.Secret, err error) {
	scripts := map[string][]byte{}
	for _, r := range t.roles() {
		role := &t.Start.Job.Roles[r]
		text, hidden, err := t.script(role)
		if err != nil {
			return nil, err
		}
		if hidden {
			scripts[scriptOf(r)] = []byte(text)
		}
		pull, err := m.pullSecret(t, r)
		if err != nil {
			return nil, err
		}
		if pull != nil {
			list = append(list, pull)
		}
	}
	if len(scripts) > 0 {
		list = append(list, m.secret(m.attempt(t.Attempt), scripts))
	}
	return list, nil
}

// pullSecret holds the credentials for the registry of a role's image; nil where the job has none.
func (m *Maker) pullSecret(t Task, role int32) (*corev1.Secret, error) {
	image := t.Start.Job.Roles[role].Launch.Image
	login, err := jobspec.LoginOf(t.Secrets, image)
	if err != nil || login == nil {
		return nil, err
	}
	type auth struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	logins := map[string]auth{registryOf(image): {login.User, login.Password}}
	data, err := json.Marshal(map[string]map[string]auth{"auths": logins})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint(m.attempt(t.Attempt), "-pull-", role)
	s := m.secret(name, map[string][]byte{corev1.DockerConfigJsonKey: data})
	s.Type = corev1.SecretTypeDockerConfigJson
	return s, nil
}

// usePull lets a pod's image be pulled with the credentials of its role.
func (m *Maker) usePull(pod *corev1.Pod, t Task) error {
	pull, err := m.pullSecret(t, t.Task.Role)
	if err == nil && pull != nil {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: pull.Name}}
	}
	return err
}

// registryOf is the registry of an image, as kubelets look it up.
func registryOf(image string) string {
	if r := jobspec.RegistryOf(image); r != jobspec.RegistryOf("any") {
		return r
	}
	return "https://index.docker.io/v1/"
}

// scriptOf is the key of the script of a role.
func scriptOf(role int32) string { return fmt.Sprint(scriptKey, "-", role) }

func (m *Maker) secret(name string, data map[string][]byte) *corev1.Secret {
	yes := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ClusterLabel: m.Short()}},
		Immutable: &yes, Data: data}
}

// showScript lets a pod's task run the script of its role from a secret.
func showScript(pod *corev1.Pod, secret string, role int32) {
	mode := int32(0o440)
	source := corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode,
		Items: []corev1.KeyToPath{{Key: scriptOf(role), Path: scriptKey}}}
	volume := corev1.Volume{Name: scriptKey, VolumeSource: corev1.VolumeSource{Secret: &source}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	first := &pod.Spec.Containers[0]
	mount := corev1.VolumeMount{Name: scriptKey, MountPath: scriptDir, ReadOnly: true}
	first.VolumeMounts = append(first.VolumeMounts, mount)
	first.Command = []string{"/bin/sh", scriptDir + "/" + scriptKey}
}
