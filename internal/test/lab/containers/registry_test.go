package containers

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// hub is a registry on loopback, in the namespaces of the tests. Engines speak plain HTTP with it.
type hub struct {
	*httptest.Server
	mu sync.Mutex
	// users are the passwords; none is a registry that asks for none.
	users map[string]string
	down  bool           // it drops each connection
	hangs bool           // it answers nothing for a layer
	rate  int            // bytes a second of one layer; 0 is as fast as it can
	blobs map[string]int // how often a layer or configuration was begun to be read, by digest
	asked int            // requests
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{users: map[string]string{}, blobs: map[string]int{}}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(store, w, r) }))
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	return h
}

// ref is an image of this registry.
func (h *hub) ref(name string) string { return h.Listener.Addr().String() + "/" + name }

func (h *hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *hub) serve(store http.Handler, w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked++
	user, password, _ := r.BasicAuth()
	known := len(h.users) == 0 || password != "" && h.users[user] == password
	down, hangs, rate := h.down, h.hangs, h.rate
	blob := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:")
	if blob && known && !down {
		h.blobs[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	}
	h.mu.Unlock()
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required for `+password+`"}]}`)
	case hangs && blob:
		<-r.Context().Done()
	case rate > 0 && blob:
		store.ServeHTTP(&slowly{ResponseWriter: w, rate: rate}, r)
	default:
		store.ServeHTTP(w, r)
	}
}

// slowly writes at a rate.
type slowly struct {
	http.ResponseWriter
	rate  int // bytes a second
	began time.Time
	wrote int
}

func (s *slowly) Write(p []byte) (n int, err error) {
	const slices = 20 // of a second
	if s.began.IsZero() {
		s.began = time.Now()
	}
	for part := range bytesOf(p, max(s.rate/slices, 1)) {
		k, err := s.ResponseWriter.Write(part)
		s.wrote += k
		if n += k; err != nil {
			return n, err
		}
		if ahead := time.Duration(s.wrote)*time.Second/time.Duration(s.rate) - time.Since(s.began); ahead > time.Second/slices {
			_ = http.NewResponseController(s.ResponseWriter).Flush()
			time.Sleep(ahead) // the pace of a slow registry
		}
	}
	return n, nil
}

func bytesOf(p []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > 0 {
			n := min(size, len(p))
			if !yield(p[:n]) {
				return
			}
			p = p[n:]
		}
	}
}

// copies are how often each layer of what was read was read, the most.
func (h *hub) copies() (most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.blobs {
		most = max(most, n)
	}
	return most
}
