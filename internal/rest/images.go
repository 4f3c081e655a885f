package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// MaxImageName bounds the name of an image, in bytes.
const MaxImageName = 1024

// ImageList is what a machine has of images.
type ImageList struct {
	Images   []Image    `json:"images" doc:"The last used first"`
	Fetching []Fetching `json:"fetching" doc:"What comes"`
	Bytes    int64      `json:"bytes" doc:"Of all layers, each once"`
	Budget   int64      `json:"budget,omitempty" doc:"Bytes that images may have; none is any number"`
	Driver   string     `json:"driver" doc:"What stores the layers, such as overlay2"`
}

// Image is one image of a machine.
type Image struct {
	ID      string        `json:"id"`
	Names   []string      `json:"names" doc:"With tags"`
	Digests []string      `json:"digests" doc:"NAME@sha256:..., by which registries give it"`
	Size    int64         `json:"size" doc:"Bytes of its layers"`
	Shared  int64         `json:"shared" doc:"Those of them that other images have as well"`
	Created sched.Time    `json:"created"`
	Used    sched.Time    `json:"used,omitempty" doc:"When a task last started with it, or it was fetched"`
	Jobs    []sched.JobID `json:"jobs" doc:"Whose containers there are"`
	Public  bool          `json:"public,omitempty" doc:"Its registry gave it without credentials"`
	VCs     []cell.VCName `json:"vcs,omitempty" doc:"Whose credentials got it: others need their own"`
	Stays   string        `json:"stays,omitempty" doc:"Why it would not be removed; none is that it may be"`
}

// ImageHistory is how an image was made.
type ImageHistory struct {
	Layers []ImageLayer `json:"layers" doc:"The newest first"`
}

// ImageLayer is a step that made an image.
type ImageLayer struct {
	CreatedBy string     `json:"created_by"`
	Created   sched.Time `json:"created"`
	Size      int64      `json:"size"`
}

// Fetching is an image that comes.
type Fetching struct {
	Name string `json:"name"`
	Done bool   `json:"done,omitempty"`
	Text string `json:"text" doc:"How far it is"`
}

// ImagePull asks for an image.
type ImagePull struct {
	Name string `json:"name" minLength:"1" maxLength:"1024"`
}

// ImagePrune says how much may stay.
type ImagePrune struct {
	Keep *int64 `json:"keep,omitempty" minimum:"0" doc:"Bytes that may stay; none is the server's budget"`
}

// ImagesPruned is what was removed.
type ImagesPruned struct {
	Images []Image `json:"images"`
}

// Images lists the images of the machine.
func (c *Client) Images(ctx context.Context) (ImageList, error) {
	var out ImageList
	err := c.do(ctx, call{method: http.MethodGet, path: "/images"}, &out)
	return out, err
}

// ImageHistory returns how an image was made.
func (c *Client) ImageHistory(ctx context.Context, name string) (ImageHistory, error) {
	var out ImageHistory
	err := c.do(ctx, call{method: http.MethodGet, path: "/images:history", query: url.Values{"name": {name}}}, &out)
	return out, err
}

// PullImage has an image fetched, and waits for some seconds. It is asked again until it is done.
func (c *Client) PullImage(ctx context.Context, name string) (Fetching, error) {
	var out Fetching
	err := c.do(ctx, call{method: http.MethodPost, path: "/images:pull", json: ImagePull{Name: name}}, &out)
	return out, err
}

// PruneImages removes images until at most keep bytes are left; nil is the server's budget.
func (c *Client) PruneImages(ctx context.Context, keep *int64) (ImagesPruned, error) {
	var out ImagesPruned
	err := c.do(ctx, call{method: http.MethodPost, path: "/images:prune", json: ImagePrune{Keep: keep}}, &out)
	return out, err
}
