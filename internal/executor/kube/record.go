package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/model"
)

// record is what is kept of a task outside the API server, so that nothing depends on what a
// tenant can write there.
type record struct {
	UID  types.UID   `json:"uid,omitempty"`  // "" in an existing record: its pod may have been made
	Made types.UID   `json:"made,omitempty"` // the pod's UID, before the pod has what it needs
	Exit *model.Exit `json:"exit,omitempty"`
	// Refused is told again after a restart, as an exit is. Refusing is told once the pod is
	// gone.
	Refused  *model.TaskRefused `json:"refused,omitempty"`
	Refusing *model.TaskRefused `json:"refusing,omitempty"`
	// Namespace is the pod's; "" is the server's own. NamespaceFault says that the refusal is for
	// the sake of its namespace, or of the image of Comb, and not for its node's.
	Namespace      string `json:"namespace,omitempty"`
	NamespaceFault bool   `json:"space,omitempty"`
	// Devices are the devices that its claims were given, each as POOL/DEVICE.
	Devices []string `json:"devices,omitempty"`
}

const recordFile = "pod.json"

// load reads the record, which is the last whole line of its file. begun says that there is one.
func (t *podTask) load() (begun bool, err error) {
	data, err := os.ReadFile(filepath.Join(t.dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for err == nil && len(data) > 0 {
		data = bytes.TrimSuffix(data, []byte("\n"))
		from := bytes.LastIndexByte(data, '\n') + 1
		r := t.record
		if json.Unmarshal(data[from:], &r) == nil { // else it is torn: by a crash, or a full disk
			t.record = r
			return true, nil
		}
		data = data[:from]
	}
	return false, err
}

// note adds a line to the record. A crash of the machine may lose it: then the API server and the
// seal tell the same.
func (t *podTask) note() error {
	data, err := json.Marshal(&t.record)
	if err != nil {
		return err
	}
	path := filepath.Join(t.dir, recordFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(t.dir, 0o700); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(append([]byte("\n"), data...), '\n')) // ends what a torn write left
	return errors.Join(err, f.Close())
}

// noteCreated notes which pod is a task's, before the pod gets what it needs to start. If that pod
// is gone later, a user has removed it with its finalizers, and it may still run: no other is made
// in its place.
func (t *podTask) noteCreated(pod *corev1.Pod) error {
	if t.record.Made != "" {
		return nil
	}
	t.record.Made = pod.UID
	err := t.note()
	if err != nil {
		t.record.Made = "" // it was not written
	}
	return err
}

// save replaces the record; it is on the disk when this returns.
func (t *podTask) save() error {
	data, err := json.Marshal(&t.record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	return writeSynced(filepath.Join(t.dir, recordFile), string(data)+"\n")
}
