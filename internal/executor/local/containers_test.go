package local

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/executor/docker"
)

// An engine that takes a question and never answers does not hold up the server's end, when the
// server was about to remove what is left.
func TestHungEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	engine, err := docker.Reach("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ctx, end := context.WithCancel(t.Context())
	b := &containers{e: &Executor{ctx: ctx, o: Options{Cluster: "c", Log: slog.New(slog.DiscardHandler)}}, engine: engine}
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
	end()
	if err := <-done; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) { // and not by the time that a call may take
		t.Errorf("it ends with: %v", err)
	}
}
