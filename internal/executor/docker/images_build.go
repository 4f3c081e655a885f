package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/combsched/comb/internal/executor"
)

const (
	mostBuilds  = 2         // at the same time
	buildWithin = time.Hour // one build
	buildMemory = 4 << 30   // bytes that a step may have by default
)

// Build implements executor.Images.
func (s *Images) Build(ctx context.Context, b *executor.Build, files io.Reader, tell func(executor.BuildLine)) (string, error) {
	select {
	case s.building <- struct{}{}:
		defer func() { <-s.building }()
	default:
		return "", fmt.Errorf("%w: %d, the most at a time; try again when one is over", executor.ErrBuilding, mostBuilds)
	}
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // it ends with Images
	order := Build(*b)
	if order.Memory == 0 {
		order.Memory = buildMemory
	}
	image, err := s.engine.Build(ctx, &order, files, func(l BuildLine) { tell(executor.BuildLine(l)) })
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%w: it took more than %v", executor.ErrBuild, buildWithin)
	case errors.Is(err, ErrBuild):
		return "", fmt.Errorf("%w: %s", executor.ErrBuild, Words(err))
	case errors.Is(err, ErrNotName):
		return "", fmt.Errorf("%w: %w", executor.ErrBuild, err)
	case err != nil:
		return "", err
	}
	go s.trim()
	return image.ID, s.built(image.ID)
}

// built notes that an image was built: it counts as just used.
func (s *Images) built(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records.used(id)
}
