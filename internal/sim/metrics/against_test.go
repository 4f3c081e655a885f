package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/sim/script"
	"github.com/combsched/comb/internal/test/seeds"
)

// history runs commands of the scenario language and returns their batches.
func history(t *testing.T, dir string, commands [][2]string) [][]model.Record {
	t.Helper()
	s := script.New()
	defer s.Close()
	var out [][]model.Record
	s.OnBatch = func(b engine.Batch) { out = append(out, slices.Clone(b.Records)) }
	for _, c := range commands {
		line := strings.ReplaceAll(c[0], "file=", "file="+dir+"/")
		if _, err := s.Do(line, c[1]); err != nil {
			t.Fatalf("%s: %v", c[0], err)
		}
	}
	return out
}

// commandsOf reads the commands of a script, without what they printed.
func commandsOf(text string) (out [][2]string) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case line == "----":
			for i < len(lines) && lines[i] != "" {
				i++
			}
			continue
		}
		line, word, block := strings.Cut(line, "<<")
		var body strings.Builder
		for i++; block && i < len(lines) && strings.TrimSpace(lines[i]) != word; i++ {
			body.WriteString(lines[i] + "\n")
		}
		if !block {
			i--
		}
		out = append(out, [2]string{strings.TrimSpace(line), body.String()})
	}
	return out
}

// agree compares the fold, given all batches, with the twin.
func agree(t *testing.T, batches [][]model.Record) {
	t.Helper()
	w := newTwin()
	var last model.Time
	for _, b := range batches {
		for _, r := range b {
			w.add(r)
			last = max(last, r.Time)
		}
	}
	got := fold(t, metrics.Options{}, batches, last)
	if slices.ContainsFunc(w.all(), func(j *twinJob) bool { return j.open }) || !w.began {
		w.close()
	}
	compareFigures(t, "the run", got.Summary.Figures, w.figures(""))
	for name, f := range got.Summary.VC {
		compareFigures(t, "VC "+name, f, w.figures(name))
	}
	if got.Summary.Events != w.events {
		t.Errorf("%d events, the twin has %d", got.Summary.Events, w.events)
	}
	for _, j := range w.all() {
		w.compareRow(t, j, got.rows[j.id])
	}
	w.checkTimeline(t, &got.Timeline)
}

func compareFigures(t *testing.T, what string, got, want metrics.Figures) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		key := g.Type().Field(i).Tag.Get("json")
		a, isNumber := g.Field(i).Interface().(metrics.Number)
		if !isNumber {
			if g.Field(i).Int() != w.Field(i).Int() {
				t.Errorf("%s of %s is %d, the twin has %d", key, what, g.Field(i).Int(), w.Field(i).Int())
			}
			continue
		}
		b := w.Field(i).Interface().(metrics.Number)
		if a.Defined() != b.Defined() || a.Defined() && math.Abs(float64(a-b)) > 1e-9*max(1, math.Abs(float64(b))) {
			t.Errorf("%s of %s is %v, the twin has %v", key, what, float64(a), float64(b))
		}
	}
}

func (w *twin) compareRow(t *testing.T, j *twinJob, r metrics.Row) {
	t.Helper()
	fair, frag, off := j.waits()
	life := float64(j.end - j.submit)
	rho := life / (j.apps / life * j.ideal() * float64(j.leaves()) / float64(min(j.cluster, j.leaves())))
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"submit", float64(r.Submit), float64(j.submit)}, {"end", float64(r.End), float64(j.end)},
		{"fair share", float64(r.FairShare), fair}, {"fragmentation", float64(r.Fragmentation), frag},
		{"back-off", float64(r.BackOff), off}, {"duration", float64(r.Duration), j.ideal()},
		{"gpu", float64(r.GPU), j.gpu}, {"shared", float64(r.Shared), j.shared}, {"wasted", float64(r.Wasted), j.wasted},
		{"attempts", float64(r.Attempts), float64(j.attempts)}, {"preemptions", float64(r.Preemptions), float64(j.preempted)},
		{"migrations", float64(r.Migrations), float64(j.migrated)}, {"gpus", float64(r.GPUs), float64(j.leaves())},
	} {
		if math.Abs(c.got-c.want) > 1e-9*max(1, c.want) {
			t.Errorf("%s of job %d is %v, the twin has %v", c.what, j.id, c.got, c.want)
		}
	}
	if j.open != !r.Phase.Ended() {
		t.Errorf("job %d is %s", j.id, r.Phase)
	}
	if r.Rho.Defined() && math.Abs(float64(r.Rho)-rho) > 1e-9*rho {
		t.Errorf("rho of job %d is %v, the twin has %v", j.id, r.Rho, rho)
	}
}

