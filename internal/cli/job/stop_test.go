package job

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/cli"
)

// TestStopAsksBeforeItWaits: all named jobs are asked to stop before one is waited for.
func TestStopAsksBeforeItWaits(t *testing.T) {
	var did []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, stop := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/jobs/"), "/stop")
		if stop {
			did = append(did, "stop "+id)
		} else {
			did = append(did, "look "+id)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": %s, "ref": "%s", "phase": "Stopped"}`, id, id)
	}))
	defer server.Close()
	k := &commands{&cli.App{Server: server.URL, Format: "table", Out: io.Discard, Errs: io.Discard, Env: func(string) string { return "" }}}
	c := k.stop()
	c.SetArgs([]string{"1", "2", "--wait"})
	if err := c.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(did, ", "); got != "look 1, stop 1, look 2, stop 2, look 1, look 2" {
		t.Error(got)
	}
}
