// Command boximage writes an OCI image of Comb, as a file that engines and registries take, without
// a container engine: boximage BINARY NAME FILE.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// authorities is where a Debian machine has the certificates that browsers trust; an identity
// provider is asked with them.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "boximage BINARY NAME FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "boximage:", err)
		os.Exit(1)
	}
}

func write(binary, called, to string) error {
	tag, err := name.NewTag(called)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	trusted, err := os.ReadFile(authorities)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	layer, err := files(map[string][]byte{
		"usr/local/bin/comb":                program,
		"etc/passwd":                        []byte("comb:x:1000:1000:comb:/data:/nonexistent\n"),
		"etc/group":                         []byte("comb:x:1000:\n"),
		"etc/ssl/certs/ca-certificates.crt": trusted,
	})
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", Config: v1.Config{
		Entrypoint: []string{"/usr/local/bin/comb"}, Env: []string{"PATH=/usr/local/bin", "HOME=/data"}, User: "1000:1000", WorkingDir: "/data",
		ExposedPorts: map[string]struct{}{"8420/tcp": {}}}, RootFS: v1.RootFS{Type: "layers", DiffIDs: diffs(image)}})
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, image)
}

func diffs(image v1.Image) []v1.Hash {
	c, err := image.ConfigFile()
	if err != nil {
		return nil
	}
	return c.RootFS.DiffIDs
}

// files is a layer of them, the same bytes each time, with folders for data and temporary files.
func files(list map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []struct {
		name string
		mode int64
		uid  int
	}{{"data/", 0o700, 1000}, {"tmp/", 0o1777, 0}, {"etc/", 0o755, 0}, {"etc/ssl/", 0o755, 0}, {"etc/ssl/certs/", 0o755, 0}, {"usr/", 0o755, 0}, {"usr/local/", 0o755, 0}, {"usr/local/bin/", 0o755, 0}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode, Uid: d.uid, Gid: d.uid, ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"etc/passwd", "etc/group", "etc/ssl/certs/ca-certificates.crt", "usr/local/bin/comb"} {
		mode := int64(0o644)
		if name == "usr/local/bin/comb" {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(list[name])), ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
		if _, err := w.Write(list[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // it writes the end, without which some engines refuse the layer
		return nil, err
	}
	return b.Bytes(), nil
}
