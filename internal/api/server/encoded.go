package server

import (
	"fmt"
	"sync"
)

// How much is kept: 4 MiB at most.
const (
	keptFrames   = 1024
	largestFrame = 4 << 10 // bytes of a frame that is kept; larger ones are made for each stream, one at a time
)

// Frames are the latest frames by their events' numbers. The zero value is ready.
type encodedEvents struct {
	mu   sync.RWMutex
	ring [keptFrames]frame
}

type frame struct {
	seq  uint64
	text []byte
}

// Append adds the frame of event seq to b. encode returns the event's data in one line of JSON; it
// is called when the frame is not kept, and its error returned. The event that a number names never
// changes.
func (f *encodedEvents) Append(b []byte, seq uint64, event string, encode func() ([]byte, error)) ([]byte, error) {
	place := &f.ring[seq%keptFrames]
	f.mu.RLock()
	kept := *place
	f.mu.RUnlock()
	if kept.seq == seq && kept.text != nil {
		return append(b, kept.text...), nil
	}
	data, err := encode()
	if err != nil {
		return b, err
	}
	start := len(b)
	b = fmt.Appendf(b, "id: %d\nevent: %s\ndata: %s\n\n", seq, event, data)
	if text := b[start:]; len(text) <= largestFrame && kept.seq < seq { // a reader of old events drives out no new ones
		f.mu.Lock()
		if place.seq < seq {
			*place = frame{seq, append(make([]byte, 0, len(text)), text...)}
		}
		f.mu.Unlock()
	}
	return b, nil
}
