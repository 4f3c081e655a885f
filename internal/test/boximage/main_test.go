package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestLayersEnd: each layer ends with two blocks of zeros, has no byte behind them, and holds what
// the image is for.
func TestLayersEnd(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "comb"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(program, "registry.example/comb:1", file); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	const end = 2 * 512
	if len(data)%512 != 0 || len(data) < end || !bytes.Equal(data[len(data)-end:], make([]byte, end)) {
		t.Errorf("the layer of %d bytes does not end with two blocks of zeros", len(data))
	}
	names, read := namesOf(t, data)
	if !slices.Contains(names, "usr/local/bin/comb") || !slices.Contains(names, "data/") {
		t.Errorf("the layer has %v", names)
	}
	if read != len(data) {
		t.Errorf("the archive ends after %d of %d bytes", read, len(data))
	}
}

// namesOf lists an archive, and says how many of its bytes were read until its end was met.
func namesOf(t *testing.T, data []byte) (names []string, read int) {
	t.Helper()
	r := bytes.NewReader(data)
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, len(data) - r.Len()
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
