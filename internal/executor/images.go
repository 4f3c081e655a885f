package executor

import (
	"context"
	"errors"

	"github.com/combsched/comb/internal/sched"
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
	// Fetch has an image fetched without credentials, as long as it takes. It waits for the end until the context is
	// done, and returns how far it is; what keeps it from being fetched is an error.
	Fetch(ctx context.Context, name string) (Fetching, error)
	// Prune removes images until at most so many bytes are left, the least recently used first. What is in use,
	// was used lately or cannot be fetched again stays. A negative number stands for the budget.
	Prune(ctx context.Context, keep int64) ([]Image, error)
}

// ErrNoImage says that there is no image of that name.
var ErrNoImage = errors.New("there is no such image on this machine")

// ErrNoBudget says that nothing tells how many bytes images may have.
var ErrNoBudget = errors.New("the server has no --image-budget: say how much may stay")

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
	Created sched.Time
	Used    sched.Time    // when a task last started with it, or it was fetched; 0 is not known
	Jobs    []sched.JobID // whose containers there are
	Public  bool          // its registry gave it without credentials
	VCs     []string      // whose credentials got it
	Stays   string        // why it is not removed; "" is that it may be
}

// ImageLayer is a step that made an image.
type ImageLayer struct {
	CreatedBy string
	Created   sched.Time
	Size      int64
}

// Fetching is an image that comes.
type Fetching struct {
	Name string
	Done bool
	Text string // how far it is, in words
}
