package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"

	"github.com/combsched/comb/internal/base/safefile"
)

// NotesFile, in a job's folder, records which image each name stood for at the job's first start.
const NotesFile = "images.json"

// DefaultWithin is how long the fetch of one image may take.
const DefaultWithin = 30 * time.Minute

// Images is the images of one machine. It implements executor.Images.
type Images struct {
	engine *Engine
	within time.Duration
	budget int64
	lately time.Duration
	log    *slog.Logger
	ctx    context.Context

	building chan struct{} // holds a token for each build
	pruning  sync.Mutex    // one at a time
	mu       sync.Mutex    // never held while an engine is asked
	flights  map[flightKey]*sharedFetch
	records  imageRecords
}

// ImageOptions are the options of Images. Zero values stand for what is in brackets.
type ImageOptions struct {
	Within time.Duration // how long a fetch may take [DefaultWithin]
	Budget int64         // bytes of images; beyond it the least recently used are removed [no limit]
	Lately time.Duration // how long an image stays after its last use [10 min]
	Log    *slog.Logger
}

// OpenImages reads from dir what is known of the machine's images. Its work ends with ctx.
func OpenImages(ctx context.Context, dir string, engine *Engine, o ImageOptions) (*Images, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Images{engine: engine, within: cmp.Or(o.Within, DefaultWithin), budget: o.Budget, lately: cmp.Or(o.Lately, lately),
		log: o.Log, ctx: ctx, building: make(chan struct{}, mostBuilds), flights: map[flightKey]*sharedFetch{}}
	return s, s.records.open(dir, o.Log)
}

// ImageWant is a job's request for an image.
type ImageWant struct {
	Name string // as the job says it
	Dir  string // the job's folder, where NotesFile is
	VC   string // that the job belongs to
	// Always says that the job's first start fetches what the registry has by that name then,
	// even if Comb fetched one earlier. An image that Comb did not fetch stays: it is its
	// administrator's.
	Always bool
	Login  *RegistryLogin // nil: none
	// Tell takes notices for the job's user. A notice replaces the last one with the same about,
	// and an empty text removes it.
	Tell func(about, text string)
}

// RegistryLogin are the credentials for a job's registry.
type RegistryLogin struct {
	Login
	Secret string // the name of the job's secret with the password; "": the job file has the password
}

// ImageFault is why a job cannot have its image, in a sentence that says what to do.
type ImageFault struct {
	Say string
	Job bool // another try would end the same way: the job must be changed
	// Fetch says that the image could not be fetched: its registry, which a user names, is in
	// trouble, or the image is too large. The machine is not to blame.
	Fetch bool
}

// Error implements error.
func (f *ImageFault) Error() string { return f.Say }

// note records what a name stood for when a job started first.
type note struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitempty"` // NAME@sha256:... for fetches; "": built here
}

// Get returns the image that the name stood for when the job's first task asked, so that all its
// tasks and attempts run the same. A missing image is fetched. If others fetched it with
// credentials, its registry is asked. An *ImageFault says why there is no image; other errors are
// those of ctx, or of the job's folder.
func (s *Images) Get(ctx context.Context, w *ImageWant) (Image, error) {
	for {
		before, err := s.noted(w)
		if err != nil {
			return Image{}, err
		}
		image, fetched, err := s.find(ctx, w, before)
		if err != nil {
			return Image{}, err
		}
		first, same, err := s.note(w, image)
		switch {
		case !first || fetched:
		case w.Always && !isID(w.Name):
			w.Tell("", staysAsIs(w.Name)+": the job runs the one here")
		case moves(w.Name, &image):
			go s.compare(w, image)
		}
		if same || err != nil {
			if err == nil && !fetched { // it may have been told of a fetch before this program began
				w.Tell(w.about(), "")
			}
			return image, err
		}
	}
}

// compareWithin is how long a registry may take to say what it has.
const compareWithin = 30 * time.Second

