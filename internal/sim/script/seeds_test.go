package script_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/combsched/comb/internal/sim/script"
	"github.com/combsched/comb/internal/test/seeds"
)

var first = flag.Bool("first", false, "stop at the first random run that fails, without shrinking it")

var keep = flag.String("keep", "", "folder to which each random run is written, as a script, with what its events and its end come to")

var booked = flag.Bool("booked", false, "every virtual cluster of the random runs has backfill")

// Random runs make much garbage and keep little: it is collected more seldom than usual, unless
// GOGC says how often.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// Random scenarios on simulated machines: the invariants hold after every event,
// a second run gives the same bytes, and when everything is healed every job
// that can end does.
func TestSeeds(t *testing.T) {
	from, to := seeds.Range(t, seeds.Unit)
	found := newFailures(plain, seeds.Unit)
	const lanes = 2
	for lane := range lanes {
		t.Run(fmt.Sprintf("lane %d", lane+1), func(t *testing.T) {
			t.Parallel()
			for seed := from + uint64(lane); seed <= to && !found.enough(); seed += lanes {
				found.try(t, seed)
			}
		})
	}
}

// The same where everybody shares: gandiva in every virtual cluster, small gangs that
// let themselves be suspended and packed, and much progress.
func TestSharedSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/4)
	found := newFailures(shared, seeds.Unit/4)
	found.tryAll(t, from, to)
	t.Logf("%d gangs shared leaves, %d jobs grew, %d shrank for others", found.met.joins, found.met.grows, found.met.shrinks)
	if *booked {
		return // nobody shares beside bookings
	}
	if !t.Failed() && to-from+1 >= seeds.Unit/4 && (found.met.joins == 0 || found.met.grows == 0 || seeds.Modest() && found.met.shrinks == 0) {
		t.Error("nobody shared, grew or shrank")
	}
}

// The same where gangs move for those who wait, in every virtual cluster: most save
// their work, and need to run for seconds only before they may move.
func TestMovingSeeds(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, seeds.Unit/8)
	found := newFailures(moving, seeds.Unit/8)
	found.tryAll(t, from, to)
	if !t.Failed() && to-from+1 >= seeds.Unit/8 && found.met.moves == 0 {
		t.Error("nobody moved for anybody")
	}
	t.Logf("%d gangs moved for others", found.met.moves)
}

// failures are the ways in which seeds failed: each is shrunk and shown once.
type failures struct {
	mu    sync.Mutex
	kinds map[string]bool
	kind  kindOfRun
	unit  uint64 // how many seeds there are in go test
	met   met
}

func newFailures(kind kindOfRun, unit uint64) *failures {
	return &failures{kinds: map[string]bool{}, kind: kind, unit: unit, met: met{policies: map[string]*tries{}}}
}

// tryAll tries the seeds of a range until it has seen enough.
func (f *failures) tryAll(t *testing.T, from, to uint64) {
	t.Helper()
	for seed := from; seed <= to && !f.enough(); seed++ {
		f.try(t, seed)
	}
}

// maxKinds is how many ways to fail are looked for.
const maxKinds = 6

func (f *failures) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *first && len(f.kinds) > 0 {
		return true
	}
	return len(f.kinds) >= maxKinds
}

// first reports whether a failure is of a new kind.
func (f *failures) first(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := failureKind(err)
	seen := f.kinds[kind]
	f.kinds[kind] = true
	return !seen
}

// try runs one seed, twice.
func (f *failures) try(t *testing.T, seed uint64) {
	steps, one := generate(seed, f.kind)
	f.mu.Lock()
	f.met.add(&one.check.met)
	f.mu.Unlock()
	if *keep != "" {
		f.keep(t, seed, steps, one)
	}
	if one.err == nil {
		two := again(steps, f.kind)
		if two.err == nil && one.check.sum() != two.check.sum() {
			two.err = fmt.Errorf("again: I13: the second run differs from the first")
		}
		one.err = two.err
	}
	if one.err == nil {
		return
	}
	if !f.first(one.err) || *first {
		t.Errorf("seed %d: %v", seed, one.err)
		return
	}
	steps = shrink(steps, one.err, f.kind)
	t.Errorf("seed %d: %v\nto repeat: go test ./internal/sim/script -run %s -args %s\nshrunk to:\n%s",
		seed, one.err, strings.Split(t.Name(), "/")[0], seeds.Flag(seed, f.unit), render(steps))
}

