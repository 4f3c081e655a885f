package executor

import (
	"context"
	"errors"
	"io"

	"github.com/combsched/comb/internal/core/model"
)

// HasImages is an executor that runs tasks from images.
type HasImages interface {
	// Images are those of its machine; nil is that it runs none.
	Images() Images
}

// Images are the images of a machine. ErrNoImage says that one is not there.
type Images interface {
	// List returns all that are there.
	List(context.Context) (ImageList, error)
	// History returns the layers of one, the newest first.
	History(ctx context.Context, name string) ([]ImageLayer, error)
	// Fetch has an image fetched without credentials, as long as it takes. It waits for the end
	// until the context is done, and returns how far it is; what keeps it from being fetched is an
	// error.
	Fetch(ctx context.Context, name string) (Fetching, error)
	// Build makes an image of a Dockerfile and the files that it names, a tar archive, and returns
	// its ID. tell takes what is printed, as it comes, from one goroutine. It ends with the
	// context. ErrBuild and ErrBuilding say why there is none.
	Build(ctx context.Context, b *Build, files io.Reader, tell func(BuildLine)) (id string, err error)
	// Prune removes images until at most so many bytes are left, the least recently used first.
	// What is in use, was used lately or cannot be fetched again stays. A negative number stands
	// for the budget.
	Prune(ctx context.Context, keep int64) ([]Image, error)
}

// ErrNoImage says that there is no image of that name.
var ErrNoImage = errors.New("there is no such image on this machine")

// ErrNoBudget says that nothing tells how many bytes images may have.
var ErrNoBudget = errors.New("the server has no --image-budget: say how much may stay")

// ErrBuild says that an image cannot be built as it is asked for, or that one of its steps failed.
var ErrBuild = errors.New("the image is not built")

// ErrBuilding says that as many images are being built as may be at a time.
var ErrBuilding = errors.New("other images are being built")

// Build is an image to be made of a Dockerfile.
type Build struct {
	Name       string            // with its tag
	Dockerfile string            // the name of a file
	Target     string            // the stage that is built; "" is the last one
	Args       map[string]string // of its ARG lines; the image's history shows them
	NoCache    bool              // steps that were done before are done again
	Pull       bool              // its base images are looked up in their registries, though they are here
	Memory     int64             // bytes that a step may have; 0 is the default
}

// BuildLine is a line of what a build says: of a step that begins, or of what it prints.
type BuildLine struct {
	Step, Steps int  // 0: the step before prints it
	Cached      bool // the step was done by an earlier build
	Text        string
}

// ImageList is what a machine has of images.
type ImageList struct {
	Images   []Image
	Fetching []Fetching
	Bytes    int64 // of all layers, each once
	Budget   int64 // that images may have; 0 is any number
	Driver   string
}

// Image is one image of a machine.
type Image struct {
	ID      string
	Names   []string // with tags
	Digests []string // NAME@sha256:..., by which registries give it
	Size    int64    // bytes of its layers
	Shared  int64    // those of them that other images have as well
	Created model.Time
	Used    model.Time    // when a task last started with it, or it was fetched; 0 is not known
	Jobs    []model.JobID // whose containers there are
	Public  bool          // its registry gave it without credentials
	VCs     []string      // whose credentials got it
	Stays   string        // why it is not removed; "" is that it may be
}

// ImageLayer is a step that made an image.
type ImageLayer struct {
	CreatedBy string
	Created   model.Time
	Size      int64
}

// Fetching is an image that comes.
type Fetching struct {
	Name string
	Done bool
	Text string // how far it is, in words
}
