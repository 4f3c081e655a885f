package kubescale

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/testkit"
)

var (
	nodes   = flag.Int("nodes", 60, "nodes of 8 GPUs, each with a pod on each GPU")
	gang    = flag.Int("gang", 1, "tasks of a job")
	profile = flag.String("heap", "", "write a profile of the server's heap to this file")
)

// mostOfAPod is the most of the server's heap that a pod of a job of one task may take, in bytes.
const mostOfAPod = 10_000

// fetch reads what is at an address.
func fetch(ctx context.Context, address, token string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", a.Status, text)
	}
	return text, err
}

// A pod takes little of the server's memory, so that one server is enough for a large cluster.
func TestMemoryOfAPod(t *testing.T) {
	c := newCluster(t, *nodes)
	figures := lab.Figures{Out: io.Discard}
	if testing.Verbose() {
		figures.Out = os.Stdout
	}
	empty, jobs := c.heap(), *nodes*gpus / *gang
	first := max(1, jobs/8)
	c.run(0, first, *gang) // what is there once is not a pod's
	few := c.heap()
	c.run(first, jobs-first, *gang)
	pods := int64((jobs - first) * *gang)
	var many int64
	testkit.WaitFor(t, func() string { return fmt.Sprintf("%d bytes for a pod", (many-few)/pods) }, func() bool {
		many = c.heap()
		return (many-few)/pods < mostOfAPod
	})
	if testing.Verbose() { // what is under way still is not a pod's either
		testkit.Within(time.Minute, func() bool {
			before := many
			time.Sleep(3 * time.Second) // a snapshot is written meanwhile, or the last pods are seen
			many = c.heap()
			return many > before-before/100
		})
	}
	kib, err := lab.Resident(c.server.PID())
	if err != nil {
		t.Fatal(err)
	}
	peak := usageOf(t, c.server.PID()).kib
	at := []string{"nodes", fmt.Sprint(*nodes), "pods", fmt.Sprint(jobs * *gang)}
	figures.Print("heap_without_pods", float64(empty)/(1<<20), "MiB", at...)
	figures.Print("heap", float64(many)/(1<<20), "MiB", at...)
	figures.Print("heap_of_a_pod", float64(many-few)/float64(pods), "bytes", at...)
	figures.Print("resident", float64(kib)/1024, "MiB", at...)
	figures.Print("most_resident", float64(peak)/1024, "MiB", at...)
	if *profile != "" {
		c.keepProfile("heap?gc=1", *profile)
	}
}

// A pod is bound before many others are made: else all tasks that start at once begin with the
// last.
func TestAPodIsBoundOnceItIsMade(t *testing.T) {
	c := newCluster(t, 20)
	c.run(0, 1, 20*gpus)
	const most = 30 // as many as the server makes at a time, and some
	if n := c.api.MostUnbound(); n > most {
		t.Errorf("%d of %d pods waited at once to be bound, more than %d", n, 20*gpus, most)
	}
}
