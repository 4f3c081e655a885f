package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// ErrUnfit says that an image cannot be used on any machine: another start would not help.
var ErrUnfit = errors.New("cannot be used")

// Bounds on what an image may say and have; beyond them it is not used.
const (
	mostVolumes   = 32
	mostVariables = 1000
	longestEnv    = 128<<10 - 1 // in bytes, all together; also of ENTRYPOINT and CMD, as for Linux
	longestFile   = 1 << 20     // of /etc/passwd and /etc/group, in bytes
	mostSteps     = 512         // path elements that are looked at, in all
	mostKnown     = 1000        // images whose check is remembered
)

// Fits reports why containers of an image cannot be used; nil: they can. The mounts will be in
// the folders tops; the first of them may hold nothing else. What the engine and process 1 follow
// there must lead nowhere else. Fits looks at a container of the given name, which it makes and
// removes and which never runs. It looks at an image once. The end of ctx ends the wait, also for
// other callers.
func (e *Engine) Fits(ctx context.Context, i *Image, name string, tops ...string) error {
	leave, err := e.looking.Enter(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil {
			leave()
			return
		}
		go func() { // the engine may take long
			defer leave()
			_ = e.Remove(context.WithoutCancel(ctx), name) // if it stays, it hinders no other look
		}()
	}()
	if err, known := e.fit[i.ID]; known {
		return err
	}
	places := append(tops, "/proc", "/sys", "/dev")
	err = i.sane(places)
	if err == nil {
		err = e.look(ctx, i, name, places)
	}
	if err == nil || errors.Is(err, ErrUnfit) {
		if e.fit == nil || len(e.fit) >= mostKnown {
			e.fit = map[string]error{}
		}
		e.fit[i.ID] = err
	}
	return err
}

// sane checks what an image's configuration says.
func (i *Image) sane(places []string) error {
	size, runs := 0, strings.Join(i.Runs, "")
	for _, v := range i.Env {
		size += len(v)
	}
	switch {
	case len(i.Env) > mostVariables || size > longestEnv:
		return fmt.Errorf("%w: its ENV has %d variables of %d bytes together, more than %d or %d: use one with fewer",
			ErrUnfit, len(i.Env), size, mostVariables, longestEnv)
	case slices.ContainsFunc(i.Env, func(v string) bool { return strings.ContainsRune(v, 0) }):
		return fmt.Errorf("%w: its ENV has a zero byte: use another image", ErrUnfit)
	case len(i.Runs) > mostVariables || len(runs) > longestEnv || strings.ContainsRune(runs, 0):
		return fmt.Errorf("%w: its ENTRYPOINT and CMD have a zero byte, or more than %d words or %d bytes: use another "+
			"image", ErrUnfit, mostVariables, longestEnv)
	case strings.ContainsRune(i.WorkDir, 0):
		return fmt.Errorf("%w: its WORKDIR has a zero byte: use another image", ErrUnfit)
	case len(i.Volumes) > mostVolumes:
		return fmt.Errorf("%w: it has %d VOLUMEs, more than %d: use one with fewer", ErrUnfit, len(i.Volumes), mostVolumes)
	}
	for _, v := range i.Volumes {
		at := path.Clean("/" + v)
		taken := slices.Contains([]string{"/", "/etc", "/etc/passwd", "/etc/group"}, at) || within(at, places)
		if taken || strings.ContainsRune(v, 0) {
			return fmt.Errorf("%w: its VOLUME %q is in a place that containers need themselves: use one without", ErrUnfit, Shorten(v))
		}
	}
	return nil
}

// within reports whether a path is in one of the places where the engine and the server mount.
func within(at string, places []string) bool {
	return slices.ContainsFunc(places, func(of string) bool {
		return at == of || strings.HasPrefix(at, of+"/")
	})
}

// Shorten makes a name from an image fit into a message.
func Shorten(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "..."
	}
	return text
}

// look makes a container only to look at it, and looks.
func (e *Engine) look(ctx context.Context, i *Image, name string, places []string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	l := imageLooker{e: e, image: i.ID, name: name, places: places}
	err := l.make(ctx, nil)
	if err == nil {
		err = e.learnMasked(ctx, name)
	}
	if err == nil {
		err = l.all(ctx, i.Volumes)
	}
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if gone := e.Remove(ctx, name); err == nil {
		err = gone
	}
	return err
}

// learnMasked asks what the engine hides by default in a container that does not say.
func (e *Engine) learnMasked(ctx context.Context, name string) error {
	r, err := e.c.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("ask what the engine hides from containers: %s", reason(err))
	}
	if h := r.Container.HostConfig; h != nil {
		e.masks.Store(&h.MaskedPaths)
	}
	return nil
}

// imageLooker walks the paths of a container that does not run, so that nothing in it changes.
type imageLooker struct {
	e           *Engine
	image, name string
	places      []string
	seen        map[string]*container.PathStat // nil: nothing is there
	steps       int
}

