package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// fencedPods keeps, on disk for the next server, the pods that must be gone before their nodes
// count as up. Where the namespace of such a pod cannot be seen after a restart, nothing else tells
// of it. Each line of the file holds a node and a pod's key (see strayKey).
type fencedPods struct {
	mu   sync.Mutex // held while the file is written
	file string
	text string // what is in the file
}

// openFencedPods reads what an earlier server kept, from the folder of a file.
func openFencedPods(beside string) (*fencedPods, error) {
	f := &fencedPods{file: filepath.Join(filepath.Dir(beside), "pod-fenced")}
	text, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read which pods keep nodes down: %w", err)
	}
	f.text = string(text)
	return f, nil
}

// each calls a function with each node and pod.
func (f *fencedPods) each(do func(node, key string)) {
	for line := range strings.Lines(f.text) {
		if node, key, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			do(node, key)
		}
	}
}

// keep writes the lines, where they have changed.
func (f *fencedPods) keep(lines func() []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := lines()
	slices.Sort(list)
	text := strings.Join(slices.Compact(list), "")
	if text == f.text {
		return nil
	}
	if err := writeSynced(f.file, text); err != nil {
		return err
	}
	f.text = text
	return nil
}
