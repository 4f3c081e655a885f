package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
)

// imageRecordsFile, in the folder of a machine's jobs, says which VC may run which image.
const imageRecordsFile = "images.json"

// imageRecords is what is known of the machine's images beyond what the engine knows. An image that
// was fetched with a VC's credentials is kept from other VCs until their own credentials fetch it.
type imageRecords struct {
	dir string
	// Asked are the repositories that were asked with credentials. It is written before an image
	// comes: an image whose fetch was cut off belongs to no VC, and its registry is asked for
	// each.
	Asked map[string]bool `json:"asked,omitempty"`
	// Lost says that the records were damaged: no image from a registry is known to be public.
	Lost   bool                    `json:"lost,omitempty"`
	Images map[string]*imageRecord `json:"images,omitempty"` // by ID
}

// imageRecord is what is known of one image.
type imageRecord struct {
	Public bool     `json:"public,omitempty"` // its registry gave it without credentials
	VCs    []string `json:"vcs,omitempty"`    // those whose credentials fetched it
	Used   int64    `json:"used,omitempty"`   // when a task last started with it, in seconds
}

func (b *imageRecords) open(dir string, log *slog.Logger) error {
	b.dir = dir
	err := safefile.Read(dir, imageRecordsFile, b)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("what is known of the images of this machine cannot be read: registries are asked again", "error",
			err)
		*b = imageRecords{dir: dir, Lost: true}
	}
	if b.Asked == nil {
		b.Asked = map[string]bool{}
	}
	if b.Images == nil {
		b.Images = map[string]*imageRecord{}
	}
	if b.Lost {
		return b.save(true)
	}
	return nil
}

// save writes the records. Which VC may run which image must outlive a power cut, as the image
// does.
func (b *imageRecords) save(durable bool) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if len(data) > safefile.Longest {
		return fmt.Errorf("%s would have %d bytes, more than %d: remove images (comb image prune)", imageRecordsFile, len(data), safefile.Longest)
	}
	tmp := filepath.Join(b.dir, imageRecordsFile+".new")
	f, err := safefile.CreateNew(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := safefile.Replace(tmp, filepath.Join(b.dir, imageRecordsFile)); err != nil || !durable {
		return err
	}
	return safefile.SyncDir(b.dir)
}

func (b *imageRecords) recordOf(id string) *imageRecord {
	l := b.Images[id]
	if l == nil {
		l = &imageRecord{}
		b.Images[id] = l
	}
	return l
}

// used notes that a task starts with an image.
func (b *imageRecords) used(id string) error {
	b.recordOf(id).Used = time.Now().Unix()
	return b.save(false)
}

// asks notes that a repository is asked with credentials.
func (b *imageRecords) asks(repo string) error {
	if b.Asked[repo] {
		return nil
	}
	b.Asked[repo] = true
	return b.save(true)
}

// allowed reports whether a VC may run an image of this machine without asking the image's
// registry. Images that Comb did not fetch are for all VCs: an administrator put them on the
// machine.
func (s *Images) allowed(image *Image, vc string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.records.Images[image.ID]; l != nil && (l.Public || slices.Contains(l.VCs, vc)) {
		return true
	} else if l != nil && len(l.VCs) > 0 {
		return false
	}
	return !slices.ContainsFunc(image.Digests, func(d string) bool {
		return s.records.Lost ||
			s.records.Asked[repository(d)]
	})
}

// replaceable reports whether a local image of a name may be replaced by the registry's image of
// that name: only if Comb fetched it from the same repository. Else the owner of the name in the
// registry could replace what the machine's administrator made or put there. Fetching a name with
// a digest replaces nothing, so it is always allowed.
func (s *Images) replaceable(image *Image, name string) bool {
	if strings.Contains(name, "@") {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.records.Images[image.ID]
	return l != nil && (l.Public || len(l.VCs) > 0) &&
		slices.ContainsFunc(image.Digests, func(d string) bool { return repository(d) == repository(name) })
}

// grant notes that a registry gave an image to a job.
func (s *Images) grant(image *Image, w *ImageWant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.records.recordOf(image.ID)
	l.Used = time.Now().Unix()
	switch {
	case w.Login == nil && !l.Public:
		l.Public = true
	case w.Login != nil && !l.Public && !slices.Contains(l.VCs, w.VC):
		l.VCs = append(l.VCs, w.VC)
	}
	return s.records.save(true)
}
