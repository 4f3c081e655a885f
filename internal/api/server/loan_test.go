package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/spec/config"
)

// noDRF makes all policies but drf: a file with that one is refused by the core alone.
func noDRF(c model.VCConfig) (model.Policy, error) {
	if c.Policy == "drf" {
		return nil, fmt.Errorf("there is no drf here")
	}
	return policy.New(c)
}

// put applies a file with an end, or without one.
func (w *world) put(file, until string) error {
	_, err := w.client.ApplyConfigAs(ctx, []byte(file), rest.ConfigChange{IfMatch: "*", Until: until})
	return err
}

// start puts a file into force as comb serve --cluster does.
func (w *world) start(file string) {
	w.t.Helper()
	c, _, problems := config.Parse("f", []byte(file), config.Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		w.t.Fatal(problems)
	}
	reply := w.live.Do(ctx, c.Command(model.Meta{Subject: "system"}), nil)
	if reply.Refusal != nil || reply.Err != nil {
		w.t.Fatal(reply.Refusal, reply.Err)
	}
	w.client.See(reply.Seq)
	w.settle([]byte(file))
}

// settle is what a start does about versions.
func (w *world) settle(file []byte) {
	w.t.Helper()
	tag, err := "", error(nil)
	if readErr := w.replica.Read(ctx, 0, func(s *core.State) { tag, err = server.ETag(s.Config()) }); readErr != nil {
		err = readErr
	}
	if err == nil {
		err = store.RecordConfig(ctx, w.store, tag, engine.ConfigVersion{Time: 1, Author: "system"}, file)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// ends compares when the present configuration ends, and to which version the server goes back
// then, with what is wanted.
func (w *world) ends(what string, ends bool, back int64) {
	w.t.Helper()
	c, err := w.client.Config(ctx)
	if err != nil || c.Until > 0 != ends || c.Back != back {
		w.t.Errorf("%s: until %d, back %d, %v; want an end %v, back %d", what, c.Until, c.Back, err, ends, back)
	}
}

var ctx = context.Background()

const otherFile = clusterFile + "    lending: none\n"

// A file with an end that the core refuses, or that a kill cut off, gives its end to none that
// comes after it.
func TestLoanOfWhatWasRefused(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			w := setup{gpus: 1, policies: noDRF}.open(t)
			if err := w.put(clusterFile, ""); err != nil {
				t.Fatal(err)
			}
			bad := clusterFile + "    policy: drf\n"
			if killed {
				if err := w.store.BeginConfig(ctx, engine.ConfigVersion{Time: 1, Until: wall().Add(model.Hour), Back: 1}, []byte(bad)); err != nil {
					t.Fatal(err)
				}
			} else if err := w.put(bad, "7d"); err == nil || !strings.Contains(err.Error(), "there is no drf here") {
				t.Fatalf("the bad file: %v", err)
			}
			w.ends("before a restart", false, 0)
			w.stop()
			w = setup{gpus: 1, dir: w.dir}.open(t)
			w.start(otherFile)
			w.ends("with another file at a start", false, 0)
			list, err := w.client.ConfigVersions(ctx, 0, 10)
			if err != nil || len(list.Versions) != 2 || list.Versions[0].Until != 0 {
				t.Errorf("versions: %+v, %v", list, err)
			}
		})
	}
}

// A start with the file that is in force leaves its end; one with another file drops it.
func TestLoanAndStarts(t *testing.T) {
	w := newWorld(t, 1)
	for _, c := range []struct{ file, until string }{{clusterFile, ""}, {otherFile, "7d"}} {
		if err := w.put(c.file, c.until); err != nil {
			t.Fatal(err)
		}
	}
	w.ends("in force", true, 1)
	for _, file := range [][]byte{nil, []byte(otherFile)} {
		w.stop()
		w = setup{gpus: 1, dir: w.dir}.open(t)
		w.settle(file)
		w.ends("after a start", true, 1)
	}
	w.start(clusterFile)
	w.ends("another file at a start", false, 0)
}

// A plan and an apply say the same of a file that differs in a comment alone, and of the very file
// that is in force.
func TestLoanOfAComment(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.put(clusterFile, ""); err != nil {
		t.Fatal(err)
	}
	const until, says = "2099-01-01T00:00:00Z", "at most 366 days"
	for _, err := range []error{w.put(otherFile, until), func() error { _, err := w.client.PlanConfigUntil(ctx, []byte(otherFile), until); return err }()} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("until %s: %v", until, err)
		}
	}
	if _, err := w.client.PlanConfigUntil(ctx, []byte(clusterFile), "7d"); rest.CodeOf(err) != rest.CodeConflict {
		t.Errorf("a plan of what is in force: %v", err)
	}
	if err := w.put(clusterFile, "7d"); rest.CodeOf(err) != rest.CodeConflict {
		t.Errorf("what is in force: %v", err)
	}
	words := clusterFile + "# other words\n"
	in := server.Instant(wall().Add(model.Hour))
	plan, err := w.client.PlanConfigUntil(ctx, []byte(words), in)
	if err != nil {
		t.Fatal(err)
	}
	done, err := w.client.ApplyConfigAs(ctx, []byte(words), rest.ConfigChange{IfMatch: "*", Until: in})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Changed || len(plan.Ends) != 1 || strings.Join(plan.Ends, "\n") != strings.Join(done.Effects, "\n") {
		t.Errorf("the plan says %q, the apply %q", plan.Ends, done.Effects)
	}
	w.ends("other words", true, 1)
}

// The server goes back at the end. Where that leads to a file that this program takes no more, the
// end is dropped.
func TestLoanGoesBack(t *testing.T) {
	nameless := strings.Replace(clusterFile, ", cellAddress: n2", "", 1)
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("names are wanted %v", named), func(t *testing.T) {
			w := newWorld(t, 1)
			for _, c := range []struct{ file, until string }{{nameless, ""}, {clusterFile, "1h"}} {
				if err := w.put(c.file, c.until); err != nil {
					t.Fatal(err)
				}
			}
			w.stop()
			w = setup{gpus: 1, dir: w.dir, named: named, now: func() model.Time { return wall().Add(2 * model.Hour) }}.open(t)
			w.ends("before the server looks", true, 1)
			loop, stop := context.WithCancel(ctx)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				server.EndTemporaryConfigs(loop, w.handler)
			}()
			defer func() { stop(); <-gone }()
			w.until("there is no end", func() bool {
				c, err := w.client.Config(ctx)
				return err == nil && c.Until == 0
			})
			list, err := w.client.ConfigVersions(ctx, 0, 10)
			want, restores := 3, int64(1)
			if named {
				want, restores = 2, 0
			}
			if err != nil || len(list.Versions) != want || list.Versions[0].Restores != restores || !list.Versions[0].Present {
				t.Errorf("versions: %+v, %v; want %d", list, err, want)
			}
		})
	}
}
