package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/combsched/comb/internal/base/limiter"
)

// stuckWriter is the connection of a client that reads nothing.
type stuckWriter struct {
	http.ResponseWriter
	writing, taken chan struct{}
}

func (s *stuckWriter) Write(b []byte) (int, error) {
	close(s.writing)
	<-s.taken
	return len(b), nil
}

// TestSlowReadersHoldNoTurn: a turn ends as the answer begins, however long its client takes.
func TestSlowReadersHoldNoTurn(t *testing.T) {
	lane := &limiter.Limiter{All: 1, One: 1, Line: 1, Lines: 1}
	s := New(Options{})
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		if lane.Taken() != 1 {
			t.Error("it was worked out in no turn")
		}
		_, _ = w.Write([]byte("answer"))
	})
	w := &stuckWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		serveInTurn(s, lane, w, httptest.NewRequest("GET", "/", nil))
	}()
	<-w.writing
	leave, err := lane.Wait(t.Context(), "next")
	if err != nil {
		t.Fatal(err)
	}
	close(w.taken)
	<-over
	if lane.Taken() != 1 {
		t.Error("the turn ended twice")
	}
	leave()
}
