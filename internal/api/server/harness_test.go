package server_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/oidc"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/spec/config"
	"github.com/combsched/comb/internal/spec/upload"
	"github.com/combsched/comb/internal/test/testkit"
)

// world is a real store, engine and server on loopback; its executor only notes
// what it is asked, so that a test says when tasks start and end.
type world struct {
	t       testing.TB
	handler *server.Server
	url     string
	token   string
	client  *rest.Client
	live    *engine.LiveInputs
	replica *engine.Replica
	store   *store.Store
	people  *people.Directory
	logs    *fakeMachine

	dir  string
	stop func()
}

// saidRuntime is what the servers of tests say of themselves to administrators.
const saidRuntime = "processes: the engine at unix:///run/canary.sock does not answer; build with CGO_ENABLED=0"

// fakeMachine takes actions and holds logs.
type fakeMachine struct {
	mu         sync.Mutex
	live       *engine.LiveInputs
	actions    []model.Action
	logs       map[string]string
	conditions []executor.Condition
	turns      []executor.StreamSwitch // of all tasks
	gap        [2]int64                // dropped of each log
	broken     error                   // of every log
	disordered error                   // of every order
	read       atomic.Int64            // bytes of logs

	turn      chan struct{} // closed when the command "suspended" may run
	waits     atomic.Int32  // how many have waited for that
	abandoned chan error    // why one does not any more
}

// Do implements engine.Executor: every task starts at once, a stop ends it.
func (m *fakeMachine) Do(a model.Action) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions = append(m.actions, a)
	if a.Start == nil {
		for _, b := range m.actions {
			if b.Attempt == a.Attempt && b.Start != nil {
				for _, t := range b.Start.Tasks {
					go m.live.Tell(model.TaskExited{Attempt: a.Attempt, Task: t.Task, Exit: model.Exit{Code: 143, Signal: 15}})
				}
			}
		}
		return
	}
	for _, t := range a.Start.Tasks {
		go m.live.Tell(model.TaskStarted{Attempt: a.Attempt, Task: t.Task, Host: "127.0.0.1", PID: 1})
	}
}

func logKey(ref executor.LogRef) string {
	return fmt.Sprintf("%v/%d/%s", ref.Attempt, ref.Task, ref.Stream)
}

// print appends to a task's log.
func (m *fakeMachine) print(ref executor.LogRef, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[logKey(ref)] += text
}

// OpenLog implements Logs.
func (m *fakeMachine) OpenLog(ref executor.LogRef, from int64) (executor.Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return executor.Log{}, m.broken
	}
	text, ok := m.logs[logKey(ref)]
	if !ok {
		return executor.Log{}, fs.ErrNotExist
	}
	end, turns := int64(len(text)), m.turns
	out := executor.Log{Start: min(max(from, 0), end), End: end, GapStart: m.gap[0], GapEnd: m.gap[1],
		Switches: func([2]int64) ([]executor.StreamSwitch, error) { return turns, m.disordered }}
	var cut error
	switch {
	case out.Start < m.gap[0]:
		text, cut = text[:m.gap[0]], executor.ErrCut
	case out.Start < m.gap[1]:
		out.Start = m.gap[1]
	}
	out.ReadCloser = io.NopCloser(&counted{strings.NewReader(text[out.Start:]), &m.read, cut})
	return out, nil
}

// Conditions implements executor.HasConditions.
func (m *fakeMachine) Conditions() []executor.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// cut drops a part of all logs.
func (m *fakeMachine) cut(from, to int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gap = [2]int64{from, to}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n   *atomic.Int64
	cut error // instead of the end
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	if err == io.EOF && c.cut != nil {
		err = c.cut
	}
	return n, err
}

func wall() model.Time { return model.Time(time.Now().UnixMicro()) }

// newWorld starts everything with a cluster of one node with n GPUs.
func newWorld(t testing.TB, n int32) *world { return openWorld(t, n, 1<<20, policy.New) }

// openWorld is newWorld with a reserve of so many bytes on the disk, and policies of its own.
func openWorld(t testing.TB, n int32, reserve int64, policies model.Policies) *world {
	return setup{gpus: n, reserve: reserve, policies: policies}.open(t)
}

// setup is how a world begins; zero values are what newWorld has.
type setup struct {
	gpus     int32
	reserve  int64
	policies model.Policies
	dir      string        // of a world before
	trust    bool          // users trust each other
	keys     int           // idempotency keys of one subject
	slow     time.Duration // that a reader of events may take for a piece
	now      func() model.Time
	named    bool // nodes without a name are refused
	images   executor.Images
	provider *oidc.Provider
	proxies  server.Proxies
}