// checkTimeline compares the area under the timeline with the twin's totals.
func (w *twin) checkTimeline(t *testing.T, l *metrics.Timeline) {
	t.Helper()
	var held, idle float64
	for i, step := range l.Steps {
		to := l.End
		if i+1 < len(l.Steps) {
			to = l.Steps[i+1][0].At
		}
		dt := float64(to - step[0].At)
		held += float64(step[0].Guaranteed+step[0].Opportunistic) * dt
		idle += float64(step[0].Idle) * dt
	}
	gpu := w.held
	if math.Abs(held-gpu) > 1e-6*max(1, gpu) || math.Abs(idle-w.idle) > 1e-6*max(1, w.idle) {
		t.Errorf("the timeline holds %v in use and %v idle, the twin %v and %v", held, idle, gpu, w.idle)
	}
}

// The fold agrees with the twin on every scenario of the project: partial gangs,
// lazy preemption, reservations, faults, retries, changes of the configuration.
func TestTwinOnScripts(t *testing.T) {
	var names []string
	for _, pattern := range []string{"../../../testdata/script/*.txt", "../../../testdata/script/hived/*.txt"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	if len(names) < 30 {
		t.Fatalf("only %d scripts", len(names))
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, history(t, filepath.Dir(name), commandsOf(string(text))))
		})
	}
}

// And on random histories.
func TestTwinOnSeeds(t *testing.T) {
	for seed := range seeds.Of(t, 60) {
		batches := history(t, "", randomCommands(seed))
		hint(batches)
		agree(t, batches)
		if t.Failed() {
			for _, c := range randomCommands(seed) {
				t.Log(c[0])
			}
			t.Fatalf("seed %d", seed)
		}
	}
}

// hint gives some jobs an app and some deadlines; no decision depends on either.
func hint(batches [][]model.Record) {
	for _, b := range batches {
		for i := range b {
			e, ok := b[i].Event.(model.JobSubmitted)
			if !ok {
				continue
			}
			j := *e.Job
			if e.ID%3 == 0 {
				j.Hints.App = fmt.Sprint("app", e.ID%2)
			}
			for d := range e.ID % 4 {
				after := model.Duration(d+1) * 100 * model.Second
				j.Hints.Deadlines = append(j.Hints.Deadlines, model.Deadline{After: after, Value: int64(10 - 4*d)})
			}
			e.Job = &j
			b[i].Event = e
		}
	}
}

// randomCommands makes a history with all sorts of jobs and faults.
func randomCommands(seed uint64) (out [][2]string) {
	r := rand.New(rand.NewPCG(seed, 4))
	say := func(format string, args ...any) { out = append(out, [2]string{fmt.Sprintf(format, args...)}) }
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	clusters := []string{"cluster", "reconfigure"}
	shape := func(i int) {
		say("%s nodes=%d gpus=4 switch=2 vcs=a:1,b:1+2xswitch policy=%s backfill=%s", clusters[i], 3+r.IntN(2), pick("a:fifo", "a:drf", "a:fifo:preempt"), pick("none", "easy"))
	}
	say("set start=%ds stop=%ds", r.IntN(2), r.IntN(3))
	shape(0)
	for i := range 40 + r.IntN(40) {
		switch n := r.IntN(30); {
		case n < 13:
			say("submit j%d vc=%s prio=%s %s duration=%ds user=%s%s", i, pick("a", "b"), pick("oppo", "test", "prod", "crit"),
				pick("gpus=1", "gpus=2", "gpus=4", "worker=2x2", "worker=2x4", "worker=1..3x1", "worker=3x1 incremental", "w=1x2 ps=2x1"),
				5+r.IntN(300), pick("u", "v"), pick("", " lazy", " checkpoint", " retries=1 exit=1", " limit=60s", " grace=2s"))
		case n < 22:
			say("wait %ds", 1+r.IntN(90))
		case n < 23:
			say("refuse n%d times=%d", 1+r.IntN(3), 1+r.IntN(3))
		case n < 25:
			say("node n%d %s", 1+r.IntN(3), pick("down", "up", "reboot", "cordon", "uncordon"))
		case n < 26:
			say("leaf n%d:%d %s", 1+r.IntN(3), r.IntN(4), pick("bad", "good"))
		case n < 27 && i > 3:
			say("restart")
		case n < 28:
			shape(1)
		default:
			say("heal")
		}
	}
	say("wait %ds", r.IntN(400))
	return out
}

// The same records in other batches, and a second run, give the same bytes.
func TestDeterminism(t *testing.T) {
	batches := history(t, "", randomCommands(3))
	last := batches[len(batches)-1]
	at := last[len(last)-1].Time
	one := fold(t, metrics.Options{}, batches, at)
	for range 5 {
		two := fold(t, metrics.Options{}, [][]model.Record{slices.Concat(batches...)}, at)
		if one.summary != two.summary || one.jobs != two.jobs || one.times != two.times {
			t.Fatal("the same records gave other bytes")
		}
	}
}