// moves reports whether a registry usually changes what a name stands for: it has no tag, or the
// tag latest, and the image came from there.
func moves(name string, image *Image) bool {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil || !reference.IsNameOnly(ref) && !strings.HasSuffix(ref.String(), ":latest") {
		return false
	}
	return slices.ContainsFunc(image.Digests, func(d string) bool { return repository(d) == ref.Name() })
}

// compare tells a job that runs the image on this machine when its registry has a newer one.
func (s *Images) compare(w *ImageWant, image Image) {
	ctx, cancel := context.WithTimeout(s.ctx, compareWithin)
	defer cancel()
	var login *Login
	if w.Login != nil {
		login = &w.Login.Login
	}
	newest, err := s.engine.Newest(ctx, w.Name, login)
	if err != nil {
		s.log.Info("ask a registry whether it has a newer image", "image", w.Name, "error", err)
		return
	}
	same := func(d string) bool { return repository(d) == repository(w.Name) && strings.HasSuffix(d, "@"+newest) }
	how := "--pull always fetches it"
	if !s.replaceable(&image, w.Name) {
		how = "Comb did not fetch that, and only an administrator replaces it"
	}
	if !slices.ContainsFunc(image.Digests, same) {
		w.Tell("", fmt.Sprintf("the registry has a newer image for %s: %s; this job runs the one on the machine; %s",
			w.Name, newest, how))
	}
}

// Prefetch fetches the image before a task asks for it, if nothing prevents that. It does not
// record what the name stands for: the first task does.
func (s *Images) Prefetch(ctx context.Context, w *ImageWant) error {
	before, err := s.noted(w)
	if err == nil {
		early := *w
		early.Always = false // only the start does that: Prefetch may be called every minute
		_, _, err = s.find(ctx, &early, before)
	}
	return err
}

// find looks up the image, and fetches it where it is missing, not yet allowed for this VC, or
// must be fetched in any case.
func (s *Images) find(ctx context.Context, w *ImageWant, before note) (image Image, fetched bool, err error) {
	lookup, source := cmp.Or(before.ID, w.Name), cmp.Or(before.Digest, w.Name)
	image, err = s.engine.Image(ctx, lookup)
	here := err == nil
	anew := w.Always && before.ID == "" && !isID(w.Name) && s.replaceable(&image, w.Name)
	switch {
	case ctx.Err() != nil:
		return image, false, ctx.Err()
	case here && !anew && s.allowed(&image, w.VC):
		return image, false, nil
	case !here && !errors.Is(err, ErrNoImage):
		return image, false, s.fault(w, source, err)
	case before.ID != "" && before.Digest == "":
		return image, false, &ImageFault{Job: true, Say: fmt.Sprintf("the image %s was %s when the job started first, and "+
			"that %v any more; "+
			"it came from no registry: submit the job again", w.Name, before.ID, ErrNoImage)}
	case here && isID(w.Name):
		return image, false, &ImageFault{Job: true, Say: fmt.Sprintf("the image %s was fetched with credentials that are not "+
			"of VC %s: name it as its registry does, with an auth of your own", w.Name, w.VC)}
	case isID(w.Name):
		return image, false, &ImageFault{Job: true, Say: fmt.Sprintf("the image %s %v, and an ID cannot be fetched: name the "+
			"image as its registry does", w.Name, ErrNoImage)}
	}
	if err := s.fetch(ctx, w, source); err != nil {
		return image, false, ofFetch(s.fault(w, source, err))
	}
	image, err = s.engine.Image(ctx, lookup)
	switch {
	case err != nil && before.ID != "":
		return image, false, &ImageFault{Job: true, Say: fmt.Sprintf("the image %s was %s when the job started first, and %s "+
			"is another one now: submit the job again", w.Name, before.ID, source)}
	case err != nil:
		return image, false, s.fault(w, source, err)
	}
	return image, true, s.grant(&image, w)
}

// staysAsIs says why an image is not fetched although one is here.
func staysAsIs(name string) string {
	return fmt.Sprintf("the image %s on this machine was not fetched by Comb, and is not replaced "+
		"by what its registry has", name)
}

