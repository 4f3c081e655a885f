package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// MaxImageName bounds the name of an image, in bytes.
const MaxImageName = 1024

// ImageList is the images of a machine.
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
	Created model.Time    `json:"created"`
	Used    model.Time    `json:"used,omitempty" doc:"When a task last started with it, or it was fetched"`
	Jobs    []model.JobID `json:"jobs" doc:"Whose containers there are"`
	Public  bool          `json:"public,omitempty" doc:"Its registry gave it without credentials"`
	VCs     []cell.VCName `json:"vcs,omitempty" doc:"Whose credentials got it: others need their own"`
	Stays   string        `json:"stays,omitempty" doc:"Why it would not be removed; none is that it may be"`
}

// ImageHistory is how an image was made.
type ImageHistory struct {
	Layers []ImageLayer `json:"layers" doc:"The newest first"`
}

// ImageLayer is a layer of an image.
type ImageLayer struct {
	CreatedBy string     `json:"created_by"`
	Created   model.Time `json:"created"`
	Size      int64      `json:"size"`
}

// Fetching is an image that is being fetched.
type Fetching struct {
	Name string `json:"name"`
	Done bool   `json:"done,omitempty"`
	Text string `json:"text" doc:"How far it is"`
}

// ImagePull asks for an image.
type ImagePull struct {
	Name string `json:"name" minLength:"1" maxLength:"1024"`
}

// MediaLines is the media type of an answer of JSON values, one a line.
const MediaLines = "application/x-ndjson"

// ImageBuild asks to build an image from a Dockerfile.
type ImageBuild struct {
	Name       string            `json:"name" minLength:"1" maxLength:"1024" doc:"Of the image, with its tag"`
	Upload     string            `json:"upload" minLength:"71" maxLength:"71" doc:"The digest of the caller's upload with the Dockerfile and the files that it names"`
	Dockerfile string            `json:"dockerfile,omitempty" maxLength:"1024" doc:"A file of the upload; none is Dockerfile"`
	Target     string            `json:"target,omitempty" maxLength:"255" doc:"The stage that is built; none is the last one"`
	Args       map[string]string `json:"args,omitempty" maxProperties:"100" doc:"Of ARG lines; the image's history shows them: no secrets"`
	NoCache    bool              `json:"no_cache,omitempty" doc:"Steps that were done before are done again"`
	Pull       bool              `json:"pull,omitempty" doc:"Base images are looked up in their registries, though they are on the machine"`
	MemoryMB   int64             `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"That a step may have; none is 4096"`
}

// BuildLine is one line of the answer to a build: a step that begins, or output. The last
// line has either the image's ID or a problem.
type BuildLine struct {
	Step    int      `json:"step,omitempty" doc:"The number of the step that begins"`
	Steps   int      `json:"steps,omitempty"`
	Cached  bool     `json:"cached,omitempty" doc:"An earlier build has done the step"`
	Text    string   `json:"text,omitempty" doc:"The step as the Dockerfile has it, or what it prints"`
	ID      string   `json:"id,omitempty" doc:"Of the image, which is there"`
	Problem *Problem `json:"problem,omitempty" doc:"Why there is none"`
}

// ImagePrune bounds the images that may stay.
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

// PullImage fetches an image, and waits for some seconds. Call it again until it is done.
func (c *Client) PullImage(ctx context.Context, name string) (Fetching, error) {
	var out Fetching
	err := c.do(ctx, call{method: http.MethodPost, path: "/images:pull", json: ImagePull{Name: name}}, &out)
	return out, err
}

// maxBuildLine bounds a line of a build's answer, in bytes.
const maxBuildLine = 1 << 20

// BuildImage builds an image and returns its ID. tell is called with output as it comes. The
// build ends with ctx.
func (c *Client) BuildImage(ctx context.Context, b ImageBuild, tell func(BuildLine)) (id string, err error) {
	body, err := encode(b)
	if err != nil {
		return "", err
	}
	resp, err := c.send(ctx, call{method: http.MethodPost, path: "/images:build", body: body, media: mediaJSON, accept: MediaLines})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, maxBuildLine)
	for in.Scan() {
		var l BuildLine
		switch err := json.Unmarshal(in.Bytes(), &l); {
		case len(in.Bytes()) == 0: // an empty line shows that the server lives
		case err != nil:
			return "", fmt.Errorf("the server's answer to a build cannot be read: %w", err)
		case l.Problem != nil:
			return "", l.Problem
		case l.ID != "":
			return l.ID, nil
		default:
			tell(l)
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", &Unreachable{URL: c.URL(), Err: errors.New("the connection broke before the build was over, which ends it")}
}

// PruneImages removes images until at most keep bytes are left; nil is the server's budget.
func (c *Client) PruneImages(ctx context.Context, keep *int64) (ImagesPruned, error) {
	var out ImagesPruned
	err := c.do(ctx, call{method: http.MethodPost, path: "/images:prune", json: ImagePrune{Keep: keep}}, &out)
	return out, err
}
