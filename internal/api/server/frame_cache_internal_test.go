package server

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestFrames: an event is encoded once, however many ask for it; old and large ones are told too,
// and drive out nothing.
func TestFrames(t *testing.T) {
	var f frameCache
	calls := 0
	get := func(seq uint64, data string) string {
		t.Helper()
		b, err := f.Append([]byte("x"), seq, "event", func() ([]byte, error) { calls++; return []byte(data), nil })
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for range 3 {
		if got, want := get(5000, `{"a":1}`), "xid: 5000\nevent: event\ndata: {\"a\":1}\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if calls != 1 {
		t.Errorf("the event was encoded %d times", calls)
	}
	get(5000-keptFrames, "{}") // of the same place, and older
	get(5000, `{"a":1}`)
	if calls != 2 {
		t.Errorf("an old event drove a new one out: %d calls", calls)
	}
	large := strings.Repeat("y", largestFrame)
	if got := get(6000, large); !strings.Contains(got, large) || f.ring[6000%keptFrames].text != nil {
		t.Error("a large event was not told, or kept")
	}
	no := errors.New("no")
	if b, err := f.Append([]byte("x"), 7000, "event", func() ([]byte, error) { return nil, no }); !errors.Is(err, no) || string(b) != "x" {
		t.Errorf("got %q and %v of an event that cannot be told", b, err)
	}
}

// TestFramesTogether: readers at different places get each event as it is.
func TestFramesTogether(t *testing.T) {
	var f frameCache
	var all sync.WaitGroup
	for from := range uint64(4) {
		all.Go(func() {
			for seq := 1 + from*700; seq < 5000; seq++ {
				b, err := f.Append(nil, seq, "event", func() ([]byte, error) { return fmt.Appendf(nil, "%d", seq), nil })
				if want := fmt.Sprintf("id: %d\nevent: event\ndata: %d\n\n", seq, seq); err != nil || string(b) != want {
					t.Errorf("got %q and %v, want %q", b, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkAppend(b *testing.B) {
	var f frameCache
	data := []byte(strings.Repeat("z", 400))
	var buf []byte
	for b.Loop() {
		buf, _ = f.Append(buf[:0], 77, "event", func() ([]byte, error) { return data, nil })
	}
}
