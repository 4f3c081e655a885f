package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errNoHost says that the name of a registry cannot be resolved.
var errNoHost = errors.New("there is no such host")

const (
	// patience is how long to retry with a registry that is in trouble before the start is given
	// up; patienceHost is that for a name that cannot be resolved.
	patience, patienceHost = 2 * time.Minute, 10 * time.Second
	firstPause, lastPause  = time.Second, 15 * time.Second

	// A job is told of a fetch at once when it takes longer than firstWord. After that it is told
	// at most every nextWord, and ever more seldom, since a job keeps few notices.
	firstWord, nextWord = 2 * time.Second, 5 * time.Second
)

// flightKey identifies a fetch: what one VC gets with its credentials is no answer for another
// VC.
type flightKey struct {
	source, user, password string
	anonymous              bool
}

// sharedFetch is one fetch, shared by all that wait for it.
type sharedFetch struct {
	source string
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error

	waiting int // number of waiting tasks; under Images.mu
	steps   progress

	saying sync.Mutex               // held while jobs are told
	jobs   map[string]*toldProgress // that wait, by their folder
}

// toldProgress is a job that waits for a fetch, and is told of it.
type toldProgress struct {
	want  *ImageWant // of its first task that waits
	tasks int        // number of its tasks that wait
}

// fetch waits until the engine has an image, or cannot get it. A fetch for which no task waits
// any more is given up.
func (s *Images) fetch(ctx context.Context, w *ImageWant, source string) error {
	key := flightKey{source: source, anonymous: w.Login == nil}
	var login *Login
	if w.Login != nil {
		login, key.user, key.password = &w.Login.Login, w.Login.User, w.Login.Password
	}
	f, err := s.join(key, login, w)
	if err != nil {
		return err
	}
	defer s.leave(key, f, w)
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join joins a fetch, or begins it.
func (s *Images) join(key flightKey, login *Login, w *ImageWant) (*sharedFetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[key]
	if f == nil {
		if login != nil {
			if err := s.records.asks(repository(key.source)); err != nil {
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.within)
		f = &sharedFetch{source: key.source, cancel: cancel, done: make(chan struct{}), jobs: map[string]*toldProgress{}}
		f.steps.begin()
		s.flights[key] = f
		go s.runFetch(ctx, f, login)
		go f.report()
	}
	f.waiting++
	f.hears(w)
	return f, nil
}

func (s *Images) leave(key flightKey, f *sharedFetch, w *ImageWant) {
	f.left(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if s.flights[key] == f {
			delete(s.flights, key)
		}
	}
}

// runFetch fetches, and tries again while the registry, or the way to it, is in trouble.
func (s *Images) runFetch(ctx context.Context, f *sharedFetch, login *Login) {
	defer f.cancel()
	defer close(f.done)
	began, unknown := time.Now(), true
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f.err = s.engine.Pull(ctx, f.source, login, f.steps.step)
		if ctx.Err() != nil {
			f.err = ctx.Err()
		}
		if f.err == nil {
			f.end()
			defer func() { go s.trim() }()
		}
		if !errors.Is(f.err, ErrRegistry) {
			return
		}
		wait := patience
		// Reset by each try: a resolver in trouble may say anything.
		if unknown = unknown && NoHost(f.err); unknown {
			f.err, wait = fmt.Errorf("%w: %w", errNoHost, f.err), patienceHost
		}
		if time.Since(began)+pause > wait {
			return
		}
		if pause == firstPause {
			s.log.Warn("an image is not fetched yet; it is tried again", "error", f.err)
		}
		f.fails()
		select {
		case <-ctx.Done():
			f.err = ctx.Err()
			return
		case <-time.After(pause):
		}
	}
}

// fails tells each waiting job why the image is not here yet.
func (f *sharedFetch) fails() {
	f.steps.fail(fmt.Sprintf("the image %s is not fetched yet, since %v (%s); it is tried again",
		f.source, ErrRegistry, Words(f.err)))
	f.say(f.steps.text(f.source))
}

// about is the subject of the notices of a job's fetch.
func (w *ImageWant) about() string { return "the image " + w.Name }

// hears notes that a task of a job waits.
func (f *sharedFetch) hears(w *ImageWant) {
	f.saying.Lock()
	defer f.saying.Unlock()
	t := f.jobs[w.Dir]
	if t == nil {
		t = &toldProgress{want: w}
		f.jobs[w.Dir] = t
	}
	t.tasks++
}

// left notes that a task of a job stopped waiting. With the last one the job's notice is removed,
// even one from before a restart of this program.
func (f *sharedFetch) left(w *ImageWant) {
	f.saying.Lock()
	defer f.saying.Unlock()
	t := f.jobs[w.Dir]
	if t.tasks--; t.tasks > 0 {
		return
	}
	delete(f.jobs, w.Dir)
	t.want.Tell(t.want.about(), "")
}

// say tells each waiting job the state of the fetch.
func (f *sharedFetch) say(text string) {
	f.saying.Lock()
	defer f.saying.Unlock()
	for _, t := range f.jobs {
		t.want.Tell(t.want.about(), text)
	}
}

// end tells each waiting job that the image is here.
func (f *sharedFetch) end() {
	f.saying.Lock()
	defer f.saying.Unlock()
	for _, t := range f.jobs {
		t.want.Tell(t.want.about(), "")
		t.want.Tell("", f.steps.ended(f.source))
	}
}

// report tells how far a fetch is.
func (f *sharedFetch) report() {
	for pause := firstWord; ; pause = max(2*pause, nextWord) {
		select {
		case <-f.done:
			return
		case <-time.After(pause):
			f.say(f.steps.text(f.source))
		}
	}
}

// maxLayers bounds the layers of a fetch that are tracked.
const maxLayers = 1000

// progress is how far a fetch is.
type progress struct {
	mu     sync.Mutex
	began  time.Time
	layers map[string]Step
	at     time.Time // of the last text, and the bytes that were here then
	bytes  int64
	// trouble is why the last try failed, until the next one makes progress: it is shown instead
	// of the progress.
	trouble string
}

func (p *progress) begin() {
	p.began, p.at, p.layers = time.Now(), time.Now(), map[string]Step{}
}

func (p *progress) step(s Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = ""
	before, known := p.layers[s.Layer]
	if !known && len(p.layers) >= maxLayers {
		return
	}
	if s.Total = max(s.Total, before.Total); s.Current < 0 || s.State == Unpacked {
		s.Current = s.Total
	}
	p.layers[s.Layer] = s
}

// fail notes why a try failed.
func (p *progress) fail(trouble string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = trouble
}

// failed is why the last try failed; "": it makes progress.
func (p *progress) failed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

// PullProgress is how far the fetch of an image is.
type PullProgress struct {
	Layers, Here int   // number of layers of the image, and of those that are here
	Bytes, Total int64 // of the layers that are fetched; Total 0 is not known yet
	Rate         int64 // bytes a second
}

func (p *progress) now() PullProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := PullProgress{Layers: len(p.layers)}
	whole := true
	for _, s := range p.layers {
		if s.State >= Unpacked {
			out.Here++
		} else if s.Total == 0 {
			whole = false
		}
		out.Bytes += s.Current
		out.Total += s.Total
	}
	if !whole {
		out.Total = 0
	}
	if d := time.Since(p.at); d > 0 {
		out.Rate = max(int64(float64(out.Bytes-p.bytes)/d.Seconds()), 0)
	}
	return out
}

