package core_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

var depth = flag.Int("depth", 5, "how many events follow each other in the exhaustive search")

// scope is a small world of which every history is tried.
type scope struct {
	name   string
	quotas map[cell.VCName][]cell.QuotaSpec
	jobs   []*model.Job
	// adjust changes the configuration, when not nil.
	adjust func(*model.Config)
	begun  int // how many of the jobs run in the beginning
}

func (sc *scope) config() *model.Config {
	cfg := pair(sc.quotas)
	if sc.adjust != nil {
		sc.adjust(cfg)
	}
	return cfg
}

// pair is two nodes of two switches of two leaves, n0 and n1.
func pair(quotas map[cell.VCName][]cell.QuotaSpec) *model.Config {
	cfg := &model.Config{Cluster: cell.Spec{SKUs: []cell.SKU{{Name: "G", GPU: 1, Device: cell.NVIDIA}},
		Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "SWITCH", Fanout: 2}, {Type: "NODE", Fanout: 2, IsNode: true}}}}}}
	for n := range 2 {
		node := cell.CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", n)}
		for sw := range 2 {
			node.Children = append(node.Children, cell.CellSpec{Type: "SWITCH", Address: fmt.Sprint(sw), Children: []cell.CellSpec{
				{Type: "G", Address: fmt.Sprint(2 * sw)}, {Type: "G", Address: fmt.Sprint(2*sw + 1)}}})
		}
		cfg.Cluster.Cells = append(cfg.Cluster.Cells, node)
	}
	for _, n := range []cell.VCName{"a", "b"} {
		cfg.Cluster.VCs = append(cfg.Cluster.VCs, cell.VCSpec{Name: n, Quota: quotas[n]})
		cfg.VCs = append(cfg.VCs, model.VCConfig{Name: n})
	}
	return cfg
}

func owns(levelNumber ...int32) []cell.QuotaSpec {
	var out []cell.QuotaSpec
	for i := 0; i < len(levelNumber); i += 2 {
		out = append(out, cell.QuotaSpec{Chain: "NODE", Level: cell.Level(levelNumber[i]), Number: levelNumber[i+1]})
	}
	return out
}

func lazy(j *model.Job) *model.Job { j.LazyPreempt = true; return j }

// partial leaves one task in the minimum and puts the others above it.
func partial(j *model.Job) *model.Job {
	j.Gangs = nil
	for i := range j.Roles[0].Tasks {
		j.Gangs = append(j.Gangs, model.Gang{Name: fmt.Sprintf("w%d", i), Tasks: []int32{i}, Extra: i > 0})
	}
	return j
}

func brief(j *model.Job, d model.Duration) *model.Job { j.TimeLimit = d; return j }

// preempting lets VC a preempt within a priority.
func preempting(cfg *model.Config) {
	cfg.VCs[0].Params = []model.Param{{Key: "preempt", Value: "true"}}
}

// backfilling lets VC a start short jobs before one that waits.
func backfilling(cfg *model.Config) { cfg.VCs[0].Backfill = "easy" }

// scopes differ in how the VCs' cells and the jobs' sizes lie to each other: whole
// nodes; parts of nodes with room that nobody owns; and, with a policy that
// preempts, gangs with members above their minimum;
// short jobs before one that waits; and gangs that take turns on the same leaves, or run there
// side by side.
func scopes() []scope {
	return []scope{
		{"nodes", map[cell.VCName][]cell.QuotaSpec{"a": owns(3, 1), "b": owns(3, 1)}, []*model.Job{
			lazy(gangJob("low", "a", 1, 2, 2)), gangJob("high", "a", 5, 1, 4), gangJob("guest", "b", cell.Opportunistic, 2, 2), gangJob("own", "b", 0, 1, 3)}, nil, 0},
		{"parts", map[cell.VCName][]cell.QuotaSpec{"a": owns(2, 2), "b": owns(2, 1, 1, 1)}, []*model.Job{
			lazy(gangJob("low", "a", 1, 2, 1)), gangJob("high", "a", 5, 2, 2), gangJob("guest", "a", cell.Opportunistic, 2, 3), gangJob("own", "b", 3, 1, 2)}, nil, 0},
		{"rivals", map[cell.VCName][]cell.QuotaSpec{"a": owns(3, 1), "b": owns(2, 1)}, []*model.Job{
			lazy(partial(gangJob("part", "a", 2, 2, 2))), brief(gangJob("rival", "a", 2, 1, 3), model.Minute), gangJob("small", "a", 2, 1, 1),
			partial(gangJob("guest", "b", cell.Opportunistic, 2, 2))}, preempting, 0},
		{"backfill", map[cell.VCName][]cell.QuotaSpec{"a": owns(3, 1), "b": owns(2, 1)}, []*model.Job{
			brief(gangJob("first", "a", 2, 1, 3), model.Minute), gangJob("large", "a", 2, 1, 4), brief(gangJob("small", "a", 1, 1, 1), model.Second),
			gangJob("guest", "b", cell.Opportunistic, 1, 3)}, backfilling, 0},
		{"sharing", map[cell.VCName][]cell.QuotaSpec{"a": owns(2, 1), "b": owns(3, 1)}, []*model.Job{
			sharer(gangJob("one", "a", 2, 1, 2)), sharer(lazy(gangJob("two", "a", 2, 1, 2))), sharer(gangJob("three", "a", 2, 1, 2)),
			gangJob("high", "a", 5, 1, 1)}, sharing, 2},
	}
}

