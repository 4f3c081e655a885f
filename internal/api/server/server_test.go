package server_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/testkit"
)

func TestJobLife(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	first := w.submit("first", 2)
	second := w.submit("second", 1)
	w.until("first runs", w.running(first.ID))

	list, err := w.client.Jobs(ctx, rest.JobQuery{})
	if err != nil || len(list.Jobs) != 2 || list.Jobs[0].Name != "second" || list.Jobs[0].Reason == nil {
		t.Fatalf("list: %+v, %v; want second with a reason, then first", list, err)
	}
	ex, err := w.client.Explain(ctx, "second")
	if err != nil || len(ex.Gangs) != 1 || ex.Gangs[0].Reason.Code != model.VCBusy || ex.Position != 1 {
		t.Fatalf("explanation: %+v, %v; want VCBusy in position 1", ex, err)
	}
	if g := ex.Gangs[0]; len(g.Levels) == 0 || len(g.Suggestions) == 0 || len(ex.Blockers) != 1 || ex.Blockers[0].Name != "first" {
		t.Errorf("explanation: %+v; want cells, changes and first in the way", ex)
	}
	if ex.Estimate == nil || !strings.Contains(ex.Estimate.Unknown, "first declares no time limit") {
		t.Errorf("estimate: %+v; want that first declares no limit", ex.Estimate)
	}
	w.exit(first.ID, 1, 0)
	w.until("first has succeeded", func() bool {
		j, err := w.client.Job(ctx, "first")
		return err == nil && j.Phase == model.Succeeded
	})
	w.until("second runs", w.running(second.ID))
	if _, err := w.client.Stop(ctx, "second", "enough"); err != nil {
		t.Fatal(err)
	}
	w.until("second is stopped", func() bool {
		j, err := w.client.Job(ctx, rest.JobRef(second.ID))
		return err == nil && j.Phase == model.Stopped
	})
	if _, err := w.client.Stop(ctx, "second", ""); rest.CodeOf(err) != rest.CodeConflict {
		t.Errorf("stopping an ended job: %v; want a conflict", err)
	}
	if list, err = w.client.Jobs(ctx, rest.JobQuery{States: []model.Phase{"stopped"}}); err != nil || len(list.Jobs) != 1 {
		t.Errorf("stopped jobs: %+v, %v; want one", list, err)
	}
	source, err := w.client.JobConfig(ctx, "first")
	if err != nil || !strings.Contains(string(source), "protocolVersion: 2") {
		t.Errorf("job file: %q, %v", source, err)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.submit(name, 1)
	}
	var names []string
	q := rest.JobQuery{Limit: 2}
	for {
		page, err := w.client.Jobs(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			names = append(names, string(j.Name))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if got := strings.Join(names, ""); got != "edcba" {
		t.Errorf("pages give %q; want edcba", got)
	}
}

func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	r := rest.SubmitRequest{Quick: &rest.QuickJob{GPUs: 1, CPUs: "1", MemoryMB: 10, Command: []string{"true"}}}
	one, err := w.client.Submit(ctx, r, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	two, err := w.client.Submit(ctx, r, "key-1")
	if err != nil || two.ID != one.ID || !two.Repeated || two.Name != one.Name {
		t.Errorf("the same key again gives %+v, %v; want %+v, repeated", two, err, one)
	}
}

func TestDryRunSaysWhatWouldHappen(t *testing.T) {
	w := newWorld(t, 2)
	ctx := context.Background()
	quick := func(gpus int64) rest.SubmitRequest {
		return rest.SubmitRequest{Quick: &rest.QuickJob{Name: "try", GPUs: gpus, CPUs: "1", MemoryMB: 10, Command: []string{"true"}}}
	}
	for _, c := range []struct {
		gpus    int64
		verdict rest.Verdict
	}{{1, rest.VerdictStarts}, {2, rest.VerdictWaits}} {
		if c.verdict == rest.VerdictWaits {
			w.until("a job runs", w.running(w.submit("busy", 1).ID))
		}
		v, err := w.client.ValidateJob(ctx, quick(c.gpus))
		if err != nil || v.Verdict != c.verdict {
			t.Errorf("%d GPUs: %+v, %v; want %s", c.gpus, v, err, c.verdict)
		}
		if !v.Guaranteed || !strings.HasPrefix(v.Standing, "guaranteed: it gets cells of VC ") {
			t.Errorf("on whose cells it runs: %v, %q", v.Guaranteed, v.Standing)
		}
		borrows := quick(c.gpus)
		borrows.Quick.Priority = "oppo"
		if v, err = w.client.ValidateJob(ctx, borrows); err != nil || v.Guaranteed || !strings.HasPrefix(v.Standing, "borrowed: ") {
			t.Errorf("on whose cells one without a guarantee runs: %v, %q, %v", v.Guaranteed, v.Standing, err)
		}
	}
	if list, err := w.client.Jobs(ctx, rest.JobQuery{}); err != nil || len(list.Jobs) != 1 {
		t.Errorf("a dry run left something behind: %+v, %v", list, err)
	}
	if v, err := w.client.ValidateJob(ctx, quick(3)); err == nil && v.Verdict != rest.VerdictNever {
		t.Errorf("3 GPUs of 2: %+v; want never, or a problem", v)
	}
}

func TestConfigNeedsItsTag(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	status, _, _ := w.request("PUT", "/api/v1/config", clusterFile, map[string]string{"Content-Type": "application/yaml"})
	if status != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: %d; want 428", status)
	}
	present, err := w.client.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.ApplyConfig(ctx, []byte(clusterFile), `"other"`); rest.CodeOf(err) != rest.CodePrecondition {
		t.Errorf("with another tag: %v; want a precondition failure", err)
	}
	checked, err := w.client.ValidateConfig(ctx, []byte(clusterFile))
	if err != nil || !checked.Changed {
		t.Fatalf("validation: %+v, %v; want a change", checked, err)
	}
	if _, err := w.client.ApplyConfig(ctx, []byte(clusterFile), present.ETag); err != nil {
		t.Fatal(err)
	}
	if now, err := w.client.Config(ctx); err != nil || now.ETag == present.ETag {
		t.Errorf("the tag stays %s, %v", now.ETag, err)
	}
	var p *rest.Problem
	_, err = w.client.ValidateConfig(ctx, []byte("physicalCluster: 3\nvirtualClusters: {}\n"))
	if !errors.As(err, &p) || len(p.Errors) == 0 || p.Errors[0].Line != 1 {
		t.Errorf("a wrong cluster file: %v; want its mistakes with their lines", err)
	}
}

// broken is a policy that panics as soon as it is asked anything.
type broken struct{ model.Policy }

func (broken) Rank(model.View) iter.Seq[model.Wish] { panic("broken") }

// Who applies a configuration is told when a policy that it brings fails at once.
func TestConfigWhosePolicyFails(t *testing.T) {
	w := openWorld(t, 1, 1<<20, func(c model.VCConfig) (model.Policy, error) {
		p, err := policy.New(c)
		if c.Policy == "las" {
			p = broken{p}
		}
		return p, err
	})
	ctx := context.Background()
	w.submit("first", 1)
	w.submit("second", 1)
	for _, c := range []struct{ policy, says string }{{"las", "the policy las of virtual cluster default failed"}, {"srtf", ""}} {
		done, err := w.client.ApplyConfig(ctx, []byte(clusterFile+"    policy: "+c.policy+"\n"), "*")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(done.Effects, "; "); c.says != "" && !strings.Contains(got, c.says) || c.says == "" && strings.Contains(got, "failed") {
			t.Errorf("%s: %q", c.policy, got)
		}
	}
}

const clusterFile = `
physicalCluster:
  skuTypes:
    GPU: {gpu: 1, cpu: 1, memory: 1024Mi}
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n2}
virtualClusters:
  default:
    virtualCells:
    - {cellType: NODE, cellNumber: 1}
`

func TestCordon(t *testing.T) {
	w := newWorld(t, 1)
	ctx := context.Background()
	if _, err := w.client.Cordon(ctx, "n1", "fan"); err != nil {
		t.Fatal(err)
	}
	list, err := w.client.Nodes(ctx)
	if err != nil || len(list.Nodes) != 1 || !list.Nodes[0].Cordoned || list.Nodes[0].Reason != "fan" {
		t.Fatalf("nodes: %+v, %v", list, err)
	}
	if _, err := w.client.Uncordon(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Cordon(ctx, "n9", ""); rest.CodeOf(err) != rest.CodeNotFound {
		t.Errorf("a node that is not there: %v", err)
	}
	cells, err := w.client.Cells(ctx)
	if err != nil || len(cells.Cells) != 1 || len(cells.Cells[0].Children) != 1 {
		t.Errorf("cells: %+v, %v", cells, err)
	}
	if vc, err := w.client.VC(ctx, "default"); err != nil || vc.Guaranteed != 1 {
		t.Errorf("vc: %+v, %v", vc, err)
	}
}

func TestListenRefusesOtherMachines(t *testing.T) {
	ctx := context.Background()
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "nohost"} {
		if l, err := server.Listen(ctx, address, false); err == nil {
			l.Close()
			t.Errorf("%s: accepted without the operator's word", address)
		}
	}
	l, err := server.Listen(ctx, "0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	seen := make(chan struct{}, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.client.Follow(ctx, "", 0, rest.Follower{Event: func(rest.Event) error { seen <- struct{}{}; return nil }})
	}()
	<-seen
	w.stop()
	cancel()
	<-done
}

// TestFullDisk has a reserve that no disk can hold, which is what a full one
// looks like.
func TestFullDisk(t *testing.T) {
	w := openWorld(t, 1, 1<<60, policy.New)
	r := rest.SubmitRequest{Quick: &rest.QuickJob{GPUs: 1, CPUs: "1", MemoryMB: 10, Command: []string{"true"}}}
	var p *rest.Problem
	_, err := w.client.Submit(context.Background(), r, "")
	if !errors.As(err, &p) || p.Status != http.StatusInsufficientStorage || p.Code != rest.CodeStorageFull {
		t.Errorf("a submission: %v; want 507", err)
	}
	if _, err := w.client.Cordon(context.Background(), "n1", "disk"); err != nil {
		t.Errorf("what needs little space: %v", err)
	}
}
