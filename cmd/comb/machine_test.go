package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/server"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/engine/store"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/local"
	"github.com/combsched/comb/internal/spec/config"
)

// A server whose executor cannot suspend refuses a policy that needs it, and says
// for which virtual cluster and why.
func TestPolicyThatTheExecutorCannotServe(t *testing.T) {
	c := &model.Config{VCs: []model.VCConfig{{Name: "speech", Policy: "las"}, {Name: "vision", Policy: "gandiva"}}}
	for _, can := range []bool{true, false} {
		x, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "jobs"), Cluster: "test", Self: "/bin/true",
			Tell: func(model.Fact) {}, NoCgroups: true, NoSuspend: !can})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		d := &daemon{flags: serveFlags{overcommit: true}, executor: x}
		err = d.checkCluster(c)
		if can {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "virtual cluster vision: the policy gandiva needs an executor that can suspend tasks") ||
			strings.Contains(err.Error(), "speech") {
			t.Errorf("it says %v", err)
		}
	}
}

// Where the configuration in force asks for what the executor cannot do any more, the log says so
// in the words of the refusal that a new one gets.
func TestAConfigurationInForceThatDoesNotFit(t *testing.T) {
	x, err := local.New(local.Options{Dir: filepath.Join(t.TempDir(), "jobs"), Cluster: "test", Self: "/bin/true", Tell: func(model.Fact) {}, NoCgroups: true, NoSuspend: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	c := &model.Config{VCs: []model.VCConfig{{Name: "vision", Policy: "gandiva"}, {Name: "text", Policy: "gandiva"}}}
	for _, file := range []*config.Cluster{nil, {Config: c}} {
		var said strings.Builder
		d := &daemon{flags: serveFlags{overcommit: true, cluster: "cluster.yaml"}, executor: x, log: slog.New(slog.NewTextHandler(&said, nil))}
		refusal := d.checkConfig(c, file, false)
		if refusal == nil || said.Len() > 0 {
			t.Fatalf("a new one is refused with %v; the log says %s", refusal, &said)
		}
		if err := d.checkConfig(c, file, true); err != nil {
			t.Errorf("the one in force is refused: %v", err)
		}
		for line := range strings.Lines(refusal.Error()) {
			if !strings.Contains(said.String(), strings.TrimSpace(line)) {
				t.Errorf("the log does not say %q: %s", line, &said)
			}
		}
		if n := strings.Count(said.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings for 2 virtual clusters: %s", n, &said)
		}
	}
}

// A server that was killed when an apply was in the journal and not yet a version does not take it
// back when its unit starts it again with the file from before.
func TestStaleAfterAnApplyThatWasCutOff(t *testing.T) {
	ctx := t.Context()
	s, err := store.Open(ctx, t.TempDir(), store.Options{Now: cli.WallTime()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	one := &model.Config{VCs: []model.VCConfig{{Name: "one"}}}
	two := &model.Config{VCs: []model.VCConfig{{Name: "two"}}}
	tag, err := server.ETag(one)
	first := engine.ConfigVersion{Time: 1, Author: "system", Reason: store.ByStart + "one.yaml"}
	err = errors.Join(err, s.BeginConfig(ctx, first, []byte("one")),
		s.EndConfig(ctx, tag), s.BeginConfig(ctx, engine.ConfigVersion{Time: 2, Author: "ann"}, []byte("two")))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	d := &daemon{app: &cli.App{Errs: &said}, flags: serveFlags{cluster: "one.yaml"}, store: s, source: []byte("one")}
	const warning = "warning: one.yaml is not applied: it was version 1, "
	stale, err := d.stale(ctx, &config.Cluster{Config: one}, two)
	if err != nil || !stale || !strings.HasPrefix(said.String(), warning) {
		t.Errorf("it is stale: %v, %v; it says %s", stale, err, &said)
	}
}

// Jobs of a journal without numbers have those of their users now. An account that is gone has
// none, which is an error wherever there are accounts.
func TestIdentitiesOfNow(t *testing.T) {
	ctx := t.Context()
	s, err := store.Open(ctx, t.TempDir(), store.Options{Now: cli.WallTime()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	directory, err := people.Open(ctx, s, cli.WallTime)
	if err != nil {
		t.Fatal(err)
	}
	ask := identities(directory)
	if got, err := ask("alice"); err != nil || got != (executor.Identity{}) {
		t.Errorf("without accounts alice has %+v, %v", got, err)
	}
	numbers := access.IDs{UID: 4001, GID: 4000}
	if err := directory.CreateUsers(ctx, "admin", []people.NewUser{
		{User: access.User{Name: "alice", IDs: numbers}}, {User: access.User{Name: "bob"}},
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := ask("alice"); err != nil || got != (executor.Identity{UID: 4001, GID: 4000}) {
		t.Errorf("alice has %+v, %v", got, err)
	}
	if err := directory.DeleteUser(ctx, "admin", "alice"); err != nil {
		t.Fatal(err)
	}
	if got, err := ask("alice"); !errors.Is(err, people.ErrNotFound) {
		t.Errorf("alice is gone and has %+v, %v", got, err)
	}
}