// isID reports whether a name is an image ID of this machine, and not a name in a registry.
func isID(name string) bool { return strings.HasPrefix(name, "sha256:") }

// noted reads what the name stood for at the job's first start.
func (s *Images) noted(w *ImageWant) (note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, err := readNotes(w.Dir)
	return notes[w.Name], err
}

func readNotes(dir string) (map[string]note, error) {
	notes := map[string]note{}
	if err := safefile.Read(dir, NotesFile, &notes); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return notes, nil
}

// note records what the name stands for, and that it is used. first says that no task of the job
// had recorded it before; same is false where another task recorded another image.
func (s *Images) note(w *ImageWant, image Image) (first, same bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, err := readNotes(w.Dir)
	if err != nil {
		return false, false, err
	}
	if n, ok := notes[w.Name]; ok {
		return false, n.ID == image.ID, s.records.used(image.ID)
	}
	notes[w.Name] = note{ID: image.ID, Digest: digestOf(&image, w.Name)}
	if err := safefile.Write(w.Dir, NotesFile, notes); err != nil {
		return false, false, err
	}
	w.Tell("", strings.TrimSpace(fmt.Sprintf("the image %s is %s %s", w.Name, image.ID, notes[w.Name].Digest)))
	return true, true, s.records.used(image.ID)
}

// digestOf is the name by which a registry returns this very image: in the repository of a name,
// else in any.
func digestOf(image *Image, name string) string {
	repo := repository(name)
	for _, d := range image.Digests {
		if repository(d) == repo {
			return d
		}
	}
	if len(image.Digests) > 0 {
		return image.Digests[0]
	}
	return ""
}

// repository is a name without tag and digest, with its registry; "": it is no valid name.
func repository(name string) string {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return ref.Name()
}

// registryOf is the registry of an image's name; "": it is no valid name.
func registryOf(name string) string {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return reference.Domain(ref)
}

// fault describes an error in a sentence, and says whether the job must be changed.
func (s *Images) fault(w *ImageWant, source string, err error) error {
	f := &ImageFault{Job: true}
	words := Words(err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, ErrNotName):
		f.Say = err.Error() + ": name one such as python:3.12"
	case errors.Is(err, ErrForeign):
		f.Say = fmt.Sprintf("%v: use one that is", err)
	case errors.Is(err, ErrAbsent):
		f.Say = fmt.Sprintf("the image %s %v (%s): check its name and tag", source, ErrAbsent, words)
	case errors.Is(err, ErrDenied) && w.Login == nil:
		f.Say = fmt.Sprintf("the image %s %v (%s): check its name; if it needs credentials, give the prerequisite an auth", source, ErrDenied, words)
	case errors.Is(err, ErrDenied):
		f.Say = fmt.Sprintf("the image %s %v (%s): it was asked as user %s with %s; correct them, or ask its owner for the right to pull",
			source, ErrDenied, words, w.Login.User, w.Login.which())
	case errors.Is(err, errNoHost):
		f.Say = fmt.Sprintf("the registry of the image %s is not found: %s; check the image's name", source, words)
	case errors.Is(err, ErrFull):
		f.Job, f.Say = false, fmt.Sprintf("the image %s is not fetched, since %v: an administrator must free some (comb image prune)", source, ErrFull)
	case errors.Is(err, context.DeadlineExceeded):
		f.Job, f.Say = false, fmt.Sprintf("the image %s was not fetched within %v: its registry is slow or hangs; the limit is --image-pull-timeout", source, s.within)
	case errors.Is(err, ErrRegistry):
		f.Job, f.Say = false, fmt.Sprintf("the image %s is not fetched, since %v (%s)", source, ErrRegistry, words)
	default:
		f.Job, f.Say = false, err.Error()
	}
	return f
}

// ofFetch marks the result of fault as an error of a fetch.
func ofFetch(err error) error {
	var f *ImageFault
	if errors.As(err, &f) {
		f.Fetch = true
	}
	return err
}

func (l *RegistryLogin) which() string {
	if l.Secret == "" {
		return "the password in the job file"
	}
	return "the password of the secret " + l.Secret
}
