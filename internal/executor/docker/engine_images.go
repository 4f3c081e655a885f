package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Stock is all images of an engine.
type Stock struct {
	Images []Stored
	Bytes  int64  // of all layers, each once
	Driver string // the storage driver
}

// Stored is one image. Times are in seconds since 1970.
type Stored struct {
	ID            string
	Tags, Digests []string
	Size, Shared  int64 // bytes of its layers; those that other images have as well
	Created       int64
}

// Stock asks the engine for its images and the disk space that they take.
func (e *Engine) Stock(ctx context.Context) (Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	info, err := e.c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Stock{}, fmt.Errorf("ask the container engine what it is: %s", reason(err))
	}
	r, err := e.c.DiskUsage(ctx, client.DiskUsageOptions{Images: true, Verbose: true})
	if err != nil {
		return Stock{}, fmt.Errorf("ask for the images: %s", reason(err))
	}
	s := Stock{Bytes: r.Images.TotalSize, Driver: info.Info.Driver}
	for i := range r.Images.Items {
		m := &r.Images.Items[i]
		one := Stored{ID: m.ID, Size: m.Size, Shared: max(m.SharedSize, 0), Created: m.Created}
		one.Tags, one.Digests = named(m.RepoTags), named(m.RepoDigests)
		s.Images = append(s.Images, one)
	}
	return s, nil
}

// named leaves out the engines' placeholders for no name.
func named(list []string) (out []string) {
	for _, name := range list {
		if name != "<none>:<none>" && name != "<none>@<none>" {
			out = append(out, name)
		}
	}
	return out
}

// Users returns the labels of all containers, by the ID of their image.
func (e *Engine) Users(ctx context.Context) (map[string][]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	r, err := e.c.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list containers: %s", reason(err))
	}
	out := map[string][]map[string]string{}
	for i := range r.Items {
		out[r.Items[i].ImageID] = append(out[r.Items[i].ImageID], r.Items[i].Labels)
	}
	return out, nil
}

// Made is a step that made an image.
type Made struct {
	By      string
	Created int64 // seconds since 1970
	Size    int64
}

// maxHistory bounds what is read of an image's history: images may have 127 layers, and steps
// without one.
const maxHistory = 1000

// History returns the steps that made an image, the newest first.
func (e *Engine) History(ctx context.Context, ref string) ([]Made, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	i, err := e.Image(ctx, ref)
	if err != nil {
		return nil, err
	}
	r, err := e.c.ImageHistory(ctx, i.ID)
	if err != nil {
		return nil, fmt.Errorf("ask for the history of the image %s: %s", ref, reason(err))
	}
	var out []Made
	for _, h := range r.Items[:min(len(r.Items), maxHistory)] {
		out = append(out, Made{By: h.CreatedBy, Created: h.Created, Size: h.Size})
	}
	return out, nil
}

// DropImage removes an image that no container uses, with all its names. It is no error when
// there is none.
func (e *Engine) DropImage(ctx context.Context, s *Stored) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	names := append(append([]string{}, s.Tags...), s.Digests...)
	if len(names) == 0 {
		names = []string{s.ID}
	}
	for _, name := range names {
		_, err := e.c.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove the image %s: %s", name, reason(err))
		}
	}
	return nil
}
