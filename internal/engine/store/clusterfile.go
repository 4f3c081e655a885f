package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// clusterFile is where older programs, without versions of the cluster file, kept the present
// one: the tag of the configuration, a newline, and the bytes of the file.
const clusterFile = "cluster-file"

// clusterFileOf returns the file that such a program kept for the configuration of a tag; nil:
// none.
func (s *Store) clusterFileOf(tag string) ([]byte, error) {
	data, err := os.ReadFile(s.path(clusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster file that is kept: %w", err)
	}
	of, file, found := bytes.Cut(data, []byte("\n"))
	if !found || string(of) != tag {
		return nil, nil
	}
	return file, nil
}
