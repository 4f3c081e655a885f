package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// watched is what came of the job "a" in a run: its completion time in hours, on how many
// nodes it ran last, and which nodes others held whole when it started last.
type watched struct {
	hours float64
	nodes int
	whole []cell.NodeName
}

// watch replays a small trace on nodes of two GPUs.
func watch(t *testing.T, policyName, rows string) watched {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "trace.jsonl")
	speeds := filepath.Join(dir, "speeds.json")
	for name, text := range map[string]string{file: "{\"comb_trace\":1}\n" + rows, speeds: `{"picky":{"2":{"1":1,"2":0.5}},"easy":{"2":{"1":1,"2":1}}}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out watched
	live := map[model.AttemptID]cell.Placement{}
	var a model.JobID
	r, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "3x2", Policy: policyName, Spreads: speeds, Shape: "gpu"}, &simulate.Trace{Path: file}, simulate.Options{
		Policies: policy.New,
		Ended: func(r *metrics.Row) {
			if r.TraceID == "a" {
				out.hours = float64(r.JCT()) / 3600e6
			}
		},
		OnBatch: func(b engine.Batch) {
			for i := range b.Records {
				switch e := b.Records[i].Event.(type) {
				case model.JobSubmitted:
					if e.Job.User == "a" {
						a = e.ID
					}
				case model.Placed:
					live[e.Attempt] = e.Placement
					if e.Attempt.Job == a {
						out.nodes, out.whole = len(nodesOf(e.Placement)), wholes(live, a)
					}
				case model.AttemptEnded:
					delete(live, e.Attempt)
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Summary.Finished != int64(strings.Count(rows, "\n")) {
		t.Fatalf("%s: %d jobs ended", policyName, r.Summary.Finished)
	}
	return out
}

func nodesOf(p cell.Placement) []cell.NodeName {
	var out []cell.NodeName
	for i := range p.Tasks {
		if !slices.Contains(out, p.Tasks[i].Node) {
			out = append(out, p.Tasks[i].Node)
		}
	}
	return out
}

// wholes are the nodes of which other jobs hold both GPUs.
func wholes(live map[model.AttemptID]cell.Placement, a model.JobID) []cell.NodeName {
	n := map[cell.NodeName]int{}
	for id, p := range live {
		for i := range p.Tasks {
			if id.Job != a {
				n[p.Tasks[i].Node] += len(p.Tasks[i].Leaves)
			}
		}
	}
	var out []cell.NodeName
	for node, k := range n {
		if k == 2 {
			out = append(out, node)
		}
	}
	return out
}

// row is one job of a trace; times are in minutes. The model of user a is picky about places,
// that of all others is not.
func row(id, user string, gpus, at, minutes int) string {
	model := "easy"
	if user == "a" {
		model = "picky"
	}
	return fmt.Sprintf(`{"id":%q,"submit_us":%d,"duration_us":%d,"gpus":%d,"user":%q,"app":%q,"model":%q}`+"\n", id, at*60e6, minutes*60e6, gpus, user, user, model)
}

// Fairness at an instant, without a look at places: b's six jobs fill three nodes of two GPUs, two
// of the short ones on different nodes. When these end, drf gives a, who holds nothing, one GPU on
// each of two nodes, where its job takes twice as long. Alone on half of the cluster it would take
// two hours: sharing made it worse off. It is not efficient, and a envies b: b holds a whole node,
// and would lose nothing by an exchange, since its jobs have one GPU each. Themis waits for the end
// of b's first leases, and gives a one whole node.
func TestInstantaneousFairness(t *testing.T) {
	var rows strings.Builder
	for i, minutes := range []int{600, 600, 60, 600, 60, 600} {
		rows.WriteString(row(fmt.Sprint("b", i), "b", 1, 0, minutes))
	}
	rows.WriteString(row("a", "a", 2, 1, 120))
	drf := watch(t, "drf", rows.String())
	if drf.nodes != 2 || drf.hours/2 < 2 {
		t.Errorf("drf: a ran on %d nodes and took %.2f of 2 hours", drf.nodes, drf.hours)
	}
	if len(drf.whole) == 0 {
		t.Error("drf: nobody else held a whole node, so there is nothing to envy")
	}
	themis := watch(t, "themis:slow=picky:2,round=0", rows.String())
	if themis.nodes != 1 || themis.hours/2 > 1.2 {
		t.Errorf("themis: a ran on %d nodes and took %.2f of 2 hours", themis.nodes, themis.hours)
	}
	t.Logf("finish-time fairness of a: drf %.2f, themis %.2f", drf.hours/2, themis.hours/2)
}

// Least attained service prefers whoever came last: b submits six jobs of one GPU every ten
// minutes, for six hours, and a's job of two hours and two GPUs waits behind them once it has sunk.
// On half of the cluster it would take two hours.
func TestLeastServiceStarves(t *testing.T) {
	var rows strings.Builder
	rows.WriteString(row("a", "a", 2, 0, 120))
	for at := 0; at < 360; at += 10 {
		for i := range 6 {
			rows.WriteString(row(fmt.Sprint("b", at, "-", i), "b", 1, at, 10))
		}
	}
	las := watch(t, "las", rows.String())
	if las.hours/2 < 2 {
		t.Errorf("las: a took %.2f of 2 hours", las.hours)
	}
	themis := watch(t, "themis:slow=picky:2,round=0", rows.String())
	if themis.hours/2 > 1.3 {
		t.Errorf("themis: a took %.2f of 2 hours", themis.hours)
	}
	t.Logf("finish-time fairness of a: las %.2f, themis %.2f", las.hours/2, themis.hours/2)
}
