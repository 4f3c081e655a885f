package job

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

// TestStopAsksBeforeItWaits: all named jobs are asked to stop before one is waited for.
func TestStopAsksBeforeItWaits(t *testing.T) {
	var did []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, stop := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/jobs/"), "/stop")
		if stop {
			did = append(did, "stop "+id)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id": %s, "ref": "%s"}`, id, id)
	}))
	defer server.Close()
	client, err := rest.NewClient(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	k := &Kit{
		Client: func() (*rest.Client, error) { return client, nil },
		WithJob: func(c *cobra.Command, do Job) *cobra.Command {
			c.RunE = func(c *cobra.Command, refs []string) error { return do(c.Context(), client, refs[0]) }
			return c
		},
		Filter: func(*cobra.Command) *Filter { return &Filter{Used: func() bool { return false }} },
		Show:   func(any, func(cli.Drawing)) error { return nil },
		Wait: func(_ context.Context, _ *rest.Client, ref string) error {
			did = append(did, "wait "+ref)
			return nil
		},
	}
	c := k.stop()
	c.SetArgs([]string{"1", "2", "--wait"})
	if err := c.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(did, ", "); got != "stop 1, stop 2, wait 1, wait 2" {
		t.Error(got)
	}
}
