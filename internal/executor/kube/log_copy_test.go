package kube

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A log whose file cannot be opened is kept once it can.
func TestLogThatCannotBeOpened(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "later")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be there
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { os.Remove(dir) })
	s := (&logCopier{pod: "p"}).open(t.Context(), dir, slog.New(slog.NewTextHandler(&log, nil)))
	if s == nil || strings.Count(log.String(), "a log is not kept for now") != 1 {
		t.Errorf("it is %v, and the log says %s", s, log.String())
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := (&logCopier{pod: "p"}).open(over, filepath.Join(dir, "none"), slog.New(slog.DiscardHandler)); s != nil {
		t.Error("a log of a task that is over was opened")
	}
}
