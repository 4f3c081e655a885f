package local

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor/local/container"
)

// An engine that takes a question and never answers does not hold up the server's end, when the server was about to remove what is left.
func TestHungEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	engine, err := container.Reach("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ctx, end := context.WithCancel(t.Context())
	b := &boxes{e: &Executor{ctx: ctx, o: Options{Cluster: "c", Log: slog.New(slog.DiscardHandler)}}, engine: engine}
	done := make(chan error, 1)
	go func() {
		_, err := b.remove(map[string]bool{}, true)
		done <- err
	}()
	c, err := l.Accept() // it asks
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	end()
	if err := <-done; err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it is answered: %v", err)
	}
	if d := time.Since(began); d > 25*time.Second { // one call may take 30 s
		t.Errorf("the end was held up for %v", d)
	}
}