func (o setup) open(t testing.TB) *world {
	t.Helper()
	ctx := context.Background()
	now, fresh := o.now, o.dir == ""
	if now == nil {
		now = wall
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	if o.policies == nil {
		o.policies = policy.New
	}
	s, err := store.Open(ctx, o.dir, store.Options{Now: now(), ReserveBytes: cmp.Or(o.reserve, 1<<20), Keys: o.keys})
	if err != nil {
		t.Fatal(err)
	}
	live := engine.NewLiveInputs(now)
	machine := &fakeMachine{live: live, logs: map[string]string{}, turn: make(chan struct{}), abandoned: make(chan error, 1)}
	e, err := engine.Open(ctx, engine.Options{Inputs: live, Executor: machine, Journal: s, Policies: o.policies, Epoch: s.Epoch()})
	if err != nil {
		t.Fatal(err)
	}
	loop, stopLoop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(loop) }()
	token, _, err := s.CreateToken(ctx, "test", "alice", now())
	if err != nil {
		t.Fatal(err)
	}
	uploads, err := upload.OpenDepot(filepath.Join(o.dir, "uploads"), upload.DepotOptions{Limits: upload.Limits{Bytes: 1 << 20, Files: 100}})
	if err != nil {
		t.Fatal(err)
	}
	directory, err := people.Open(ctx, s, now)
	if err != nil {
		t.Fatal(err)
	}
	directory.SetHashCost(people.Cost{KiB: 8, Passes: 1})
	handler := server.New(server.Options{Runtime: saidRuntime, Proxies: o.proxies, Tags: store.Tags{Store: s}, Ends: store.Ends{Store: s}, Uploads: uploads, ImageStore: o.images, Provider: o.provider, People: directory, TrustUsers: o.trust, Live: live, Replica: e.Replica(), Store: s, Logs: machine, Entry: machine, Policies: config.Policies{Names: policy.Names(), New: policy.New, Named: o.named},
		Version: "test", Cluster: s.ClusterID(), Now: now, SlowReader: o.slow})
	l, err := server.Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	h := handler.HTTP()
	h.Handler = server.OpenPAI(handler)
	go h.Serve(l)
	w := &world{t: t, handler: handler, url: "http://" + l.Addr().String(), token: token, live: live, replica: e.Replica(), store: s, people: directory, logs: machine, dir: o.dir}
	if w.client, err = rest.NewClient(w.url, token); err != nil {
		t.Fatal(err)
	}
	w.stop = sync.OnceFunc(func() {
		handler.Close()
		h.Close()
		stopLoop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	if !fresh {
		return w
	}
	reply := live.Do(ctx, model.Reconfigure{Meta: model.Meta{Subject: "system"}, Config: oneNode(o.gpus)}, nil)
	if reply.Refusal != nil || reply.Err != nil {
		t.Fatal(reply.Refusal, reply.Err)
	}
	w.client.See(reply.Seq)
	return w
}

// oneNode is a cluster of one node, all of it of VC default.
func oneNode(n int32) *model.Config {
	node := cell.CellSpec{Type: "NODE", Address: "n1"}
	for i := range n {
		node.Children = append(node.Children, cell.CellSpec{Type: "GPU", Address: fmt.Sprint(i)})
	}
	return &model.Config{
		Cluster: cell.Spec{
			SKUs:   []cell.SKU{{Name: "GPU", GPU: 1, MilliCPU: 1000, MemoryMB: 1024, Device: cell.NVIDIA}},
			Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{{Type: "GPU"}, {Type: "NODE", Fanout: n, IsNode: true}}}},
			Cells:  []cell.CellSpec{node},
			VCs:    []cell.VCSpec{{Name: "default", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: 1}}}},
		},
		VCs: []model.VCConfig{{Name: "default"}},
	}
}

// request makes a raw request and returns the status, the headers and the body.
func (w *world) request(method, path, body string, header map[string]string) (int, http.Header, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	for k, v := range header {
		if v == "" {
			req.Header.Del(k)
		} else {
			req.Header.Set(k, v)
		}
	}
	if host, ok := header["Host"]; ok {
		req.Host = host
	}
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil && !strings.Contains(err.Error(), "EOF") {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// dial opens a bare connection.
func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// submit submits a quick job.
func (w *world) submit(name string, gpus int64) rest.Submitted {
	w.t.Helper()
	out, err := w.client.Submit(context.Background(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: name, GPUs: gpus, CPUs: "1",
		MemoryMB: 100, Command: []string{"true"}}}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// until waits until f holds.
func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	testkit.Wait(w.t, what, f)
}

// exit ends a task of a job's first gang.
func (w *world) exit(id model.JobID, n, code int32) {
	w.live.Tell(model.TaskExited{Attempt: model.AttemptID{Job: id, N: n}, Task: 0, Exit: model.Exit{Code: code}})
}

func (w *world) running(id model.JobID) func() bool {
	return func() bool {
		j, err := w.client.Job(context.Background(), rest.JobRef(id))
		return err == nil && len(j.Tasks) > 0 && j.Tasks[0].State == model.TaskRunning
	}
}