// keep writes a run to a file that comb script takes. make same compares those of two commits.
func (f *failures) keep(t *testing.T, seed uint64, steps []step, run *scenario) {
	text := fmt.Sprintf("# events %s\n# state %s\n%s", run.check.sum(), run.check.state.Digest(), render(steps))
	file := filepath.Join(*keep, fmt.Sprintf("%s-%d.txt", t.Name()[:strings.IndexAny(t.Name()+"/", "/")], seed))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// step is one command of a scenario. One that is kept makes the end what it should
// be: without it a scenario would fail for another reason.
type step struct {
	line, block string
	keep        bool
}

func render(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		if s.block == "" {
			b.WriteString(s.line + "\n")
		} else {
			b.WriteString(s.line + " <<END\n" + s.block + "END\n")
		}
	}
	return b.String()
}

// scenario is one run with its checks.
type scenario struct {
	s     *script.Session
	check *checker
	last  step // the one that failed
	err   error
}

func begin(kind kindOfRun) *scenario {
	sc := &scenario{s: script.New()}
	sc.check = newChecker(sc.s)
	sc.check.calm = kind == calm
	sc.s.OnBatch = sc.check.batch
	return sc
}

// do runs one step and checks what must hold when the world is quiet.
func (sc *scenario) do(st step) string {
	if sc.err != nil {
		return ""
	}
	out, err := sc.s.Do(st.line, st.block)
	if err != nil && strings.Contains(err.Error(), "there is no ") {
		err = nil // a shrunk scenario may name what is no longer there
	}
	if sc.check.err != nil {
		err = sc.check.err
	}
	if err == nil {
		err = sc.check.quiet()
	}
	if err == nil && strings.Contains(out, "FAILED") {
		err = fmt.Errorf("%s", strings.TrimSpace(out))
	}
	if err != nil {
		sc.last, sc.err = st, fmt.Errorf("%s: %w", st.line, err)
	}
	return out
}

// replay runs the steps of a scenario again.
func replay(steps []step, kind kindOfRun) *scenario {
	sc := begin(kind)
	defer sc.s.Close()
	for _, st := range steps {
		sc.do(st)
	}
	return sc
}

// again runs the steps of a scenario that held once more, for its bytes alone: if they are
// those of the first run, all checks would say what they said then.
func again(steps []step, kind kindOfRun) *scenario {
	sc := begin(kind)
	defer sc.s.Close()
	sc.check.blind = true
	for _, st := range steps {
		if st.line != "verify" {
			sc.do(st)
		}
	}
	return sc
}

// shrink leaves out steps as long as the run still fails in the same way.
func shrink(steps []step, failure error, kindOf kindOfRun) []step {
	kind, last := failureKind(failure), steps[len(steps)-1]
	budget := 400
	for size := len(steps) / 2; size >= 1; size /= 2 {
		for i := 1; i+size <= len(steps) && budget > 0; {
			less := slices.Clone(steps[:i])
			for k, st := range steps[i:] {
				if k >= size || st.keep {
					less = append(less, st)
				}
			}
			if len(less) == len(steps) {
				break // what is kept stands at the end
			}
			budget--
			if sc := replay(less, kindOf); sc.err != nil && failureKind(sc.err) == kind && sc.last.keep == last.keep {
				steps = less
			} else {
				i += size
			}
		}
	}
	return steps
}

// failureKind is the text of an error without the command and the numbers.
func failureKind(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, ": "); ok {
		text = after
	}
	text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), 40)]
}

// generator makes a scenario from a seed, looking at what happened so far.
type generator struct {
	*rand.Rand
	sc     *scenario
	steps  []step
	plan   *floor
	kind   kindOfRun
	seed   uint64
	names  []string
	next   int
	ending bool
	repeat []step   // commands with a key, to be given twice
	held   []string // jobs that were held, maybe released since
}

func generate(seed uint64, kind kindOfRun) ([]step, *scenario) {
	g := newGenerator(seed, kind)
	g.run()
	return g.steps, g.sc
}

func newGenerator(seed uint64, kind kindOfRun) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2)), sc: begin(kind), kind: kind, seed: seed}
	g.plan = newFloor(g)
	return g
}

// run gives all steps.
func (g *generator) run() {
	defer g.sc.s.Close()
	g.do("set start="+g.pick("0s", "0s", "2s")+" stop="+g.pick("0s", "1s", "5s"), "")
	g.do("cluster", g.plan.text())
	for range 40 + g.IntN(80) {
		g.step()
	}
	g.end()
}

func (g *generator) do(line, block string) string {
	if g.sc.err != nil {
		return ""
	}
	st := step{line, block, g.ending}
	g.steps = append(g.steps, st)
	return g.sc.do(st)
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// step gives one random command.
func (g *generator) step() {
	if g.kind == calm {
		g.choose([]choice{{60, g.submit}, {40, g.wait}})
		return
	}
	telling, changing := 6, 5
	switch g.kind {
	case crowd, mixed:
		telling = 25
	case trials:
		telling = 60
	case divided:
		changing = 30
	}
	g.choose([]choice{
		{45, g.submit}, {20, g.wait}, {6, g.stop}, {7, g.exit}, {5, g.refuse}, {9, g.node},
		{5, g.leaf}, {4, g.lose}, {3, g.restart}, {telling, g.progress}, {4, g.crash}, {changing, g.reconfigure}, {2, g.again}, {3, g.disk},
	})
}

// choice is something to do, with how often.
type choice struct {
	weight int
	do     func()
}

func (g *generator) choose(choices []choice) {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := g.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			return
		}
	}
}

