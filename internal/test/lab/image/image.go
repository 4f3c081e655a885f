// Package image makes an image on the spot: a shell of this machine and a few programs, without a
// registry. It must leave no image of its own behind.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	reference "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"

	"github.com/combsched/comb/internal/executor/docker"
)

// Image is one that was made.
type Image struct {
	Name   string
	Engine string // what made it, in words
	c      *client.Client
}

// Make makes an image of that name with programs in /bin, where an engine answers (DOCKER_HOST)
// whose containers reach each other. Programs that need libraries of this machine are not for it.
func Make(ctx context.Context, name string, programs ...string) (*Image, error) {
	host, err := docker.Host(os.Getenv("DOCKER_HOST"))
	if err != nil {
		return nil, err
	}
	engine, err := docker.OpenEngine(ctx, host)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	info, err := engine.Info(ctx)
	if err == nil {
		err = info.Usable()
	}
	if err == nil && !info.Network {
		err = errors.New("it has no network for containers")
	}
	if err != nil {
		return nil, fmt.Errorf("the container engine at %s cannot be used: %w", host, err)
	}
	files, err := shell(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		files["bin/"+filepath.Base(p)] = p
	}
	layer, err := pack(files)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, err
	}
	i := &Image{Name: name, Engine: fmt.Sprintf("engine %s at %s", info.Version, host), c: c}
	answer, err := c.ImageImport(ctx, client.ImageImportSource{Source: layer, SourceName: "-"}, name, client.ImageImportOptions{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the image %s: %w", name, err), c.Close())
	}
	defer answer.Close()
	if text, err := io.ReadAll(answer); err != nil || strings.Contains(string(text), `"error"`) {
		return nil, errors.Join(fmt.Errorf("make the image %s: %v %s", name, err, text), c.Close())
	}
	return i, nil
}

// Save writes the same as a file, for nodes without an engine: ctr images import takes it.
func Save(ctx context.Context, name, file string, programs ...string) error {
	tag, err := reference.NewTag(name)
	if err != nil {
		return err
	}
	files, err := shell(ctx)
	if err != nil {
		return err
	}
	for _, p := range programs {
		files["bin/"+filepath.Base(p)] = p
	}
	packed, err := pack(files)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	sums, err := made.ConfigFile()
	if err != nil {
		return err
	}
	made, err = mutate.ConfigFile(made, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", RootFS: sums.RootFS, Config: v1.Config{Env: []string{"PATH=/bin"}}})
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, made)
}

// Remove removes the image.
func (i *Image) Remove(ctx context.Context) error {
	_, err := i.c.ImageRemove(ctx, i.Name, client.ImageRemoveOptions{Force: true})
	return errors.Join(err, i.c.Close())
}

// shell are the files of a shell of this machine with all that it needs, by where they are in an
// image.
func shell(ctx context.Context) (map[string]string, error) {
	if path, err := exec.LookPath("busybox"); err == nil {
		if exec.CommandContext(ctx, "ldd", path).Run() != nil { // it needs no library
			return map[string]string{"bin/sh": path}, nil
		}
	}
	files := map[string]string{"bin/sh": "/bin/sh"}
	out, err := exec.CommandContext(ctx, "ldd", "/bin/sh").Output()
	if err != nil {
		return nil, fmt.Errorf("find what /bin/sh needs, with ldd: %w", err)
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files[strings.TrimPrefix(word, "/")] = word
		}
	}
	return files, nil
}

// pack writes an archive of files of this machine.
func pack(files map[string]string) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, folder := range []string{"tmp/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}
