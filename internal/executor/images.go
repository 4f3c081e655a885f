package executor

import (
	"context"
	"errors"
	"io"

	"github.com/combsched/comb/internal/core/model"
)

// HasImages is an executor that runs tasks from images.
type HasImages interface {
	// Images are those of its machine; nil: it runs no images.
	Images() Images
}

// Images are the images of a machine. ErrNoImage says that an image is not there.
type Images interface {
	// List returns all that are there.
	List(context.Context) (ImageList, error)
	// History returns the layers of one, the newest first.
	History(ctx context.Context, name string) ([]ImageLayer, error)
	// Fetch fetches an image without credentials, however long that takes. It waits until the end
	// or until ctx is done, and returns how far the fetch is. The error is what keeps the image
	// from being fetched.
	Fetch(ctx context.Context, name string) (Fetching, error)
	// Build makes an image of a Dockerfile and the files that it names, a tar archive, and
	// returns its ID. tell gets the lines that are printed, from one goroutine. The build ends
	// with ctx. ErrBuild and ErrBuilding say why there is no image.
	Build(ctx context.Context, b *Build, files io.Reader, tell func(BuildLine)) (id string, err error)
	// Prune removes images until at most keep bytes are left, the least recently used first. An
	// image stays that is in use, was used lately or cannot be fetched again. A negative number
	// stands for the budget.
	Prune(ctx context.Context, keep int64) ([]Image, error)
}

// ErrNoImage says that there is no image of that name.
var ErrNoImage = errors.New("there is no such image on this machine")

// ErrNoBudget says that nothing tells how many bytes images may have.
var ErrNoBudget = errors.New("the server has no --image-budget: say how much may stay")

// ErrBuild says that an image cannot be built as it is asked for, or that one of its steps failed.
var ErrBuild = errors.New("the image is not built")

// ErrBuilding says that as many builds run already as may run at a time.
var ErrBuilding = errors.New("other images are being built")

// Build is an image to be made of a Dockerfile.
type Build struct {
	Name       string            // with its tag
	Dockerfile string            // the name of a file
	Target     string            // the stage that is built; "": the last one
	Args       map[string]string // of its ARG lines; the image's history shows them
	NoCache    bool              // earlier results of steps are not used
	Pull       bool              // its base images are looked up in their registries in any case
	Memory     int64             // bytes that a step may have; 0 is the default
}

// BuildLine is a line of a build's output: a step that begins, or what it prints.
type BuildLine struct {
	Step, Steps int  // 0: printed by the step before
	Cached      bool // the step was done by an earlier build
	Text        string
}

// ImageList is what a machine has of images.
type ImageList struct {
	Images   []Image
	Fetching []Fetching
	Bytes    int64 // of all layers, each once
	Budget   int64 // that images may have; 0 is no limit
	Driver   string
}

// Image is one image of a machine.
type Image struct {
	ID      string
	Names   []string // with tags
	Digests []string // NAME@sha256:..., as registries know it
	Size    int64    // bytes of its layers
	Shared  int64    // the part of Size that other images have as well
	Created model.Time
	Used    model.Time    // when a task last started with it, or it was fetched; 0 is not known
	Jobs    []model.JobID // that have containers of it
	Public  bool          // its registry gave it without credentials
	VCs     []string      // those whose credentials fetched it
	Stays   string        // why it is not removed; "": it may be removed
}

// ImageLayer is a step that made an image.
type ImageLayer struct {
	CreatedBy string
	Created   model.Time
	Size      int64
}

// Fetching is an image that is being fetched.
type Fetching struct {
	Name string
	Done bool
	Text string // how far it is, in words
}
