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

// record is what is kept of a task beside the API server: what a tenant can write there decides
// nothing.
type record struct {
	UID  types.UID   `json:"uid,omitempty"`  // "" in one that is there: its pod may have been made
	Made types.UID   `json:"made,omitempty"` // of its pod as soon as it is known, before it has what it needs
	Exit *model.Exit `json:"exit,omitempty"`
	// Refused is told again, as an exit is. Refusing is to be told when the pod is gone.
	Refused  *model.TaskRefused `json:"refused,omitempty"`
	Refusing *model.TaskRefused `json:"refusing,omitempty"`
	// Namespace is that of the pod; "" is the server's own. Space is that what it is refused for is
	// its namespace's, and not its node's.
	Namespace string `json:"namespace,omitempty"`
	Space     bool   `json:"space,omitempty"`
	// Devices are those that its claims were given, each as POOL/DEVICE.
	Devices []string `json:"devices,omitempty"`
}

const recordFile = "pod.json"

// load reads the record, which is the last whole line of its file. begun is that there is one.
func (t *podTask) load() (begun bool, err error) {
	data, err := os.ReadFile(filepath.Join(t.dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for err == nil && len(data) > 0 {
		data = bytes.TrimSuffix(data, []byte("\n"))
		from := bytes.LastIndexByte(data, '\n') + 1
		r := t.record
		if json.Unmarshal(data[from:], &r) == nil { // else it is torn: a machine died, or the disk was full
			t.record = r
			return true, nil
		}
		data = data[:from]
	}
	return false, err
}

// note adds a line to the record. A machine that dies may lose it: then the API server and the seal
// say what it said.
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
	_, err = f.Write(append(append([]byte("\n"), data...), '\n')) // what was torn before ends with this
	return errors.Join(err, f.Close())
}

// born notes which pod is a task's, before it is given what it needs to start. One that is gone
// after that was taken away by a user with its finalizers, and may run on: no other is made in its
// place.
func (t *podTask) born(pod *corev1.Pod) error {
	if t.record.Made != "" {
		return nil
	}
	t.record.Made = pod.UID
	err := t.note()
	if err != nil {
		t.record.Made = "" // it is not noted
	}
	return err
}

// save writes the record anew; it is on the disk when this returns.
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
