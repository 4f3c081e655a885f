package kubescale

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/test/lab"
	"github.com/combsched/comb/internal/test/simapi"
	"github.com/combsched/comb/internal/test/testkit"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testkit.Drop()
	os.Exit(code)
}

const gpus = 8 // of a node

// cluster is a server over an API server in memory. All its tasks run until they are stopped.
type cluster struct {
	t      *testing.T
	api    *simapi.Server
	server *lab.Server
	client *rest.Client
	line   string // at which pods reach the server
	debug  string // at which it shows profiles
}

// pod is that of a job of one task.
type pod struct {
	name string
	job  model.JobID
}

// newCluster starts a server with so many nodes.
func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	dir := t.TempDir()
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, api: simapi.New(1), line: testkit.FreeAddress(t), debug: testkit.FreeAddress(t)}
	t.Cleanup(c.api.Close)
	c.api.Linger()
	c.api.Account(simapi.Home)
	text := "physicalCluster:\n  skuTypes: {A100: {gpu: 1, cpu: 8, memory: 64Gi}}\n" +
		"  cellTypes: {NODE: {childCellType: A100, childCellNumber: 8, isNodeLevel: true}}\n  physicalCells:\n"
	for i := range nodes {
		name := fmt.Sprint("n", i)
		c.api.AddNode(name)
		c.api.Offer(name, "nvidia.com/gpu", gpus)
		text += fmt.Sprintf("  - {cellType: NODE, cellAddress: %s}\n", name)
	}
	text += fmt.Sprintf("virtualClusters: {default: {virtualCells: [{cellType: NODE, cellNumber: %d}]}}\n", nodes)
	config := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, "+
		"clusters: [{name: c, cluster: {server: %q}}], "+
		"users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", c.api.URL)
	for name, text := range map[string]string{"cluster.yaml": text, "kubeconfig": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.server = &lab.Server{Bin: bin, Data: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"),
		Args: []string{"--executor", "kubernetes", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
			"--cluster", filepath.Join(dir, "cluster.yaml"), "--without-admission-policies", "--debug-listen", c.debug,
			"--pod-image", "local.test/comb:1", "--pod-url", "https://" + c.line, "--pod-listen", c.line}}
	c.start()
	t.Cleanup(func() {
		c.server.Kill()
		if t.Failed() {
			log, _ := os.ReadFile(c.server.Log)
			t.Logf("the server said:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	return c
}

// start starts the server, also again on its data.
func (c *cluster) start() {
	c.t.Helper()
	err := c.server.Start(c.t.Context())
	if err == nil {
		c.client, err = c.server.Client()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

const job = `protocolVersion: 2
name: task-%d
type: job
prerequisites:
- {type: dockerimage, name: box, uri: "local.test/busybox:1"}
taskRoles:
  worker:
    dockerImage: box
    instances: %d
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 1024}
    commands: [sleep 100000]
`

// run submits jobs of so many tasks, numbered from one on, and returns the pods of all when they
// run.
func (c *cluster) run(from, jobs, tasks int) (all []pod) {
	c.t.Helper()
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 24 {
		group.Go(func() {
			for i := range numbers {
				source := rest.SubmitRequest{Source: fmt.Sprintf(job, i, tasks)}
				if _, err := c.client.Submit(c.t.Context(), source, ""); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	for i := range jobs {
		numbers <- from + i
	}
	close(numbers)
	group.Wait()
	want := (from + jobs) * tasks
	for seen := -1; c.api.Began() < want; { // however many there are, none takes long
		before := seen
		if seen = c.api.Began(); seen == before {
			c.t.Fatalf("%d pods run, of %d", seen, want)
		}
		testkit.Within(testkit.Patience, func() bool { return c.api.Began() >= min(seen+1000, want) })
	}
	for _, name := range c.api.Objects("pods") {
		parts := strings.Split(name, "-") // its end is -JOB-GANG-ATTEMPT-TASK
		if len(parts) < 5 {
			continue
		}
		id, err := strconv.ParseInt(parts[len(parts)-4], 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, pod{name, model.JobID(id)})
	}
	if len(all) != want {
		c.t.Fatalf("there are %d pods, want %d", len(all), want)
	}
	return all
}

// pin is that of the server's certificate.
func (c *cluster) pin() string {
	c.t.Helper()
	_, pin, err := link.Identity(filepath.Join(c.server.Data, "pod-line.pem"))
	if err != nil {
		c.t.Fatal(err)
	}
	return pin
}

// dial is a pod's end of the line.
func (c *cluster) dial(p pod, pin string) *link.Client {
	return link.NewClient("https://"+c.line, pin, p.name, c.api.Token(p.name, link.Audience))
}

// heapSays matches what a profile of the heap says of all memory.
var heapSays = regexp.MustCompile(`(?m)^# (HeapAlloc|Stack) = (\d+)`)

// heap is what the server holds in bytes, stacks too and garbage left out.
func (c *cluster) heap() (bytes int64) {
	c.t.Helper()
	text, err := c.profile("heap?gc=1&debug=1")
	said := heapSays.FindAllSubmatch(text, -1)
	if err != nil || len(said) != 2 {
		c.t.Fatalf("the profile of the heap does not say how large it is: %.300s, %v", text, err)
	}
	for _, m := range said {
		n, _ := strconv.ParseInt(string(m[2]), 10, 64)
		bytes += n
	}
	return bytes
}

// profile asks for a profile of the server.
func (c *cluster) profile(name string) ([]byte, error) {
	token, err := os.ReadFile(filepath.Join(c.server.Data, "admin-token"))
	if err != nil {
		return nil, err
	}
	return fetch(c.t.Context(), "http://"+c.debug+"/debug/pprof/"+name, strings.TrimSpace(string(token)))
}

// keepProfile writes a profile of the server to a file.
func (c *cluster) keepProfile(name, file string) {
	text, err := c.profile(name)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		c.t.Error(err)
	}
}
