package simulate_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/simulate"
)

// written writes a file for a test.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ends simulates jobs, given as lines of the comb format, and gives when each ended in
// seconds, in order of name, and the GPU-seconds of work that were done.
func ends(t *testing.T, spec simulate.Spec, jobs ...string) (string, float64) {
	t.Helper()
	file := written(t, "jobs.jsonl", `{"comb_trace":1}`+"\n"+strings.Join(jobs, "\n"))
	at := map[string]model.Time{}
	work := uint64(0)
	if spec.Policy == "" {
		spec.Policy = "fifo"
	}
	_, err := simulate.Run(context.Background(), spec, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New, Ended: func(r *metrics.Row) {
		at[r.TraceID] = r.End - simulate.Origin
		work += r.Effective
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, id := range []string{"a", "b", "c", "d"} {
		if end, ok := at[id]; ok {
			out = append(out, fmt.Sprintf("%s %g", id, float64(end)/1e6))
		}
	}
	return strings.Join(out, ", "), float64(work) / 1e6
}

// line is a job in the comb format; times in seconds.
func line(id string, submit, duration, gpus int, more string) string {
	return fmt.Sprintf(`{"id":%q,"submit_us":%d,"duration_us":%d,"gpus":%d%s}`, id, submit*1_000_000, duration*1_000_000, gpus, more)
}

// speedsFile is a table of speeds in our own format.
const speedsFile = `{"comb_speeds": 1,
 "types": {"K80": {"*": 0.25}},
 "localities": {"vgg": {"switch": 1, "node": 0.5, "rack": 0.25, "cross-rack": 0.2}},
 "host": {"shy": 0.5},
 "nic": {"net": 0.5},
 "costs": {"restart": "10", "migrate": "log2:5"}}`

// What jobs' places and neighbours do to their ends, worked out by hand. The work that
// is counted is that which was asked for, whatever the speed.
func TestSpeedsByHand(t *testing.T) {
	file := written(t, "speeds.json", speedsFile)
	for _, c := range []struct {
		name string
		spec simulate.Spec
		jobs []string
		want string
		work float64
	}{
		{"a K80 has a quarter of the speed", simulate.Spec{Cluster: "1x1:K80"}, []string{line("a", 0, 100, 1, "")}, "a 400", 100},
		{"type, off", simulate.Spec{Cluster: "1x1:K80", Without: "type"}, []string{line("a", 0, 100, 1, "")}, "a 100", 100},
		// Pairs of GPUs under a switch, two of them in a machine: b gets a switch of its own,
		// a and c have one each, and d, of 4 GPUs, is on both.
		{"switch and node", simulate.Spec{Cluster: "2x4"}, []string{line("a", 0, 100, 2, `,"model":"vgg"`), line("b", 0, 100, 4, `,"model":"vgg"`)}, "a 100, b 200", 600},
		{"rack, of a cluster without racks", simulate.Spec{Cluster: "2x4"}, []string{line("a", 0, 100, 8, `,"model":"vgg"`)}, "a 400", 800},
		{"one rack", simulate.Spec{Cluster: "4x4", Racks: 2}, []string{line("a", 0, 100, 8, `,"model":"vgg"`)}, "a 400", 800},
		{"cross-rack", simulate.Spec{Cluster: "4x4", Racks: 2}, []string{line("a", 0, 100, 16, `,"model":"vgg"`)}, "a 500", 1600},
		{"locality, off", simulate.Spec{Cluster: "4x4", Racks: 2, Without: "locality"}, []string{line("a", 0, 100, 16, `,"model":"vgg"`)}, "a 100", 1600},
		// a works alone for 20 s, then half as fast beside b until that ends at 120 s, having
		// had half speed for its 50 s of work all the time; then 30 s are left of a.
		{"a neighbour comes and goes", simulate.Spec{Cluster: "1x4"},
			[]string{line("a", 0, 100, 2, `,"model":"shy"`), line("b", 20, 50, 2, `,"model":"shy"`)}, "a 150, b 120", 300},
		// c is beside two others from 40 s on: a quarter of the speed for each of the shy.
		// a: 40 s x 0.5 (beside b) = 20; b the same. Then 0.25: what is left, 80, would take
		// 320 s; c, which is not shy, ends after 20 s, at 60 s, when a and b have done 25.
		// From then on half speed: 75 s take 150 s.
		{"two neighbours, one of which does not mind", simulate.Spec{Cluster: "1x4"},
			[]string{line("a", 0, 100, 1, `,"model":"shy"`), line("b", 0, 100, 1, `,"model":"shy"`), line("c", 40, 20, 1, "")}, "a 210, b 210, c 60", 220},
		{"host, off", simulate.Spec{Cluster: "1x4", Without: "host"},
			[]string{line("a", 0, 100, 2, `,"model":"shy"`), line("b", 20, 50, 2, `,"model":"shy"`)}, "a 100, b 70", 300},
		// a and b are on two machines each, the second of both is the same one. c is on one
		// machine only and is nobody's neighbour on the network.
		{"a network card for two", simulate.Spec{Cluster: "3x4"},
			[]string{line("a", 0, 100, 6, `,"model":"net"`), line("b", 50, 25, 6, `,"model":"net"`)}, "a 125, b 100", 750},
		{"who is on one machine needs no network", simulate.Spec{Cluster: "2x4"},
			[]string{line("a", 0, 100, 6, `,"model":"net"`), line("b", 0, 50, 2, `,"model":"net"`)}, "a 100, b 50", 700},
		{"network card, off", simulate.Spec{Cluster: "3x4", Without: "nic,gpus"},
			[]string{line("a", 0, 100, 6, `,"model":"net"`), line("b", 50, 25, 6, `,"model":"net"`)}, "a 100, b 75", 750},
		// srtf: b takes a's GPU for 20 s; a's second start costs 10 s.
		{"a restart", simulate.Spec{Cluster: "1x1", Policy: "srtf:quantum=0"}, []string{line("a", 0, 100, 1, ""), line("b", 30, 20, 1, "")}, "a 130, b 50", 120},
		{"the flag's restart", simulate.Spec{Cluster: "1x1", Policy: "srtf:quantum=0", RestartCost: "3"}, []string{line("a", 0, 100, 1, ""), line("b", 30, 20, 1, "")}, "a 123, b 50", 120},
		{"costs, off", simulate.Spec{Cluster: "1x1", Policy: "srtf:quantum=0", Without: "costs"}, []string{line("a", 0, 100, 1, ""), line("b", 30, 20, 1, "")}, "a 120, b 50", 120},
		// a has 4 GPUs of the first machine and b the second, until c takes the first at 30 s,
		// where least is left to do. b ends at 40 s, and a goes on there at that instant: it is
		// on another machine, so its start costs 10 s and 5 s x (1 + log2 4).
		{"a migration", simulate.Spec{Cluster: "2x4", Policy: "srtf:quantum=0", Without: "locality"},
			[]string{line("a", 0, 100, 4, ""), line("b", 0, 40, 4, ""), line("c", 30, 60, 4, "")}, "a 135, b 40, c 90", 800},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Throughputs = file
			got, work := ends(t, c.spec, c.jobs...)
			if got != c.want {
				t.Errorf("ends are %s; want %s", got, c.want)
			}
			if c.name != "a migration" && !strings.Contains(c.name, "restart") && math.Abs(work-c.work) > 1e-3 {
				t.Errorf("%g GPU-seconds of work were done; want %g", work, c.work)
			}
		})
	}
}