func (g *generator) submit() {
	g.next++
	name := fmt.Sprintf("j%d", g.next)
	vc := g.pick(g.plan.vcs...)
	line := fmt.Sprintf("submit %s vc=%s prio=%s %s grace=%ds key=k%d", name, vc,
		g.pick("crit", "prod", "prod", "test", "test", "oppo", "oppo", "0", "55"), g.runTime(), g.IntN(40), g.next)
	chain := g.plan.chainOf(g, vc)
	for i := range 1 + g.IntN(2)*g.IntN(2) {
		leaves := 1 + g.IntN(chain.leaves())
		if g.chance(50) {
			leaves = 1 + g.IntN(leaves)
		}
		tasks := fmt.Sprint(1 + g.IntN(3)*g.IntN(2))
		if g.chance(20) {
			tasks = "1.." + fmt.Sprint(2+g.IntN(5))
		}
		line += fmt.Sprintf(" r%d=%sx%d", i, tasks, leaves)
		if g.chance(60) {
			line += "@" + chain.name
		} else if g.chance(20) {
			line += "@x|y"
		}
	}
	if g.kind != plain && g.kind != moving && g.kind != trials && g.kind != divided {
		line = g.oneOfMany(name, vc)
	}
	suspendable, checkpoint, avoid := 35, 15, 5
	switch g.kind {
	case moving:
		checkpoint, avoid = 80, 0
		line = fmt.Sprintf("submit %s vc=%s prio=%s %s grace=%ds key=k%d r0=1x%d", name, vc,
			g.pick("prod", "test", "test", "test"), g.runTime(), g.IntN(40), g.next, 1+g.IntN(chain.leaves()))
	case shared, divided:
		suspendable = 90
	case trials:
		g.do(g.oneTrial(name), "")
		g.names = append(g.names, name)
		return
	case calm:
		g.do(line, "")
		return
	}
	for _, o := range []struct {
		percent int
		text    string
	}{
		{40, "lazy"}, {15, "incremental"}, {checkpoint, "checkpoint"}, {10, "stop=never"}, {10, "exit=1"},
		{60, "queue=" + g.pick("q", "p.r", "d", "p", "z")}, {20, "app=" + g.pick("m", "n")}, {20, "model=m"}, {10, "dedicated"},
		{20, fmt.Sprintf("retries=%d", g.IntN(3))}, {30, fmt.Sprintf("limit=%ds", 1+g.IntN(400))},
		{suspendable, "suspendable"}, {12, "releases"}, {30, "packable"}, {40, fmt.Sprintf("memory=%d", 2000*(1+g.IntN(8)))}, {20, "packed=70"},
		{8, "minFailed=2"}, {8, "minSucceeded=1"}, {8, "taskRetries=1"}, {20, "user=" + g.pick("u", "v", "w")},
		{8, "nodes=" + g.node1() + "," + g.node1()}, {avoid, "avoid=" + g.node1()}, {10, "prefer=" + g.node1()}, {5, "pinned=" + g.pick("p1", "p2")},
	} {
		if g.chance(o.percent) {
			line += " " + o.text
		}
	}
	g.names = append(g.names, name)
	if strings.Contains(g.do(line, ""), name+" is accepted:") {
		g.repeat = append(g.repeat, step{line: line})
	}
}

// progress lets a job tell how far it is, and what is seen of its devices.
func (g *generator) progress() {
	if len(g.names) == 0 {
		return
	}
	name := g.names[len(g.names)-1-g.IntN(min(len(g.names), 8))]
	if g.kind == crowd || g.kind == trials || g.kind == mixed {
		name = g.whoRuns(name)
	}
	line := fmt.Sprintf("progress %s step=%d", name, 1+g.IntN(1000))
	if g.chance(70) {
		line += fmt.Sprintf(" util=%d memory=%d", 1+g.IntN(100), 1000*(1+g.IntN(12)))
	}
	if g.chance(50) || g.kind == trials {
		line += fmt.Sprintf(" loss=%s total=%d", g.pick("2", "1.5", "1.49", "1e-1", "nan"), 200+g.IntN(2000))
	}
	if g.chance(20) {
		line += " checkpoint"
	}
	g.do(line, "")
}