// make makes the container, and replaces an existing one.
func (l *imageLooker) make(ctx context.Context, mounts []mount.Mount) error {
	l.seen = map[string]*container.PathStat{}
	how := client.ContainerCreateOptions{Name: l.name, HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: mounts},
		// An engine makes the WORKDIR of an image, and fails where a file is.
		Config: &container.Config{Image: l.image, Entrypoint: []string{"/"}, WorkingDir: "/", Healthcheck: noCheck()}}
	_, err := l.e.c.ContainerCreate(ctx, how)
	if errdefs.IsConflict(err) {
		if err := l.e.Remove(ctx, l.name); err != nil {
			return err
		}
		_, err = l.e.c.ContainerCreate(ctx, how)
	}
	switch { // the engine says the first two in words only, which name folders of this machine
	case err != nil && strings.Contains(err.Error(), "cannot mount volume over existing file"):
		return fmt.Errorf("%w: a VOLUME of it is a file: use one without", ErrUnfit)
	case err != nil && strings.Contains(err.Error(), "too many links"):
		return fmt.Errorf("%w: a VOLUME of it %w: use one without", ErrUnfit, errLink)
	case err != nil:
		return fmt.Errorf("make a container to look at the image: %s", reason(err))
	}
	return nil
}

// errLink says that a path has a link.
var errLink = errors.New("leads through a link")

func (l *imageLooker) all(ctx context.Context, volumes []string) error {
	st, err := l.stat(ctx, l.places[0])
	if err != nil {
		return err
	}
	if st != nil && !st.Mode.IsDir() {
		return fmt.Errorf("%w: it %w in %s, where the task's folders are put: use one without", ErrUnfit, ErrInTheWay, l.places[0])
	}
	for _, v := range volumes {
		_, err := l.walk(ctx, v, false)
		if errors.Is(err, errLink) {
			return fmt.Errorf("%w: its VOLUME %q %w: use one without", ErrUnfit, Shorten(v), errLink)
		}
		if err != nil {
			return err
		}
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		st, err := l.walk(ctx, file, false)
		if errors.Is(err, errLink) || errdefs.IsInternal(err) { // of links that lead in a circle
			st, err = l.hidden(ctx, file)
		}
		if errors.Is(err, errLink) {
			return fmt.Errorf("%w: its %s is a link that leads nowhere, or out of the image: use one with a file there", ErrUnfit, file)
		}
		if err != nil {
			return err
		}
		if st != nil && (!st.Mode.IsRegular() || st.Size > longestFile) {
			return fmt.Errorf("%w: its %s is not a plain file of at most %d bytes: use one with a file there", ErrUnfit, file, longestFile)
		}
	}
	return nil
}

// hidden follows a path in a container that has empty folders in the places of the mounts: the
// image's own files there are hidden later.
func (l *imageLooker) hidden(ctx context.Context, name string) (*container.PathStat, error) {
	var mounts []mount.Mount
	for _, at := range l.places {
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: at, VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
	}
	if err := l.make(ctx, mounts); err != nil {
		return nil, err
	}
	st, err := l.walk(ctx, name, true)
	if errdefs.IsInternal(err) { // a loop, or something that no folder can be mounted over
		return nil, errLink
	}
	return st, err
}

// walk follows a path element by element. A missing element ends it without an error and with
// nil. A link is an error, or, with follow, is followed where it does not lead to a mount.
func (l *imageLooker) walk(ctx context.Context, name string, follow bool) (st *container.PathStat, err error) {
	at := "/"
	for element := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
		at = path.Join(at, element)
		if st, err = l.stat(ctx, at); err != nil || st == nil {
			return nil, err
		}
		if st.Mode&os.ModeSymlink == 0 {
			continue
		}
		if at = st.LinkTarget; !follow || within(at, l.places) { // the end of all links
			return nil, errLink
		}
		if st, err = l.stat(ctx, at); err != nil || st == nil {
			return nil, err
		}
	}
	return st, nil
}

// stat looks at a path whose folder has no links; nil: nothing is there.
func (l *imageLooker) stat(ctx context.Context, at string) (*container.PathStat, error) {
	if st, known := l.seen[at]; known {
		return st, nil
	}
	if l.steps++; l.steps > mostSteps {
		return nil, fmt.Errorf("%w: the paths of its VOLUMEs, /etc/passwd and /etc/group have more than %d parts: use one with fewer", ErrUnfit, mostSteps)
	}
	r, err := l.e.c.ContainerStatPath(ctx, l.name, client.ContainerStatPathOptions{Path: at})
	switch {
	case errdefs.IsNotFound(err):
		l.seen[at] = nil
	case err != nil:
		return nil, fmt.Errorf("look at %s of the image: %w", at, err)
	default:
		l.seen[at] = &r.Stat
	}
	return l.seen[at], nil
}