// Gavel's table: a job that asks for two V100 and gets them on different machines has 4
// of 10 steps a second, one on a K80 2 of 8.
func TestGavelsThroughputs(t *testing.T) {
	file := written(t, "gavel.json", `{"v100": {"('lm', 2)": {"null": 10}, "('a3c', 1)": {"null": 8}},
		"v100_unconsolidated": {"('lm', 2)": {"null": 4}}, "k80": {"('a3c', 1)": {"null": 2}}}`)
	lm, a3c := line("a", 0, 100, 2, `,"model":"lm"`), line("b", 0, 100, 1, `,"model":"a3c","skus":["K80"]`)
	for _, c := range []struct {
		spec simulate.Spec
		want string
	}{
		{simulate.Spec{Cluster: "2x1:V100,1x1:K80"}, "a 250, b 400"},
		{simulate.Spec{Cluster: "1x2:V100,1x1:K80"}, "a 100, b 400"},
		{simulate.Spec{Cluster: "2x1:V100,1x1:K80", GPU: "k80"}, "a 250, b 100"},
		{simulate.Spec{Cluster: "2x1:V100,1x1:K80", Without: "type,locality"}, "a 100, b 100"},
	} {
		c.spec.Throughputs = file
		if got, _ := ends(t, c.spec, lm, a3c); got != c.want {
			t.Errorf("%+v: ends are %s; want %s", c.spec, got, c.want)
		}
	}
}

