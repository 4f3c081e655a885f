package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// breakSeal puts a full device in the place of the open file of a world's seal, until mend is
// called.
func (w *world) breakSeal() (mend func()) {
	w.t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	seal := -1
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && to == filepath.Join(w.dir, "journal.seal") {
			seal, _ = strconv.Atoi(fd.Name()) // they are numbers
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil || seal < 0 {
		w.t.Fatalf("the seal is open as %d, %v", seal, err)
	}
	kept, err := syscall.Dup(seal)
	if err == nil {
		err = syscall.Dup3(int(full.Fd()), seal, syscall.O_CLOEXEC)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := syscall.Dup3(kept, seal, syscall.O_CLOEXEC); err != nil {
			w.t.Error(err)
		}
		_ = syscall.Close(kept)
		_ = full.Close()
	}
}

// TestSealFirst breaks the seal under a server: a submission is acknowledged only once both the
// database and the seal have it. The first one after the fault is in the database already: its key
// gets the answer when the seal can be written again, and makes no second job.
func TestSealFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	if _, err := w.client.Cordon(t.Context(), "n1", "nothing starts, so nothing else is written"); err != nil {
		t.Fatal(err)
	}
	const job = `{"quick": {"name": "%", "gpus": 1, "cpus": "1", "memory_mb": 100, "command": ["true"]}}`
	submit := func(name, key string) (int, string) {
		t.Helper()
		status, header, body := w.request("POST", "/api/v1/jobs", strings.ReplaceAll(job, "%", name),
			map[string]string{"Content-Type": "application/json", "Idempotency-Key": key})
		if status == http.StatusServiceUnavailable && (header.Get("Retry-After") == "" || !strings.Contains(body, "Idempotency-Key")) {
			t.Errorf("the answer does not say what to do: %v %s", header, body)
		}
		return status, body
	}
	if status, body := submit("before", "k-before"); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	mend := w.breakSeal()
	for try := range 2 {
		if status, body := submit("first", "k-first"); status != http.StatusServiceUnavailable {
			t.Errorf("try %d of a job whose seal was never written: %d %s", try, status, body)
		}
	}
	for _, key := range []string{"k-second", ""} {
		if status, body := submit("second", key); status != http.StatusInsufficientStorage {
			t.Errorf("a job after it: %d %s", status, body)
		}
	}
	if _, err := w.client.Stop(t.Context(), "before", ""); err != nil {
		t.Errorf("a stop meanwhile: %v", err)
	}
	mend()
	status, body := submit("first", "k-first")
	if status != http.StatusCreated || !strings.Contains(body, `"repeated":true`) {
		t.Errorf("its key once the seal is written again: %d %s", status, body)
	}
	if status, body := submit("second", "k-second"); status != http.StatusCreated || !strings.Contains(body, `"id":3,`) {
		t.Errorf("the job that was refused: %d %s", status, body)
	}
}
