package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// clusterFile holds the tag of a configuration, a line end, and the bytes of the
// cluster file that it was made of.
const clusterFile = "cluster-file"

// KeepClusterFile keeps the file that the configuration of that tag was made of, in
// place of the one before. The tag is one line.
func (s *Store) KeepClusterFile(tag string, file []byte) error {
	if err := writeFile(s.path(clusterFile), append([]byte(tag+"\n"), file...)); err != nil {
		return fmt.Errorf("cannot keep the cluster file: %w", err)
	}
	return nil
}

// ClusterFile returns the file that the configuration of that tag was made of, byte
// for byte; false if that is not kept, since it was made otherwise.
func (s *Store) ClusterFile(tag string) ([]byte, bool, error) {
	data, err := os.ReadFile(s.path(clusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the cluster file that is kept: %w", err)
	}
	of, file, found := bytes.Cut(data, []byte("\n"))
	return file, found && string(of) == tag, nil
}
