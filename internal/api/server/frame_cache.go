package server

import (
	"fmt"
	"sync"
)

// Bounds on the frames that are kept: 4 MiB in all.
const (
	keptFrames   = 1024
	largestFrame = 4 << 10 // bytes of a frame that is kept; larger ones are encoded for each stream, one at a time
)

// frameCache keeps the latest frames by the numbers of their events, so that many streams
// encode an event once. The zero value is ready.
type frameCache struct {
	mu   sync.RWMutex
	ring [keptFrames]frame
}

type frame struct {
	seq  uint64
	text []byte
}

// Append appends the frame of event seq to b. encode returns the event's data in one line of
// JSON. It is called when the frame is not kept, and its error is returned. The event of a
// number never changes.
func (f *frameCache) Append(b []byte, seq uint64, event string, encode func() ([]byte, error)) ([]byte, error) {
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
	if text := b[start:]; len(text) <= largestFrame && kept.seq < seq { // old events must not replace new ones
		f.mu.Lock()
		if place.seq < seq {
			*place = frame{seq, append(make([]byte, 0, len(text)), text...)}
		}
		f.mu.Unlock()
	}
	return b, nil
}
