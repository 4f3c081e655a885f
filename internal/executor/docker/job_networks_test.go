package docker

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/test/testkit"
)

// The containers of a gang ask the engine once for their network while they wait for its answer,
// and one that comes later asks again; so does one behind its removal.
func TestGangAsksOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	looks, answers := 0, make(chan bool)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.Contains(r.URL.Path, "/networks/"):
			mu.Lock()
			looks++
			mu.Unlock()
			<-answers
			fmt.Fprint(w, `{"Name": "comb-c-7", "Driver": "bridge", "Scope": "local",
				"Labels": {"comb.cluster": "c", "comb.job": "7"}, "Options": {"com.docker.network.bridge.enable_icc": "true"}}`)
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	engine, err := OpenEngine(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	n := &Networks{Engine: engine, Cluster: "c", Label: "comb.", Lives: func(int64) bool { return false }}
	ask := func(gang int64) {
		t.Helper()
		before := n.asked.Load()
		var all sync.WaitGroup
		for range gang {
			all.Go(func() {
				if name, err := n.For(t.Context(), 7, false); err != nil || name != "comb-c-7" {
					t.Errorf("its network is %q, %v", name, err)
				}
			})
		}
		testkit.Wait(t, "all have asked", func() bool { return n.asked.Load() == before+gang })
		answers <- true
		all.Wait()
	}
	for i, gang := range []int64{30, 1, 30} {
		if ask(gang); looks != i+1 {
			t.Errorf("%d at once: the engine was asked %d times, not %d", gang, looks, i+1)
		}
	}
	if err := n.drop(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if len(n.found) != 0 {
		t.Errorf("a network that was removed is found: %v", n.found)
	}
}
