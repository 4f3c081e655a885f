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

// NotesFile, in a job's folder, says which image each name stood for at the job's first start.
const NotesFile = "images.json"

// DefaultWithin is how long one image may take.
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
	flights  map[flightKey]*flight
	book     book
}

// ImageOptions of a store. Zero values stand for what is in brackets.
type ImageOptions struct {
	Within time.Duration // how long one image may take [DefaultWithin]
	Budget int64         // bytes that images may have; what is least recently used is removed beyond [no limit]
	Lately time.Duration // how long an image stays behind its last use [10 min]
	Log    *slog.Logger
}

// OpenImages reads from dir what is known of the machine's images. The store's work ends with the
// context.
func OpenImages(ctx context.Context, dir string, engine *Engine, o ImageOptions) (*Images, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Images{engine: engine, within: cmp.Or(o.Within, DefaultWithin), budget: o.Budget, lately: cmp.Or(o.Lately, lately),
		log: o.Log, ctx: ctx, building: make(chan struct{}, mostBuilds), flights: map[flightKey]*flight{}}
	return s, s.book.open(dir, o.Log)
}

// ImageWant is a job that needs an image.
type ImageWant struct {
	Name string // as the job says it
	Dir  string // the job's folder, where it is noted what the name stands for
	VC   string // that the job belongs to
	// Always is that its first start fetches what the registry has by that name then, though one is
	// here that Comb fetched. Any other one here stays: it is its administrator's.
	Always bool
	Login  *RegistryLogin // nil: none
	// Tell takes notices for the job's user. What is about something gives way to what is told next
	// about it, and goes with "".
	Tell func(about, text string)
}

// RegistryLogin is what a job's registry is asked with.
type RegistryLogin struct {
	Login
	Secret string // the name of the job's secret with the password; "" is that it stands in the job file
}

// ImageFault is why a job cannot have its image, in a sentence that says what to do.
type ImageFault struct {
	Say string
	Job bool // another try would end alike: the job is to be changed
	// Fetch is that the image did not come: its registry, which a user names, is in trouble, or the
	// image is too large. The machine is not to blame.
	Fetch bool
}

// Error implements error.
func (f *ImageFault) Error() string { return f.Say }

// note is what a name stood for when a job started first.
type note struct {
	ID     string `json:"id"`
	Digest string `json:"digest,omitempty"` // NAME@sha256:... by which it can be fetched; "" when it was made here
}

// Get returns what the name stood for when the job's first task asked, so that all its tasks and
// attempts run the same. Where that is missing it is fetched; where others fetched it with
// credentials its registry is asked. A Fault says why there is none; another error is the
// context's, or of the job's folder.
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

// moves reports whether what a name stands for changes in its registry without that it was meant
// so: one without a tag, or with the usual one, of an image that came from there.
func moves(name string, image *Image) bool {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil || !reference.IsNameOnly(ref) && !strings.HasSuffix(ref.String(), ":latest") {
		return false
	}
	return slices.ContainsFunc(image.Digests, func(d string) bool { return repository(d) == ref.Name() })
}

// compare tells a job whose image is the one on this machine when its registry has another one by
// now.
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

// Ready has the image here before a task asks for it, where nothing stands against it. What the
// name stands for is not noted: that is up to the first task.
func (s *Images) Ready(ctx context.Context, w *ImageWant) error {
	before, err := s.noted(w)
	if err == nil {
		early := *w
		early.Always = false // that is up to the start: this may come each minute
		_, _, err = s.find(ctx, &early, before)
	}
	return err
}

// find looks the image up, and fetches it where it is missing, not this VC's yet, or to be fetched
// anyway.
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

// isID reports whether a name is that of no registry's image, but of one on this machine.
func isID(name string) bool { return strings.HasPrefix(name, "sha256:") }

// noted reads what the name stood for before.
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

// note keeps what the name stands for, and that it is used. first is that no task of the job had
// noted it before; same is false where another one noted another image.
func (s *Images) note(w *ImageWant, image Image) (first, same bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, err := readNotes(w.Dir)
	if err != nil {
		return false, false, err
	}
	if n, ok := notes[w.Name]; ok {
		return false, n.ID == image.ID, s.book.used(image.ID)
	}
	notes[w.Name] = note{ID: image.ID, Digest: digestOf(&image, w.Name)}
	if err := safefile.Write(w.Dir, NotesFile, notes); err != nil {
		return false, false, err
	}
	w.Tell("", strings.TrimSpace(fmt.Sprintf("the image %s is %s %s", w.Name, image.ID, notes[w.Name].Digest)))
	return true, true, s.book.used(image.ID)
}

// digestOf is the name by which a registry gives this very image: of the repository that a name
// says, else of any.
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

// repository is a name without tag and digest, with its registry; "" is that it is no name.
func repository(name string) string {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return ref.Name()
}

// registryOf is where an image of that name is fetched from; "" is that it is no name.
func registryOf(name string) string {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return reference.Domain(ref)
}

// fault makes a sentence of what went wrong, and says whether the job is to be changed.
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

// ofFetch marks what s.fault made of an error of a fetch.
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