// runTime says how long a job runs; some declare another time or none.
func (g *generator) runTime() string {
	text := fmt.Sprintf("duration=%ds", 1+g.IntN(600))
	switch {
	case g.chance(15):
		text = fmt.Sprintf("runs=%ds", 1+g.IntN(600))
	case g.chance(20):
		text += fmt.Sprintf(" runs=%ds", 1+g.IntN(600))
	}
	if after := 1 + g.IntN(1200); g.chance(25) {
		text += fmt.Sprintf(" deadline=%ds", after)
		if g.chance(30) {
			text += fmt.Sprintf(",%ds", after+1+g.IntN(1200))
		}
	}
	return text
}

// again gives a submission that was accepted once more, with its key: it must
// do nothing.
func (g *generator) again() {
	if len(g.repeat) == 0 {
		return
	}
	st := g.repeat[g.IntN(len(g.repeat))]
	out := g.do(st.line, st.block)
	if g.sc.err == nil && strings.Contains(out, "is accepted:") {
		g.sc.err = fmt.Errorf("I16: %s was accepted twice", st.line)
	}
}

func (g *generator) wait() {
	g.do("wait "+g.pick("0s", "1s", "7s", "30s", "2m", "5m", "20m"), "")
}

func (g *generator) name() string {
	if len(g.names) == 0 {
		return "nobody"
	}
	// Late jobs are more likely to live.
	return g.names[max(g.IntN(len(g.names)), g.IntN(len(g.names)))]
}

// stop wishes something of a job; at the end what is held is released.
func (g *generator) stop() {
	name := g.name()
	switch {
	case g.kind != plain || g.chance(60):
		g.do("stop "+name, "")
	case g.chance(30):
		g.held = append(g.held, name)
		g.do("hold "+name, "")
	case g.chance(20):
		g.do("release "+name, "")
	case g.chance(50):
		line := "requeue " + name
		if g.chance(20) {
			g.held = append(g.held, name)
			line += " hold"
		}
		g.do(line, "")
	case g.chance(50):
		g.do("update "+name+" prio="+g.pick("oppo", "test", "prod", "0"), "")
	default:
		g.do(fmt.Sprintf("update %s limit=%ds", name, 1+g.IntN(400)), "")
	}
}

func (g *generator) node1() string { return g.pick(g.plan.nodes()...) }

func (g *generator) exit() {
	line := "exit " + g.name() + " code=" + g.pick("0", "1", "137")
	if g.chance(50) {
		line += " task=r0[0]"
	}
	g.do(line, "")
}

func (g *generator) refuse() {
	line := "refuse " + g.node1() + " times=" + g.pick("1", "2", "5")
	if g.chance(15) {
		line += " job"
	}
	g.do(line, "")
}

func (g *generator) node() {
	if g.kind == plain && g.chance(15) {
		g.do("node "+g.node1()+" drain within="+g.pick("0s", "90s"), "")
		return
	}
	g.do("node "+g.node1()+" "+g.pick("down", "down", "up", "up", "reboot", "cordon", "uncordon", "uncordon"), "")
}

func (g *generator) leaf() {
	c := g.plan.chains[g.IntN(len(g.plan.chains))]
	at := fmt.Sprintf("%s%d:%d", c.prefix, 1+g.IntN(c.nodes), g.IntN(c.gpus))
	if c.parts > 0 {
		at += fmt.Sprintf(":%d", g.IntN(c.parts))
	}
	g.do(fmt.Sprintf("leaf %s %s sku=%s", at, g.pick("bad", "good"), c.name), "")
}

func (g *generator) lose() {
	g.do(g.pick("lose ", "lose ", "found ")+g.name(), "")
}

func (g *generator) restart() { g.do("restart", "") }
func (g *generator) disk()    { g.do("disk fail times="+g.pick("1", "2", "3"), "") }
func (g *generator) crash()   { g.do("crash "+g.pick("before", "after"), "") }

func (g *generator) reconfigure() {
	changed := g.plan.change(g)
	out := g.do("reconfigure", changed.text())
	if g.sc.err == nil && !strings.HasPrefix(out, "refused") {
		g.plan = changed
	}
}

// end heals everything, goes back to the first configuration in which every job
// was checked or stops what cannot fit, and wants all to end.
func (g *generator) end() {
	g.ending = true
	g.do("heal", "")
	for _, n := range g.plan.nodes() {
		g.do("refuse "+n+" off", "")
		g.do("node "+n+" uncordon", "")
		g.do("node "+n+" up", "")
	}
	for _, name := range g.held {
		g.do("release "+name, "")
	}
	g.do("wait 20d", "")
	for _, name := range g.sc.check.hopeless() {
		g.do("stop "+name, "")
	}
	g.do("wait 20d", "")
	g.do("assert waiting=0 active=0 living=0", "")
	g.do(fmt.Sprintf("assert free=%d", g.plan.leaves()), "")
	g.do("verify", "")
}
