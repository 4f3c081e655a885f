package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/test/testkit"
)

// history submits n jobs whose files have so many bytes, and opens the server anew, so that
// all their events are read from disk.
func history(t *testing.T, n, size int, slow time.Duration) *world {
	w := newWorld(t, 1)
	if _, err := w.client.Cordon(context.Background(), "n1", "history"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for c := range 32 {
		all.Go(func() {
			for i := c; i < n; i += 32 {
				r := quickJob(fmt.Sprintf("h-%d", i), 1)
				r.Quick.Env = map[string]string{}
				for left := size; left > 0; left -= 32 << 10 {
					r.Quick.Env[fmt.Sprintf("PAD%d", left)] = strings.Repeat("x", min(left, 32<<10))
				}
				if _, err := w.client.Submit(context.Background(), r, ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	w.stop()
	return setup{dir: w.dir, slow: slow}.open(t)
}

// stuck opens n streams of all events from the beginning and reads nothing of them.
func (w *world) stuck(n int) []net.Conn {
	var out []net.Conn
	for range n {
		c := w.dial()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET /api/v1/events?follow=true&after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", w.token)
		out = append(out, c)
	}
	return out
}

// heap is what a collection found alive, with the stacks, in MiB, less what was made while it went:
// the collector takes that for alive, and on a busy machine, where it takes long, it is much. What
// is left is held for certain.
func heap() float64 {
	made := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before := made()
	runtime.GC()
	held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(held)
	meanwhile := made() - before
	return (float64(held[0].Value.Uint64()+held[1].Value.Uint64()) - float64(meanwhile)) / (1 << 20)
}

// TestStuckReadersHoldLittle opens 250 streams that nobody reads. They hold at most 64 MiB
// together, at any time, which is given back; each is told, when it is read at last, that it
// was dropped and where to go on, and what it got up to there has no gap.
func TestStuckReadersHoldLittle(t *testing.T) {
	const readers, limit = 250, 64
	w := history(t, 1500, 12<<10, 10*time.Second)
	before := heap()
	conns := w.stuck(readers)
	most := 0.0
	for range 40 {
		most = max(most, heap()-before)
		time.Sleep(200 * time.Millisecond) // the pace of the looks, as the streams come to a stop
	}
	if most > limit && !raced { // 21 without the detector, more with it
		t.Errorf("%d stuck readers hold %.0f MiB; want at most %d", readers, most, limit)
	}
	w.until("the streams are dropped", func() bool { return heap()-before < 8 })
	debug.FreeOSMemory()
	t.Logf("%d stuck readers held %.1f MiB at most", readers, most)

	last, dropped := readStream(t, conns[7])
	if dropped.Seq == 0 || dropped.Seq != last || !strings.Contains(dropped.Detail, fmt.Sprintf("Last-Event-ID: %d", last)) {
		t.Fatalf("a stream that was not read ends after event %d with %+v", last, dropped)
	}
	if rest := collect(t, w.client, last, 10); rest[0].Seq != last+1 {
		t.Errorf("it goes on at event %d; want %d", rest[0].Seq, last+1)
	}
}

// readStream reads a stream to its end and returns its last event and what dropped it.
func readStream(t *testing.T, c net.Conn) (last uint64, dropped rest.Dropped) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	err = rest.ReadFrames(resp.Body, func(f rest.Frame) error {
		if f.Name == rest.StreamDropped {
			return json.Unmarshal(f.Data, &dropped)
		}
		var e rest.Event
		if err := json.Unmarshal(f.Data, &e); err != nil {
			return err
		}
		if e.Seq != last+1 {
			t.Errorf("event %d after %d", e.Seq, last)
		}
		last = e.Seq
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last, dropped
}

// TestLargeEventsOfStuckReaders: events of a quarter of a MiB and more are many times what all
// streams may hold, and those who read still get theirs.
func TestLargeEventsOfStuckReaders(t *testing.T) {
	w := history(t, 40, 256<<10, 6*time.Second)
	before := heap()
	w.stuck(80)
	// What they make at first is garbage soon: what counts is what stays.
	time.Sleep(3 * time.Second)
	held := heap() - before
	if held > 64 && !raced { // 23 without the detector, up to 73 with it
		t.Errorf("80 stuck readers of large events hold %.0f MiB; want at most 64", held)
	}
	t.Logf("80 stuck readers of large events hold %.1f MiB", held)
	var end uint64
	if err := w.replica.Read(context.Background(), 0, func(s *core.State) { end = s.Seq() }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	last := uint64(0)
	err := w.client.Follow(ctx, "", 0, rest.Follower{Event: func(e rest.Event) error {
		if e.Seq != last+1 {
			t.Errorf("event %d after %d", e.Seq, last)
		}
		if last = e.Seq; last == end {
			return errEnough
		}
		return nil
	}})
	if !errors.Is(err, errEnough) {
		t.Errorf("who reads gets %d of %d events, then %v", last, end, err)
	}
}

// page asks for a page of all events.
func (w *world) page(after uint64) (page rest.EventList) {
	w.t.Helper()
	req, err := http.NewRequest("GET", fmt.Sprintf("%s/api/v1/events?after=%d", w.url, after), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		w.t.Fatal(err)
	}
	return page
}

// TestEventPagesAreBounded: a page of large events costs what a page has, whatever stands behind
// it.
func TestEventPagesAreBounded(t *testing.T) {
	w := history(t, 50, 256<<10, 0)
	allocated := func() float64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.TotalAlloc) / (1 << 20)
	}
	seen, pages, most := uint64(0), 0, 0.0
	for next := uint64(0); pages == 0 || next > 0; pages++ {
		before := allocated()
		page := w.page(next)
		most = max(most, allocated()-before)
		for _, e := range page.Events {
			if seen++; e.Seq != seen {
				t.Fatalf("event %d after %d", e.Seq, seen-1)
			}
		}
		next = page.Next
	}
	t.Logf("%d events in %d pages, of which one took %.0f MiB", seen, pages, most)
	if pages < 4 || most > 120 {
		t.Errorf("%d pages, of which one took %.0f MiB; want 4 at least, and 120 MiB at most", pages, most)
	}
}