// text is what a job is told.
func (p *progress) text(source string) string {
	if trouble := p.failed(); trouble != "" {
		return trouble
	}
	n, from := p.now(), registryOf(source)
	if n.Layers == 0 {
		return fmt.Sprintf("the image %s is being fetched from %s, which has not said yet what it consists of", source, from)
	}
	p.mu.Lock()
	p.at, p.bytes = time.Now(), n.Bytes
	p.mu.Unlock()
	return fmt.Sprintf("the image %s is being fetched from %s: %s", source, from, n)
}

// String is for people.
func (n PullProgress) String() string {
	text := fmt.Sprintf("%d of %d layers are here, %s", n.Here, n.Layers, SizeText(n.Bytes))
	if n.Total > 0 {
		text += " of " + SizeText(n.Total)
	}
	text += fmt.Sprintf(", %s/s", SizeText(n.Rate))
	if n.Total > n.Bytes && n.Rate > 0 {
		text += fmt.Sprintf(", about %v left", (time.Duration((n.Total-n.Bytes)/n.Rate)*time.Second + time.Second).Round(time.Second))
	}
	return text
}

func (p *progress) ended(source string) string {
	n := p.now()
	return fmt.Sprintf("the image %s was fetched: %d layers, %s in %v", source, n.Layers, SizeText(n.Bytes), time.Since(p.began).Round(100*time.Millisecond))
}

// SizeText is a number of bytes in words.
func SizeText(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	v, i := float64(n), 0
	for ; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 || v >= 99.5 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
