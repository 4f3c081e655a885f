package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// ErrBuild says that a Dockerfile cannot be built as it is, or that one of its steps failed.
var ErrBuild = errors.New("cannot be built")

// buildShare is the CPU weight of a build's containers, where 1,024 is usual: a build takes the
// CPUs that others leave.
const buildShare = 64

// Build is an image to be made of a Dockerfile.
type Build struct {
	Name       string            // of the image
	Dockerfile string            // a file of the context
	Target     string            // the stage that is built; "": the last one
	Args       map[string]string // of its ARG lines
	NoCache    bool              // earlier results of steps are not used
	Pull       bool              // its base images are looked up in their registries
	Memory     int64             // bytes of memory that a step may have
}

// BuildLine is a line of a build's output: a step that begins, or what it prints.
type BuildLine struct {
	Step, Steps int  // 0: printed by the step before
	Cached      bool // an earlier build has done the step
	Text        string
}

// Build makes the engine build an image of a context, a tar archive. It tells what is printed,
// and returns the image. It ends with ctx, and leaves no container. Errors are ErrBuild,
// ErrNotName and the engine's.
func (e *Engine) Build(ctx context.Context, b *Build, files io.Reader, tell func(BuildLine)) (Image, error) {
	name, err := reference.ParseNormalizedNamed(b.Name)
	if err != nil {
		return Image{}, fmt.Errorf("%q %w", b.Name, ErrNotName)
	}
	if _, pinned := name.(reference.Digested); pinned {
		return Image{}, fmt.Errorf("%q %w: give it a tag, since its digest is not known before it is built", b.Name, ErrNotName)
	}
	o := client.ImageBuildOptions{Version: build.BuilderV1, Tags: []string{b.Name}, Dockerfile: b.Dockerfile, Target: b.Target, NoCache: b.NoCache, PullParent: b.Pull,
		Remove: true, ForceRemove: true, CPUShares: buildShare, Memory: b.Memory, MemorySwap: b.Memory, BuildArgs: map[string]*string{}}
	for k, v := range b.Args {
		o.BuildArgs[k] = &v
	}
	info, err := e.Info(ctx)
	if err != nil {
		return Image{}, err
	}
	if !info.Network {
		o.NetworkMode = "none"
	}
	r, err := e.c.ImageBuild(ctx, files, o)
	if err != nil {
		return Image{}, buildError(ctx, b.Name, err)
	}
	defer r.Body.Close()
	s := buildOutput{tell: tell}
	for in := json.NewDecoder(r.Body); ; {
		var m jsonstream.Message
		if err = in.Decode(&m); err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			break
		}
		s.take(&m)
	}
	s.end()
	if err != io.EOF {
		return Image{}, buildError(ctx, b.Name, err)
	}
	return e.Image(ctx, b.Name)
}

func buildError(ctx context.Context, ref string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := told(err)
	if strings.Contains(strings.ToLower(text), "no space left on device") {
		text = ErrFull.Error() + ": free some (comb image prune)"
	}
	return &pullFault{ref: ref, kind: ErrBuild, text: text}
}

// longestLine bounds a line that is told, in bytes; a longer one is told in several.
const longestLine = 16 << 10

// buildOutput splits an engine's messages about a build into lines: they come in pieces.
type buildOutput struct {
	tell func(BuildLine)
	rest string     // an unfinished line
	step *BuildLine // it has begun but is not told yet: what follows says whether it is cached
}

func (s *buildOutput) take(m *jsonstream.Message) {
	text := m.Stream
	if _, ofLayer := step(m); m.Status != "" && !ofLayer { // of a base image that is being fetched
		text = m.Status + "\n"
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "\x1b[91m"), "\x1b[0m") // engines colour standard error
	for s.rest += text; ; {
		line, rest, whole := strings.Cut(s.rest, "\n")
		if !whole && len(s.rest) < longestLine {
			return
		}
		if len(line) > longestLine {
			line, rest = s.rest[:longestLine], s.rest[longestLine:]
		}
		s.rest = rest
		s.line(strings.TrimSuffix(line, "\r"))
	}
}

// line takes a whole line. The engine's own are recognized by how they begin.
func (s *buildOutput) line(line string) {
	var n BuildLine
	if head, what, ok := strings.Cut(line, " : "); ok {
		if _, err := fmt.Sscanf(head, "Step %d/%d", &n.Step, &n.Steps); err == nil && n.Step > 0 {
			s.begun()
			n.Text = what
			s.step = &n
			return
		}
	}
	switch {
	case s.step != nil && line == " ---> Using cache":
		s.step.Cached = true
		s.begun()
	case strings.HasPrefix(line, " ---> "), strings.HasPrefix(line, "Removing intermediate container "),
		strings.HasPrefix(line, "Successfully built "), strings.HasPrefix(line, "Successfully tagged "):
		s.begun()
	case line != "":
		s.begun()
		if at := strings.LastIndexByte(line, '\r'); at >= 0 { // a progress bar: its last state
			line = line[at+1:]
		}
		s.tell(BuildLine{Text: line})
	}
}

// begun tells the step that has begun.
func (s *buildOutput) begun() {
	if s.step != nil {
		s.tell(*s.step)
	}
	s.step = nil
}

func (s *buildOutput) end() {
	if s.rest != "" {
		s.line(s.rest)
	}
	s.begun()
}