// sharer lets a job be suspended and packed.
func sharer(j *model.Job) *model.Job {
	j.Hints.Suspendable, j.Hints.Packable, j.Hints.GPUMemoryMB = true, true, 6000
	return j
}

// sharing gives VC a a policy under which gangs share their leaves: two fit a leaf's memory,
// three do not.
func sharing(cfg *model.Config) {
	cfg.Cluster.SKUs[0].GPUMemoryMB = 16_000
	cfg.VCs[0].Policy = "gandiva"
	cfg.VCs[0].Params = []model.Param{{Key: "quantum", Value: "10"}, {Key: "settle", Value: "1"}, {Key: "window", Value: "5"}}
}

// Every history of four jobs of two VCs on two nodes, with faults, refusals and
// restarts, to the depth that -depth gives: all invariants hold after every event.
func TestExhaustive(t *testing.T) {
	if testing.Short() {
		*depth = min(*depth, 3)
	}
	debug.SetGCPercent(400) // states are many and short-lived
	for _, sc := range scopes() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			seeds.Covered(t, "depth %d", *depth)
			x := &explorer{scope: sc, seen: map[[16]byte]int8{}}
			first := core.New(policy.New)
			end := x.transit(first, event{"configure", func(s *core.State) []model.Event {
				return command(s, model.Reconfigure{Config: sc.config()})
			}})
			if end.err != nil {
				t.Fatal(end.err)
			}
			x.run(x.warm(t, end.state), *depth)
			if x.breach != "" {
				t.Error(x.breach)
			}
			t.Logf("%s, depth %d: %d transitions, %d distinct states", sc.name, *depth, x.transitions, len(x.seen))
		})
	}
}

// explorer walks all histories. Of a state that several histories lead to only
// the one that leaves most depth goes on.
type explorer struct {
	scope
	mu          sync.Mutex
	seen        map[[16]byte]int8 // the greatest depth left with which a state was met
	transitions int
	breach      string
}

// lanes is how many histories are walked at a time.
const lanes = 2

func (x *explorer) run(from *core.State, depth int) {
	type work struct {
		state *core.State
		path  []string
	}
	todo := make(chan work)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for w := range todo {
				x.explore(w.state, w.path, depth-len(w.path))
			}
		})
	}
	x.meet(from.Key(), depth)
	head := min(2, depth)
	var split func(s *core.State, path []string)
	split = func(s *core.State, path []string) {
		if len(path) == head {
			todo <- work{s, path}
			return
		}
		x.expand(s, path, depth-len(path), split)
	}
	split(from, nil)
	close(todo)
	wg.Wait()
}

// warm lets the first jobs run, so that the histories begin there.
func (x *explorer) warm(t *testing.T, s *core.State) *core.State {
	for _, j := range x.jobs[:x.begun] {
		for _, begins := range []string{"submit " + string(j.Name), "started " + string(j.Name)} {
			all := x.events(s)
			i := slices.IndexFunc(all, func(e event) bool { return strings.HasPrefix(e.name, begins) })
			if i < 0 {
				t.Fatalf("%s cannot be", begins)
			}
			to := x.transit(s, all[i])
			if to.err != nil {
				t.Fatal(to.err)
			}
			s = to.state
		}
	}
	return s
}

func (x *explorer) explore(s *core.State, path []string, left int) {
	if left > 0 {
		x.expand(s, path, left, func(s *core.State, path []string) { x.explore(s, path, left-1) })
	}
}

// meet notes a state and says whether it is new and whether there is a reason to
// go on from it.
func (x *explorer) meet(key [16]byte, left int) (fresh, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	best, known := x.seen[key]
	if known && int(best) >= left {
		return false, false
	}
	x.seen[key] = int8(left)
	return !known, true
}

// expand tries every event that is possible in a state.
func (x *explorer) expand(s *core.State, path []string, left int, next func(*core.State, []string)) {
	var back *core.State // the state as it is after a restart
	for _, e := range x.events(s) {
		if x.broken() {
			return
		}
		to := x.transit(s, e)
		here := append(path[:len(path):len(path)], e.name)
		if to.err != nil {
			x.fail(here, to.err)
			return
		}
		if to.state == nil {
			continue
		}
		key := to.state.Key()
		fresh, more := x.meet(key, left-1)
		x.count()
		if !more {
			continue
		}
		if fresh {
			if err := judge(to.state); err != nil {
				x.fail(here, err)
				return
			}
			if back == nil {
				var err error
				if back, err = reload(s); err != nil {
					x.fail(path, err)
					return
				}
			}
			if err := restarted(back, to, key, e); err != nil {
				x.fail(append(here[:len(here)-1:len(here)-1], "restart", e.name), err)
				return
			}
		}
		next(to.state, here)
	}
}

func (x *explorer) broken() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.breach != ""
}

func (x *explorer) count() {
	x.mu.Lock()
	x.transitions++
	x.mu.Unlock()
}

func (x *explorer) fail(path []string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.breach == "" {
		x.breach = fmt.Sprintf("scope %s: %v\nthe events:\n  %s", x.name, err, strings.Join(path, "\n  "))
	}
}