// A journal whose jobs had all kinds of speeds happens again with the same table: the
// work of each is what it did at the speeds that it had, to the microsecond.
func TestReplayWithSpeeds(t *testing.T) {
	table := written(t, "speeds.json", `{"comb_speeds": 1, "localities": {"*": {"node": 0.8, "rack": 0.5}}, "host": {"*": 0.9}, "nic": {"*": 0.7},
		"costs": {"restart": "log2:20", "migrate": "15"}}`)
	spec := simulate.Spec{Cluster: "6x4", Policy: "las:limits=3250/7200", Seed: 1, Throughputs: table}
	j, was := recorded(t, spec, crowded(t, 400, 1500))
	is := map[string]life{}
	_, err := simulate.Replay(context.Background(), simulate.Spec{Throughputs: table}, j, simulate.Options{Policies: policy.New, Ended: lives(is, byTraceID)})
	if err != nil {
		t.Fatal(err)
	}
	for id := range was {
		if was[id] != is[id] {
			t.Fatalf("job %s: %+v, then %+v", id, was[id], is[id])
		}
	}
	plain := map[string]life{}
	if _, err := simulate.Run(context.Background(), simulate.Spec{Cluster: "6x4", Policy: spec.Policy, Seed: 1}, &simulate.Trace{Path: crowded(t, 400, 1500)},
		simulate.Options{Policies: policy.New, Journal: engine.NewMemory(), Ended: lives(plain, byID)}); err != nil {
		t.Fatal(err)
	}
	slower := 0
	for id := range was {
		if was[id].end-was[id].start > plain[id].end-plain[id].start {
			slower++
		}
	}
	if slower < len(was)/2 {
		t.Errorf("only %d of %d jobs took longer with the table", slower, len(was))
	}
}

func TestTablesOfSpeedsAreChecked(t *testing.T) {
	for _, c := range []struct{ table, want string }{
		{`{"comb_speeds": 2}`, `speeds.json:1:17: comb_speeds: this is version 2`},
		{"{\"comb_speeds\": 1,\n \"type\": {}}", `speeds.json:2:`},
		{"{\"comb_speeds\": 1,\n \"localities\": {\"vgg\": {\"board\": 1}}}", `speeds.json:2:`},
		{"{\"comb_speeds\": 1,\n \"host\": {\"vgg\": 0}}", `speeds.json:2:18: host.vgg: a speed of 0 would never end`},
		{"{\"comb_speeds\": 1,\n \"host\": {\"vgg\": \"x\"}}", `speeds.json:2:18: host.vgg`},
		{"{\"comb_speeds\": 1, \"gpus\": {\"vgg\": {\"two\": 1}}}", `gpus.vgg.two: "two" is no number of GPUs`},
		{"{\"comb_speeds\": 1, \"costs\": {\"restart\": \"soon\"}}", `costs.restart: want SECONDS or log2:SECONDS, not "soon"`},
		{"{\"comb_speeds\": 1, \"throughputs\": {\"v100\": {\"lm\": {}}}}", `throughputs.v100.lm: "lm" names no work`},
		{"{\"comb_speeds\": 1", `ends too early`},
		{"{\"v100\": {\"('lm', 1)\": {\"null\": -1}}}", `speeds.json:1:`},
	} {
		spec := simulate.Spec{Cluster: "1x1", Policy: "fifo", Throughputs: written(t, "speeds.json", c.table)}
		if err := spec.Check(policy.New); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.table, err, c.want)
		}
	}
	spec := simulate.Spec{Cluster: "1x1", Policy: "fifo", Throughputs: written(t, "t.json", `{"v100": {"('lm', 1)": {"null": 1}}}`), GPU: "v1000", Without: "hosts", RestartCost: "soon"}
	err := spec.Check(policy.New)
	for _, want := range []string{`--gpu: the table of throughputs has no type "v1000"; did you mean v100?`, `--without: there is no effect "hosts"`, "--restart-cost: want SECONDS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
