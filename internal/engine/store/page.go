package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/combsched/comb/internal/core/model"
)

const (
	// keptPages is how many pages are kept in memory for readers of events: they read a page in
	// parts, and many begin at the same place.
	keptPages = 4
	// pageReaders is how many pages are read at the same time.
	pageReaders = 2
)

// pages are those that were read last. Events never change, so they never become stale.
type pages struct {
	turn chan struct{} // holds a token for each page that is being read
	mu   sync.Mutex
	kept [keptPages][]stored
	next int // the index that is replaced next
}

// find returns the kept events from seq on.
func (p *pages) find(seq uint64) []stored {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, page := range p.kept {
		if n := uint64(len(page)); n > 0 && page[0].seq <= seq && seq < page[0].seq+n {
			return page[seq-page[0].seq:]
		}
	}
	return nil
}

func (p *pages) keep(page []stored) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[p.next] = page
	p.next = (p.next + 1) % keptPages
}

// Events returns the next events after seq, with about size bytes of data, at least one event;
// none at the end. Its memory does not grow with the number of callers.
func (s *Store) Events(ctx context.Context, after uint64, size int) ([]model.Record, error) {
	page := s.pages.find(after + 1)
	if page == nil {
		select {
		case s.pages.turn <- struct{}{}:
			defer func() { <-s.pages.turn }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if page = s.pages.find(after + 1); page == nil { // another caller may have read it meanwhile
			var err error
			if page, err = s.page(ctx, after+1); err != nil || len(page) == 0 {
				return nil, err
			}
			s.pages.keep(page)
		}
	}
	var records []model.Record
	for i, total := 0, 0; i < len(page) && total < size; i++ {
		if want := after + 1 + uint64(i); page[i].seq != want {
			return records, s.damaged(fmt.Sprintf("event %d is missing, event %d follows", want, page[i].seq))
		}
		r, err := page[i].decode()
		if err != nil {
			return records, err
		}
		records = append(records, r)
		total += len(page[i].data)
	}
	return records, nil
}
