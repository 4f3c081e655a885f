package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// pieces takes in both streams, and says where the other begins.
type pieces struct{ text, last string }

func (p *pieces) Piece(stderr bool, text []byte) error {
	name := map[bool]string{false: "<", true: ">"}[stderr]
	if name != p.last {
		p.text += name
	}
	p.last = name
	p.text += string(text)
	return nil
}

func (p *pieces) Pause() error { return nil }

// TestBothStreamsReconnect cuts a followed log of both streams after each number of bytes: each
// byte comes once, in the order in which it was printed, and so does the word on what is missing.
func TestBothStreamsReconnect(t *testing.T) {
	streams := map[string]string{"stdout": "one\nthree\nfive\n", "stderr": "TWO\nFOUR\n"}
	turns := []struct {
		stream string
		to     int
	}{{"stdout", 4}, {"stderr", 4}, {"stdout", 10}, {"stderr", 9}, {"stdout", 15}}
	const notice, gap = "[gap]\n", 10 // in front of what stdout has from here on
	cutAfter := func(cut int) {
		tries := 0
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			at := map[string]int{}
			for stream, key := range map[string]string{"stdout": "offset", "stderr": "errors"} {
				n := 0
				fmt.Sscan(q.Get(key), &n)
				at[stream] = n
			}
			if q.Get("stream") != "both" || q.Get("frames") != "true" || tries == 0 && q.Get("tail") != "99" {
				t.Errorf("asked for %v", q)
			}
			body := fmt.Sprintf("stdout %d 0\nstderr %d 0\n", at["stdout"], at["stderr"])
			for _, turn := range turns {
				from := at[turn.stream]
				if from >= turn.to {
					continue
				}
				if turn.stream == "stdout" && from == gap {
					body += fmt.Sprintf("comb 0 %d\n%s", len(notice), notice)
				}
				body += fmt.Sprintf("%s %d %d\n%s", turn.stream, from, turn.to-from, streams[turn.stream][from:turn.to])
				at[turn.stream] = turn.to
			}
			w.Header().Set("Trailer", "Comb-Log-Complete")
			tries++
			if tries == 1 && cut < len(body) {
				fmt.Fprint(w, body[:cut])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, body)
			w.Header().Set("Comb-Log-Complete", "true")
		})
		tail := int64(99)
		var got pieces
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		err := rest.BothLogs(ctx, c, rest.LogQuery{Job: "j", Role: "r", Follow: true, Tail: &tail}, &got)
		cancel()
		if want := "<one\n>TWO\n<three\n>FOUR\n<" + notice + "five\n"; err != nil || got.text != want {
			t.Errorf("cut after %d bytes: %q, %v", cut, got.text, err)
		}
	}
	var all sync.WaitGroup
	for cut := 1; cut < 220; cut++ {
		all.Go(func() { cutAfter(cut) }) // each waits a while before it connects again
	}
	all.Wait()
}

// TestBothStreamsOfAnOldServer: one that knows no order of both is asked for each.
func TestBothStreamsOfAnOldServer(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); q.Get("stream") {
		case "both":
			w.Header().Set("Content-Type", rest.ProblemType)
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":422,"code":"invalid","detail":"stream: want stdout or stderr"}`)
		case "stdout":
			fmt.Fprint(w, "out from "+q.Get("offset"))
		default:
			fmt.Fprint(w, "err from "+q.Get("offset"))
		}
	})
	var got pieces
	err := rest.BothLogs(context.Background(), c, rest.LogQuery{Job: "j", Role: "r", Offset: 3, Errors: 4}, &got)
	if err != nil || got.text != "<out from 3>err from 4" {
		t.Errorf("%q, %v", got.text, err)
	}
	c = client(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "some text\n") })
	if err := rest.BothLogs(context.Background(), c, rest.LogQuery{Job: "j", Role: "r"}, &got); err == nil {
		t.Error("what is no log of both streams was taken for one")
	}
}
