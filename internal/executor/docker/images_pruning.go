package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// lately is how long an image stays after its last use, whatever the budget: a task may be about
// to start with it.
const lately = 10 * time.Minute

// label is the label of containers that names their job.
const label = "comb.job"

func seconds(n int64) model.Time {
	if n <= 0 {
		return 0
	}
	return model.Time(n * 1_000_000)
}

// List implements executor.Images.
func (s *Images) List(ctx context.Context) (executor.ImageList, error) {
	stock, err := s.engine.Stock(ctx)
	if err != nil {
		return executor.ImageList{}, err
	}
	users, err := s.engine.Users(ctx)
	if err != nil {
		return executor.ImageList{}, err
	}
	out := executor.ImageList{Bytes: stock.Bytes, Budget: s.budget, Driver: stock.Driver}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range stock.Images {
		out.Images = append(out.Images, s.image(&stock.Images[i], users[stock.Images[i].ID]))
	}
	slices.SortFunc(out.Images, func(a, b executor.Image) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), slices.Compare(a.Names, b.Names), cmp.Compare(a.ID, b.ID))
	})
	for _, f := range s.flights {
		out.Fetching = append(out.Fetching, executor.Fetching{Name: f.source, Text: f.steps.now().String()})
	}
	slices.SortFunc(out.Fetching, func(a, b executor.Fetching) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// image is what is known of one image; the lock is held.
func (s *Images) image(m *Stored, users []map[string]string) executor.Image {
	i := executor.Image{ID: m.ID, Names: m.Tags, Digests: m.Digests, Size: m.Size, Shared: m.Shared, Created: seconds(m.Created)}
	l := s.records.Images[m.ID]
	if l != nil {
		i.Used, i.Public, i.VCs = seconds(l.Used), l.Public, slices.Clone(l.VCs)
	}
	jobs := map[model.JobID]bool{}
	for _, labels := range users {
		if n, err := strconv.ParseInt(labels[label], 10, 64); err == nil {
			jobs[model.JobID(n)] = true
		}
	}
	i.Jobs = slices.Sorted(maps.Keys(jobs))
	switch {
	case len(users) > 0:
		i.Stays = "in use"
	case len(m.Digests) == 0:
		i.Stays = "of no registry"
	case l == nil || !l.Public && len(l.VCs) == 0:
		i.Stays = "not fetched by Comb"
	case time.Since(time.Unix(l.Used, 0)) < s.lately:
		i.Stays = "used lately"
	}
	return i
}

// History implements executor.Images.
func (s *Images) History(ctx context.Context, name string) ([]executor.ImageLayer, error) {
	made, err := s.engine.History(ctx, name)
	if errors.Is(err, ErrNoImage) || errors.Is(err, ErrNotName) {
		return nil, fmt.Errorf("%w: %s", executor.ErrNoImage, name)
	}
	var out []executor.ImageLayer
	for _, m := range made {
		out = append(out, executor.ImageLayer{CreatedBy: m.By, Created: seconds(m.Created), Size: m.Size})
	}
	return out, err
}

// Fetch implements executor.Images.
func (s *Images) Fetch(ctx context.Context, name string) (executor.Fetching, error) {
	out := executor.Fetching{Name: name}
	w := &ImageWant{Name: name, Tell: func(string, string) {}}
	if isID(name) || repository(name) == "" {
		return out, s.fault(w, name, fmt.Errorf("%q %w", name, ErrNotName))
	}
	image, err := s.engine.Image(ctx, name)
	switch {
	case err == nil && !s.replaceable(&image, name):
		return out, &ImageFault{Job: true, Say: staysAsIs(name) +
			": remove it there first (docker image rm), or use another name"}
	case err != nil && !errors.Is(err, ErrNoImage):
		return out, s.fault(w, name, err)
	}
	key := flightKey{source: name, anonymous: true}
	f, err := s.join(key, nil, w)
	if err != nil {
		return out, err
	}
	got := make(chan error, 1)
	go func() { // it goes on without its caller
		<-f.done
		s.leave(key, f, w)
		got <- s.keep(w, f.err)
	}()
	select {
	case err := <-got:
		if err != nil {
			return out, err
		}
		out.Done, out.Text = true, f.steps.ended(name)
	case <-ctx.Done():
		out.Text = f.steps.now().String()
	}
	return out, nil
}

// keep records a fetch that was for no job.
func (s *Images) keep(w *ImageWant, err error) error {
	if err != nil {
		return s.fault(w, w.Name, err)
	}
	image, err := s.engine.Image(s.ctx, w.Name)
	if err != nil {
		return s.fault(w, w.Name, err)
	}
	return s.grant(&image, w)
}

// Prune implements executor.Images.
func (s *Images) Prune(ctx context.Context, keep int64) ([]executor.Image, error) {
	if keep < 0 {
		if keep = s.budget; keep == 0 {
			return nil, executor.ErrNoBudget
		}
	}
	s.pruning.Lock()
	defer s.pruning.Unlock()
	var gone []executor.Image
	failed := map[string]error{}
	for {
		list, err := s.List(ctx)
		if err != nil || list.Bytes <= keep {
			return gone, err
		}
		slices.Reverse(list.Images) // the least recently used first
		n := slices.IndexFunc(list.Images, func(i executor.Image) bool { return i.Stays == "" && failed[i.ID] == nil })
		if n < 0 {
			return gone, errors.Join(slices.Collect(maps.Values(failed))...)
		}
		i := list.Images[n]
		if err := s.engine.DropImage(ctx, &Stored{ID: i.ID, Tags: i.Names, Digests: i.Digests}); err != nil {
			failed[i.ID] = err
			continue
		}
		gone = append(gone, i)
		if err := s.forget(i.ID); err != nil {
			return gone, err
		}
	}
}

// forget removes a deleted image from the records: if it comes back, it is asked again which VC may
// run it.
func (s *Images) forget(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records.Images, id)
	return s.records.save(true)
}

// trim keeps to the budget after a fetch.
func (s *Images) trim() {
	if s.budget == 0 {
		return
	}
	gone, err := s.Prune(s.ctx, -1)
	if err != nil && s.ctx.Err() == nil {
		s.log.Warn("keep the images within their budget", "error", err)
	}
	for _, i := range gone {
		s.log.Info("removed an image to keep within the budget", "image", i.ID, "names", i.Names, "size", SizeText(i.Size))
	}
}
